"""Reads are repeated within their budgets, and what comes back is safe to store."""

import gzip
import json
import tracemalloc
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from scraper_pipeline.scraper_api import (
    AnswerTooLarge,
    Budget,
    ConcurrencyUsage,
    ExtractionFailed,
    JobExpired,
    JobNotFound,
    NetworkError,
    PaymentRequired,
    RetryPolicy,
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
    drip,
    wire,
)

THROTTLED = {"code": "RATE_LIMITED", "message": "slow down", "retryable": True}


def job(**fields: Any) -> dict[str, Any]:
    return {"job_id": "j-1", "status": "processing", "created_at": "2026-05-27T08:16:09Z", **fields}


async def test_a_completed_job_is_read_whole(service: ScriptedServer, client: ScraperClient) -> None:
    body = job(
        status="completed",
        completed_at="2026-05-27T08:17:00.926869123Z",
        data={"markdown": "# Hé", "html": None},
        metadata={"http_status": 200, "duration_ms": 12},
        tokens_charged=1,
    )
    service.script(answer(200, body))

    read = await client.get_job("j-1")

    assert service.calls == ["GET /v1/extract/j-1"]
    assert read.is_terminal
    assert read.page is not None
    assert (read.page.markdown, read.page.html) == ("# Hé", None)
    assert read.completed_at == datetime(2026, 5, 27, 8, 17, 0, 926869, tzinfo=UTC)
    assert (read.http_status, read.tokens_charged, read.error, read.sanitised) == (200, 1, None, 0)


async def test_a_status_that_nobody_knows_is_kept_and_not_terminal(
    service: ScriptedServer, client: ScraperClient
) -> None:
    service.script(answer(200, job(status="archived")))

    read = await client.get_job("j-1")

    assert (read.status, read.is_terminal) == ("archived", False)


MAY_PASS: dict[str, Reply] = {
    "cut before the answer": cut(),
    "cut in the body": wire(b"HTTP/1.1 200 x\r\nContent-Length: 99\r\n\r\n{", cut=True),
    "plain body marked gzip": answer(200, b"plain", ("Content-Encoding", "gzip")),
    "gzip cut short": answer(200, gzip.compress(b"{}" * 99)[:-9], ("Content-Encoding", "gzip")),
    "an encoding not asked for": answer(200, b"{}", ("Content-Encoding", "br")),
    "no JSON": answer(200, b"<html>captive portal</html>"),
    "nested beyond measure": answer(200, b"[" * 200_000),
    "no job id": answer(200, {"status": "queued"}),
    "500": answer(500, b""),
    "503": answer(503, None, ("Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT")),
    "429": answer(429, THROTTLED),
}


@pytest.mark.parametrize("reply", MAY_PASS.values(), ids=MAY_PASS.keys())
async def test_a_read_is_repeated_after_what_may_pass(
    service: ScriptedServer, client: ScraperClient, reply: Reply
) -> None:
    # aiohttp itself repeats a read once where a kept connection was cut: two in a row reach us.
    service.script(reply, reply, answer(200, job()))

    assert (await client.get_job("j-1")).status == "processing"
    assert len(service.requests) == 3


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, Unauthorized),
        (402, PaymentRequired),
        (403, Unauthorized),
        (404, JobNotFound),
        (410, JobExpired),
        (301, UnexpectedStatus),
        (418, UnexpectedStatus),
    ],
)
async def test_a_read_is_not_repeated_after_what_stays(
    service: ScriptedServer, client: ScraperClient, status: int, error: type[ScraperError]
) -> None:
    service.script(answer(status, {"detail": "no"}, ("Location", "/v1/extract/j-1")), answer(200, job()))

    with pytest.raises(error, match="get_job j-1: ") as raised:
        await client.get_job("j-1")

    assert type(raised.value) is error
    assert len(service.requests) == 1


