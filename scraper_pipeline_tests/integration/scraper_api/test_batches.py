"""A batch or crawl is made at most once, looked at without content, and read to its last page."""

import gzip
import tracemalloc
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from scraper_pipeline.scraper_api import (
    AnswerTooLarge,
    BatchesNotOffered,
    CannotCancel,
    CrawlScope,
    CrawlsNotOffered,
    ExtractOptions,
    InvalidOptions,
    InvalidRequest,
    JobExpired,
    JobNotFound,
    NetworkError,
    NotOffered,
    PaymentRequired,
    ScraperClient,
    ScraperError,
    ServerError,
    Throttled,
    Unauthorized,
    UnexpectedStatus,
    UnreadableAnswer,
)
from scraper_pipeline_tests.integration.scraper_api.conftest import Connect, FakeClock
from scraper_pipeline_tests.integration.scraper_api.scripted_server import (
    Reply,
    ScriptedServer,
    answer,
    cut,
    wire,
)

URLS = ["https://example.com/a%2Fb?q=1+2", "https://example.com/é"]
ACCEPTED = {"job_id": "b-1", "status": "queued", "accepted_urls": 2, "invalid_urls": []}
CRAWL_ACCEPTED = {"job_id": "c-1", "status": "queued", "url": URLS[0], "estimated_pages": 50}
THROTTLED = {"code": "RATE_LIMITED", "message": "slow down", "retryable": True}

Ask = Callable[[ScraperClient], Awaitable[object]]


async def submit_batch(client: ScraperClient) -> object:
    return await client.submit_batch(URLS)


async def submit_crawl(client: ScraperClient) -> object:
    return await client.submit_crawl(URLS[0])


ONCE: dict[str, tuple[Ask, Reply]] = {
    "batch": (submit_batch, answer(202, ACCEPTED)),
    "crawl": (submit_crawl, answer(202, CRAWL_ACCEPTED)),
}
ABOUT_ONE: dict[str, Ask] = {
    "get batch": lambda client: client.get_batch("b-1"),
    "look at batch": lambda client: client.look_at_batch("b-1"),
    "cancel batch": lambda client: client.cancel_batch("b-1"),
    "get crawl": lambda client: client.get_crawl("b-1"),
    "look at crawl": lambda client: client.look_at_crawl("b-1"),
    "cancel crawl": lambda client: client.cancel_crawl("b-1"),
}


def item(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "input_index": number,
        "url": f"https://example.com/{number}",
        "status": "completed",
        "data": {"markdown": f"# {number}"},
        "metadata": {"http_status": 200, "tokens_charged": 1},
        **fields,
    }


def batch(*numbers: int, **fields: Any) -> dict[str, Any]:
    items = [item(number) for number in numbers]
    return {"job_id": "b-1", "status": "completed", "total_urls": len(items), "results": items, **fields}


async def test_a_batch_is_sent_with_its_urls_as_written_and_one_set_of_options(
    service: ScriptedServer, client: ScraperClient
) -> None:
    service.script(answer(202, {**ACCEPTED, "invalid_urls": ["ftp://x"]}))
    options = ExtractOptions(formats=("html",), country="DE", wait_until="load", headers={"X-A": "1"})

    accepted = await client.submit_batch([*URLS, "ftp://x"], options)

    (request,) = service.requests
    assert (request.method, request.target) == ("POST", "/v1/batch")
    assert request.json == {
        "urls": [*URLS, "ftp://x"],
        "ignore_invalid_urls": True,
        "formats": ["html"],
        "render_js": False,
        "headers": {"X-A": "1"},
        "proxy": {"country": "DE"},
        "wait_config": {"wait_until": "load"},
    }
    assert (accepted.job_id, accepted.accepted_urls, accepted.invalid_urls) == ("b-1", 2, ("ftp://x",))


