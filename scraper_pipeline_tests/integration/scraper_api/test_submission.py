"""A submission makes at most one job, and its error says whether there may be one."""

import asyncio
import gzip
import socket
import traceback

import pytest

from scraper_pipeline.scraper_api import (
    Budget,
    DeadlineExceeded,
    ExtractionFailed,
    ExtractOptions,
    InvalidRequest,
    NetworkError,
    Pacer,
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
from scraper_pipeline_tests.integration.scraper_api.conftest import API_KEY, Connect, FakeClock
from scraper_pipeline_tests.integration.scraper_api.scripted_server import (
    Reply,
    ScriptedServer,
    answer,
    cut,
    hang,
    wire,
)

ACCEPTED = {"job_id": "j-1", "status": "queued", "status_url": "/v1/extract/j-1", "estimated_tokens": 1}
THROTTLED = {"code": "RATE_LIMITED", "message": "slow down", "retryable": True}
URL = "https://example.com/a%2Fb?q=1+2&r=%C3%A9"


async def test_a_submission_sends_the_key_the_url_as_written_and_the_options(
    service: ScriptedServer, client: ScraperClient
) -> None:
    service.script(answer(202, ACCEPTED))
    options = ExtractOptions(
        formats=("html",),
        country="DE",
        proxy_type="mix",
        wait_until="load",
        timeout=5000,
        headers={"X-A": "1"},
    )

    job = await client.submit_extract(URL, options)

    assert (job.job_id, job.status, job.estimated_tokens) == ("j-1", "queued", 1)
    (request,) = service.requests
    assert (request.method, request.target) == ("POST", "/v1/extract")
    assert request.headers["x-api-key"] == API_KEY
    assert request.headers["content-type"] == "application/json"
    assert request.headers["accept-encoding"] == "gzip"
    assert request.json == {
        "url": URL,
        "processing_mode": "async",
        "formats": ["html"],
        "render_js": False,
        "proxy": {"country": "DE", "type": "mix"},
        "wait_config": {"wait_until": "load"},
        "timeout": 5000,
        "headers": {"X-A": "1"},
    }


NO_PROOF: dict[str, tuple[Reply, type[ScraperError]]] = {
    "connection cut before the answer": (cut(), NetworkError),
    "connection cut in the status line": (wire(b"HTTP/1.1 20", cut=True), NetworkError),
    "connection cut in the body": (
        wire(b"HTTP/1.1 202 x\r\nContent-Length: 99\r\n\r\n{", cut=True),
        NetworkError,
    ),
    "no HTTP at all": (wire(b"SSH-2.0-OpenSSH_9.2\r\n\r\n", cut=True), NetworkError),
    "headers beyond measure": (
        wire(b"HTTP/1.1 202 x\r\nA: " + b"a" * 99_999 + b"\r\n\r\n", cut=True),
        NetworkError,
    ),
    "a body that is no gzip": (answer(202, ACCEPTED, ("Content-Encoding", "gzip")), NetworkError),
    "a gzip body cut short": (
        answer(202, gzip.compress(b"{}" * 99)[:-9], ("Content-Encoding", "gzip")),
        NetworkError,
    ),
    "500": (answer(500, {"code": "INTERNAL_ERROR", "message": "", "retryable": True}), ServerError),
    "502 of a proxy": (answer(502, b"<html>Bad gateway</html>"), ServerError),
    "503 with Retry-After": (answer(503, None, ("Retry-After", "1")), ServerError),
    "408 of a proxy": (answer(408, b""), ServerError),
    "2xx that is no JSON": (answer(202, b"<html>"), UnreadableAnswer),
    "2xx without a job id": (answer(202, {"status": "queued"}), UnreadableAnswer),
    "2xx with a job id that is a number": (answer(202, {"job_id": 7}), UnreadableAnswer),
    "2xx that is a list": (answer(202, [ACCEPTED]), UnreadableAnswer),
    "204": (wire(b"HTTP/1.1 204 x\r\n\r\n"), UnreadableAnswer),
    "a redirect": (answer(307, None, ("Location", "/elsewhere")), UnexpectedStatus),
}


@pytest.mark.parametrize(("reply", "error"), NO_PROOF.values(), ids=NO_PROOF.keys())
async def test_a_post_that_may_have_made_a_job_is_not_repeated(
    service: ScriptedServer, client: ScraperClient, clock: FakeClock, reply: Reply, error: type[ScraperError]
) -> None:
    service.script(reply, answer(202, ACCEPTED))

    with pytest.raises(error) as raised:
        await client.submit_extract(URL)

    assert not raised.value.proves_no_job
    assert service.calls == ["POST /v1/extract"]
    assert client.requests_made == {"submit_extract": 1}
    assert clock.slept == []


async def test_a_post_on_a_kept_connection_that_is_cut_is_not_repeated(
    service: ScriptedServer, client: ScraperClient
) -> None:
    service.script(answer(202, ACCEPTED), cut(), answer(202, ACCEPTED))
    await client.submit_extract(URL)

    with pytest.raises(NetworkError) as raised:
        await client.submit_extract(URL)

    assert raised.value.request_sent
    assert not raised.value.proves_no_job
    assert [request.connection for request in service.requests] == [1, 1]


async def test_a_post_without_an_answer_ends_with_its_deadline_and_is_not_repeated(
    service: ScriptedServer,
) -> None:
    service.script(hang(), answer(202, ACCEPTED))
    policy = RetryPolicy(least_request_seconds=0.05)
    async with ScraperClient(host=service.url, api_key=API_KEY, policy=policy) as client:
        began = asyncio.get_running_loop().time()

        with pytest.raises(NetworkError) as raised:
            await client.submit_extract(URL, deadline=began + 1.0)

        assert 0.95 < asyncio.get_running_loop().time() - began < 50
    assert raised.value.request_sent
    assert len(service.requests) == 1


async def test_a_post_is_not_begun_when_too_little_time_is_left(
    service: ScriptedServer, client: ScraperClient, clock: FakeClock
) -> None:
    with pytest.raises(DeadlineExceeded) as raised:
        await client.submit_extract(URL, deadline=clock.now + 4.9)

    assert raised.value.proves_no_job
    assert service.requests == []
    assert client.requests_made == {}


async def test_a_post_waiting_for_a_connection_is_not_taken_for_sent(service: ScriptedServer) -> None:
    service.script(hang(), repeat=True)
    policy = RetryPolicy(least_request_seconds=0.05)
    async with ScraperClient(host=service.url, api_key=API_KEY, policy=policy, connections=1) as client:
        end = asyncio.get_running_loop().time() + 1.0
        first, second = await asyncio.gather(
            *(client.submit_extract(URL, deadline=end) for _ in range(2)), return_exceptions=True
        )

    assert isinstance(first, NetworkError)
    assert not first.proves_no_job
    assert isinstance(second, DeadlineExceeded)
    assert second.proves_no_job
    assert len(service.requests) == 1


async def test_a_throttled_post_is_repeated_and_obeys_retry_after(
    service: ScriptedServer, client: ScraperClient, clock: FakeClock
) -> None:
    service.script(
        answer(429, THROTTLED, ("Retry-After", "7")), answer(429, THROTTLED), answer(202, ACCEPTED)
    )

    job = await client.submit_extract(URL)

    assert job.job_id == "j-1"
    assert client.requests_made == {"submit_extract": 3}
    assert clock.slept[0] == 7.0


async def test_a_throttled_post_ends_within_its_deadline_and_proves_that_there_is_no_job(
    service: ScriptedServer, client: ScraperClient, clock: FakeClock
) -> None:
    service.script(answer(429, THROTTLED, ("Retry-After", "30")), repeat=True)
    deadline = clock.now + 50

    with pytest.raises(Throttled) as raised:
        await client.submit_extract(URL, deadline=deadline)

    assert clock.now < deadline
    assert raised.value.proves_no_job
    assert raised.value.scope == "account"
    assert raised.value.retry_after == 30.0
    assert "RATE_LIMITED" in str(raised.value)


async def test_a_refused_connection_proves_that_there_is_no_job_and_is_tried_again(
    connect: Connect, clock: FakeClock
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        client = connect(host=f"http://127.0.0.1:{closed.getsockname()[1]}")

        with pytest.raises(NetworkError) as raised:
            await client.submit_extract(URL)

    assert not raised.value.request_sent
    assert raised.value.proves_no_job
    assert client.requests_made == {"submit_extract": 5}
    assert clock.slept == [1.0, 2.0, 4.0, 8.0]


async def test_a_name_that_does_not_resolve_proves_that_there_is_no_job(connect: Connect) -> None:
    client = connect(host="http://nowhere.invalid", policy=RetryPolicy(connect_seconds=5.0))

    with pytest.raises(NetworkError) as raised:
        await client.submit_extract(URL)

    assert raised.value.proves_no_job


async def test_a_connection_that_is_never_accepted_proves_that_there_is_no_job() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        host = f"http://127.0.0.1:{full.getsockname()[1]}"
        crowd = [socket.socket() for _ in range(4)]
        for one in crowd:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        policy = RetryPolicy(connect_seconds=0.2, network=Budget(retries=0, seconds=0.0))
        async with ScraperClient(host=host, api_key=API_KEY, policy=policy) as client:
            with pytest.raises(NetworkError) as raised:
                await client.submit_extract(URL)
            with pytest.raises(NetworkError) as reading:
                await client.list_jobs(url=URL)
        for one in crowd:
            one.close()

    assert raised.value.proves_no_job
    assert "example.com" not in "".join(traceback.format_exception(reading.value))


def refused(code: str, message: str = "no") -> dict[str, object]:
    return {"code": code, "message": message, "retryable": False}


NO_BALANCE = refused("PAYMENT_REQUIRED")
TOO_SHORT = {"detail": [{"loc": ["body", "url"], "msg": "too short"}]}
FAILED = {"error": refused("INVALID_URL"), "tokens_charged": 0}
REFUSALS: dict[str, tuple[int, object, type[ScraperError], str, str | None]] = {
    "401": (401, refused("UNAUTHORIZED"), Unauthorized, "account", "UNAUTHORIZED"),
    "403 without a body": (403, b"", Unauthorized, "account", None),
    "402": (402, NO_BALANCE, PaymentRequired, "account", "PAYMENT_REQUIRED"),
    "402 in the guise of 422": (422, {"error": NO_BALANCE}, PaymentRequired, "account", "PAYMENT_REQUIRED"),
    "400": (400, refused("BAD_REQUEST"), InvalidRequest, "target", "BAD_REQUEST"),
    "validation": (422, TOO_SHORT, InvalidRequest, "target", None),
    "extraction": (422, FAILED, ExtractionFailed, "target", "INVALID_URL"),
    "extraction, bare": (422, refused("INVALID_URL"), ExtractionFailed, "target", "INVALID_URL"),
    "URL too long": (414, b"", InvalidRequest, "target", None),
    "wrong host": (404, b"<html>", UnexpectedStatus, "service", None),
    "wrong method": (405, {"detail": "Method Not Allowed"}, UnexpectedStatus, "service", None),
}


@pytest.mark.parametrize(("status", "body", "error", "scope", "code"), REFUSALS.values(), ids=REFUSALS.keys())
async def test_a_refusal_is_final_and_proves_that_there_is_no_job(
    service: ScriptedServer,
    client: ScraperClient,
    status: int,
    body: object,
    error: type[ScraperError],
    scope: str,
    code: str | None,
) -> None:
    service.script(answer(status, body), answer(202, ACCEPTED))

    with pytest.raises(error) as raised:
        await client.submit_extract(URL)

    assert type(raised.value) is error
    assert (raised.value.status, raised.value.scope, raised.value.code) == (status, scope, code)
    assert raised.value.proves_no_job
    assert len(service.requests) == 1


async def test_a_refusal_counts_although_its_body_is_broken(
    service: ScriptedServer, client: ScraperClient
) -> None:
    service.script(answer(401, b"no gzip", ("Content-Encoding", "gzip")))

    with pytest.raises(Unauthorized, match="GEONODE_SCRAPER_API_KEY"):
        await client.submit_extract(URL)


async def test_one_throttled_request_makes_all_others_wait(
    service: ScriptedServer, connect: Connect, clock: FakeClock
) -> None:
    pacer = Pacer(monotonic=clock.monotonic)
    throttled, other = connect(pacer=pacer), connect(pacer=pacer)
    service.script(answer(429, THROTTLED, ("Retry-After", "40")), answer(200, {"status": "ok"}))

    with pytest.raises(Throttled):
        await throttled.submit_extract(URL, deadline=clock.now + 20)
    asked_at = clock.now
    await other.get_health()

    assert clock.now - asked_at >= 40


async def test_whoever_was_waiting_for_a_turn_waits_again_after_the_next_throttling(
    service: ScriptedServer, connect: Connect, clock: FakeClock
) -> None:
    pacer = Pacer(monotonic=clock.monotonic)

    def throttle(pause: float) -> None:
        turn = pacer.reserve(float("inf"))
        assert turn is not None
        pacer.slow_down(pacer.begin(turn), pause)

    async def sleep_while_another_is_throttled(seconds: float) -> None:
        if not clock.slept:
            throttle(pause=50)
        await clock.sleep(seconds)

    service.script(answer(202, ACCEPTED))
    throttle(pause=10)
    began = clock.now

    await connect(pacer=pacer, sleep=sleep_while_another_is_throttled).submit_extract(URL)

    assert clock.now - began >= 50


async def test_a_call_whose_turn_comes_too_late_is_not_made(
    service: ScriptedServer, connect: Connect, clock: FakeClock
) -> None:
    client = connect()
    service.script(answer(429, THROTTLED, ("Retry-After", "90")))
    with pytest.raises(Throttled):
        await client.submit_extract(URL, deadline=clock.now + 20)

    with pytest.raises(Throttled) as raised:
        await client.submit_extract(URL, deadline=clock.now + 20)

    assert raised.value.proves_no_job
    assert len(service.requests) == 1


async def test_the_limit_on_jobs_at_once_does_not_slow_down_reading(
    service: ScriptedServer, client: ScraperClient, clock: FakeClock
) -> None:
    limited = {"code": "WORK_CONCURRENCY_LIMITED", "message": "", "retryable": True}
    service.script(answer(429, limited, ("Retry-After", "90")), answer(200, {"status": "ok"}))
    with pytest.raises(Throttled):
        await client.submit_extract(URL, deadline=clock.now + 20)

    await client.get_health()

    assert clock.slept == []
