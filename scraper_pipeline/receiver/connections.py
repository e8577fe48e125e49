"""Connections of uvicorn with two changes: requests must end, and short ones can be answered without ceremony."""

from typing import cast

from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

_EXCHANGE = "scraper_pipeline.exchange"

_MOST_OVERHEAD = 512 * 1024

_TOO_MUCH = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Exchange:
    """A request and its answer, past ASGI's messages: half of the work on a short delivery would go into those."""

    __slots__ = ("_cycle",)

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle

    def body(self) -> bytes | None:
        """The body if all of it has come, or None."""
        cycle = self._cycle
        return None if cycle.more_body or cycle.disconnected else bytes(cycle.body)

    def answer(self, head: bytes, content: bytes) -> bool:
        """Send a response, its head without the last, empty line; False if it must go the ordinary way."""
        cycle = self._cycle
        if cycle.flow.write_paused or cycle.response_started:
            return False
        if cycle.disconnected:
            return True
        response = [head, *(b"%b: %b\r\n" % header for header in cycle.default_headers)]
        if not cycle.keep_alive:
            response.append(b"connection: close\r\n")
        cycle.response_started = cycle.response_complete = True
        cycle.transport.write(b"".join((*response, b"\r\n", content)))
        cycle.message_event.set()
        if not cycle.keep_alive:
            cycle.transport.close()
        cycle.on_response()
        return True


def take_exchange(scope: Scope) -> Exchange | None:
    """The exchange that a request belongs to, or None on another server."""
    cycle = scope.pop(_EXCHANGE, None)
    return None if cycle is None else Exchange(cycle)


class DeliveryProtocol(HttpToolsProtocol):
    """Ends a connection on which what is no body exceeds the body by half a megabyte: uvicorn has no such cap."""

    _overhead = 0

    def data_received(self, data: bytes) -> None:
        self._overhead += len(data)
        super().data_received(data)
        if self._overhead > _MOST_OVERHEAD and not self.transport.is_closing():
            if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
                self.transport.write(_TOO_MUCH)
            self.transport.close()

    def on_message_begin(self) -> None:
        self._overhead = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        scope = cast("Scope", self.scope)
        scope[_EXCHANGE] = self.cycle  # until its reader takes it out again

    def on_body(self, body: bytes) -> None:
        self._overhead -= 2 * len(
            body
        )  # once since it is body, and once for the chunk marks that it may need
        super().on_body(body)
