"""A receiver in a process of its own, and a sender of deliveries that can also misbehave."""

import contextlib
import hashlib
import hmac
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from sqlalchemy import create_engine, select

from scraper_pipeline.ledger.schema import processed_events, quarantine

SECRET = "geheim-9f3c51"
PATH = "/webhooks/geonode"
_START_SECONDS = 90.0
_PATIENCE_SECONDS = 30.0
_STOP_SECONDS = 30.0


def sign(body: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def new_job_id() -> str:
    return f"job-{uuid4()}"


def envelope(job_id: str, **changes: Any) -> bytes:
    event = {
        "event": "extract_completed",
        "webhook_id": "wh-1",
        "delivery_id": f"d-of-{job_id}",
        "timestamp": "2026-05-27T08:16:09Z",
        "data": {"job_id": job_id, "status": "completed", "data": {"markdown": "# Confidential page"}},
    }
    return json.dumps({**event, **changes}).encode()


def write_secrets(path: Path, *secrets: str, **more: str) -> None:
    entries = [
        {"secret": s, "webhook_id": "wh-1", "event_type": "e", "created_at": "2026-01-01T00:00:00Z", **more}
        for s in secrets
    ]
    part = path.with_suffix(".part")
    part.write_text(json.dumps({"secrets": entries}))
    part.replace(path)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def outcome(self) -> str:
        return str(json.loads(self.body)["status"])


class Connection:
    """One raw HTTP/1.1 connection: what is sent is exactly what the test says."""

    def __init__(self, port: int, timeout: float = 20.0) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self._unread = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_head(
        self,
        headers: Mapping[str, str | bytes],
        method: str = "POST",
        path: str = PATH,
        host: str = "receiver",
    ) -> None:
        lines = [f"{method} {path} HTTP/1.1".encode(), f"Host: {host}".encode()]
        for name, value in headers.items():
            lines.append(name.encode() + b": " + (value if isinstance(value, bytes) else value.encode()))
        self.send(b"\r\n".join([*lines, b"", b""]))

    def read_answer(self) -> Answer:
        while b"\r\n\r\n" not in self._unread:
            self._read_more()
        head, _, self._unread = self._unread.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        length = int(headers.get("content-length", "0"))
        while len(self._unread) < length:
            self._read_more()
        body, self._unread = self._unread[:length], self._unread[length:]
        return Answer(int(first.split(" ")[1]), headers, body)

    def _read_more(self) -> None:
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError("the receiver closed the connection without an answer")
        self._unread += data


class ReceiverProcess:
    """`python -m scraper_pipeline.receiver` on a free port, for as long as the context lasts."""

    def __init__(
        self, ledger_url: str, folder: Path, *options: str, secrets: tuple[str, ...] = (SECRET,)
    ) -> None:
        self.ledger_url, self._options, self._folder = ledger_url, options, folder
        self.secrets_path = folder / "webhook-secrets.json"
        self.log_path = folder / "receiver.log"
        if secrets:
            write_secrets(self.secrets_path, *secrets)
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.kill()

    def start(self) -> None:
        ready = self._folder / "ready"
        ready.unlink(missing_ok=True)
        command = [sys.executable, "-m", "scraper_pipeline.receiver", "--ledger-url", self.ledger_url]
        command += [
            "--secrets-file",
            str(self.secrets_path),
            "--port",
            str(self.port),
            "--ready-file",
            str(ready),
            "--commit-timeout",
            "15",  # unless the options say otherwise: a busy machine may stall for seconds
        ]
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen([*command, *self._options], stdout=log, stderr=log)
        deadline = time.monotonic() + _START_SECONDS
        while not ready.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the receiver did not start:\n{self.log()}")
            time.sleep(0.02)
        self.port = int(ready.read_text().strip().rpartition(":")[2])

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to end, and return its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        process, self.process = self.process, None
        assert process is not None
        process.send_signal(how)
        try:
            return process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def memory(self) -> int:
        """The bytes that the process holds now."""
        assert self.process is not None
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf(
            "SC_PAGE_SIZE"
        )

    def peak_memory(self) -> int:
        """The most bytes that the process ever held."""
        assert self.process is not None
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        [peak] = [line for line in lines if line.startswith("VmHWM:")]
        return int(peak.split()[1]) * 1024

    def connect(self, timeout: float = 20.0) -> Connection:
        return Connection(self.port, timeout)

    def post(
        self,
        body: bytes,
        signature: str | bytes | None = None,
        headers: Mapping[str, str | bytes] | None = None,
    ) -> Answer:
        """Deliver a body, rightly signed unless told otherwise."""
        sent = {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "X-Webhook-Signature": sign(body) if signature is None else signature,
            **(headers or {}),
        }
        with self.connect() as connection:
            connection.send_head(sent)
            connection.send(body)
            return connection.read_answer()

    def deliver(self, job_id: str, **changes: Any) -> Answer:
        return self.post(envelope(job_id, **changes))

    def post_until_taken(self, body: bytes) -> Answer:
        """Deliver a body as senders do, who come again when they are told to."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while (answer := self.post(body)).status == 503:
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.05)
        return answer

    def get(self, path: str) -> Answer:
        with self.connect() as connection:
            connection.send_head({}, "GET", path)
            return connection.read_answer()

    def metric(self, name: str, **labels: str) -> float:
        within = ",".join(f'{key}="{value}"' for key, value in labels.items())
        start = f"{name}{{{within}}} " if labels else f"{name} "
        [line] = [line for line in self.get("/metrics").body.decode().splitlines() if line.startswith(start)]
        return float(line.removeprefix(start))

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while self.get("/readyz").status != 200:
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.05)

    def jobs(self) -> set[str]:
        """The jobs of which the ledger has news by webhook."""
        return {row["job_id"] for row in self.rows(processed_events) if row["webhook_at"] is not None}

    def row(self, job_id: str) -> dict[str, Any]:
        [row] = [row for row in self.rows(processed_events) if row["job_id"] == job_id]
        return row

    def quarantined(self) -> list[tuple[str, bytes]]:
        return [(row["reason"], row["body"]) for row in self.rows(quarantine)]

    def rows(self, table: Any) -> list[dict[str, Any]]:
        engine = create_engine(self.ledger_url)
        try:
            with engine.connect() as connection:
                return [dict(row) for row in connection.execute(select(table)).mappings()]
        finally:
            engine.dispose()


@contextlib.contextmanager
def running_receiver(ledger_url: str, folder: Path, *options: str) -> Iterator[ReceiverProcess]:
    """A receiver whose ledger can be reached."""
    with ReceiverProcess(ledger_url, folder, *options) as receiver:
        receiver.wait_until_ready()
        yield receiver