async def test_a_crawl_is_sent_with_its_scope(service: ScriptedServer, client: ScraperClient) -> None:
    service.script(answer(202, CRAWL_ACCEPTED))

    accepted = await client.submit_crawl(URLS[0], scope=CrawlScope(depth=3, limit=7))

    (request,) = service.requests
    assert (request.method, request.target) == ("POST", "/v1/crawl")
    assert request.json == {
        "url": URLS[0],
        "depth": 3,
        "limit": 7,
        "same_domain_only": True,
        "include_subdomains": False,
        "formats": ["markdown"],
        "render_js": False,
    }
    assert (accepted.job_id, accepted.estimated_pages) == ("c-1", 50)


@pytest.mark.parametrize("count", [0, 1001])
async def test_a_batch_of_a_size_that_no_service_takes_is_not_sent(
    service: ScriptedServer, client: ScraperClient, count: int
) -> None:
    with pytest.raises(ValueError, match="1 to 1000"):
        await client.submit_batch(["https://example.com/"] * count)
    assert service.requests == []


async def test_options_that_a_batch_or_a_crawl_would_drop_are_not_sent(
    service: ScriptedServer, client: ScraperClient
) -> None:
    slow = ExtractOptions(timeout=5000)
    assert not slow.fit_a_batch
    with pytest.raises(InvalidOptions, match="timeout"):
        await client.submit_batch(URLS, slow)
    for options in (slow, ExtractOptions(headers={"A": "b"})):
        with pytest.raises(InvalidOptions):
            await client.submit_crawl(URLS[0], options)
    assert service.requests == []


LEAVES_OPEN: dict[str, tuple[Reply, type[ScraperError]]] = {
    "cut before the answer": (cut(), NetworkError),
    "cut in the body": (wire(b"HTTP/1.1 202 x\r\nContent-Length: 99\r\n\r\n{", cut=True), NetworkError),
    "500": (answer(500, b""), ServerError),
    "503 with Retry-After": (answer(503, None, ("Retry-After", "1")), ServerError),
    "408 of a proxy": (answer(408, b""), ServerError),
    "2xx that is no JSON": (answer(202, b"<html>"), UnreadableAnswer),
    "2xx without a job id": (answer(202, {"accepted_urls": 2}), UnreadableAnswer),
    "a redirect": (answer(307, None, ("Location", "/elsewhere")), UnexpectedStatus),
}


@pytest.mark.parametrize(("reply", "error"), LEAVES_OPEN.values(), ids=LEAVES_OPEN.keys())
@pytest.mark.parametrize(("ask", "good"), ONCE.values(), ids=ONCE.keys())
async def test_a_submission_that_may_have_been_accepted_is_not_repeated(
    service: ScriptedServer,
    client: ScraperClient,
    clock: FakeClock,
    ask: Ask,
    good: Reply,
    reply: Reply,
    error: type[ScraperError],
) -> None:
    service.script(reply, good)

    with pytest.raises(error) as raised:
        await ask(client)

    assert not raised.value.proves_no_job
    assert len(service.requests) == 1
    assert clock.slept == []


REFUSALS: dict[str, tuple[int, object, type[ScraperError], str]] = {
    "400": (400, {"code": "BAD_REQUEST", "message": "no"}, InvalidRequest, "target"),
    "401": (401, b"", Unauthorized, "account"),
    "402": (402, {"code": "PAYMENT_REQUIRED", "message": "no"}, PaymentRequired, "account"),
    "too large": (413, b"", InvalidRequest, "target"),
    "validation": (422, {"detail": [{"loc": ["body", "urls"], "msg": "none"}]}, InvalidRequest, "target"),
    "invalid URLs": (422, {"error": {"code": "INVALID_URL", "message": "x"}}, InvalidRequest, "target"),
}


