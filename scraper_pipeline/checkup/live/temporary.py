"""A webhook for as long as it is needed: removed in any case, whatever ends the wait."""

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from scraper_pipeline.scraper_api import CreatedWebhook, ScraperClient, ScraperError, Webhook, WebhookNotFound

_DESCRIPTION = "scraper_pipeline doctor"


@asynccontextmanager
async def temporary_webhook(
    client: ScraperClient, url: str, event_type: str, on_left: Callable[[str], None]
) -> AsyncIterator[CreatedWebhook]:
    """A webhook at ``url``. One that an earlier, killed call has left there is removed as well.

    ``on_left`` is told what could not be removed. Raises ScraperError where no webhook can be made.
    """
    await _remove_all(client, lambda one: one.url == url and (one.description or "").startswith(_DESCRIPTION))
    description = f"{_DESCRIPTION} {secrets.token_hex(8)}"
    created: CreatedWebhook | None = None
    try:
        created = await client.create_webhook(url, event_type, description=description)
        yield created
    finally:
        # By its description, too: the answer that tells its id may have been lost.
        known = created.webhook_id if created else None
        try:
            await _remove_all(client, lambda one: known == one.webhook_id or one.description == description)
        except ScraperError as error:
            on_left(f"{known or f'the one described as {description!r}'} ({error})")


async def _remove_all(client: ScraperClient, is_meant: Callable[[Webhook], bool]) -> None:
    for webhook in await client.list_webhooks():
        if is_meant(webhook):
            try:
                await client.delete_webhook(webhook.webhook_id)
            except WebhookNotFound:  # by a request whose answer was lost
                continue
