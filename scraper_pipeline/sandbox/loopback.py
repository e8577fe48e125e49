"""The guard on all that the sandbox sends out: to this machine only, unless it was told otherwise."""

import socket
from ipaddress import ip_address
from urllib.parse import urlsplit

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver


class HostRefused(Exception):
    """The host is not on loopback. Not an OSError, which aiohttp would turn into a failure to connect."""


def check_host(url: str, *, allow_any_host: bool) -> None:
    """Refuse addresses given as numbers, which no resolver gets to see; `ValueError` for what is no web address."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("not a web address")
    try:
        address = ip_address(parts.hostname)
    except ValueError:
        return
    if not (allow_any_host or address.is_loopback):
        raise _refusal(parts.hostname)


class GuardedResolver(AbstractResolver):
    """Lets a name through only if every address behind it is on loopback."""

    def __init__(self, allow_any_host: bool) -> None:
        self._allow_any_host = allow_any_host
        self._inner = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        if self._allow_any_host:
            return await self._inner.resolve(host, port, family)
        try:
            found = await self._inner.resolve(host, port, family)
        except OSError:
            raise _refusal(host) from None  # the same answer as on a machine that can resolve it
        if not all(ip_address(one["host"]).is_loopback for one in found):
            raise _refusal(host)
        return found

    async def close(self) -> None:
        await self._inner.close()


def _refusal(host: str) -> HostRefused:
    return HostRefused(
        f"The sandbox calls on this machine only, and {host} is elsewhere: see --allow-any-host"
    )
