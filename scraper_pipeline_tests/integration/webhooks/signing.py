"""Whether what a service delivers is signed with a secret that we keep."""

import hashlib
import hmac
from datetime import UTC, datetime

from scraper_pipeline.sandbox import SandboxServer
from scraper_pipeline.webhook_secrets import SecretsFile
from scraper_pipeline_tests.integration.sandbox.receiver import Received


def is_signed_by_one_of(received: Received, secrets: SecretsFile, now: datetime | None = None) -> bool:
    """Signed with a secret of the file that is valid now."""
    secrets.refresh()
    valid = [entry.secret.get_secret_value() for entry in secrets.valid(now or datetime.now(UTC))]
    return received.headers["X-Webhook-Signature"] in {_sign(received.body, secret) for secret in valid}


def is_signed_by_the_newest(received: Received, secrets: SecretsFile) -> bool:
    """Signed with the secret that was kept last, which is valid for good."""
    newest = secrets.read()[-1]
    assert newest.expires_at is None
    return received.headers["X-Webhook-Signature"] == _sign(received.body, newest.secret.get_secret_value())


def _sign(body: bytes, secret: str) -> str:
    return hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def calls(service: SandboxServer, ending: str) -> int:
    """How many requests there were of a call, by the end of its method and path."""
    return sum(count for call, count in service.requests().items() if call.endswith(ending))
