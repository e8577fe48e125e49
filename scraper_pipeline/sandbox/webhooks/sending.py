"""The sender: one POST to a webhook, over one pool of connections, to loopback only unless told otherwise."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import aiohttp

from scraper_pipeline.sandbox.loopback import GuardedResolver, HostRefused, check_host
from scraper_pipeline.sandbox.rules import SlowDelivery

_PART = 64 * 1024
_IDLE_SECONDS = 2.0
"""Below what servers keep an idle connection open for, or a POST would run into one that is just being closed."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a POST: the receiver's status, or why there is none."""

    http_status: int | None = None
    error: str | None = None

    @property
    def is_success(self) -> bool:
        return self.http_status is not None and 200 <= self.http_status < 300


class Sender:
    """Sends deliveries; `close` ends it. Redirects are not followed, and answers are not read."""

    def __init__(self, *, allow_any_host: bool, timeout: float, connections: int) -> None:
        self._allow_any_host = allow_any_host
        self._timeout = timeout
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None

    async def send(
        self, url: str, body: bytes, headers: Sequence[tuple[str, str]], slow: SlowDelivery | None = None
    ) -> Answer:
        """Never raises for what the receiver does."""
        seconds = self._timeout + (slow.seconds if slow else 0)
        try:
            async with asyncio.timeout(seconds):
                return await self._post(url, body, headers, slow)
        except TimeoutError:
            return Answer(error=f"No answer within {seconds:g} s")
        except HostRefused as refusal:
            return Answer(error=str(refusal))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return Answer(error=type(error).__name__)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _post(
        self, url: str, body: bytes, headers: Sequence[tuple[str, str]], slow: SlowDelivery | None
    ) -> Answer:
        check_host(url, allow_any_host=self._allow_any_host)
        data: bytes | AsyncIterator[bytes] = body
        if slow is not None or len(body) > _PART:
            data = _in_parts(body, slow.seconds if slow else 0)
            if slow is None or not slow.chunked:
                headers = [*headers, ("Content-Length", str(len(body)))]
        async with self._open_session().post(
            url, data=data, headers=headers, allow_redirects=False
        ) as response:
            await response.content.read(_PART)  # so that the connection can serve again
            return Answer(response.status)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=self._connections,
                keepalive_timeout=_IDLE_SECONDS,
                resolver=GuardedResolver(self._allow_any_host),
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=None),
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("Accept", "Accept-Encoding"),
            )
        return self._session


async def _in_parts(body: bytes, seconds: float) -> AsyncIterator[bytes]:
    """A body piece by piece: at once, or spread evenly over the seconds."""
    size = max(1, min(_PART, len(body) // 20)) if seconds else _PART
    starts = range(0, len(body), size)
    for start in starts:
        yield body[start : start + size]
        await asyncio.sleep(seconds / len(starts))
