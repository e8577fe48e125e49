"""What the routes share: the parts of one sandbox, and the gate that every /v1 request passes."""

import asyncio
import hmac
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from scraper_pipeline.sandbox.account import Account
from scraper_pipeline.sandbox.answers import Headers, echoed, error_response
from scraper_pipeline.sandbox.bulk.book import BulkBook
from scraper_pipeline.sandbox.clock import Clock
from scraper_pipeline.sandbox.config import SandboxConfig
from scraper_pipeline.sandbox.connections import CutConnection
from scraper_pipeline.sandbox.extraction import Extraction
from scraper_pipeline.sandbox.faults import FaultBook, Faults
from scraper_pipeline.sandbox.jobs import JobBook
from scraper_pipeline.sandbox.limiter import RateLimiter
from scraper_pipeline.sandbox.rules import Call, RetryAfter
from scraper_pipeline.sandbox.webhooks.book import WebhookBook
from scraper_pipeline.sandbox.webhooks.deliveries import Deliveries

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass
class Sandbox:
    """One sandbox: its options, its jobs of all kinds, its faults, its webhooks and its counters."""

    config: SandboxConfig
    clock: Clock
    book: JobBook
    batches: BulkBook
    crawls: BulkBook
    account: Account
    fault_book: FaultBook
    extraction: Extraction
    webhooks: WebhookBook
    deliveries: Deliveries
    requests: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    limiter: RateLimiter = field(default_factory=RateLimiter)

    @property
    def faults(self) -> Faults:
        return self.fault_book.faults

    def service_now(self) -> datetime:
        """Now, on the service's clock, which may be shifted."""
        return self.clock.now() + timedelta(seconds=self.faults.clock_shift)

    def error(
        self,
        status: int,
        code: str,
        message: str,
        *,
        retryable: bool = False,
        headers: Headers = (),
        details: Mapping[str, Any] | None = None,
    ) -> Response:
        return error_response(
            status,
            code,
            message,
            retryable=retryable,
            wrapped=self.config.error_form == "wrapped",
            headers=headers,
            details=details,
        )

    def retry_after(self, rule: RetryAfter) -> Headers:
        """The `Retry-After` headers that a fault orders; there may be none, or several."""
        order = rule.retry_after
        if order is None:
            return ()
        if order == "date":
            at = (self.service_now() + timedelta(seconds=rule.seconds)).astimezone(UTC)
            return (("Retry-After", format_datetime(at, usegmt=True)),)
        values = order if isinstance(order, list) else [order]
        return tuple(("Retry-After", str(value)) for value in values)

    def echo(self, url: str) -> str:
        """A job's URL as the service gives it back."""
        return echoed(url, self.config.echo_urls)

    async def refusal(self, request: Request, call: Call) -> Response | None:
        """What turns a /v1 request away before it is looked at: faults, the key, the rate."""
        faults, strike = self.faults, self.fault_book.strike
        if latency := strike("latency", faults.latency, call=call):
            await asyncio.sleep(latency.seconds)
        if strike("cut_before", faults.cut_before, call=call):
            return CutConnection()
        if strike("unauthorized", faults.unauthorized, call=call) or not self._knows(request):
            return self.error(401, "UNAUTHORIZED", "The API key is missing or wrong")
        if strike("forbidden", faults.forbidden, call=call):
            return self.error(403, "FORBIDDEN", "The API key may not do this")
        if throttled := strike("rate_limit_429", faults.rate_limit_429, call=call):
            headers = self.retry_after(throttled)
            return self.error(429, throttled.code, "Too many requests", retryable=True, headers=headers)
        if faults.rate is None:
            self.limiter.forget()
        elif wait := self.limiter.wait(faults.rate, faults.rate_form, self.clock.monotonic()):
            order = math.ceil(wait) if faults.rate_retry_after == "needed" else faults.rate_retry_after
            headers = self.retry_after(RetryAfter(retry_after=order))
            return self.error(429, "RATE_LIMITED", "Too many requests", retryable=True, headers=headers)
        return None

    def _knows(self, request: Request) -> bool:
        given = request.headers.get("X-Api-Key", "").strip()
        if self.config.api_key is None:
            return bool(given)
        return hmac.compare_digest(given.encode(), self.config.api_key.get_secret_value().encode())

    def counted(self, name: str, call: Call, endpoint: Endpoint) -> Endpoint:
        """An endpoint of the service that counts its requests and answers under a name, behind the gate."""

        async def count_and_answer(request: Request) -> Response:
            self.requests[name] += 1
            response = await self.refusal(request, call) or await endpoint(request)
            outcome = "cut" if isinstance(response, CutConnection) else response.status_code
            self.answers[f"{name} {outcome}"] += 1
            return response

        return count_and_answer
