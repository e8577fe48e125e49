"""Webhooks of our own: registered once for each event type, their secrets kept, rotated and repaired."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from pydantic import SecretStr

from scraper_pipeline.ledger import Ledger, RegisteredWebhook
from scraper_pipeline.lifecycle.replay import read_delivery_log
from scraper_pipeline.scraper_api import (
    NetworkError,
    ScraperClient,
    ServerError,
    UnreadableAnswer,
    Webhook,
    WebhookNotFound,
)
from scraper_pipeline.webhook_secrets import SecretsFile, WebhookSecret

EVENT_TYPES = ("extract_completed",)
BULK_EVENT_TYPES = ("batch_completed", "crawl_completed")
DESCRIPTION = "scraper_pipeline"
OLD_SECRET_STAYS = timedelta(hours=24)
_ROTATION_TRIES = 3


@dataclass
class RegistrationReport:
    """The webhooks made, those that were there already, and those whose secret had to be rotated to be known."""

    created: list[Webhook] = field(default_factory=list)
    kept: list[Webhook] = field(default_factory=list)
    repaired: list[Webhook] = field(default_factory=list)


async def register_webhooks(
    ledger: Ledger,
    client: ScraperClient,
    secrets: SecretsFile,
    url: str,
    event_types: Iterable[str] = EVENT_TYPES,
) -> RegistrationReport:
    """Have one webhook for each event type at ``url``, active, and its secret in the keeper.

    Ours are found by URL and type, so this may be repeated. One whose secret is not known, since a crash came between
    the service's answer and the file, is rotated. Raises WebhooksNotOffered where the service has none, and
    WebhookSecretsError, before the service is asked for a secret, where none could be kept.
    """
    report = RegistrationReport()
    there = {(webhook.url, webhook.event_type): webhook for webhook in await client.list_webhooks()}
    ours = {webhook.webhook_id: webhook for webhook in ledger.webhooks.registered()}
    _check_keepable(secrets)
    for event_type in event_types:
        found = there.get((url, event_type))
        if found is None:
            created = await client.create_webhook(url, event_type, description=DESCRIPTION)
            _keep(ledger, secrets, created, created.secret)
            report.created.append(created)
            _remember(ledger, created)
            continue
        if not found.is_active:
            found = await client.update_webhook(found.webhook_id, is_active=True)
        known = ours.get(found.webhook_id)
        is_open = known is not None and known.rotation_begun_at is not None
        if _knows_secret_of(secrets, found, ledger.clock()) and not is_open:
            _remember(ledger, found)
            report.kept.append(found)
        else:
            await _renew_secret(ledger, client, secrets, _registration(ledger, found))
            report.repaired.append(found)
    return report


def _remember(ledger: Ledger, webhook: Webhook) -> None:
    ledger.webhooks.remember(_registration(ledger, webhook))


def _registration(ledger: Ledger, webhook: Webhook) -> RegisteredWebhook:
    return RegisteredWebhook(
        webhook_id=webhook.webhook_id,
        url=webhook.url,
        event_type=webhook.event_type,
        is_active=webhook.is_active,
        created_at=webhook.created_at or ledger.clock(),
    )


@dataclass
class RotationReport:
    """How many webhooks got a new secret, how many jobs' refused deliveries were taken from the log, and how many
    webhooks the service has no more."""

    rotated: int = 0
    replayed: int = 0
    gone: int = 0

    def __iadd__(self, other: "RotationReport") -> "RotationReport":
        self.rotated += other.rotated
        self.replayed += other.replayed
        self.gone += other.gone
        return self


async def rotate_secrets(
    ledger: Ledger,
    client: ScraperClient,
    secrets: SecretsFile,
    *,
    webhook_ids: Iterable[str] | None = None,
    old_secret_stays: timedelta = OLD_SECRET_STAYS,
    on_rotated: Callable[[str], None] = lambda webhook_id: None,
) -> RotationReport:
    """Give each of our webhooks a new secret, and replay what was refused in between.

    The service voids the old secret at once, but deliveries signed with it may still be under way: both are accepted
    for a day, or for ``old_secret_stays``. Whatever the receiver refused before it knew the new one is found in the
    delivery log. After a crash at any point the next rotation sets everything right, and so does a registration.
    Raises WebhookSecretsError before the service is asked where no secret could be kept.
    """
    report, began = RotationReport(), ledger.clock()
    _check_keepable(secrets)
    wanted = None if webhook_ids is None else set(webhook_ids)
    for webhook in ledger.webhooks.registered():
        if wanted is not None and webhook.webhook_id not in wanted:
            continue
        try:
            await _renew_secret(ledger, client, secrets, webhook, old_secret_stays)
        except WebhookNotFound:
            report.gone += 1
            continue
        report.rotated += 1
        on_rotated(webhook.webhook_id)
    if report.rotated:
        report.replayed = (await read_delivery_log(ledger, client, since=began - timedelta(hours=1))).replayed
    return report


async def _renew_secret(
    ledger: Ledger,
    client: ScraperClient,
    secrets: SecretsFile,
    webhook: RegisteredWebhook,
    old_secret_stays: timedelta = OLD_SECRET_STAYS,
) -> None:
    """Rotate, and keep the new secret beside the old one. Until it is kept, the ledger says that it is not."""
    ledger.webhooks.remember(replace(webhook, rotation_begun_at=ledger.clock()))
    secret = await _rotate(client, webhook.webhook_id)
    _keep(ledger, secrets, webhook, secret)
    secrets.expire_others(webhook.webhook_id, ledger.clock() + old_secret_stays)
    ledger.webhooks.remember(replace(webhook, rotated_at=ledger.clock(), rotation_begun_at=None))


def _check_keepable(secrets: SecretsFile) -> None:
    """Replace the file by itself: a secret that the service has shown and that can't be kept is lost."""
    secrets.remove("")


def _keep(
    ledger: Ledger, secrets: SecretsFile, webhook: Webhook | RegisteredWebhook, secret: SecretStr
) -> None:
    account = ledger.scope.account
    secrets.add(
        WebhookSecret(secret, webhook.webhook_id, webhook.event_type, ledger.clock(), account=account)
    )


def _knows_secret_of(secrets: SecretsFile, webhook: Webhook, now: datetime) -> bool:
    return any(entry.webhook_id == webhook.webhook_id for entry in secrets.valid(now))


async def _rotate(client: ScraperClient, webhook_id: str) -> SecretStr:
    """A new secret. A rotation whose answer was lost has made the old one void all the same: it is rotated again."""
    for remaining in reversed(range(_ROTATION_TRIES)):
        try:
            return await client.rotate_webhook_secret(webhook_id)
        except (NetworkError, ServerError, UnreadableAnswer):
            if not remaining:
                raise
    raise AssertionError("unreachable")
