"""A receiver that keeps what it is sent and answers as it was told, on a free port of loopback."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(frozen=True)
class Received:
    headers: Message
    body: bytes
    at: float

    @property
    def json(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.body)
        return content

    @property
    def job_id(self) -> str:
        return str(self.json["data"]["job_id"])


class Receiver:
    """Answers each delivery with the next of `statuses`, then with 200."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.statuses: list[int] = []
        self.seconds = 0.0
        self.on_receipt: Callable[[Received], object] = lambda received: None
        self._server = _Server(("127.0.0.1", 0), _Endpoint)
        self._server.receiver = self
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)

    def wait(self, count: int, *, seconds: float = 60) -> list[Received]:
        """What was received, once it is as many."""
        deadline = time.monotonic() + seconds
        while len(self.received) < count:
            assert time.monotonic() < deadline, f"{len(self.received)} of {count} deliveries came"
            time.sleep(0.005)
        return list(self.received)

    def stays_at(self, count: int, *, seconds: float = 0.3) -> None:
        """No more come."""
        self.wait(count)
        time.sleep(seconds)
        assert len(self.received) == count


class _Server(ThreadingHTTPServer):
    receiver: Receiver
    daemon_threads = True
    request_queue_size = 512


class _Endpoint(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        receiver = self.server.receiver  # type: ignore[attr-defined]
        received = Received(self.headers, self._read(), time.monotonic())
        status = receiver.statuses.pop(0) if receiver.statuses else 200
        receiver.on_receipt(received)
        receiver.received.append(received)
        time.sleep(receiver.seconds)
        self.send_response(status)
        if status == 302:
            self.send_header("Location", receiver.url)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def _read(self) -> bytes:
        if "Content-Length" in self.headers:
            return self.rfile.read(int(self.headers["Content-Length"]))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""