async def test_throttling_leaves_the_network_budget_untouched(
    service: ScriptedServer, connect: Connect, clock: FakeClock
) -> None:
    policy = RetryPolicy(throttling=Budget(3, 60), network=Budget(1, 60), server=Budget(1, 60))
    client = connect(policy=policy)
    service.script(
        answer(429, THROTTLED),
        answer(429, THROTTLED),
        answer(429, THROTTLED),
        answer(200, b"no gzip", ("Content-Encoding", "gzip")),
        answer(500, None),
        answer(200, job()),
    )

    assert (await client.get_job("j-1")).status == "processing"


async def test_endless_throttling_ends_at_the_hard_cap_and_nothing_is_asked_after_it(
    service: ScriptedServer, connect: Connect, clock: FakeClock
) -> None:
    policy = RetryPolicy(throttling=Budget(10_000, 100_000), total_seconds=300)
    client = connect(policy=policy)
    service.script(answer(429, THROTTLED, ("Retry-After", "50")), repeat=True)
    began = clock.now

    with pytest.raises(Throttled):
        await client.get_job("j-1")

    assert 200 <= clock.now - began <= 300
    assert len(service.requests) <= 7


async def test_each_class_of_failure_ends_at_its_own_budget(
    service: ScriptedServer, connect: Connect
) -> None:
    client = connect(policy=RetryPolicy(server=Budget(2, 60)))
    service.script(answer(502, b""), repeat=True)

    with pytest.raises(ServerError) as raised:
        await client.get_job("j-1")

    assert raised.value.scope == "service"
    assert client.requests_made == {"get_job": 3}


async def test_a_budget_of_zero_still_makes_one_attempt(
    service: ScriptedServer, client: ScraperClient, clock: FakeClock
) -> None:
    service.script(answer(500, None), answer(200, job()))

    with pytest.raises(ServerError):
        await client.get_job("j-1", budget=0)
    assert (await client.get_job("j-1", budget=0)).status == "processing"

    assert clock.slept == []


async def test_a_body_that_drips_is_cut_off_in_time(service: ScriptedServer) -> None:
    body = drip(b"HTTP/1.1 200 x\r\nContent-Length: 100000\r\n\r\n", b"{", times=1000)
    service.script(body)
    policy = RetryPolicy(request_seconds=0.2, network=Budget(0, 0))
    async with ScraperClient(host=service.url, api_key="k", policy=policy) as client:
        with pytest.raises(NetworkError):
            await client.get_job("j-1")

    assert body.sent < 100


async def test_a_body_that_expands_a_thousandfold_is_cut_off_early(
    service: ScriptedServer, connect: Connect
) -> None:
    bomb = gzip.compress(b'{"a":"' + b"x" * 50_000_000 + b'"}')
    assert len(bomb) < 50_000
    service.script(answer(200, bomb, ("Content-Encoding", "gzip")))
    client = connect(max_body_bytes=1_000_000)

    tracemalloc.start()
    with pytest.raises(AnswerTooLarge) as raised:
        await client.get_job("j-1")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert raised.value.scope == "target"
    assert peak < 8_000_000
    assert len(service.requests) == 1


async def test_an_endless_body_is_cut_off_while_it_comes(service: ScriptedServer, connect: Connect) -> None:
    body = drip(
        b"HTTP/1.1 200 x\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"2710\r\n" + b"x" * 10_000 + b"\r\n",
        times=500,
    )
    service.script(body)
    client = connect(max_body_bytes=100_000)

    with pytest.raises(AnswerTooLarge):
        await client.get_job("j-1")

    assert body.sent < 100


async def test_a_body_of_exactly_the_cap_is_read(service: ScriptedServer, connect: Connect) -> None:
    content = json.dumps(job(data={"markdown": "x" * 5000})).encode()
    client = connect(max_body_bytes=len(content))
    service.script(
        answer(200, content),
        answer(200, gzip.compress(content), ("Content-Encoding", "gzip")),
        answer(200, content + b" "),
    )

    assert await client.get_job("j-1") == await client.get_job("j-1")
    with pytest.raises(AnswerTooLarge):
        await client.get_job("j-1")


