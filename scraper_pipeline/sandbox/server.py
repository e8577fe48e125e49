"""The sandbox as a server: in a thread for tests, or in the foreground for the command."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import uvicorn

from scraper_pipeline.sandbox.app import create_app
from scraper_pipeline.sandbox.clock import Clock
from scraper_pipeline.sandbox.config import SandboxConfig
from scraper_pipeline.sandbox.connections import CuttableProtocol

_LOOPBACK = "127.0.0.1"


class SandboxServer:
    """A sandbox on a free port of loopback, in a thread of its own, for as long as the context lasts."""

    def __init__(
        self, config: SandboxConfig | None = None, *, clock: Clock | None = None, port: int = 0
    ) -> None:
        self._config = config or SandboxConfig()
        self._clock = clock
        self._port = port
        self._server: _PromptServer | None = None
        self._thread: threading.Thread | None = None
        self._control: httpx.Client | None = None
        self.url = ""
        """Where it listens, without a slash at the end; known once the context is entered."""

    def __enter__(self) -> Self:
        listener = _listen(_LOOPBACK, self._port)
        self.url = _url_of(listener)
        self._server = _PromptServer(_options(self._config, self._clock))
        self._thread = threading.Thread(
            target=self._server.run, args=([listener],), name="sandbox", daemon=True
        )
        self._thread.start()
        while not self._server.started:
            if not self._thread.is_alive():
                raise RuntimeError("The sandbox did not start: see the log above")
            time.sleep(0.005)
        no_tls = httpx.create_ssl_context(verify=False)  # and so no authorities to read
        self._control = httpx.Client(base_url=self.url, trust_env=False, timeout=30, verify=no_tls)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._control is not None:
            self._control.close()
        if self._server is not None and self._thread is not None:
            self._server.end()
            self._thread.join(timeout=10)

    def truth(self) -> dict[str, Any]:
        """What really happened: `jobs`, `batches` and `crawls` with their `deliveries`, the `items` of these two, and
        `charged`, `requests`, `answers`, `faults_struck`."""
        truth: dict[str, Any] = self._get("/sandbox/truth")
        return truth

    def requests(self) -> dict[str, int]:
        """How many requests each call of the service has had, by method and path."""
        counts: dict[str, int] = self._get("/sandbox/requests")
        return counts

    def faults(self) -> dict[str, Any]:
        """The ordered `faults`, what is `remaining` of their counts, and how often each `struck`."""
        orders: dict[str, Any] = self._get("/sandbox/faults")
        return orders

    def set_faults(self, **changes: Any) -> None:
        """Order faults by their JSON names; those that aren't named stay. Raises `ValueError` for what is no fault."""
        answer = self._client.post("/sandbox/faults", json=changes)
        if answer.status_code != 200:
            raise ValueError(answer.text)

    def clear_faults(self) -> None:
        self._client.delete("/sandbox/faults").raise_for_status()

    def finish_job(self, job_id: str) -> None:
        """Bring a job to its end, also one that never would have ended; it has ended when this returns.

        Of a batch or crawl, the pages that are known have, but for those whose site keeps its visitor waiting.
        """
        self._client.post(f"/sandbox/jobs/{job_id}/finish").raise_for_status()

    @property
    def _client(self) -> httpx.Client:
        if self._control is None:
            raise RuntimeError("The sandbox runs only inside its context: with SandboxServer() as sandbox")
        return self._control

    def _get(self, path: str) -> Any:
        answer = self._client.get(path)
        answer.raise_for_status()
        return answer.json()


class _PromptServer(uvicorn.Server):
    """Ends as soon as it is told to, and cuts what is open, where uvicorn looks ten times a second and waits.

    That is a fifth of a second for each of a thousand tests.
    """

    def __init__(self, options: uvicorn.Config) -> None:
        super().__init__(options)
        self._is_over = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def end(self) -> None:
        """May be called from any thread, once it has started."""
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._is_over.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self._is_over.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listener in (*self.servers, *(sockets or ())):
            listener.close()
        for connection in [*self.server_state.connections]:
            connection.transport.abort()
        await self.lifespan.shutdown()


def serve(
    config: SandboxConfig | None = None,
    *,
    host: str = _LOOPBACK,
    port: int = 0,
    ready_file: Path | None = None,
    announce: Callable[[str], None] = print,
) -> None:
    """Serve a sandbox until interrupted.

    `announce` gets the address once connections are accepted, before anything else is said; `ready_file`, if
    given, then holds the same address. Raises `OSError` when the address is taken.
    """
    listener = _listen(host, port)
    url = _url_of(listener)
    server = uvicorn.Server(_options(config or SandboxConfig(), None))
    announce(url)
    if ready_file is not None:
        _write_whole(ready_file, f"{url}\n")
    with suppress(KeyboardInterrupt):  # the ordinary end, which uvicorn passes on
        server.run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket: whoever connects before the server runs waits, and isn't refused."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except OSError:
        listener.close()
        raise
    return listener


def _url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _options(config: SandboxConfig, clock: Clock | None) -> uvicorn.Config:
    return uvicorn.Config(
        create_app(config, clock=clock),
        http=CuttableProtocol,
        log_level="warning",
        access_log=False,
        date_header=False,
        server_header=False,
        ws="none",
        lifespan="on",
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
    )


def _write_whole(path: Path, text: str) -> None:
    """Whoever waits for the file never sees half of it."""
    part = path.with_name(f"{path.name}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