@pytest.mark.parametrize(("status", "body", "error", "scope"), REFUSALS.values(), ids=REFUSALS.keys())
@pytest.mark.parametrize(("ask", "good"), ONCE.values(), ids=ONCE.keys())
async def test_a_refusal_is_final_and_proves_that_there_is_no_job(
    service: ScriptedServer,
    client: ScraperClient,
    ask: Ask,
    good: Reply,
    status: int,
    body: object,
    error: type[ScraperError],
    scope: str,
) -> None:
    service.script(answer(status, body), good)

    with pytest.raises(error) as raised:
        await ask(client)

    assert type(raised.value) is error
    assert (raised.value.scope, raised.value.proves_no_job) == (scope, True)
    assert len(service.requests) == 1


@pytest.mark.parametrize(("ask", "good"), ONCE.values(), ids=ONCE.keys())
async def test_throttling_proves_that_there_is_no_job_and_is_waited_for(
    service: ScriptedServer, client: ScraperClient, clock: FakeClock, ask: Ask, good: Reply
) -> None:
    service.script(answer(429, THROTTLED, ("Retry-After", "7")), good)

    await ask(client)

    assert clock.slept[0] == 7.0


async def test_a_throttled_batch_ends_within_its_deadline(
    service: ScriptedServer, client: ScraperClient, clock: FakeClock
) -> None:
    service.script(answer(429, THROTTLED, ("Retry-After", "30")), repeat=True)

    with pytest.raises(Throttled) as raised:
        await client.submit_batch(URLS, deadline=clock.now + 50)

    assert raised.value.proves_no_job


@pytest.mark.parametrize("status", [404, 405, 501])
@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (submit_batch, BatchesNotOffered),
        (lambda client: client.list_batches(), BatchesNotOffered),
        (submit_crawl, CrawlsNotOffered),
        (lambda client: client.list_crawls(), CrawlsNotOffered),
    ],
    ids=["submit batch", "list batches", "submit crawl", "list crawls"],
)
async def test_a_service_without_them_is_told_apart_and_asked_once(
    service: ScriptedServer, client: ScraperClient, ask: Ask, error: type[ScraperError], status: int
) -> None:
    service.script(answer(status, b"<html>"), repeat=True)

    with pytest.raises(error, match="does not offer") as raised:
        await ask(client)

    assert isinstance(raised.value, NotOffered)
    assert (raised.value.scope, raised.value.proves_no_job) == ("service", True)
    assert len(service.requests) == 1


@pytest.mark.parametrize(
    ("status", "error"), [(404, JobNotFound), (410, JobExpired), (409, CannotCancel), (501, NotOffered)]
)
@pytest.mark.parametrize("ask", ABOUT_ONE.values(), ids=ABOUT_ONE.keys())
async def test_what_is_said_of_one_batch_or_crawl_is_not_said_of_all(
    service: ScriptedServer, client: ScraperClient, ask: Ask, status: int, error: type[ScraperError]
) -> None:
    service.script(answer(status, {"code": "X", "message": "no"}), repeat=True)

    with pytest.raises(error, match=" b-1: "):
        await ask(client)

    assert len(service.requests) == 1


async def test_a_look_moves_no_content(service: ScriptedServer, client: ScraperClient) -> None:
    service.script(answer(200, batch(status="processing", total_urls=250, results=[])))

    looked = await client.look_at_batch("b-1")

    assert (looked.status, looked.total, looked.items) == ("processing", 250, ())
    (request,) = service.requests
    assert request.query == {"page": "1001", "page_size": "1"}


async def test_a_look_where_no_page_beyond_the_end_may_be_asked_for_moves_one_page_at_most(
    service: ScriptedServer, client: ScraperClient
) -> None:
    service.script(answer(422, {"detail": []}), answer(200, batch(0, total_urls=250)))

    looked = await client.look_at_batch("b-1")

    assert (looked.total, looked.items) == (250, ())
    assert [request.query["page"] for request in service.requests] == ["1001", "1"]


async def read(client: ScraperClient) -> tuple[list[str], int]:
    """The URLs of all items, and how many were too large."""
    urls, too_large = [], 0
    async for page in client.read_batch("b-1"):
        urls += [one.url for one in page.items]
        too_large += page.too_large
    return urls, too_large


def urls_of(*numbers: int) -> list[str]:
    return [f"https://example.com/{number}" for number in numbers]


