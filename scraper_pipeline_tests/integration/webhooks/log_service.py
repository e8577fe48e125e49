"""A service with a delivery log that a test writes line by line, and that can be listed in odd ways."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class Line:
    """An attempt in the service's log; ``at`` is in seconds after noon."""

    delivery_id: str
    job_id: str | None
    at: float
    http_status: int | None = 200
    status: str = "success"
    attempt_number: int = 1
    delivered_at: float | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.delivery_id,
            "event_type": "extract_completed",
            "job_id": self.job_id,
            "attempt_number": self.attempt_number,
            "status": self.status,
            "http_status": self.http_status,
            "created_at": _time(self.at),
            "delivered_at": None if self.delivered_at is None else _time(self.delivered_at),
        }


class LogService:
    """Answers GET /v1/webhooks/{id}/deliveries alone. ``logs`` has each webhook's lines, the newest last."""

    def __init__(self) -> None:
        self.logs: dict[str, list[Line]] = {}
        self.is_oldest_first = False
        self.counts_pages = True
        self.broken_pages: dict[int, int] = {}
        """Pages that are answered with an error, and its status."""
        self.before_page: Callable[[int], object] = lambda page: None
        self.pages_read: list[int] = []
        self._server = _Server(("127.0.0.1", 0), _Endpoint)
        self._server.service = self
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)

    def answer(self, webhook_id: str, page: int, page_size: int) -> tuple[int, dict[str, Any]]:
        self.before_page(page)
        self.pages_read.append(page)
        if page in self.broken_pages:
            return self.broken_pages[page], {"code": "INTERNAL_ERROR", "message": "the test said so"}
        if webhook_id not in self.logs:
            return 404, {"code": "NOT_FOUND", "message": "no such webhook"}
        lines = self.logs[webhook_id]
        ordered = lines if self.is_oldest_first else lines[::-1]
        body: dict[str, Any] = {
            "items": [line.as_json() for line in ordered[(page - 1) * page_size : page * page_size]],
            "page": page,
            "page_size": page_size,
        }
        if self.counts_pages:
            body["page_count"] = -(-len(lines) // page_size)
        return 200, body


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    service: LogService


class _Endpoint(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        assert isinstance(self.server, _Server)
        parts = urlsplit(self.path)
        query = {name: int(values[0]) for name, values in parse_qs(parts.query).items()}
        webhook_id = parts.path.split("/")[3]
        status, answer = self.server.service.answer(webhook_id, query["page"], query["page_size"])
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def _time(at: float) -> str:
    return (NOON + timedelta(seconds=at)).isoformat().replace("+00:00", "Z")
