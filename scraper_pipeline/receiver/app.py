"""The receiver as an application: deliveries in, and what an operator asks about them out."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from fastapi import FastAPI, Response
from fastapi.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from scraper_pipeline.receiver.config import ReceiverConfig
from scraper_pipeline.receiver.deliveries import DeliveryEndpoint
from scraper_pipeline.receiver.description import describe_deliveries
from scraper_pipeline.receiver.events import EventReader
from scraper_pipeline.receiver.inbox import Inbox, Store
from scraper_pipeline.receiver.metrics import ReceiverMetrics
from scraper_pipeline.receiver.signatures import Clock, SignatureVerifier
from scraper_pipeline.webhook_secrets import KnownSecrets

STOP_SECONDS = 10.0


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Receiver(FastAPI):
    """Deliveries don't pass through the framework's middleware, which would take most of their time."""

    def __init__(self, config: ReceiverConfig, deliveries: DeliveryEndpoint, **options: object) -> None:
        super().__init__(title="Webhook receiver", docs_url=None, redoc_url=None, **options)  # type: ignore[arg-type]
        self._config, self._path, self._deliveries = config, config.path, deliveries

    def openapi(self) -> dict[str, Any]:
        document = super().openapi()
        document["paths"][self._path] = describe_deliveries(self._config)
        return document

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        if scope["type"] == "http" and scope["path"] == self._path:
            return self._deliveries(scope, receive, send)
        return super().__call__(scope, receive, send)


def create_receiver(
    open_store: Callable[[], Store],
    secrets: KnownSecrets,
    config: ReceiverConfig | None = None,
    clock: Clock = _utc_now,
) -> Receiver:
    """An ASGI application that takes deliveries at ``config.path``.

    ``open_store`` opens the ledger's inbox, in a thread of the application's own. Raises WebhookSecretsError when
    no secret is valid: nothing could be verified then.
    """
    secrets.require_one(clock())
    config = config or ReceiverConfig()
    metrics = ReceiverMetrics()
    inbox = Inbox(
        open_store,
        timeout_seconds=config.commit_timeout_seconds,
        max_waiting=config.max_waiting,
        on_batch=metrics.count_batch,
    )
    metrics.watch_waiting(lambda: inbox.waiting)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        inbox.start()
        try:
            yield
        finally:
            await inbox.stop(STOP_SECONDS)

    endpoint = DeliveryEndpoint(
        SignatureVerifier(secrets, config, clock), EventReader(config), inbox, metrics, config
    )
    app = Receiver(config, endpoint, lifespan=lifespan)

    @app.get("/healthz")
    async def show_health() -> dict[str, str]:
        """The process answers; whether it can do its work is told by /readyz."""
        return {"status": "ok"}

    @app.get("/readyz")
    async def show_readiness() -> JSONResponse:
        problems = []
        if not secrets.valid(clock()):
            problems.append("no webhook secret is valid")
        if secrets.problem:
            problems.append(secrets.problem)
        if not await inbox.is_reachable():
            problems.append("the database can't be reached")
        status = "unavailable" if problems else "ok"
        return JSONResponse({"status": status, "problems": problems}, 503 if problems else 200)

    @app.get("/metrics")
    async def show_metrics() -> Response:
        return Response(metrics.exposition(), media_type=metrics.content_type)

    return app
