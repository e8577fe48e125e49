"""Finds a verified body's job, event and delivery id, and nothing else: page content is stepped over, not kept."""

import json
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NoReturn

import msgspec

from scraper_pipeline.ledger.inbox import Delivery, QuarantinedBody
from scraper_pipeline.receiver.config import ReceiverConfig
from scraper_pipeline.receiver.signatures import Headers

LONGEST_JOB_ID = 500  # far above any id of the service, and below what an index of Postgres can hold
LONGEST_QUARANTINED = 64 * 1024
_LONGEST_NOTE = 200
_EVENT_HEADER, _DELIVERY_ID_HEADER = b"x-webhook-event", b"x-webhook-delivery-id"
_NOTHING = msgspec.Raw(b"null")
_TEXT = msgspec.json.Decoder(str)

_Path = tuple[str, ...]


class EventReader:
    """Reads JSON objects by the configured paths."""

    def __init__(self, config: ReceiverConfig) -> None:
        self._job_id, self._event, self._delivery_id = (
            [tuple(path.split(".")) for path in paths]
            for paths in (config.job_id_paths, config.event_paths, config.delivery_id_paths)
        )
        shape = _shape_of({*self._job_id, *self._event, *self._delivery_id})
        self._decoder = msgspec.json.Decoder(shape)

    def read(self, body: bytes, headers: Headers, account: str | None = None) -> Delivery | QuarantinedBody:
        """What a body that was signed with a secret of the account tells, or why it can't be used."""
        try:
            document: Any = self._decoder.decode(body)
        except RecursionError:
            return _quarantined("not JSON: nested too deeply", body, account)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            # Slower, and more forgiving: page content may hold half a surrogate pair, or begin with a byte order mark.
            try:
                document = json.loads(
                    body.decode("utf-8-sig"), parse_constant=_refuse, parse_int=str, parse_float=str
                )
            except (ValueError, RecursionError):
                return _quarantined("not JSON", body, account)
            if not isinstance(document, dict):
                return _quarantined("not a JSON object", body, account)
        job_id = next(_texts(document, self._job_id), None)
        if job_id is None:
            return _quarantined("no job id", body, account)
        if len(job_id) > LONGEST_JOB_ID or not job_id.isprintable():
            return _quarantined("a job id that can't be one", body, account)
        event_type = next(_texts(document, self._event), None) or _header(headers, _EVENT_HEADER)
        delivery_id = _header(headers, _DELIVERY_ID_HEADER) or next(_texts(document, self._delivery_id), None)
        return Delivery(job_id, _note(event_type), _note(delivery_id), account)


def _texts(document: Any, paths: Iterable[_Path]) -> Iterator[str]:
    for path in paths:
        value = document
        for name in path:
            if isinstance(value, msgspec.Struct):
                value = getattr(value, _field(name))
            else:
                value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, msgspec.Raw):
            value = _read_text(value)
        if isinstance(value, str) and value:
            yield value


def _read_text(raw: msgspec.Raw) -> str | None:
    try:
        return _TEXT.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _shape_of(paths: set[_Path]) -> type[msgspec.Struct]:
    """A type with a field for each name on the paths, so that decoding steps over everything else."""
    below: dict[str, set[_Path]] = {}
    for name, *rest in paths:
        below.setdefault(name, set()).update([tuple(rest)] if rest else [])
    fields: list[tuple[str, Any, Any]] = []
    for name, rests in below.items():
        if rests:
            fields.append(
                (_field(name), _shape_of(rests) | str | int | float | bool | list[msgspec.Raw] | None, None)
            )
        else:
            fields.append((_field(name), msgspec.Raw, _NOTHING))
    return msgspec.defstruct("Shape", fields, rename=_name)


@cache
def _field(name: str) -> str:
    """The name as a Python identifier, whatever characters it has."""
    return f"f{name.encode().hex()}"


def _name(field: str) -> str:
    return bytes.fromhex(field[1:]).decode()


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _header(headers: Headers, name: bytes) -> str | None:
    return headers[name].decode("latin-1") if name in headers else None


def _note(text: str | None) -> str | None:
    """A text that both databases can hold, in as much length as anybody needs."""
    if not text:
        return None
    text = text[:_LONGEST_NOTE]
    return text if text.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in text)


def _quarantined(reason: str, body: bytes, account: str | None) -> QuarantinedBody:
    return QuarantinedBody(reason, body[:LONGEST_QUARANTINED], account=account)
