"""What of the receiver is configurable, since the service has not published it, or since machines differ."""

from dataclasses import dataclass
from enum import StrEnum

MEBIBYTE = 1024 * 1024


class Scheme(StrEnum):
    """How a signature is made and written."""

    HEX = "hex"
    """HMAC-SHA256 of the body under the secret as it is spelled, in hexadecimal digits of either case."""
    PREFIXED_HEX = "sha256="
    """The same with ``sha256=`` before it."""
    BASE64 = "base64"
    """The same HMAC in base64, with its padding."""
    STANDARD = "standard"
    """Standard Webhooks: its three headers, its tolerance of time, and a base64 secret after ``whsec_``."""


DEFAULT_SCHEMES = frozenset({Scheme.HEX, Scheme.PREFIXED_HEX, Scheme.BASE64})


@dataclass(frozen=True)
class ReceiverConfig:
    """How deliveries are read.

    A path is keys of nested JSON objects, joined by dots; the first path that leads to text wins.
    """

    path: str = "/webhooks/geonode"
    signature_header: str = "X-Webhook-Signature"
    schemes: frozenset[Scheme] = DEFAULT_SCHEMES
    standard_tolerance_seconds: float = 300.0
    """How far the time of a Standard Webhooks signature may be from the clock, either way."""
    job_id_paths: tuple[str, ...] = ("data.job_id", "job_id")
    event_paths: tuple[str, ...] = ("event", "event_type")
    """Tried before the header ``X-Webhook-Event``."""
    delivery_id_paths: tuple[str, ...] = ("delivery_id", "id")
    """Tried after the header ``X-Webhook-Delivery-Id``."""
    max_body_bytes: int = 16 * MEBIBYTE
    max_buffered_bytes: int = 64 * MEBIBYTE
    """What all bodies that are being read may take together; beyond it senders are told to come again."""
    body_seconds: float = 30.0
    """How long a sender may take to send a body."""
    commit_timeout_seconds: float = 2.0
    """How long a delivery waits for its commit before its sender is told to come again."""
    max_waiting: int = 4096
    """How many deliveries may wait for their commit."""
    retry_after_seconds: int = 5
    """What senders are told when they must come again."""

    def __post_init__(self) -> None:
        if not self.schemes:
            raise ValueError("schemes must name at least one way to sign")
        if self.max_buffered_bytes < self.max_body_bytes:
            raise ValueError("max_buffered_bytes must leave room for one body of max_body_bytes")
