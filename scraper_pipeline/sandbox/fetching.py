"""The fetch: real HTTP requests, to loopback only unless told otherwise, with every failure given its code."""

import asyncio
from dataclasses import dataclass

import aiohttp
from yarl import URL

from scraper_pipeline.sandbox.loopback import GuardedResolver, HostRefused, check_host

OUTCOME_HEADER = "X-Sandbox-Outcome"
"""A page that answers with `cancelled` here has its job end so."""

_MOST_REDIRECTS = 5
_BLOCKED_FOR_GOOD = frozenset({403, 451})
_NEEDS_LOGIN = frozenset({401, 407})
_TEXT_TYPES = ("text/", "application/xhtml+xml", "application/xml", "application/json")
_NOT_FORWARDED = frozenset({"host", "connection", "content-length", "transfer-encoding", "te", "upgrade"})


@dataclass(frozen=True, slots=True)
class FetchedPage:
    html: str
    http_status: int
    is_cancelled: bool = False


class FetchFailed(Exception):
    """A page could not be had; `code` is one of the contract's."""

    def __init__(self, code: str, message: str, *, retryable: bool, http_status: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable
        self.http_status = http_status


def check_status(status: int) -> None:
    """Raises `FetchFailed` where a site's answer means a refusal."""
    if status in _NEEDS_LOGIN:
        raise FetchFailed("AUTH_REQUIRED", "The page asks for a login", retryable=False, http_status=status)
    if status in _BLOCKED_FOR_GOOD:
        raise FetchFailed("PERMANENT_BLOCK", "The site refuses the page", retryable=False, http_status=status)
    if status == 429 or status >= 500:
        message = f"The site answered {status} for now"
        raise FetchFailed("TEMPORARY_BLOCK", message, retryable=True, http_status=status)


def timed_out(seconds: float) -> FetchFailed:
    return FetchFailed("TIMEOUT", f"The page did not load within {seconds:g} s", retryable=True)


class Fetcher:
    """Fetches pages over one pool of connections; `close` ends it."""

    def __init__(self, *, allow_any_host: bool, timeout: float, connections: int, max_bytes: int) -> None:
        self._allow_any_host = allow_any_host
        self._timeout = timeout
        self._connections = connections
        self._max_bytes = max_bytes
        self._session: aiohttp.ClientSession | None = None

    async def fetch(
        self, url: str, *, headers: dict[str, str] | None = None, seconds: float | None = None
    ) -> FetchedPage:
        """The page as the site gives it, whatever its status, unless that means a refusal.

        Raises `FetchFailed`. `seconds` is the time it may take, over all redirects.
        """
        limit = self._timeout if seconds is None else seconds
        try:
            async with asyncio.timeout(limit):
                return await self._follow(url, headers or {})
        except TimeoutError:
            raise timed_out(limit) from None
        except HostRefused as refusal:
            raise FetchFailed("INVALID_URL", str(refusal), retryable=False) from None
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError, ValueError):
            raise FetchFailed("INVALID_URL", "The URL cannot be read", retryable=False) from None
        except (aiohttp.ClientError, OSError) as error:
            message = f"The site could not be reached ({type(error).__name__})"
            raise FetchFailed("NETWORK_ERROR", message, retryable=True) from None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _follow(self, url: str, headers: dict[str, str]) -> FetchedPage:
        sent = {name: value for name, value in headers.items() if name.lower() not in _NOT_FORWARDED}
        session = self._open_session()
        for _ in range(_MOST_REDIRECTS + 1):
            check_host(url, allow_any_host=self._allow_any_host)
            async with session.get(url, headers=sent, allow_redirects=False) as response:
                if response.status not in (301, 302, 303, 307, 308) or "Location" not in response.headers:
                    return await self._read(response)
                url = str(response.url.join(URL(response.headers["Location"])))
        raise FetchFailed("NETWORK_ERROR", "The site redirects without end", retryable=True)

    async def _read(self, response: aiohttp.ClientResponse) -> FetchedPage:
        status = response.status
        check_status(status)
        kind = response.headers.get("Content-Type", "text/html")
        if not kind.startswith(_TEXT_TYPES):
            raise FetchFailed(
                "UNPROCESSABLE_CONTENT", "The page is not text", retryable=False, http_status=status
            )
        body = bytearray()
        async for chunk in response.content.iter_chunked(64 * 1024):
            body += chunk
            if len(body) > self._max_bytes:
                message = f"The page is larger than {self._max_bytes} bytes"
                raise FetchFailed("UNPROCESSABLE_CONTENT", message, retryable=False, http_status=status)
        html = _decode(bytes(body), response.charset)
        return FetchedPage(html, status, response.headers.get(OUTCOME_HEADER) == "cancelled")

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=self._connections, resolver=GuardedResolver(self._allow_any_host)
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=None),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "scraper-sandbox/1.0"},
            )
        return self._session


def _decode(body: bytes, charset: str | None) -> str:
    try:
        return body.decode(charset or "utf-8", "replace")
    except LookupError:
        return body.decode("utf-8", "replace")
