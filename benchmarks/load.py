"""A sender of signed deliveries that keeps a number of connections busy, in a process of its own.

`python -m benchmarks.load` reads its orders as one JSON object from standard input, and writes what it measured as
another to standard output.
"""

import asyncio
import hashlib
import hmac
import json
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any
from uuid import uuid4

import uvloop

_ACCEPT_SECONDS = 0.25


@dataclass(frozen=True)
class Orders:
    """What to send, and how long; answers within the first `warm_up_seconds` are not counted."""

    port: int
    path: str
    secret: str
    connections: int
    body_bytes: int
    seconds: float
    warm_up_seconds: float = 1.0


@dataclass(frozen=True)
class Measured:
    """Acknowledged deliveries a second, and in milliseconds how long all deliveries waited for their answers."""

    acknowledged_per_second: float
    p50_ms: float
    p99_ms: float
    statuses: dict[str, int]
    cpu_share: float
    """How busy the sender itself was: near 1, it measures itself."""


class Body:
    """Bodies that differ in the job's id alone, which comes last: the rest is hashed once."""

    def __init__(self, orders: Orders) -> None:
        start = '{"event":"extract_completed","webhook_id":"wh-1","timestamp":"2026-05-27T08:16:09Z",'
        start += '"delivery_id":"4b2f7b1e-7b8e-4a58-9d8c-2f3e0a6d9f10","data":{"data":{"markdown":"'
        end = '"},"job_id":"%s"}}'
        filler = "Lorem ipsum dolor sit amet, “größer” als zuvor.\\n"
        room = orders.body_bytes - len(start.encode()) - len((end % ("0" * 36)).encode())
        words = (filler * (room // len(filler.encode()) + 1)).encode()[:room].decode(errors="ignore")
        words += "x" * (room - len(words.encode()))
        self._start, self._end = (start + words).encode(), end.encode()
        self._hash = hmac.new(orders.secret.encode(), self._start, hashlib.sha256)
        self._head = (
            f"POST {orders.path} HTTP/1.1\r\nHost: 127.0.0.1:{orders.port}\r\nUser-Agent: scraper-api-webhook/1.0\r\n"
            "Content-Type: application/json\r\nX-Webhook-Event: extract_completed\r\n"
            f"Content-Length: {orders.body_bytes}\r\nX-Webhook-Delivery-Id: %b\r\n"
            "X-Webhook-Signature: sha256=%b\r\n\r\n"
        ).encode()

    def request(self, job_id: bytes) -> bytes:
        end = self._end % job_id
        signed = self._hash.copy()
        signed.update(end)
        return b"".join((self._head % (job_id, signed.hexdigest().encode()), self._start, end))


class Sender(asyncio.Protocol):
    """One connection: the next delivery follows the answer to the one before."""

    def __init__(self, run: "Run") -> None:
        self._run = run
        self._answer = b""
        self._sent_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def send(self) -> None:
        self._answer = b""
        request = self._run.next_request()
        self._sent_at = time.perf_counter()
        self._transport.write(request)

    def waits_for(self) -> float:
        """Seconds since the delivery was sent."""
        return time.perf_counter() - self._sent_at

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head_end = self._answer.find(b"\r\n\r\n")
        if head_end < 0:
            return
        head = self._answer[:head_end].lower()
        place = head.find(b"content-length:")
        length = int(head[place + 15 :].split(b"\r\n", 1)[0]) if place >= 0 else 0
        if len(self._answer) < head_end + 4 + length:
            return
        self._run.note(head[9:12], self.waits_for())
        if self._run.is_over:
            self._transport.close()
        else:
            self.send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._run.is_over:
            raise RuntimeError("the server closed a connection") from exc


class Run:
    def __init__(self, orders: Orders) -> None:
        self._orders, self._body = orders, Body(orders)
        self._prefix = uuid4().hex[:20].encode()
        self._sent = 0
        self._latencies: list[float] = []
        self._statuses: Counter[str] = Counter()
        self._counts_from = float("inf")
        self.is_over = False

    def next_request(self) -> bytes:
        self._sent += 1
        # As spread as the ids of a real service, which are random.
        return self._body.request(
            hashlib.md5(b"%b%d" % (self._prefix, self._sent), usedforsecurity=False)
            .hexdigest()
            .encode()
            .ljust(36, b"0")
        )

    def note(self, status: bytes, seconds: float) -> None:
        if time.perf_counter() >= self._counts_from and not self.is_over:
            self._statuses[status.decode()] += 1
            self._latencies.append(seconds)

    async def measure(self) -> Measured:
        loop = asyncio.get_running_loop()
        senders = [
            (await loop.create_connection(lambda: Sender(self), "127.0.0.1", self._orders.port))[1]
            for _ in range(self._orders.connections)
        ]
        # A server that is busy with some may not even accept the others: that would be measured in place of its speed.
        await asyncio.sleep(_ACCEPT_SECONDS)
        for sender in senders:
            sender.send()
        await asyncio.sleep(self._orders.warm_up_seconds)
        began, busy = time.perf_counter(), time.process_time()
        self._counts_from = began
        await asyncio.sleep(self._orders.seconds)
        self.is_over = True
        took, busy = time.perf_counter() - began, time.process_time() - busy
        # Those that are still unanswered have waited for at least this long: to leave them out would flatter the slow.
        latencies = sorted([*self._latencies, *(sender.waits_for() for sender in senders)])
        return Measured(
            self._statuses["200"] / took,
            _percentile(latencies, 0.50),
            _percentile(latencies, 0.99),
            dict(self._statuses),
            busy / took,
        )


def _percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1000 if ordered else float("nan")


def main() -> None:
    orders = Orders(**json.load(sys.stdin))
    json.dump(asdict(uvloop.run(Run(orders).measure())), sys.stdout)


if __name__ == "__main__":
    main()
