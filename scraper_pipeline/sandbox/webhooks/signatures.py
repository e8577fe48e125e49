"""How a delivery is signed: HMAC-SHA256 over the raw body, in each of the encodings that a service might choose."""

import base64
import hmac
import secrets
from datetime import datetime
from hashlib import sha256
from typing import Literal

Scheme = Literal["hex", "upper_hex", "sha256", "base64", "list", "spaced_list", "standard"]
Headers = list[tuple[str, str]]


def sign(
    body: bytes,
    *,
    scheme: Scheme,
    header: str,
    secret: str,
    previous_secret: str | None,
    message_id: str,
    at: datetime,
) -> Headers:
    """The headers that sign a body.

    `list` and `spaced_list` put the signature by the previous secret, or by one that nobody knows, before the
    right one. `standard` is the Standard Webhooks scheme, which has header names of its own.
    """
    if scheme == "standard":
        return _sign_by_the_standard(body, secret, message_id, at)
    mac = _mac(body, secret)
    if scheme in ("list", "spaced_list"):
        other = _mac(body, previous_secret or secrets.token_hex())
        return [(header, ("," if scheme == "list" else " ").join((other.hex(), mac.hex())))]
    text = {
        "hex": mac.hex(),
        "upper_hex": mac.hex().upper(),
        "sha256": f"sha256={mac.hex()}",
        "base64": base64.b64encode(mac).decode(),
    }[scheme]
    return [(header, text)]


def spoil(headers: Headers, form: str | None) -> Headers:
    """The same headers with something else for the signature, which stands in the last of them."""
    *others, (name, signature) = headers
    match form:
        case "garbage":
            return [*others, (name, f"{signature[:-1]}~")]
        case "not_ascii":
            return [*others, (name, "sha256=\xe9")]
        case "empty":
            return [*others, (name, "")]
        case "absent":
            return others
    return headers


def _sign_by_the_standard(body: bytes, secret: str, message_id: str, at: datetime) -> Headers:
    timestamp = str(int(at.timestamp()))
    key = base64.b64decode(secret.removeprefix("whsec_"))
    mac = hmac.new(key, f"{message_id}.{timestamp}.".encode() + body, sha256).digest()
    signature = f"v1,{base64.b64encode(mac).decode()}"
    return [
        ("webhook-id", message_id),
        ("webhook-timestamp", timestamp),
        ("webhook-signature", signature),
    ]


def _mac(body: bytes, secret: str) -> bytes:
    return hmac.new(secret.encode(), body, sha256).digest()
