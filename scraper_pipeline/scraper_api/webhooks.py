"""The calls of the contract's section "Webhooks": registrations, their secrets, and the log of what was delivered."""

import json
from collections.abc import Callable, Mapping

from pydantic import SecretStr

from scraper_pipeline.scraper_api.addresses import LARGEST_PAGE_SIZE, page_params, path_segment
from scraper_pipeline.scraper_api.calls import Answer, Call, Caller, Method
from scraper_pipeline.scraper_api.errors import UnreadableAnswer
from scraper_pipeline.scraper_api.webhook_models import (
    CreatedWebhook,
    DeliveryListing,
    RotatedSecret,
    Webhook,
    WebhookListing,
)

_COLLECTION = "/v1/webhooks"
_MOST_PAGES = 20


class WebhookCalls:
    """What a client does about webhooks.

    Where the service has no webhooks yet, creating and listing raise WebhooksNotOffered. Calls about one webhook raise
    WebhookNotFound. Creating and rotating are not repeated after an answer that leaves open whether they happened.
    """

    _caller: Caller

    async def create_webhook(
        self, url: str, event_type: str, description: str | None = None
    ) -> CreatedWebhook:
        """Registers `url` for one event type. The secret is shown here and at a rotation only.

        After an error whose `proves_no_job` is false the webhook may exist, its secret lost: list, then rotate it.
        """
        body = _json({"url": url, "event_type": event_type, "description": description})
        call = Call("create_webhook", "POST", _COLLECTION, body=body, subject="webhooks")
        return await self._caller.perform(call, lambda answer: CreatedWebhook.model_validate(answer.payload))

    async def list_webhooks(self, *, budget: float | None = None) -> tuple[Webhook, ...]:
        """All webhooks of the account. Raises UnreadableAnswer rather than leave one out."""
        deadline = self._caller.deadline_after(budget)
        found: dict[str, Webhook] = {}
        for page in range(1, _MOST_PAGES + 1):
            listing = await self._caller.perform(_list_page(page), _read_whole_page, deadline=deadline)
            known = len(found)
            found |= {webhook.webhook_id: webhook for webhook in listing.items}
            # An empty page proves nothing where there is a count; without one, an end is a page with nothing new.
            is_last = len(found) == known if listing.page_count is None else page >= listing.page_count
            if is_last:
                return tuple(found.values())
        raise UnreadableAnswer(f"list_webhooks: {_MOST_PAGES} pages were read, and the service tells of more")

    async def get_webhook(self, webhook_id: str, *, budget: float | None = None) -> Webhook:
        """The registration as it stands."""
        call = _about(webhook_id, "get_webhook", "GET")
        return await self._caller.perform(call, _reader(webhook_id), budget=budget)

    async def update_webhook(
        self,
        webhook_id: str,
        *,
        url: str | None = None,
        is_active: bool | None = None,
        description: str | None = None,
    ) -> Webhook:
        """Changes what is given, and leaves the rest; the webhook as it is afterwards."""
        body = _json({"url": url, "is_active": is_active, "description": description})
        if body == b"{}":
            raise ValueError("there is nothing to change")
        return await self._caller.perform(
            _about(webhook_id, "update_webhook", "PATCH", body=body), _reader(webhook_id)
        )

    async def delete_webhook(self, webhook_id: str) -> None:
        """Removes the webhook and, at the service, its secret.

        WebhookNotFound can also mean that this call has removed it, by a request whose answer was lost.
        """
        call = _about(webhook_id, "delete_webhook", "DELETE", has_answer_body=False)
        await self._caller.perform(call, lambda answer: None)

    async def rotate_webhook_secret(self, webhook_id: str) -> SecretStr:
        """A new secret; the service signs with it from now on.

        After an error whose `proves_no_job` is false the secret may have changed unseen: only rotating again gives one.
        """
        call = _about(webhook_id, "rotate_webhook_secret", "POST", "/rotate-secret")
        rotated = await self._caller.perform(
            call, lambda answer: RotatedSecret.model_validate(answer.payload)
        )
        return rotated.secret

    async def list_deliveries(
        self,
        webhook_id: str,
        *,
        page: int = 1,
        page_size: int = LARGEST_PAGE_SIZE,
        status: str | None = None,
        budget: float | None = None,
    ) -> DeliveryListing:
        """One page of the attempts that were made for a webhook."""
        params = page_params(page, page_size, status=status)
        call = _about(webhook_id, "list_deliveries", "GET", "/deliveries", params=params)
        return await self._caller.perform(call, _read_deliveries, budget=budget)


def _about(
    webhook_id: str,
    name: str,
    method: Method,
    part: str = "",
    *,
    params: Mapping[str, str] | None = None,
    body: bytes | None = None,
    has_answer_body: bool = True,
) -> Call:
    return Call(
        name,
        method,
        f"{_COLLECTION}/{path_segment(webhook_id, 'webhook')}{part}",
        params=params,
        body=body,
        subject="webhook",
        subject_id=webhook_id,
        has_answer_body=has_answer_body,
    )


def _list_page(page: int) -> Call:
    params = page_params(page, LARGEST_PAGE_SIZE)
    return Call("list_webhooks", "GET", _COLLECTION, params=params, subject="webhooks")


def _json(fields: Mapping[str, str | bool | None]) -> bytes:
    return json.dumps({name: value for name, value in fields.items() if value is not None}).encode()


def _read_whole_page(answer: Answer) -> WebhookListing:
    listing = WebhookListing.model_validate(answer.payload)
    if listing.unreadable:
        raise ValueError(f"{listing.unreadable} of its webhooks have no id")
    return listing


def _reader(webhook_id: str) -> Callable[[Answer], Webhook]:
    def read(answer: Answer) -> Webhook:
        webhook = Webhook.model_validate(answer.payload)
        if webhook.webhook_id.lower() != webhook_id.lower():
            raise ValueError("it tells of another webhook")
        return webhook

    return read


def _read_deliveries(answer: Answer) -> DeliveryListing:
    return DeliveryListing.model_validate({**answer.fields, "service_time": answer.service_time})
