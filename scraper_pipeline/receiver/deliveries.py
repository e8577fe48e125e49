"""The endpoint that deliveries are posted to: it verifies, commits, answers, and does nothing else."""

import asyncio
import time
from dataclasses import dataclass
from http import HTTPStatus

from starlette.types import Message, Receive, Scope, Send

from scraper_pipeline.ledger.inbox import Delivery, QuarantinedBody
from scraper_pipeline.receiver.bodies import (
    Body,
    BodyReader,
    BodyRefused,
    BodyTooLarge,
    NoRoom,
    skip_body,
)
from scraper_pipeline.receiver.config import ReceiverConfig
from scraper_pipeline.receiver.connections import take_exchange
from scraper_pipeline.receiver.events import EventReader
from scraper_pipeline.receiver.inbox import Fate, Inbox
from scraper_pipeline.receiver.metrics import ReceiverMetrics
from scraper_pipeline.receiver.signatures import Claim, Headers, SignatureVerifier

_MANY_PIECES = (
    4  # of 64 kB and more take a millisecond: in another thread they don't hold up everybody's answers
)
_RawHeaders = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Answer:
    """A response that is sent as it stands; ``outcome`` is its name in the metrics."""

    outcome: str
    start: Message
    body: Message
    head: bytes
    content: bytes

    @classmethod
    def make(cls, status: int, outcome: str, *headers: tuple[bytes, bytes]) -> "Answer":
        content = b'{"status":"%s"}' % outcome.encode()
        all_headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode()),
            *headers,
        ]
        return cls(
            outcome,
            {"type": "http.response.start", "status": status, "headers": all_headers},
            {"type": "http.response.body", "body": content},
            b"HTTP/1.1 %d %b\r\n" % (status, HTTPStatus(status).phrase.encode())
            + b"".join(b"%b: %b\r\n" % header for header in all_headers),
            content,
        )


class DeliveryEndpoint:
    """A plain ASGI application, since a framework's own work on a request would cost more than the commit."""

    def __init__(
        self,
        verifier: SignatureVerifier,
        events: EventReader,
        inbox: Inbox,
        metrics: ReceiverMetrics,
        config: ReceiverConfig,
    ) -> None:
        self._verifier, self._events, self._inbox, self._metrics = verifier, events, inbox, metrics
        self._max_bytes = config.max_body_bytes
        self._bodies = BodyReader(
            max_bytes=config.max_body_bytes, capacity=config.max_buffered_bytes, seconds=config.body_seconds
        )
        come_again = (b"retry-after", str(config.retry_after_seconds).encode())
        self._unavailable = Answer.make(503, "unavailable", come_again)
        self._refused = Answer.make(401, "refused")
        self._wrong_method = Answer.make(405, "wrong_method", (b"allow", b"POST"))
        self._too_slow = Answer.make(408, "too_slow")
        self._too_large = Answer.make(413, "too_large")
        self._encoded = Answer.make(415, "encoded")
        self._of_fate = {
            Fate.ACCEPTED: Answer.make(200, "accepted"),
            Fate.DUPLICATE: Answer.make(200, "duplicate"),
            Fate.QUARANTINED: Answer.make(200, "quarantined"),
            Fate.UNAVAILABLE: self._unavailable,
        }
        refusals = [self._refused, self._wrong_method, self._too_slow, self._too_large, self._encoded]
        metrics.prepare([answer.outcome for answer in (*self._of_fate.values(), *refusals)])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = time.perf_counter()
        exchange = take_exchange(scope)
        headers = _index(scope["headers"])
        claim, refusal = self._read_headers(scope["method"], headers)
        if claim is None:
            answer, is_read = refusal, False
        else:
            try:
                content = None if exchange is None else exchange.body()
                body = await self._bodies.read(receive) if content is None else self._bodies.take(content)
            except BodyRefused as reason:
                answer, is_read = self._answer_to(reason), False
            else:
                is_read = True
                try:
                    answer = await self._judge(claim, headers, body)
                finally:
                    self._bodies.release(body)
        self._metrics.count_answer(answer.outcome, time.perf_counter() - began)
        if not (is_read and exchange is not None and exchange.answer(answer.head, answer.content)):
            await _send(answer, is_read, headers, receive, send)

    def _read_headers(self, method: str, headers: Headers) -> tuple[Claim | None, Answer]:
        """The signature that the headers claim; without one, the answer that needs no body."""
        if method != "POST":
            return None, self._wrong_method
        if headers.get(b"content-encoding", b"identity").strip().lower() not in (b"", b"identity"):
            return None, self._encoded
        claim = self._verifier.read_claim(headers)
        if claim is not None and _declared_length(headers) > self._max_bytes:
            return None, self._too_large
        return claim, self._refused

    async def _judge(self, claim: Claim, headers: Headers, body: Body) -> Answer:
        if len(body.pieces) > _MANY_PIECES:
            content = await asyncio.to_thread(self._read, claim, headers, body)
        else:
            content = self._read(claim, headers, body)
        if content is None:
            return self._refused
        if isinstance(content, Delivery):
            self._metrics.count_event(content.event_type)
        return self._of_fate[await self._inbox.put(content)]

    def _read(self, claim: Claim, headers: Headers, body: Body) -> Delivery | QuarantinedBody | None:
        """Nothing is parsed, nor even put together, before the signature is verified."""
        account = self._verifier.verify(claim, body.pieces)
        return None if account is None else self._events.read(body.join(), headers, account)

    def _answer_to(self, reason: BodyRefused) -> Answer:
        match reason:
            case BodyTooLarge():
                return self._too_large
            case NoRoom():
                return self._unavailable
            case _:  # too slow, or gone and past caring
                return self._too_slow


def _index(raw: _RawHeaders) -> dict[bytes, bytes]:
    headers = dict(raw)
    if len(headers) != len(raw):
        headers.clear()
        for name, value in raw:
            headers[name] = headers[name] + b"," + value if name in headers else value
    return headers


def _declared_length(headers: Headers) -> int:
    length = headers.get(b"content-length", b"")
    return int(length) if length.isdigit() and len(length) < 20 else 0  # without one, the running cap decides


async def _send(answer: Answer, is_read: bool, headers: Headers, receive: Receive, send: Send) -> None:
    has_body = b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"
    if is_read or not has_body:
        await send(answer.start)
        await send(answer.body)
        return
    await send({**answer.start, "headers": [*answer.start["headers"], (b"connection", b"close")]})
    await send({**answer.body, "more_body": True})
    await skip_body(receive)
    await send({"type": "http.response.body"})
