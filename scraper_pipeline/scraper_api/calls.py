"""Performs one call of the service: waits for its turn, makes requests within their budgets, reads the answer."""

import asyncio
import random as random_source
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeVar

import aiohttp
import httpx
from opentelemetry import trace
from pydantic import ValidationError

from scraper_pipeline.scraper_api.bodies import read_body, read_json
from scraper_pipeline.scraper_api.errors import (
    WORK_CONCURRENCY_LIMITED,
    AnswerTooLarge,
    DeadlineExceeded,
    NetworkError,
    ScraperError,
    Throttled,
    UnreadableAnswer,
)
from scraper_pipeline.scraper_api.models import one_line
from scraper_pipeline.scraper_api.pacing import Pacer, Retries, RetryPolicy
from scraper_pipeline.scraper_api.refusals import Subject, refusal
from scraper_pipeline.scraper_api.times import parse_http_date, parse_retry_after
from scraper_pipeline.scraper_api.transport import network_error, open_http

T = TypeVar("T")

Method = Literal["GET", "POST", "PATCH", "DELETE"]

_LARGEST_REFUSAL = 64 * 1024
_LONGEST_ID_SHOWN = 80
# Turns move while one waits for them: they come sooner once the rate rises.
_LONGEST_NAP = 1.0


@dataclass(frozen=True)
class Call:
    """One thing asked of the service, however many requests it takes."""

    name: str
    method: Method
    path: str
    params: Mapping[str, str] | None = None
    body: bytes | None = None
    request_seconds: float | None = None
    needs_key: bool = True
    subject: Subject | None = None
    subject_id: str | None = None
    also_answers: frozenset[int] = frozenset()
    has_answer_body: bool = True
    most_bytes: int | None = None

    def __str__(self) -> str:
        if self.subject_id is None:
            return self.name
        return f"{self.name} {one_line(self.subject_id, _LONGEST_ID_SHOWN)}"

    @property
    def is_idempotent(self) -> bool:
        return self.method != "POST"

    def may_be_repeated_after(self, error: ScraperError) -> bool:
        """A POST only if the error proves that it made nothing, and is none that a repetition meets again."""
        return self.is_idempotent or (error.proves_no_job and isinstance(error, Throttled | NetworkError))


@dataclass(frozen=True)
class Answer:
    """The JSON that came, when it was asked for and came (this machine's clock), and the service's clock if it told."""

    payload: Any = field(repr=False)
    sanitised: int
    requested_at: datetime
    received_at: datetime
    service_time: datetime | None

    @property
    def listing(self) -> dict[str, Any]:
        """The payload's fields with the times of both clocks. Raises ValueError."""
        return {
            **self.fields,
            "requested_at": self.requested_at,
            "received_at": self.received_at,
            "service_time": self.service_time,
        }

    @property
    def fields(self) -> dict[str, Any]:
        """The payload, which has to be an object. Raises ValueError."""
        if not isinstance(self.payload, dict):
            raise ValueError("it is no JSON object")
        return self.payload


@contextmanager
def _span_of(call: Call, is_first: bool) -> Iterator[None]:
    """One request as OpenTelemetry has it: neither its URL, which may name a target, nor the text of an error."""
    attributes: dict[str, str | bool] = {"http.request.method": call.method, "scraper.resent": not is_first}
    if call.subject is not None and call.subject_id is not None:
        attributes[f"scraper.{call.subject}_id"] = one_line(call.subject_id, _LONGEST_ID_SHOWN)
    with trace.get_tracer("scraper-pipeline").start_as_current_span(
        call.name, kind=trace.SpanKind.CLIENT, attributes=attributes, record_exception=False,
        set_status_on_exception=False,
    ) as span:  # fmt: skip
        try:
            yield
        except ScraperError as error:
            span.set_status(trace.StatusCode.ERROR)
            span.set_attribute("error.type", type(error).__name__)
            raise


