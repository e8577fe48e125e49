"""Each ordered fault, seen from outside."""

import gzip
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
import pytest

from scraper_pipeline.sandbox.clock import Clock
from scraper_pipeline_tests.integration.lifecycle.world import WorldClock
from scraper_pipeline_tests.integration.sandbox.conftest import Caller, calling


@pytest.fixture
def timeless() -> Iterator[Caller]:
    """All calls come at the same moment."""
    with calling(clock=Clock(monotonic=lambda: 0.0)) as caller:
        yield caller


def true_urls(caller: Caller) -> list[str]:
    return [job["url"] for job in caller.sandbox.truth()["jobs"]]


def test_a_lost_answer_leaves_a_job_behind(caller: Caller):
    caller.sandbox.set_faults(answer_lost=2)
    for _ in range(2):
        with pytest.raises(httpx.RemoteProtocolError, match="without sending a response"):
            caller.post("pages/1")
    assert caller.post("pages/1").status_code == 202
    assert true_urls(caller) == [caller.page("pages/1")] * 3
    assert caller.sandbox.faults() == {
        "faults": {"answer_lost": [{"count": 2}]},
        "remaining": {"answer_lost": 0},
        "struck": {"answer_lost": 2},
    }
    assert caller.sandbox.truth()["answers"] == {"POST /v1/extract cut": 2, "POST /v1/extract 202": 1}


def test_a_connection_cut_before_leaves_none(caller: Caller):
    caller.sandbox.set_faults(cut_before={"count": 1, "on": "post"})
    assert caller.listing().status_code == 200
    with pytest.raises(httpx.TransportError):
        caller.post("pages/1")
    assert true_urls(caller) == []


def test_server_errors_before_and_after_a_job_is_made(caller: Caller):
    caller.sandbox.set_faults(
        post_500_before={"count": 1, "status": 503, "retry_after": 7},
        post_502_after_accept={"count": 1, "url_contains": "pages/2"},
    )
    before = caller.post("pages/1")
    assert (before.status_code, before.headers["Retry-After"]) == (503, "7")
    assert caller.post("pages/1").status_code == 202
    assert caller.post("pages/2").status_code == 502
    assert true_urls(caller) == [caller.page("pages/1"), caller.page("pages/2")]


def test_a_slow_answer_outlasts_the_caller_and_leaves_a_job(caller: Caller):
    caller.sandbox.set_faults(slow_answer={"seconds": 60})
    body = {"url": "http://x/", "processing_mode": "async"}
    while not true_urls(caller):  # what was not even read in time has left none
        with pytest.raises(httpx.ReadTimeout):
            caller.http.post("/v1/extract", json=body, timeout=httpx.Timeout(60, read=0.2))
    assert set(true_urls(caller)) == {"http://x/"}


@pytest.mark.parametrize("form", ["html", "empty", "no_job_id", "array"])
def test_an_unreadable_answer_is_accepted_and_names_no_job(caller: Caller, form: str):
    caller.sandbox.set_faults(unreadable_answer={"count": 1, "form": form})
    answer = caller.post("pages/1")
    assert answer.status_code == 202
    try:
        body = answer.json()
    except ValueError:
        body = None
    assert not (isinstance(body, dict) and "job_id" in body)
    assert len(true_urls(caller)) == 1


def test_an_answer_can_break_off_in_the_middle(caller: Caller):
    caller.sandbox.set_faults(unreadable_answer={"count": 1, "form": "cut"})
    with pytest.raises(httpx.RemoteProtocolError, match="without sending complete message body"):
        caller.post("pages/1")
    job_id = caller.finished("pages/2")
    caller.sandbox.set_faults(truncated_body=1)
    with pytest.raises(httpx.RemoteProtocolError, match="without sending complete message body"):
        caller.job(job_id)
    assert caller.job(job_id).json()["status"] == "completed"


@pytest.mark.parametrize(
    ("order", "headers"),
    [
        (120, ["120"]),
        ("1_000", ["1_000"]),
        ("１２", ["１２"]),
        ("", [""]),
        (["3", "9"], ["3", "9"]),
        (None, []),
    ],
)
def test_throttling_says_when_to_return_in_any_form(caller: Caller, order: Any, headers: list[str]):
    caller.sandbox.set_faults(rate_limit_429={"retry_after": order})
    answer = caller.listing()
    assert (answer.status_code, answer.json()["retryable"]) == (429, True)
    raw = [value.decode() for name, value in answer.headers.raw if name.lower() == b"retry-after"]
    assert raw == headers


def test_throttling_may_give_a_date_on_the_service_clock(caller: Caller):
    caller.sandbox.set_faults(rate_limit_429={"retry_after": "date", "seconds": 90}, clock_shift=600)
    before = datetime.now(UTC) - timedelta(seconds=1)  # the header tells whole seconds
    when = parsedate_to_datetime(caller.listing().headers["Retry-After"])
    assert before <= when - timedelta(seconds=690) <= datetime.now(UTC)


