"""How one delivery is signed and where it names its job, found out from what is known of both."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import SecretStr

from scraper_pipeline.checkup.live.endpoint import RawDelivery
from scraper_pipeline.receiver.config import ReceiverConfig, Scheme
from scraper_pipeline.receiver.signatures import SignatureVerifier
from scraper_pipeline.webhook_secrets import KnownSecrets

STANDARD_HEADER = "webhook-signature"
_DEEPEST = 5


@dataclass(frozen=True)
class Signature:
    """A header that a secret's owner has signed the body in, spelt as it came, and how."""

    header: str
    scheme: Scheme


def find_signatures(delivery: RawDelivery, secret: SecretStr) -> list[Signature]:
    """Every way in which the receiver, if it were told so, would accept this delivery."""
    headers: dict[bytes, bytes] = {}
    for name, value in delivery.headers:
        name = name.lower()
        headers[name] = headers[name] + b"," + value if name in headers else value
    spelt = {name.lower(): name.decode("latin-1") for name, _ in delivery.headers}
    secrets = KnownSecrets(fixed=[secret])

    def verifies(header: str, scheme: Scheme) -> bool:
        config = ReceiverConfig(signature_header=header, schemes=frozenset({scheme}))
        verifier = SignatureVerifier(secrets, config, lambda: datetime.now(UTC))
        claim = verifier.read_claim(headers)
        return claim is not None and verifier.verify(claim, [delivery.body]) is not None

    found = [
        Signature(header, scheme)
        for header in spelt.values()
        if header.isascii()
        for scheme in Scheme
        if scheme is not Scheme.STANDARD and verifies(header, scheme)
    ]
    if verifies(STANDARD_HEADER, Scheme.STANDARD):
        found.append(Signature(spelt.get(STANDARD_HEADER.encode(), STANDARD_HEADER), Scheme.STANDARD))
    return found


def find_paths(body: bytes, wanted: Iterable[str]) -> list[str]:
    """The paths at which a JSON body holds one of these texts, as the settings spell paths, the shortest first."""
    try:
        document = json.loads(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return []
    found = _paths(document, frozenset(wanted), ())
    return [".".join(path) for path in sorted(found, key=lambda path: (len(path), path))]


def _paths(value: Any, wanted: frozenset[str], path: Sequence[str]) -> Iterator[tuple[str, ...]]:
    if isinstance(value, str) and value in wanted and path:
        yield tuple(path)
    elif isinstance(value, dict) and len(path) < _DEEPEST:
        for name, below in value.items():
            if name and "." not in name:  # a dot could not be written
                yield from _paths(below, wanted, (*path, name))