async def test_no_page_of_a_batch_is_lost_to_a_server_error(
    service: ScriptedServer, client: ScraperClient
) -> None:
    pages = [batch(*range(first, first + 50), total_urls=250) for first in range(0, 250, 50)]
    replies = [answer(200, page) for page in pages]
    service.script(*replies[:3], answer(500, b""), *replies[3:])

    assert await read(client) == (urls_of(*range(250)), 0)
    assert [request.query["page"] for request in service.requests] == ["1", "2", "3", "4", "4", "5"]


async def test_an_empty_page_among_others_does_not_end_the_reading(
    service: ScriptedServer, client: ScraperClient
) -> None:
    service.script(
        answer(200, batch(total_urls=120)),
        answer(200, batch(*range(50, 100), total_urls=120)),
        answer(200, batch(*range(100, 120), total_urls=120)),
        answer(200, batch(total_urls=120)),
    )

    assert await read(client) == (urls_of(*range(50, 120)), 0)
    assert len(service.requests) == 4


async def test_reading_ends_behind_the_last_page_although_an_item_is_missing(
    service: ScriptedServer, client: ScraperClient
) -> None:
    service.script(answer(200, batch(0, 1, total_urls=3)), answer(200, batch(total_urls=3)))

    assert await read(client) == (urls_of(0, 1), 0)
    assert len(service.requests) == 2


async def test_reading_ends_with_an_empty_page_where_the_total_is_not_told(
    service: ScriptedServer, client: ScraperClient
) -> None:
    service.script(answer(200, batch(0, 1, total_urls=None)), answer(200, batch(total_urls=None)))

    assert await read(client) == (urls_of(0, 1), 0)


async def test_a_page_beyond_the_cap_is_read_in_smaller_ones_and_only_what_is_too_large_is_missing(
    service: ScriptedServer, connect: Connect
) -> None:
    client = connect(max_body_bytes=20_000, max_results_bytes=20_000)
    large = batch(total_urls=11, results=[item(3, data={"markdown": "x" * 30_000})])
    service.script(
        answer(200, large),  # 1 of 50
        answer(200, large),  # 1 of 10
        *(answer(200, large if number == 3 else batch(number, total_urls=11)) for number in range(4)),
        answer(200, batch(total_urls=11)),  # a look
        *(answer(200, batch(number, total_urls=11)) for number in range(4, 10)),
        answer(200, batch(10, total_urls=11)),  # 2 of 10
    )

    assert await read(client) == (urls_of(0, 1, 2, *range(4, 11)), 1)


async def test_one_page_is_read_by_itself_and_in_parts_only_where_it_has_to_be(
    service: ScriptedServer, connect: Connect
) -> None:
    client = connect(max_body_bytes=20_000, max_results_bytes=20_000)
    large = batch(total_urls=70, results=[item(3, data={"markdown": "x" * 30_000})])
    service.script(
        answer(200, batch(*range(50), total_urls=70)),
        answer(200, large),  # 2 of 50
        answer(200, batch(*range(50, 60), total_urls=70)),  # 6 of 10
        answer(200, batch(*range(60, 70), total_urls=70)),  # 7 of 10
    )

    first = await client.read_batch_page("b-1", 1)
    second = await client.read_batch_page("b-1", 2)

    assert [len(part.items) for part in first] == [50]
    assert [len(part.items) for part in second] == [10, 10]
    assert [request.query["page"] for request in service.requests] == ["1", "2", "6", "7"]


async def test_the_cap_on_results_admits_more_than_that_on_a_page(
    service: ScriptedServer, connect: Connect
) -> None:
    client = connect(max_body_bytes=1000)
    text = {"markdown": "x" * 1500}
    service.script(
        answer(200, batch(results=[item(0, data=text)])), answer(200, {"job_id": "j", "data": text})
    )

    assert len((await client.get_batch("b-1")).items) == 1
    with pytest.raises(AnswerTooLarge):
        await client.get_job("j")