def test_a_standing_rate_admits_so_many_and_refuses_the_rest(timeless: Caller):
    timeless.sandbox.set_faults(rate=5)
    answers = [timeless.listing() for _ in range(12)]
    assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 7
    assert {answer.headers["Retry-After"] for answer in answers[5:]} == {"1"}
    timeless.sandbox.set_faults(rate=None)
    assert timeless.listing().status_code == 200


@pytest.mark.parametrize("form", ["bucket", "fixed", "sliding"])
def test_a_standing_rate_may_be_counted_in_several_ways(timeless: Caller, form: str):
    timeless.sandbox.set_faults(rate=0.5, rate_form=form)
    assert [timeless.listing().status_code for _ in range(4)] == [200, 429, 429, 429]


@pytest.mark.parametrize(("order", "headers"), [(None, []), (60, ["60"]), ("needed", ["2"])])
def test_a_standing_rate_may_say_when_to_come_back_or_not(
    timeless: Caller, order: object, headers: list[str]
):
    timeless.sandbox.set_faults(rate=0.5, rate_retry_after=order)
    timeless.listing()
    refused = timeless.listing()
    assert refused.status_code == 429
    assert refused.headers.get_list("Retry-After") == headers


def test_a_used_up_balance_refuses_before_it_could_be_overdrawn(caller: Caller):
    caller.sandbox.set_faults(balance=2, never_finish={"count": 1, "url_contains": "pages/2"})
    assert caller.wait(caller.submit("broken/1"))["charged"] == 0
    caller.finished("pages/1")
    caller.submit("pages/2")
    assert caller.post("pages/3").status_code == 402
    caller.sandbox.set_faults(balance=3)
    assert caller.post("pages/3").status_code == 202


def test_refusals_of_the_account(caller: Caller):
    caller.sandbox.set_faults(forbidden={"count": 1, "on": "get"}, unauthorized={"count": 1, "on": "list"})
    assert caller.job("x").status_code == 403
    assert caller.listing().status_code == 401
    assert caller.listing().status_code == 200


def test_latency_delays_every_answer_that_it_aims_at(caller: Caller):
    caller.sandbox.set_faults(latency={"seconds": 0.3, "on": "usage"})
    caller.listing()
    assert "latency" not in caller.sandbox.faults()["struck"]
    before = time.perf_counter()
    caller.http.get("/v1/usage/concurrency")
    assert time.perf_counter() - before > 0.29
    assert caller.sandbox.faults()["struck"] == {"latency": 1}


def test_server_errors_of_reading_calls(caller: Caller):
    job_id = caller.finished("pages/1")
    caller.sandbox.set_faults(get_500={"count": 1, "status": 504}, list_500=1)
    assert [caller.job(job_id).status_code for _ in range(2)] == [504, 200]
    assert [caller.listing().status_code for _ in range(2)] == [500, 200]


def test_a_job_can_be_missing_for_an_answer_or_for_a_while():
    clock = WorldClock()
    with calling(clock=clock.for_service) as caller:
        job_id = caller.finished("pages/1")
        caller.sandbox.set_faults(job_404=1)
        assert [caller.job(job_id).status_code for _ in range(2)] == [404, 200]
        caller.sandbox.set_faults(job_404={"count": 1, "seconds": 3600})
        assert [caller.job(job_id).status_code for _ in range(2)] == [404, 404]
        clock.advance(3600)
        assert caller.job(job_id).status_code == 200
        caller.sandbox.set_faults(job_404={"url_contains": "pages/1", "status": 410})
        assert [caller.job(job_id).status_code for _ in range(2)] == [410, 410]
        caller.sandbox.clear_faults()
        assert caller.job(job_id).status_code == 200


def test_results_expire_after_their_time(caller: Caller):
    job_id = caller.finished("pages/1")
    caller.sandbox.set_faults(expire_results_after=60)
    assert caller.job(job_id).status_code == 200
    caller.sandbox.set_faults(expire_results_after=0)
    assert caller.job(job_id).status_code == 410
    caller.sandbox.set_faults(expired_status=404)
    assert caller.job(job_id).status_code == 404


def test_a_small_body_expands_to_many_megabytes(caller: Caller):
    job_id = caller.finished("pages/1")
    caller.sandbox.set_faults(gzip_bomb={"count": 1, "megabytes": 50})
    with caller.http.stream("GET", f"/v1/extract/{job_id}") as answer:
        packed = b"".join(answer.iter_raw())
    assert answer.headers["Content-Encoding"] == "gzip"
    assert len(packed) < 60_000
    assert 50 * 2**20 < len(gzip.decompress(packed)) < 51 * 2**20


