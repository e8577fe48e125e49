"""The contract's own promises, over HTTP."""

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import httpx
import pytest

from scraper_pipeline.sandbox import SandboxConfig, SandboxServer, create_app
from scraper_pipeline.sandbox.clock import Clock
from scraper_pipeline_tests.integration.sandbox.conftest import Caller


def test_the_truth_tells_jobs_charges_and_requests(caller: Caller):
    done, broken = caller.finished("pages/1"), caller.finished("broken/2")
    caller.job(done)
    caller.listed()
    truth = caller.sandbox.truth()
    told = [(job["job_id"], job["status"], job["error_code"], job["charged"]) for job in truth["jobs"]]
    assert told == [(done, "completed", None, 1), (broken, "failed", "PERMANENT_BLOCK", 0)]
    assert truth["jobs"][0]["url"] == caller.page("pages/1")
    assert truth["charged"] == 1
    expected = {"POST /v1/extract": 2, "GET /v1/extract/{job_id}": 1, "GET /v1/extract/jobs": 1}
    assert truth["requests"] == caller.sandbox.requests() == expected


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("pages/12", "completed", None),
        ("large", "completed", None),
        ("empty", "completed", None),
        ("code", "completed", None),
        ("table", "completed", None),
        ("nowhere", "completed", None),
        ("broken/1", "failed", "PERMANENT_BLOCK"),
        ("slow/1", "failed", "TIMEOUT"),
        ("cancelled/1", "cancelled", "CANCELLED"),
        ("images/waves-1.svg", "failed", "UNPROCESSABLE_CONTENT"),
    ],
)
def test_each_path_of_the_site_has_its_outcome(caller: Caller, path: str, status: str, code: str | None):
    options = {"timeout": 1000} if code == "TIMEOUT" else {}
    true = caller.wait(caller.submit(path, **options))
    assert (true["status"], true["error_code"]) == (status, code)


def test_a_flaky_page_fails_twice_and_then_succeeds(caller: Caller):
    ends = [caller.wait(caller.submit("flaky/1")) for _ in range(4)]
    assert [end["status"] for end in ends] == ["failed", "failed", "completed", "completed"]
    assert ends[0]["error_code"] == "TEMPORARY_BLOCK"
    assert caller.wait(caller.submit("flaky/2"))["status"] == "failed"


def test_a_missing_page_is_a_page_with_its_http_status(caller: Caller):
    assert caller.job(caller.finished("nowhere")).json()["metadata"]["http_status"] == 404


def test_html_is_what_comes_without_formats(caller: Caller):
    answer = caller.http.post("/v1/extract", json={"url": caller.page("pages/1")})
    assert list(answer.json()["data"]) == ["html"]
    assert answer.json()["metadata"]["processing_mode"] == "sync"


def test_what_the_sandbox_does_not_offer_is_not_found_in_the_form_of_the_service(caller: Caller):
    answer = caller.http.get("/v1/map/jobs")
    assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND")
    answer = caller.http.delete("/v1/extract/jobs")
    assert (answer.status_code, answer.json()["code"]) == (405, "METHOD_NOT_ALLOWED")


def test_an_empty_page_has_empty_markdown(caller: Caller):
    assert caller.job(caller.finished("empty")).json()["data"] == {"markdown": ""}


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://192.0.2.1/", "INVALID_URL"),
        ("http://[2001:db8::1]/", "INVALID_URL"),
        ("http://sandbox.invalid/", "INVALID_URL"),
        ("ftp://127.0.0.1/", "INVALID_URL"),
        ("http://", "INVALID_URL"),
        ("no address", "INVALID_URL"),
        ("http://127.0.0.1:1/", "NETWORK_ERROR"),
    ],
)
def test_only_this_machine_is_fetched_from(caller: Caller, url: str, code: str):
    answer = caller.http.post("/v1/extract", json={"url": url})
    assert answer.status_code == 422
    assert answer.json()["error"]["code"] == code


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({}, ["body", "url"]),
        ({"url": ""}, ["body", "url"]),
        ({"url": "http://127.0.0.1/", "formats": ["pdf"]}, ["body", "formats", 0]),
        ({"url": "http://127.0.0.1/", "timeout": 999}, ["body", "timeout"]),
        ({"url": "http://127.0.0.1/", "proxy": {"country": "de"}}, ["body", "proxy", "country"]),
        (
            {"url": "http://127.0.0.1/", "wait_config": {"wait_timeout": 30001}},
            ["body", "wait_config", "wait_timeout"],
        ),
        ([], ["body"]),
    ],
)
def test_a_body_out_of_bounds_says_where_and_makes_no_job(caller: Caller, body: object, place: list[object]):
    answer = caller.http.post("/v1/extract", json=body)
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["loc"] == place
    assert caller.sandbox.truth()["jobs"] == []


