"""The sandbox as one ASGI application: the service, the site and the controls, put together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.utils import format_datetime
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scraper_pipeline.sandbox.account import Account
from scraper_pipeline.sandbox.answers import echoed, error_response, job_body
from scraper_pipeline.sandbox.bulk.bodies import event_body
from scraper_pipeline.sandbox.bulk.book import BulkBook, BulkJob
from scraper_pipeline.sandbox.bulk.endpoints import BulkEndpoints
from scraper_pipeline.sandbox.bulk.work import BulkWork
from scraper_pipeline.sandbox.clock import Clock
from scraper_pipeline.sandbox.config import SandboxConfig
from scraper_pipeline.sandbox.context import Sandbox
from scraper_pipeline.sandbox.control import Control
from scraper_pipeline.sandbox.extraction import Extraction
from scraper_pipeline.sandbox.faults import FaultBook
from scraper_pipeline.sandbox.fetching import Fetcher
from scraper_pipeline.sandbox.jobs import Job, JobBook
from scraper_pipeline.sandbox.service import Service
from scraper_pipeline.sandbox.site import MOUNTED_AT, Site
from scraper_pipeline.sandbox.spoiling import Spoiling
from scraper_pipeline.sandbox.webhooks.book import Announced, WebhookBook
from scraper_pipeline.sandbox.webhooks.deliveries import Deliveries
from scraper_pipeline.sandbox.webhooks.endpoints import WebhookEndpoints
from scraper_pipeline.sandbox.webhooks.sending import Sender


def create_app(config: SandboxConfig | None = None, *, clock: Clock | None = None) -> Starlette:
    """A sandbox with nothing in it yet. It keeps everything in memory and forgets it at its end."""
    config = config or SandboxConfig()
    clock = clock or Clock()
    book, batches, crawls = JobBook(), BulkBook(), BulkBook()
    faults = FaultBook(config.seed, config.faults)
    account = Account(config, faults, jobs=book, batches=batches, crawls=crawls)
    site = Site(flaky_failures=config.flaky_failures)
    fetcher = Fetcher(
        allow_any_host=config.allow_any_host,
        timeout=config.fetch_timeout,
        connections=config.fetch_concurrency,
        max_bytes=config.max_page_bytes,
    )
    webhooks = WebhookBook()
    sender = Sender(
        allow_any_host=config.allow_any_host,
        timeout=config.webhook_timeout,
        connections=config.webhook_workers,
    )

    def describe(job: Announced) -> dict[str, Any]:
        if isinstance(job, Job):
            return job_body(job, time=clock.monotonic(), url=echoed(job.url, config.echo_urls))
        return event_body(job, time=clock.monotonic()) if isinstance(job, BulkJob) else {}

    deliveries = Deliveries(
        config, book=webhooks, faults=faults, clock=clock, sender=sender, describe=describe
    )
    extraction = Extraction(
        config, book=book, faults=faults, clock=clock, fetcher=fetcher, on_end=deliveries.announce
    )
    batch_work, crawl_work = (
        BulkWork(
            config,
            book=bulk,
            faults=faults,
            clock=clock,
            fetcher=fetcher,
            site=site,
            can_pay=account.can_pay,
            on_end=deliveries.announce,
        )
        for bulk in (batches, crawls)
    )
    sandbox = Sandbox(config, clock, book, batches, crawls, account, faults, extraction, webhooks, deliveries)
    spoiling = Spoiling(sandbox)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await batch_work.close()
        await crawl_work.close()
        await extraction.close()
        await deliveries.close()

    return Starlette(
        routes=[
            *Service(sandbox, spoiling).routes(),
            *BulkEndpoints(sandbox, "batch", book=batches, work=batch_work, spoiling=spoiling).routes(),
            *BulkEndpoints(sandbox, "crawl", book=crawls, work=crawl_work, spoiling=spoiling).routes(),
            *WebhookEndpoints(sandbox).routes(),
            *Control(sandbox, batch_work=batch_work, crawl_work=crawl_work).routes(),
            Mount(MOUNTED_AT, routes=site.routes()),
        ],
        middleware=[Middleware(_Dated, sandbox=sandbox)],
        exception_handlers={HTTPException: _in_the_services_form},
        lifespan=lifespan,
    )


async def _in_the_services_form(request: Request, error: Exception) -> Response:
    """What the sandbox does not know is refused as the service would."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    code = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}.get(status, "BAD_REQUEST")
    return error_response(status, code, f"The sandbox has no such call ({status})", retryable=False)


class _Dated:
    """Gives every answer a Date header by the service's clock, which uvicorn's own would not follow."""

    def __init__(self, app: ASGIApp, sandbox: Sandbox) -> None:
        self._app = app
        self._sandbox = sandbox

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_dated(message: Message) -> None:
            if message["type"] == "http.response.start":
                date = format_datetime(self._sandbox.service_now(), usegmt=True)
                message["headers"] = [*message.get("headers", ()), (b"date", date.encode())]
            await send(message)

        await self._app(scope, receive, send_dated)
