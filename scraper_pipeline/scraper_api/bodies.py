"""Turns an answer's bytes into JSON that every database takes: capped while streaming, cleaned once."""

import json
import math
import re
import zlib
from typing import Any

import httpx
import orjson

from scraper_pipeline.scraper_api.errors import AnswerTooLarge

REPLACEMENT = "\ufffd"

_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")
_MAY_BE_UNSTORABLE = re.compile(r"\x00|\\u(?:0000|[dD][89a-fA-F])")
_LONGEST_INTEGER = len(str(-(2**63)))


async def read_body(response: httpx.Response, limit: int) -> bytes:
    """The decoded body of a streaming answer.

    Raises AnswerTooLarge as soon as more than `limit` bytes have been decoded, and httpx.DecodingError where the
    bytes are not what `Content-Encoding` says. httpx's own decoder inflates each chunk whole, a thousandfold at
    worst, before anyone can count; this one stops at the limit.
    """
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "x-gzip"):
        raise httpx.DecodingError(
            f"the encoding {encoding[:40]!r} was not asked for", request=response.request
        )
    unpacked = _Gunzip() if encoding != "identity" else None
    body = bytearray()
    async for chunk in response.aiter_raw():
        try:
            body += unpacked.feed(chunk, limit + 1 - len(body)) if unpacked else chunk
        except zlib.error as error:
            raise httpx.DecodingError(f"the body is no gzip: {error}", request=response.request) from None
        if len(body) > limit:
            raise AnswerTooLarge(
                f"the answer passed {limit:,} decoded bytes and was cut off; raise the cap if such a page is wanted",
                status=response.status_code,
            )
    if unpacked and unpacked.is_cut:
        raise httpx.DecodingError("the gzip body ends too early", request=response.request)
    return bytes(body)


class _Gunzip:
    """Inflates gzip members that follow each other, never more than is asked for."""

    def __init__(self) -> None:
        self._member: Any = None

    @property
    def is_cut(self) -> bool:
        return self._member is not None

    def feed(self, packed: bytes, room: int) -> bytes:
        body = bytearray()
        while packed and len(body) < room:
            if self._member is None:
                self._member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
            body += self._member.decompress(packed, room - len(body))
            packed = self._member.unconsumed_tail
            if self._member.eof:
                packed, self._member = self._member.unused_data, None
        return bytes(body)


def read_json(body: bytes) -> tuple[Any, int]:
    """The body's JSON and how many characters in it became U+FFFD. Raises ValueError.

    NUL and lone surrogates are replaced in keys and values, and bytes that are no UTF-8. Numbers that no database
    column holds (NaN, infinities, beyond 64 bits) become the text that they were.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return _read_tolerantly(body)
    return (value, 0) if _is_storable(value) else _read_tolerantly(body)


def _is_storable(value: Any) -> bool:
    """Whether what orjson read can stay as it is.

    It refuses lone surrogates by itself. Beyond 64 bits it makes integers into floats, so that only their size tells.
    """
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            if "\x00" in part:
                return False
        elif isinstance(part, dict):
            waiting += part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
        elif isinstance(part, int | float) and not -(2**63) < part < 2**63:
            return False
    return True


def _read_tolerantly(body: bytes) -> tuple[Any, int]:
    """Takes what only the standard library takes; it is several times slower on a page's text."""
    try:
        text, replaced = body.decode("utf-8-sig"), 0
    except UnicodeDecodeError:
        text = body.decode("utf-8-sig", errors="replace")
        replaced = text.count(REPLACEMENT) - body.count(REPLACEMENT.encode())
    try:
        # Raw control characters are no JSON, but no reason to lose a page that is paid for.
        value = json.loads(text, strict=False, parse_int=_integer, parse_float=_real, parse_constant=str)
        if _MAY_BE_UNSTORABLE.search(text):
            value, found = clean(value)
            replaced += found
    except RecursionError:
        raise ValueError("nested too deeply") from None
    return value, replaced


def clean(value: Any) -> tuple[Any, int]:
    """`value` with NUL and lone surrogates replaced by U+FFFD, keys included, and how many there were."""
    if isinstance(value, str):
        return _UNSTORABLE.subn(REPLACEMENT, value)
    if isinstance(value, list):
        items = [clean(item) for item in value]
        return [item for item, _ in items], sum(found for _, found in items)
    if isinstance(value, dict):
        pairs = [(clean(key), clean(item)) for key, item in value.items()]
        return {key: item for (key, _), (item, _) in pairs}, sum(n + m for (_, n), (_, m) in pairs)
    return value, 0


def _integer(digits: str) -> int | str:
    if len(digits) > _LONGEST_INTEGER:
        return digits
    number = int(digits)
    return number if -(2**63) <= number < 2**63 else digits


def _real(digits: str) -> float | str:
    number = float(digits)
    return number if math.isfinite(number) else digits