async def test_what_expands_beyond_the_cap_is_not_held_in_memory(
    service: ScriptedServer, connect: Connect
) -> None:
    bomb = gzip.compress(b'{"results": "' + b"a" * 50_000_000)
    service.script(answer(200, bomb, ("Content-Encoding", "gzip")), repeat=True)
    tracemalloc.start()

    with pytest.raises(AnswerTooLarge) as raised:
        await connect(max_results_bytes=1_000_000).get_batch("b-1")

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert raised.value.scope == "target"
    assert peak < 10_000_000


async def test_what_no_database_takes_is_replaced_in_items_and_counted(
    service: ScriptedServer, client: ScraperClient
) -> None:
    body = (
        rb'{"job_id": "b-1", "status": "completed", "total_urls": 2, "invalid_urls": ["a\u0000"], "results": ['
        rb'{"url": "https://a/\u0000", "status": "completed", "data": {"markdown": "\ud800 \ud83c\udf78"},'
        rb'"metadata": {"k\u0000": NaN, "n": 9223372036854775808, "tokens_charged": 1e400}},'
        rb'{"url": "https://b/", "status": "failed", "error_message": "\u0000"}]}'
    )
    service.script(answer(200, body))

    read = await client.get_batch("b-1")

    first, second = read.items
    assert (read.sanitised, read.invalid_urls) == (5, ("a\ufffd",))
    assert first.url == "https://a/\ufffd"
    assert first.page is not None
    assert first.page.markdown == "\ufffd \U0001f378"
    assert first.metadata == {"k\ufffd": "NaN", "n": "9223372036854775808", "tokens_charged": "1e400"}
    assert first.tokens_charged is None
    assert second.error is not None
    assert second.error.message == "\ufffd"


async def test_another_batch_than_the_one_asked_for_is_no_answer(
    service: ScriptedServer, client: ScraperClient
) -> None:
    service.script(answer(200, batch(0, job_id="b-2")), answer(200, batch(0)))

    assert (await client.get_batch("b-1")).job_id == "b-1"
    assert len(service.requests) == 2


async def test_a_cancellation_tells_what_is_still_at_work(
    service: ScriptedServer, client: ScraperClient
) -> None:
    service.script(
        answer(202, {"job_id": "b-1", "status": "cancelled", "in_flight_urls": 3}),
        answer(202, {"job_id": "c-1", "status": "cancelled", "in_flight_pages": 2}),
    )

    assert (await client.cancel_batch("b-1")).in_flight == 3
    assert (await client.cancel_crawl("c-1")).in_flight == 2
    assert service.calls == ["DELETE /v1/batch/b-1", "DELETE /v1/crawl/c-1"]


async def test_a_listing_asks_for_its_window_in_whole_seconds_and_tells_both_clocks(
    service: ScriptedServer, client: ScraperClient
) -> None:
    line = {"job_id": "b-1", "status": "completed", "accepted_urls": 2, "created_at": "2026-05-27T08:16:09Z"}
    date = ("Date", "Wed, 27 May 2026 08:20:00 GMT")
    service.script(answer(200, {"jobs": [line], "page": 2, "page_count": 2}, date), repeat=True)
    start = datetime(2026, 5, 27, 8, 0, 0, 900_000, tzinfo=UTC)

    listing = await client.list_batches(status="completed", start=start, end=start, page=2, page_size=10)
    await client.list_crawls()

    assert [line.accepted_urls for line in listing.jobs] == [2]
    assert listing.service_time == datetime(2026, 5, 27, 8, 20, tzinfo=UTC)
    assert listing.requested_at <= listing.received_at
    first, second = service.requests
    assert first.query == {
        "status": "completed",
        "start_date": "2026-05-27T08:00:00Z",
        "end_date": "2026-05-27T08:00:01Z",
        "page": "2",
        "page_size": "10",
    }
    assert (second.path, second.query) == ("/v1/crawl/jobs", {"page": "1", "page_size": "100"})
