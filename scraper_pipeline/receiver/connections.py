"""Connections whose requests end: a cap on heads, chunk marks and trailers, which uvicorn takes at any length."""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MOST_OVERHEAD = 512 * 1024

_TOO_MUCH = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class BoundedProtocol(HttpToolsProtocol):
    """Ends a connection on which what is no body exceeds the body by half a megabyte."""

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

    def on_body(self, body: bytes) -> None:
        self._overhead -= 2 * len(
            body
        )  # once since it is body, and once for the chunk marks that it may need
        super().on_body(body)