def test_a_body_that_is_no_json_is_a_bad_request(caller: Caller):
    answer = caller.http.post("/v1/extract", content=b"{url", headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (400, "BAD_REQUEST")


def test_a_call_without_a_key_is_unauthorized_and_the_controls_need_none(sandbox: SandboxServer):
    for path in ("/v1/extract/jobs", "/v1/usage/concurrency", "/v1/extract/x", "/v1/statistics"):
        assert httpx.get(f"{sandbox.url}{path}", timeout=60).status_code == 401
    for path in (
        "/health",
        "/sandbox/truth",
        "/sandbox/faults",
        "/sandbox/targets",
        "/site/",
        "/site/pages/1",
    ):
        assert httpx.get(f"{sandbox.url}{path}", timeout=60).status_code == 200


def test_targets_come_a_url_a_line(sandbox: SandboxServer):
    answer = httpx.get(f"{sandbox.url}/sandbox/targets", params={"pages": 20}, timeout=60)
    assert answer.headers["Content-Type"].startswith("text/plain")
    lines = answer.text.splitlines()
    assert len(lines) == 20
    assert lines[0] == f"{sandbox.url}/site/pages/1"
    answer = httpx.get(f"{sandbox.url}/sandbox/targets", params={"pages": "many"}, timeout=60)
    assert answer.status_code == 400


def test_the_date_header_follows_the_service_clock(caller: Caller):
    for shift in (timedelta(), timedelta(minutes=5), timedelta(minutes=-5)):
        caller.sandbox.set_faults(clock_shift=shift.total_seconds())
        before = datetime.now(UTC) - timedelta(seconds=1)  # the header tells whole seconds
        answer = caller.listing()
        assert len(answer.headers.get_list("Date")) == 1
        shown = parsedate_to_datetime(answer.headers["Date"])
        created = datetime.fromisoformat(caller.job(caller.submit("pages/1")).json()["created_at"])
        for told in (shown, created):
            assert before <= told - shift <= datetime.now(UTC)


def test_concurrency_can_be_a_limit():
    config = SandboxConfig(
        work_concurrency_limit=2, refuse_above_concurrency=True, min_delay=60, max_delay=60
    )
    with SandboxServer(config) as sandbox:
        caller = Caller(sandbox)
        with caller.http:
            assert [caller.post("pages/1").status_code for _ in range(3)] == [202, 202, 429]
            assert caller.post("pages/1").json()["code"] == "WORK_CONCURRENCY_LIMITED"


def test_errors_and_listings_come_in_the_other_form_too():
    config = SandboxConfig(listing_key="items", error_form="wrapped", echo_urls="normalised", max_delay=0.2)
    with SandboxServer(config) as sandbox:
        caller = Caller(sandbox)
        with caller.http:
            assert caller.job("unknown").json()["error"]["code"] == "NOT_FOUND"
            url = f"HTTP://127.0.0.1:{sandbox.url.rpartition(':')[2]}#top"
            caller.http.post("/v1/extract", json={"url": url, "processing_mode": "async"})
            assert [job["url"] for job in caller.listing().json()["items"]] == [f"{sandbox.url}/"]


async def test_the_app_runs_without_a_server_and_by_a_clock_of_the_tests():
    noon = datetime(2026, 5, 27, 12, tzinfo=UTC)
    app = create_app(
        SandboxConfig(min_delay=60, max_delay=60), clock=Clock(now=lambda: noon, monotonic=lambda: 0.0)
    )
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://s", headers={"X-Api-Key": "k"}
    ) as http:
        accepted = await http.post("/v1/extract", json={"url": "http://s/site/", "processing_mode": "async"})
        job = (await http.get(accepted.json()["status_url"])).json()
        assert (job["status"], job["created_at"]) == ("queued", "2026-05-27T12:00:00.000000Z")
        assert accepted.headers["Date"] == "Wed, 27 May 2026 12:00:00 GMT"
