"""A temporary endpoint that keeps what is posted to it, for as long as deliveries are awaited."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

_LARGEST_BODY = 16 * 1024 * 1024
_MOST_KEPT = 20  # whoever finds the address may post to it


@dataclass(frozen=True)
class RawDelivery:
    """A request as it came: each header with its name in the sender's spelling, the body, and when (monotonic)."""

    headers: tuple[tuple[bytes, bytes], ...] = field(repr=False)
    body: bytes = field(repr=False)
    at: float


class Endpoint:
    """Answers 200 to what ``accepts`` says it may, and 503 to all else, which its sender then tries again."""

    def __init__(self, accepts: Callable[[RawDelivery], bool]) -> None:
        self._accepts = accepts
        self._kept: deque[RawDelivery] = deque(maxlen=_MOST_KEPT)
        self._came = asyncio.Condition()
        self.requests = 0

    async def take(self, request: web.Request) -> web.Response:
        self.requests += 1
        delivery = RawDelivery(request.raw_headers, await request.read(), time.monotonic())
        async with self._came:
            self._kept.append(delivery)
            self._came.notify_all()
        return web.Response(status=200 if self._accepts(delivery) else 503)

    async def wait_for(self, wanted: Callable[[RawDelivery], bool], seconds: float) -> RawDelivery | None:
        """The first delivery that is wanted, or None if none comes in time."""

        def find() -> RawDelivery | None:
            return next((one for one in self._kept if wanted(one)), None)

        try:
            async with asyncio.timeout(seconds), self._came:
                return await self._came.wait_for(find)
        except TimeoutError:
            return None


@asynccontextmanager
async def listening(host: str, port: int, accepts: Callable[[RawDelivery], bool]) -> AsyncIterator[Endpoint]:
    """An endpoint at every path of an address. Raises OSError where it is taken."""
    endpoint = Endpoint(accepts)
    application = web.Application(client_max_size=_LARGEST_BODY)
    application.router.add_post("/{path:.*}", endpoint.take)
    runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=2)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield endpoint
    finally:
        await runner.cleanup()