def test_a_plain_body_may_claim_to_be_gzip(caller: Caller):
    job_id = caller.finished("pages/1")
    caller.sandbox.set_faults(false_gzip=1)
    with pytest.raises(httpx.DecodingError):
        caller.job(job_id)


def test_strange_text_is_json_all_the_same(caller: Caller):
    job_id = caller.finished("pages/1")
    caller.sandbox.set_faults(strange_text=1)
    body = caller.job(job_id).json()
    assert body["data"]["markdown"].startswith("a\0b \ud800")
    assert body["metadata"]["k\0ey"] == "value\0"
    assert "title" not in caller.job(job_id).json()["metadata"]


@pytest.mark.parametrize(("form", "expected"), [("null", None), ("object", {}), ("blank", {"markdown": ""})])
def test_a_completed_job_may_come_without_its_page(caller: Caller, form: str, expected: object):
    job_id = caller.finished("pages/1")
    caller.sandbox.set_faults(empty_data={"count": 1, "form": form})
    body = caller.job(job_id).json()
    assert (body["status"], body["data"]) == ("completed", expected)


def test_odd_timestamps_take_turns(caller: Caller):
    job_id = caller.finished("pages/1")
    caller.sandbox.set_faults(odd_timestamps={"forms": ["date", "words"], "on": "get"})
    assert [len(caller.job(job_id).json()["completed_at"]) for _ in range(2)] == [10, 11]
    assert caller.listing().json()["jobs"][0]["created_at"].endswith("Z")
    caller.sandbox.set_faults(odd_timestamps={"forms": ["words"], "on": "list"})
    assert caller.listing().json()["jobs"][0]["created_at"] == "a while ago"


def test_the_listing_lags_and_may_be_capped():
    clock = WorldClock()
    with calling(clock=clock.for_service) as caller:
        first = caller.finished("pages/1")
        caller.sandbox.set_faults(listing_lag=3600)
        second = caller.finished("pages/2")
        assert caller.job(second).status_code == 200
        assert caller.listed() == [first]
        clock.advance(3600)
        assert caller.listed() == [second, first]
        caller.sandbox.set_faults(listing_capped_above=1)
        capped = caller.listing().json()
        assert (len(capped["jobs"]), capped["page_count"], capped["is_capped"]) == (1, 1, True)


def test_a_page_of_the_listing_may_be_empty_and_the_count_still_right(caller: Caller):
    caller.finished("pages/1")
    caller.sandbox.set_faults(listing_empty_page=1)
    empty, full = caller.listing().json(), caller.listing().json()
    assert (empty["jobs"], empty["page_count"]) == ([], 1)
    assert len(full["jobs"]) == 1


def test_a_job_may_never_finish_or_be_late_or_show_a_status_that_nobody_knows(caller: Caller):
    caller.sandbox.set_faults(
        never_finish={"url_contains": "pages/1"},
        late_job={"url_contains": "pages/2", "seconds": 60},
        unknown_status={"url_contains": "pages/", "status": "archived"},
    )
    stuck, late, odd = caller.submit("pages/1"), caller.submit("pages/2"), caller.submit("pages/3")
    assert caller.wait(odd)["status"] == "completed"
    for job_id in (stuck, late):
        assert caller.job(job_id).json()["status"] == "archived"
        caller.sandbox.finish_job(job_id)
        assert caller.wait(job_id)["status"] == "completed"


def test_jobs_can_be_told_to_fail_or_to_be_cancelled(caller: Caller):
    caller.sandbox.set_faults(
        job_failed=[
            {"url_contains": "pages/1", "code": "CAPTCHA_CHALLENGE", "count": 1},
            {"url_contains": "pages/2", "code": "PROXY_ERROR", "retryable": False},
        ],
        job_cancelled={"url_contains": "pages/3"},
    )
    assert caller.wait(caller.submit("pages/1"))["error_code"] == "CAPTCHA_CHALLENGE"
    assert caller.wait(caller.submit("pages/1"))["status"] == "completed"
    failed = caller.job(caller.finished("pages/2")).json()
    assert (failed["error"]["code"], failed["error"]["retryable"]) == ("PROXY_ERROR", False)
    assert caller.wait(caller.submit("pages/3"))["status"] == "cancelled"


def test_a_degraded_service_still_answers(caller: Caller):
    caller.sandbox.set_faults(unhealthy={"status": "degraded"})
    answer = caller.http.get("/health")
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded")


def test_orders_with_mistakes_are_refused_with_the_place(caller: Caller):
    with pytest.raises(ValueError, match="answer_lots"):
        caller.sandbox.set_faults(answer_lots=1)
    assert caller.http.post("/sandbox/faults", content=b"[]").status_code == 400
    assert caller.http.post("/sandbox/faults", content=b"{").status_code == 400
    assert caller.sandbox.faults()["faults"] == {}
