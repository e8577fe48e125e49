"""Tells whether a body was signed with one of the secrets, without parsing it."""

import binascii
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache

from standardwebhooks.webhooks import EmptyWebhookSecretError, Webhook

from scraper_pipeline.receiver.config import ReceiverConfig, Scheme
from scraper_pipeline.webhook_secrets import KnownSecrets

Clock = Callable[[], datetime]
Headers = Mapping[bytes, bytes]
"""Names in lower case; the values of a header that came several times are joined by commas."""

_LONGEST_HEADER = 4096
_MOST_SIGNATURES = 16  # in one header; a rotation needs two
_DIGEST_BYTES = 32
_SEPARATORS = re.compile(rb"[,\s]+")
_HEX = re.compile(rb"[0-9A-Fa-f]{64}")
_PREFIX = b"sha256="
_ID, _TIMESTAMP, _SIGNATURE = b"webhook-id", b"webhook-timestamp", b"webhook-signature"
_SECONDS = re.compile(r"[0-9]{1,11}")


class Claim:
    """What a request's headers say its signature is; nothing is known about its truth yet."""

    __slots__ = ("digests", "message_id", "standard_digests", "timestamp")

    def __init__(self) -> None:
        self.digests: list[bytes] = []
        self.standard_digests: list[bytes] = []
        self.message_id = ""
        self.timestamp = datetime.min.replace(tzinfo=UTC)


class SignatureVerifier:
    """Verifies with every valid secret and every configured scheme, in constant time for each."""

    def __init__(self, secrets: KnownSecrets, config: ReceiverConfig, clock: Clock) -> None:
        self._secrets, self._clock = secrets, clock
        self._header = config.signature_header.lower().encode("ascii")
        self._schemes = config.schemes
        self._signs_body = bool(config.schemes - {Scheme.STANDARD})
        self._tolerance = config.standard_tolerance_seconds

    def read_claim(self, headers: Headers) -> Claim | None:
        """The signatures in the headers, or None if none is well-formed: then no body can make it valid."""
        claim = Claim()
        if self._signs_body:
            claim.digests = self._read_digests(headers.get(self._header, b""))
        if Scheme.STANDARD in self._schemes:
            self._read_standard(headers, claim)
        return claim if claim.digests or claim.standard_digests else None

    def verify(self, claim: Claim, body: Sequence[bytes]) -> str | None:
        """The account of a secret, valid now, that made one of these signatures of exactly this body, given in pieces.

        None if there is none. Of several accounts with one secret it is the first that the secrets name.
        """
        account = self._signer(claim, body)
        if account is None and self._secrets.refresh():
            # The secret may have been rotated a moment ago: look again, and only then refuse.
            account = self._signer(claim, body)
        return account

    def _signer(self, claim: Claim, body: Sequence[bytes]) -> str | None:
        now = self._clock()
        signer = None
        for secret, account in self._secrets.of_accounts(now):
            matched = False
            if claim.digests:
                expected = _sign(secret, body)
                for digest in claim.digests:
                    matched |= hmac.compare_digest(expected, digest)
            if claim.standard_digests and abs((now - claim.timestamp).total_seconds()) <= self._tolerance:
                expected = _sign_standard(secret, claim, body)
                for digest in claim.standard_digests:
                    matched |= hmac.compare_digest(expected, digest)
            if matched and signer is None:
                signer = account
        return signer

    def _read_digests(self, value: bytes) -> list[bytes]:
        signatures = _split(value)
        digests = [self._read_digest(signature) for signature in signatures]
        return [digest for digest in digests if digest is not None]

    def _read_digest(self, signature: bytes) -> bytes | None:
        scheme = Scheme.HEX
        if signature[: len(_PREFIX)].lower() == _PREFIX:
            scheme, signature = Scheme.PREFIXED_HEX, signature[len(_PREFIX) :]
        if _HEX.fullmatch(signature):
            return binascii.unhexlify(signature) if scheme in self._schemes else None
        if scheme is Scheme.HEX and Scheme.BASE64 in self._schemes:
            return _decode_base64(signature)
        return None

    def _read_standard(self, headers: Headers, claim: Claim) -> None:
        try:
            message_id, timestamp = (headers.get(name, b"").decode("ascii") for name in (_ID, _TIMESTAMP))
        except UnicodeDecodeError:
            return
        if not message_id or not _SECONDS.fullmatch(timestamp):
            return
        claim.message_id, claim.timestamp = message_id, datetime.fromtimestamp(int(timestamp), UTC)
        for signature in headers.get(_SIGNATURE, b"")[:_LONGEST_HEADER].split(b" ")[:_MOST_SIGNATURES]:
            version, _, encoded = signature.partition(b",")
            digest = _decode_base64(encoded) if version == b"v1" else None
            if digest is not None:
                claim.standard_digests.append(digest)


def _split(value: bytes) -> list[bytes]:
    if not value or len(value) > _LONGEST_HEADER:
        return []
    if not _SEPARATORS.search(value):
        return [value]
    signatures = [signature for signature in _SEPARATORS.split(value) if signature]
    return signatures if len(signatures) <= _MOST_SIGNATURES else []


def _decode_base64(signature: bytes) -> bytes | None:
    try:
        digest = binascii.a2b_base64(signature, strict_mode=True)
    except ValueError:
        return None
    return digest if len(digest) == _DIGEST_BYTES else None


@lru_cache(maxsize=64)
def _literal_key(secret: str) -> bytes:
    return secret.encode("utf-8")


@lru_cache(maxsize=64)
def _standard_webhook(secret: str) -> Webhook | None:
    """None for a secret that this scheme can't read, because it belongs to another one."""
    try:
        return Webhook(secret)
    except (ValueError, EmptyWebhookSecretError):
        return None


def _sign(secret: str, body: Sequence[bytes]) -> bytes:
    # Not hmac.digest, which gives the interpreter's lock away for any body, however short.
    mac = hmac.new(_literal_key(secret), body[0], "sha256")
    for piece in body[1:]:
        mac.update(piece)
    return mac.digest()


def _sign_standard(secret: str, claim: Claim, body: Sequence[bytes]) -> bytes:
    """The digest that a genuine sender would have sent, or nothing."""
    webhook = _standard_webhook(secret)
    try:
        signature = (
            webhook.sign(claim.message_id, claim.timestamp, b"".join(body).decode()) if webhook else ""
        )
    except UnicodeDecodeError:  # the scheme's reference signs text
        return b""
    return binascii.a2b_base64(signature.removeprefix("v1,"))