async def test_gzip_in_several_members_is_read_whole(service: ScriptedServer, client: ScraperClient) -> None:
    content = json.dumps(job()).encode()
    packed = gzip.compress(content[:20]) + gzip.compress(b"") + gzip.compress(content[20:])
    service.script(answer(200, packed, ("Content-Encoding", "gzip")))

    assert (await client.get_job("j-1")).job_id == "j-1"


async def test_what_no_database_takes_is_replaced_once_and_counted(
    service: ScriptedServer, client: ScraperClient
) -> None:
    content = (
        rb"""{"job_id": "j-1", "status": "completed", "created_at": "yesterday",
        "data": {"markdown": "a\u0000b \ud83c\udf78 \\u0000", "html": "\ud800"},
        "metadata": {"ti\u0000tle\udc00": "x\u0000", "url": "http://a/\u0000", "deep": [{"k": "\ud800\ud800"}],
                     "nan": NaN, "big": 9223372036854775808, "huge": 1e400, "least": -9223372036854775808,
                     "http_status": "200", "digits": """
        + b"7" * 5000
        + rb"""},
        "tokens_charged": NaN}"""
    )
    service.script(answer(200, content))

    read = await client.get_job("j-1")

    assert read.page is not None
    assert read.page.markdown == "a\ufffdb \U0001f378 \\u0000"
    assert read.page.html == "\ufffd"
    assert read.metadata == {
        "ti\ufffdtle\ufffd": "x\ufffd",
        "url": "http://a/\ufffd",
        "deep": [{"k": "\ufffd\ufffd"}],
        "nan": "NaN",
        "big": "9223372036854775808",
        "huge": "1e400",
        "least": -(2**63),
        "http_status": "200",
        "digits": "7" * 5000,
    }
    assert read.sanitised == 8
    assert (read.http_status, read.tokens_charged) == (None, None)
    assert (read.created_at, read.unread_times) == (None, {"created_at": "yesterday"})


async def test_the_answer_about_another_job_is_not_taken_for_this_one(
    service: ScriptedServer, client: ScraperClient
) -> None:
    service.script(answer(200, job(job_id="j-2")), repeat=True)

    with pytest.raises(UnreadableAnswer, match="another job"):
        await client.get_job("j-1")


async def test_a_job_id_stays_one_segment_of_the_path(service: ScriptedServer, client: ScraperClient) -> None:
    odd = "a/../b?c#d%é"
    service.script(answer(200, job(job_id=odd)))

    await client.get_job(odd)

    assert service.requests[0].target == "/v1/extract/a%2F..%2Fb%3Fc%23d%25%C3%A9"
    for nonsense in ("", ".", ".."):
        with pytest.raises(ValueError, match="no job id"):
            await client.get_job(nonsense)


async def test_a_listing_asks_for_what_matches_and_tells_both_clocks(
    service: ScriptedServer, connect: Connect
) -> None:
    ours = datetime(2026, 5, 27, 8, 0, tzinfo=UTC)
    client = connect(utc_now=lambda: ours)
    url = "https://example.com/a%2Fb c?q=1+2&r=é&s=%C3%A9#f"
    line = {"job_id": "j-1", "status": "queued", "url": url, "created_at": "2026-05-27T08:16:09.92Z"}
    body = {
        "jobs": [line, {**line, "url": None}, "junk"],
        "page": 2,
        "page_size": 50,
        "page_count": 3,
        "is_capped": True,
    }
    service.script(answer(200, body, ("Date", "Wed, 27 May 2026 08:21:09 GMT")))

    listing = await client.list_jobs(
        url=url,
        status="queued",
        start=datetime(2026, 5, 27, 10, 0, 0, 1, tzinfo=timezone(timedelta(hours=2))),
        end=datetime(2026, 5, 27, 9, 0, 0, 1, tzinfo=UTC),
        page=2,
        page_size=50,
    )

    (request,) = service.requests
    assert request.path == "/v1/extract/jobs"
    assert request.query == {
        "url": url,
        "status": "queued",
        "start_date": "2026-05-27T08:00:00Z",
        "end_date": "2026-05-27T09:00:01Z",
        "page": "2",
        "page_size": "50",
    }
    assert [(job.job_id, job.url, job.is_terminal) for job in listing.jobs] == [("j-1", url, False)]
    assert listing.unreadable == 2
    assert (listing.page, listing.page_size, listing.page_count, listing.is_capped) == (2, 50, 3, True)
    assert listing.service_time == datetime(2026, 5, 27, 8, 21, 9, tzinfo=UTC)
    assert listing.requested_at == listing.received_at == ours


