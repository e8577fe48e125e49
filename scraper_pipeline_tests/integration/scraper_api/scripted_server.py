"""An HTTP server on loopback that answers exactly what a test scripts, broken answers included."""

import asyncio
import json
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Received:
    """One request as it came over the wire."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.target).query).items()}

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Reply = Callable[[asyncio.StreamWriter], Awaitable[None]]


def answer(status: int, body: Any = None, *headers: tuple[str, str]) -> Reply:
    """A well-formed answer; `body` is JSON unless it is bytes already."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Scripted", f"Content-Length: {len(content)}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return wire("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + content)


def wire(content: bytes, *, cut: bool = False) -> Reply:
    """These bytes and nothing else; with `cut` the connection is closed after them."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        writer.write(content)
        await writer.drain()
        if cut:
            writer.close()

    return reply


def cut() -> Reply:
    """No answer: the connection is closed once the request has been read."""
    return wire(b"", cut=True)


def hang() -> Reply:
    """No answer, and no end of the connection either."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    return reply


def drip(head: bytes, chunk: bytes, *, times: int) -> "Drip":
    return Drip(head, chunk, times)


@dataclass
class Drip:
    """A body sent chunk by chunk, which counts how many went out before the client had enough."""

    head: bytes
    chunk: bytes
    times: int
    sent: int = 0

    async def __call__(self, writer: asyncio.StreamWriter) -> None:
        writer.write(self.head)
        for _ in range(self.times):
            writer.write(self.chunk)
            await writer.drain()
            await asyncio.sleep(0.01)
            if writer.transport.is_closing():
                return
            self.sent += 1


@dataclass
class ScriptedServer:
    """Gives its replies in order; the last one again and again if `repeat` is set, else 501 once they are used up."""

    replies: deque[Reply] = field(default_factory=deque)
    requests: list[Received] = field(default_factory=list)
    repeat: bool = False
    tls: ssl.SSLContext | None = None
    most_at_once: int = 0
    _at_once: int = 0
    _connections: int = 0
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def script(self, *replies: Reply, repeat: bool = False) -> None:
        self.replies = deque(replies)
        self.repeat = repeat

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def calls(self) -> list[str]:
        return [f"{request.method} {request.path}" for request in self.requests]

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls, limit=2**20)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._connections += 1
        number = self._connections
        try:
            while not writer.transport.is_closing():
                request = await self._read(reader, number)
                self.requests.append(request)
                self._at_once += 1
                self.most_at_once = max(self.most_at_once, self._at_once)
                try:
                    await self._next_reply()(writer)
                finally:
                    self._at_once -= 1
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    def _next_reply(self) -> Reply:
        if not self.replies:
            return answer(501, {"code": "SCRIPT_USED_UP", "message": "", "retryable": False})
        return self.replies[0] if self.repeat and len(self.replies) == 1 else self.replies.popleft()

    @staticmethod
    async def _read(reader: asyncio.StreamReader, number: int) -> Received:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        return Received(method, target, headers, body, number)
