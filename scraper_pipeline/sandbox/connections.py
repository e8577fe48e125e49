"""Cutting a connection, which HTTP frameworks don't offer: an answer that is none, and the protocol it needs."""

import asyncio
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_EXTENSION = "sandbox.transport"


class CuttableProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, which tells the application its transport, as an ASGI extension."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        application = self.app

        async def application_with_transport(scope: Any, receive: Any, send: Any) -> None:
            scope.setdefault("extensions", {})[_EXTENSION] = {"transport": self.transport}
            await application(scope, receive, send)

        self.app = application_with_transport


class CutConnection(Response):
    """Ends the connection: with nothing sent, or after the first part of a body that was announced whole.

    Where no transport is known, as with an in-process transport, the call raises `ConnectionAbortedError`.
    """

    def __init__(self, body: bytes = b"", *, status: int = 200, sent: int = 0) -> None:
        super().__init__(body, status, media_type="application/json")
        self._sent = sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        extension = scope.get("extensions", {}).get(_EXTENSION)
        if extension is None:
            raise ConnectionAbortedError("The connection is cut on purpose")
        transport: asyncio.Transport = extension["transport"]
        if self._sent:
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            part = bytes(self.body[: self._sent])
            await send({"type": "http.response.body", "body": part, "more_body": True})
            transport.close()  # flushes what was written
        else:
            transport.abort()
        while (await receive())["type"] != "http.disconnect":
            continue
