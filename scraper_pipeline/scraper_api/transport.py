"""The HTTP side of the client: httpx on aiohttp's connections, and what its failures prove."""

import ipaddress
import urllib.request
from collections.abc import Generator
from http.cookiejar import CookieJar, DefaultCookiePolicy

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from scraper_pipeline.scraper_api.errors import NetworkError

# Below the five seconds after which common servers close an idle connection: a POST on a connection that is being
# closed ends as a lost answer.
_KEEP_ALIVE_SECONDS = 4.0

# aiohttp's own classes, since httpx-aiohttp reports every cut connection as a ConnectTimeout.
_BEFORE_SENDING = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
    aiohttp.InvalidURL,
)


class _ApiKey(httpx.Auth):
    """Adds the key to each request as it leaves, so that no client's or request's repr holds it."""

    def __init__(self, key: str) -> None:
        self._key = key

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["X-Api-Key"] = self._key
        yield request


def open_http(host: httpx.URL, api_key: str, connections: int) -> httpx.AsyncClient:
    """A client for one host and one event loop, over aiohttp's pool: httpx's own slows down as it grows."""
    proxy = _proxy_for(host)
    # Without TLS there is nothing to verify, and reading all authorities takes longer than many a request.
    tls = httpx.create_ssl_context(verify=host.scheme == "https" or proxy is not None)

    def open_session() -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=connections, keepalive_timeout=_KEEP_ALIVE_SECONDS, ssl=tls)
        return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())

    return httpx.AsyncClient(
        base_url=host,
        auth=_ApiKey(api_key),
        headers={"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": "scraper-pipeline"},
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        follow_redirects=False,
        transport=AiohttpTransport(verify=tls, proxy=proxy, client=open_session),
    )


def network_error(call: str, error: Exception) -> NetworkError:
    """What a failed exchange proves: only a failure to connect proves that nothing was sent."""
    cause = error.__cause__ if isinstance(error.__cause__, aiohttp.ClientError | OSError) else error
    if isinstance(cause, aiohttp.ClientConnectorCertificateError):
        fault = cause.certificate_error
        reason = getattr(fault, "verify_message", "") or type(fault).__name__
        return NetworkError(
            f"{call}: the service's certificate does not verify ({reason}); check GEONODE_SCRAPER_HOST, the clock, and "
            "SSL_CERT_FILE if your network has its own authority",
            request_sent=False,
            is_final=True,
        )
    if isinstance(cause, _BEFORE_SENDING):
        return NetworkError(
            f"{call}: could not connect ({_reason(cause)}); check GEONODE_SCRAPER_HOST and the network",
            request_sent=False,
        )
    if isinstance(error, httpx.DecodingError):
        return NetworkError(f"{call}: {error}", request_sent=True)
    if isinstance(error, TimeoutError):
        return NetworkError(f"{call}: no whole answer came in the time allowed for it", request_sent=True)
    return NetworkError(f"{call}: the exchange broke off ({_reason(cause)})", request_sent=True)


def _reason(cause: BaseException) -> str:
    """The kind of failure and the system's word on it, but no message that could repeat a target's URL."""
    system = getattr(cause, "strerror", None)
    return f"{type(cause).__name__}: {system}" if system else type(cause).__name__


def _proxy_for(host: httpx.URL) -> httpx.Proxy | None:
    """The environment's proxy, looked up once: aiohttp would ask for it in a thread at each request."""
    proxy = urllib.request.getproxies().get(host.scheme)
    if proxy is None or _is_loopback(host.host) or urllib.request.proxy_bypass(host.host):
        return None
    return httpx.Proxy(proxy)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
