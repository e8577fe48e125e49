"""The calls under /v1/webhooks, as the contract has them.

Where a body is refused the SDK expects an error in the service's own form, not FastAPI's, unlike anywhere else.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from scraper_pipeline.sandbox import answers
from scraper_pipeline.sandbox.connections import CutConnection
from scraper_pipeline.sandbox.context import Endpoint, Sandbox
from scraper_pipeline.sandbox.requests import DeliveriesQuery, PageQuery, WebhookChanges, WebhookRequest
from scraper_pipeline.sandbox.rules import Call
from scraper_pipeline.sandbox.webhooks.book import Attempt, Slice, Webhook

MOST_WEBHOOKS = 10
_ALL = "/v1/webhooks"
_ONE = "/v1/webhooks/{webhook_id}"

B = TypeVar("B", bound=BaseModel)


class WebhookEndpoints:
    """The endpoints under /v1/webhooks. Where the sandbox is not to offer them, each answers 404."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def routes(self) -> list[Route]:
        return [
            self._route("POST", _ALL, self.create, "create_webhook"),
            self._route("GET", _ALL, self.list_webhooks),
            self._route("GET", _ONE, self._of_one(self.get)),
            self._route("PATCH", _ONE, self._of_one(self.change)),
            self._route("DELETE", _ONE, self._of_one(self.delete)),
            self._route("POST", f"{_ONE}/rotate-secret", self._of_one(self.rotate), "rotate_secret"),
            self._route("GET", f"{_ONE}/deliveries", self._of_one(self.list_deliveries)),
        ]

    def _route(self, method: str, path: str, endpoint: Endpoint, call: Call = "webhooks") -> Route:
        async def answer(request: Request) -> Response:
            sandbox = self._sandbox
            if not sandbox.config.webhooks_offered:
                return sandbox.error(404, "NOT_FOUND", "There is no such call")
            webhook = sandbox.webhooks.get(request.path_params.get("webhook_id", ""))
            url = "" if webhook is None else webhook.url
            if broken := sandbox.fault_book.strike("webhook_500", sandbox.faults.webhook_500, url, call):
                headers = sandbox.retry_after(broken)
                return sandbox.error(
                    broken.status, "INTERNAL_ERROR", "Nothing was done", retryable=True, headers=headers
                )
            return await endpoint(request)

        name = f"{method} {path}"
        return Route(path, self._sandbox.counted(name, call, answer), methods=[method])

    def _of_one(self, endpoint: Callable[[Request, Webhook], Awaitable[Response]]) -> Endpoint:
        async def answer(request: Request) -> Response:
            webhook = self._sandbox.webhooks.get(request.path_params["webhook_id"])
            if webhook is None:
                return self._sandbox.error(404, "NOT_FOUND", "There is no such webhook")
            return await endpoint(request, webhook)

        return answer

    async def create(self, request: Request) -> Response:
        sandbox = self._sandbox
        wanted = await self._read(request, WebhookRequest)
        if isinstance(wanted, Response):
            return wanted
        if len(sandbox.webhooks) >= MOST_WEBHOOKS:
            return sandbox.error(422, "WEBHOOK_LIMIT_REACHED", f"There are {MOST_WEBHOOKS} webhooks already")
        now = sandbox.service_now()
        webhook = Webhook(wanted.url, wanted.event_type, wanted.description, created_at=now, updated_at=now)
        sandbox.webhooks.add(webhook)
        body = _webhook_body(webhook) | {"secret": webhook.secret}
        return self._answer_done(webhook, answers.json_response(body, 201), "create_webhook")

    async def list_webhooks(self, request: Request) -> Response:
        try:
            query = PageQuery.model_validate(dict(request.query_params))
        except ValidationError as error:
            return answers.validation_response(error, "query")
        found = self._sandbox.webhooks.listing(page=query.page, page_size=query.page_size)
        return _slice_response(found, [_webhook_body(webhook) for webhook in found.items])

    async def get(self, request: Request, webhook: Webhook) -> Response:
        return answers.json_response(_webhook_body(webhook))

    async def change(self, request: Request, webhook: Webhook) -> Response:
        """Changes what the body names. Attempts that are planned already go to the new URL."""
        changes = await self._read(request, WebhookChanges)
        if isinstance(changes, Response):
            return changes
        webhook.url = changes.url or webhook.url
        webhook.event_type = changes.event_type or webhook.event_type
        if changes.is_active is not None:
            webhook.is_active = changes.is_active
        if "description" in changes.model_fields_set:
            webhook.description = changes.description
        webhook.updated_at = self._sandbox.service_now()
        return self._answer_done(webhook, answers.json_response(_webhook_body(webhook)), "webhooks")

    async def delete(self, request: Request, webhook: Webhook) -> Response:
        self._sandbox.webhooks.delete(webhook)
        return self._answer_done(webhook, Response(status_code=204), "webhooks")

    async def rotate(self, request: Request, webhook: Webhook) -> Response:
        webhook.rotate()
        webhook.updated_at = self._sandbox.service_now()
        return self._answer_done(webhook, answers.json_response({"secret": webhook.secret}), "rotate_secret")

    async def list_deliveries(self, request: Request, webhook: Webhook) -> Response:
        try:
            query = DeliveriesQuery.model_validate(dict(request.query_params))
        except ValidationError as error:
            return answers.validation_response(error, "query")
        found = self._sandbox.webhooks.deliveries(
            webhook, page=query.page, page_size=query.page_size, status=query.status
        )
        return _slice_response(found, [_attempt_body(attempt) for attempt in found.items])

    async def _read(self, request: Request, kind: type[B]) -> B | Response:
        try:
            return kind.model_validate(await request.json())
        except ValidationError as error:
            details = {"errors": [{"loc": one["loc"], "msg": one["msg"]} for one in error.errors()]}
            return self._sandbox.error(422, "VALIDATION_ERROR", "The body is out of bounds", details=details)
        except ValueError:
            return self._sandbox.error(400, "BAD_REQUEST", "The body is no JSON")

    def _answer_done(self, webhook: Webhook, answer: Response, call: Call) -> Response:
        faults = self._sandbox.faults
        lost = self._sandbox.fault_book.strike(
            "webhook_answer_lost", faults.webhook_answer_lost, webhook.url, call
        )
        return answer if lost is None else CutConnection()


def _slice_response(found: Slice[Any], items: list[dict[str, Any]]) -> Response:
    body = {
        "items": items,
        "page": found.page,
        "page_size": found.page_size,
        "page_count": found.page_count,
    }
    return answers.json_response(body)


def _webhook_body(webhook: Webhook) -> dict[str, Any]:
    return {
        "id": webhook.webhook_id,
        "url": webhook.url,
        "description": webhook.description,
        "is_active": webhook.is_active,
        "event_type": webhook.event_type,
        "created_at": answers.timestamp(webhook.created_at),
        "updated_at": answers.timestamp(webhook.updated_at),
    }


def _attempt_body(attempt: Attempt) -> dict[str, Any]:
    delivered_at = attempt.delivered_at
    return {
        "id": attempt.attempt_id,
        "event_type": attempt.delivery.job.event_type,
        "job_id": attempt.delivery.job.job_id,
        "attempt_number": attempt.number,
        "status": attempt.status,
        "http_status": attempt.http_status,
        "delivered_at": None if delivered_at is None else answers.timestamp(delivered_at),
        "created_at": answers.timestamp(attempt.created_at),
    }