class Caller:
    """What all calls of one client share: the key, the connections, the pace and the clocks."""

    def __init__(
        self,
        *,
        host: httpx.URL,
        api_key: str,
        policy: RetryPolicy,
        pacer: Pacer,
        max_body_bytes: int,
        connections: int,
        monotonic: Callable[[], float],
        sleep: Callable[[float], Awaitable[object]],
        random: random_source.Random,
        utc_now: Callable[[], datetime],
    ) -> None:
        self._api_key = api_key
        self._policy = policy
        self._pacer = pacer
        self._max_body_bytes = max_body_bytes
        self._monotonic = monotonic
        self._sleep = sleep
        self._random = random
        self._utc_now = utc_now
        self._free_connections = asyncio.Semaphore(connections)
        self._http = open_http(host, api_key, connections)
        self.requests_made: Counter[str] = Counter()

    async def aclose(self) -> None:
        await self._http.aclose()

    def deadline_after(self, seconds: float | None) -> float | None:
        """The moment at which a budget ends that several calls share."""
        return None if seconds is None else self._monotonic() + seconds

    async def perform(
        self,
        call: Call,
        read: Callable[[Answer], T],
        *,
        budget: float | None = None,
        deadline: float | None = None,
    ) -> T:
        """Makes requests until one is answered, or until no further one is allowed, useful or in time."""
        seconds = self._policy.total_seconds if budget is None else min(budget, self._policy.total_seconds)
        end = self._monotonic() + seconds
        if deadline is not None:
            end = min(end, deadline)
        retries = Retries(self._policy, self._random)
        is_first = True
        while True:
            try:
                return await self._attempt(call, read, end, is_first)
            except ScraperError as error:
                least = 0.0 if call.is_idempotent else self._policy.least_request_seconds
                wait = retries.wait_after(error, end - least - self._monotonic())
                if wait is None or not call.may_be_repeated_after(error):
                    raise
            await self._sleep(wait)
            is_first = False

    async def _attempt(self, call: Call, read: Callable[[Answer], T], end: float, is_first: bool) -> T:
        least = self._policy.least_request_seconds
        if is_first and call.is_idempotent:
            end = max(end, self._monotonic() + least)
        async with self._connection(call, end):
            began = await self._take_turn(call, end)
            remaining = end - self._monotonic()
            if not call.is_idempotent and remaining < least:
                raise DeadlineExceeded(
                    f"{call}: not begun, only {max(remaining, 0.0):.1f} s were left for it"
                )
            self.requests_made[call.name] += 1
            try:
                seconds = min(remaining, call.request_seconds or self._policy.request_seconds)
                with _span_of(call, is_first):
                    answer = await self._exchange(call, seconds)
            except Throttled as error:
                # The limit on jobs at once is no matter of pace: reading results is what ends it.
                if error.code != WORK_CONCURRENCY_LIMITED:
                    self._pacer.slow_down(began, error.retry_after)
                raise
            self._pacer.speed_up(began)
        try:
            return read(answer)
        except ValidationError as error:
            missing = ", ".join(sorted({".".join(map(str, fault["loc"])) for fault in error.errors()}))
            raise UnreadableAnswer(f"{call}: the answer lacks a usable {missing or 'object'}") from None
        except ValueError as error:
            raise UnreadableAnswer(f"{call}: the answer can't be used: {error}") from None

    @asynccontextmanager
    async def _connection(self, call: Call, end: float) -> AsyncIterator[None]:
        """Waits here for a free connection, and not inside the exchange, where waiting would look like sending."""
        if self._free_connections.locked():
            try:
                async with asyncio.timeout(end - self._monotonic()):
                    await self._free_connections.acquire()
            except TimeoutError:
                raise DeadlineExceeded(f"{call}: not begun, no connection became free in time") from None
        else:
            await self._free_connections.acquire()
        try:
            yield
        finally:
            self._free_connections.release()

    async def _take_turn(self, call: Call, end: float) -> float:
        """Waits until the call's request may go; returns the moment by which the pacer knows it."""
        turn = self._pacer.reserve(end)
        if turn is None:
            raise self._no_turn(call)
        try:
            while (due_at := self._pacer.due_at(turn)) > (now := self._monotonic()):
                if due_at > end:
                    raise self._no_turn(call)
                await self._sleep(min(due_at - now, _LONGEST_NAP))
        except BaseException:
            self._pacer.give_back(turn)  # also when the call is cancelled: its place in line would stay taken
            raise
        return self._pacer.begin(turn)

    @staticmethod
    def _no_turn(call: Call) -> Throttled:
        return Throttled(f"{call}: not begun, the service throttles and the next turn would come too late")

    async def _exchange(self, call: Call, seconds: float) -> Answer:
        """One request and its whole answer, within `seconds`."""
        requested_at = self._utc_now()
        request = self._http.build_request(
            call.method,
            call.path,
            params=call.params,
            content=call.body,
            headers={"Content-Type": "application/json"} if call.body else None,
            timeout=httpx.Timeout(None, connect=min(self._policy.connect_seconds, seconds)),
        )
        auth = httpx.USE_CLIENT_DEFAULT if call.needs_key else None
        try:
            async with asyncio.timeout(seconds):
                response = await self._http.send(request, stream=True, auth=auth)
                try:
                    body = await self._read_body(call, response)
                finally:
                    await response.aclose()
        except (httpx.HTTPError, aiohttp.ClientError, TimeoutError, OSError) as error:
            # The cause is told in the message and not chained: its text may repeat a target's URL.
            raise network_error(str(call), error) from None
        received_at = self._utc_now()
        trace.get_current_span().set_attribute("http.response.status_code", response.status_code)
        service_time = parse_http_date(response.headers.get("date", ""))
        if not response.is_success and response.status_code not in call.also_answers:
            raise self._refusal(call, response, body, service_time or received_at)
        if not call.has_answer_body:
            return Answer(None, 0, requested_at, received_at, service_time)
        try:
            payload, sanitised = read_json(body)
        except ValueError:
            if not response.is_success:
                raise self._refusal(call, response, b"", service_time or received_at) from None
            raise UnreadableAnswer(
                f"{call}: the service answered {response.status_code} with {len(body)} bytes that are no JSON; "
                "check GEONODE_SCRAPER_HOST if this stays",
                status=response.status_code,
            ) from None
        return Answer(payload, sanitised, requested_at, received_at, service_time)

    async def _read_body(self, call: Call, response: httpx.Response) -> bytes:
        if response.is_success and call.has_answer_body:
            return await read_body(response, call.most_bytes or self._max_body_bytes)
        try:
            return await read_body(response, _LARGEST_REFUSAL)
        except (httpx.HTTPError, aiohttp.ClientError, AnswerTooLarge):
            return b""  # The status has told it: the body of a refusal explains, that of a deletion says nothing.

    def _refusal(self, call: Call, response: httpx.Response, body: bytes, sent_at: datetime) -> ScraperError:
        try:
            payload, _ = read_json(body)
        except ValueError:
            payload = None
        retry_after = parse_retry_after(
            response.headers.get_list("retry-after"),
            sent_at=sent_at,
            longest=self._policy.longest_retry_after,
        )
        return refusal(
            str(call),
            response.status_code,
            payload,
            subject=call.subject,
            retry_after=retry_after,
            secret=self._api_key,
        )