async def test_a_listing_under_its_older_name_is_read(service: ScriptedServer, client: ScraperClient) -> None:
    service.script(answer(200, {"items": [], "page_count": "many"}))

    listing = await client.list_jobs()

    assert (listing.jobs, listing.page_count, listing.is_capped, listing.service_time) == (
        (),
        None,
        False,
        None,
    )


async def test_a_listing_without_a_list_is_not_taken_for_an_empty_one(
    service: ScriptedServer, client: ScraperClient
) -> None:
    service.script(answer(200, {"page": 1, "page_count": 0}), repeat=True)

    with pytest.raises(UnreadableAnswer):
        await client.list_jobs()


async def test_a_window_without_a_zone_is_refused(client: ScraperClient) -> None:
    with pytest.raises(ValueError, match="zone"):
        await client.list_jobs(start=datetime(2026, 5, 27))


async def test_a_synchronous_extraction_gives_the_page(
    service: ScriptedServer, client: ScraperClient
) -> None:
    body = {"data": {"markdown": "a\u0000"}, "metadata": {"http_status": 404}, "tokens_charged": 1}
    service.script(answer(200, body))

    extracted = await client.extract("https://example.com")

    assert service.requests[0].json["processing_mode"] == "sync"
    assert extracted.page is not None
    assert extracted.page.markdown == "a\ufffd"
    assert (extracted.http_status, extracted.tokens_charged, extracted.sanitised) == (404, 1, 1)


async def test_a_failed_synchronous_extraction_tells_why_and_whether_to_try_again(
    service: ScriptedServer, client: ScraperClient
) -> None:
    error = {"code": "PERMANENT_BLOCK", "message": "no\nway", "retryable": True, "correlation_id": "c-1"}
    service.script(answer(422, {"error": error, "tokens_charged": 0}))

    with pytest.raises(ExtractionFailed, match="PERMANENT_BLOCK: no way") as raised:
        await client.extract("https://example.com")

    assert raised.value.is_retryable
    assert raised.value.correlation_id == "c-1"
    assert len(service.requests) == 1


async def test_usage_and_health_are_read_and_an_unavailable_service_is_an_answer(
    service: ScriptedServer, client: ScraperClient
) -> None:
    service.script(
        answer(200, {"work_concurrency_in_use": 3, "work_concurrency_limit": 50}),
        answer(
            503, {"service": "scraper", "status": "unavailable", "timestamp": "2026-05-27", "version": "1"}
        ),
    )

    assert await client.get_concurrency() == ConcurrencyUsage(in_use=3, limit=50)
    health = await client.get_health()

    assert (health.status, health.is_ok, health.version) == ("unavailable", False, "1")
    assert "x-api-key" not in service.requests[1].headers


async def test_statistics_are_asked_for_in_whole_seconds_with_the_span_between_them(
    service: ScriptedServer, client: ScraperClient
) -> None:
    service.script(answer(200, {"period_tokens_used": 7, "tokens_used": []}), answer(200, {"requests": []}))
    start = datetime(2026, 5, 1, tzinfo=timezone(timedelta(hours=2)))
    end = datetime(2026, 5, 2, 0, 0, 0, 1, tzinfo=UTC)

    assert (await client.get_statistics(start, end)).pages_charged == 7
    assert service.calls == ["GET /v1/statistics"]
    assert service.requests[0].query == {
        "start_date": "2026-04-30T22:00:00Z",
        "end_date": "2026-05-02T00:00:01Z",
    }
    with pytest.raises(UnreadableAnswer, match="get_statistics"):
        await client.get_statistics(start, end, budget=0)
