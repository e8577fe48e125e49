"""Fetches documents over http into temporary files, within bounds of size and time."""

import logging
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO
from urllib.parse import urlsplit, urlunsplit

import httpx

from scraper_pipeline.target_lists.entries import TargetListError

_IN_MEMORY = 1024 * 1024
# What is compressed on the way is not undone here: the reader counts what it decodes.
_HEADERS = {"Accept-Encoding": "identity", "User-Agent": "scraper-pipeline"}
_PASSES = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True)
class Patience:
    """How long a document may take, in seconds, and after which waits it is tried once more."""

    each: float = 120.0
    answer: float = 20.0
    waits: tuple[float, ...] = (1.0, 4.0)
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class Download:
    """A document as it came, from its beginning; ``host`` is the one that sent it, after all redirects."""

    file: IO[bytes]
    host: str


class _Again(Exception):
    """What may be different the next time."""


def shown_url(url: str) -> str:
    """The URL for people: credentials and query, which may hold a key, are left out. A path stays as it is."""
    if "://" not in url:
        return url
    parts = urlsplit(url)
    query = "…" if parts.query else ""
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=query, fragment=""))


class Downloads:
    """Fetches documents of at most ``largest`` bytes, not decoded, from where redirects lead; close it when done."""

    def __init__(self, largest: int, patience: Patience) -> None:
        self._largest, self._patience = largest, patience
        self._client: httpx.Client | None = None

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    def fetch(self, url: str) -> Download:
        """The document at a URL. Raises TargetListError."""
        for wait in (*self._patience.waits, None):
            try:
                return self._try(url)
            except _Again as error:
                reason = str(error)
            if wait is not None:
                self._patience.sleep(wait)
        raise TargetListError(f"{shown_url(url)} cannot be fetched: {reason}")

    def _try(self, url: str) -> Download:
        file = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 (the caller's, once it is filled)
        try:
            host = self._fill(file, url)
        except httpx.TooManyRedirects:
            reason = "leads from one redirect to the next"
        except (httpx.UnsupportedProtocol, httpx.InvalidURL):
            reason = "leads to what is no http or https URL"
        except httpx.HTTPError as error:
            file.close()
            raise _Again(type(error).__name__) from None
        except BaseException:
            file.close()  # nobody else knows of it yet, whatever broke the download off
            raise
        else:
            file.seek(0)
            return Download(file, host)
        file.close()
        raise TargetListError(f"{shown_url(url)} {reason}")

    def _fill(self, file: IO[bytes], url: str) -> str:
        """Write the body to the file; returns the host that sent it."""
        end = time.monotonic() + self._patience.each
        with self._open_client().stream("GET", url, headers=_HEADERS) as response:
            if response.status_code in _PASSES:
                raise _Again(f"it answers {response.status_code}")
            if response.status_code != 200:
                raise TargetListError(
                    f"{shown_url(url)} answers {response.status_code}: check the list's `source`"
                )
            for piece in response.iter_raw():
                file.write(piece)
                if file.tell() > self._largest:
                    raise TargetListError(f"{shown_url(url)} is larger than {self._largest} bytes")
                if time.monotonic() > end:
                    raise _Again(f"it is not there after {self._patience.each:g} s")
            return response.url.raw_host.decode("ascii")

    def _open_client(self) -> httpx.Client:
        if self._client is None:
            logging.getLogger("httpx").setLevel(logging.WARNING)  # it writes whole URLs, a line a request
            self._client = httpx.Client(timeout=self._patience.answer, max_redirects=5, follow_redirects=True)
        return self._client
