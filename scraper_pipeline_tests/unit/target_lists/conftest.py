"""A web server on loopback that answers what a test puts on it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Site:
    """``answers`` has a list of answers for each path: the last one stays."""

    url: str
    answers: dict[str, list[Answer]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def put(self, path: str, body: str | bytes, status: int = 200, **headers: str) -> str:
        """Have a path answer so, after what was put there before; returns its URL."""
        raw = body if isinstance(body, bytes) else body.encode()
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers.setdefault(path, []).append((status, names, raw))
        return self.url + path


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[ThreadingHTTPServer, dict[str, Any]]]:
    served: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site: Site = served["site"]
            site.asked.append(self.path)
            waiting = site.answers.get(self.path.partition("?")[0], [(404, {}, b"")])
            status, headers, body = waiting.pop(0) if len(waiting) > 1 else waiting[0]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.daemon_threads = True
        thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield http, served
        http.shutdown()
        thread.join(5)


@pytest.fixture
def site(server: tuple[ThreadingHTTPServer, dict[str, Any]]) -> Site:
    http, served = server
    served["site"] = Site(f"http://127.0.0.1:{http.server_address[1]}")
    return served["site"]  # type: ignore[no-any-return]
