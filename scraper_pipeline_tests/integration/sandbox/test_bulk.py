"""Batches and crawls over HTTP: their truth, their bounds, and the faults that befall them."""

import time
from typing import Any

import httpx
import pytest

from scraper_pipeline.sandbox import SandboxConfig, SandboxServer
from scraper_pipeline_tests.integration.sandbox.conftest import OPTIONS, Caller, calling
from scraper_pipeline_tests.integration.sandbox.receiver import Receiver


def statuses(answer: httpx.Response) -> dict[str, str]:
    """By the last part of each item's URL."""
    return {item["url"].rpartition("/site/")[2]: item["status"] for item in answer.json()["results"]}


def test_the_truth_tells_every_page_and_charges_only_the_extracted_ones():
    paths = ("pages/1", "broken/1", "flaky/1", "slow/1", "cancelled/1", "large", "pages/1")
    with calling(fetch_timeout=0.5) as caller:
        batch = caller.batch(*paths)
        crawl = caller.crawl("pages/3", limit=3)
        for job_id in (batch, crawl):
            caller.wait_for_all(job_id)
        told = [(item["status"], item["error_code"], item["charged"]) for item in caller.true_items(batch)]
        pages = caller.true_items(crawl)
        truth = caller.sandbox.truth()
    assert told == [
        ("completed", None, 1),
        ("failed", "PERMANENT_BLOCK", 0),
        ("failed", "TEMPORARY_BLOCK", 0),
        ("failed", "TIMEOUT", 0),
        ("cancelled", "CANCELLED", 0),
        ("completed", None, 1),
        ("completed", None, 1),
    ]
    assert {page["kind"] for page in pages} == {"crawl"}
    assert truth["charged"] == 3 + sum(page["charged"] for page in pages) > 3
    assert truth["requests"] == {"POST /v1/batch": 1, "POST /v1/crawl": 1}
    assert truth["jobs"] == []


def test_a_page_is_the_same_in_a_batch_as_by_itself(caller: Caller):
    alone = caller.job(caller.finished("pages/7", formats=["markdown", "html"])).json()
    job_id = caller.batch("pages/7", "nowhere", formats=["markdown", "html"])
    caller.wait_for_all(job_id)
    together, missing = caller.look("batch", job_id).json()["results"]
    assert together["data"] == alone["data"]
    assert (missing["status"], missing["metadata"]["http_status"]) == ("completed", 404)


def test_what_is_no_page_of_the_site_by_its_address_is_fetched_all_the_same(caller: Caller):
    elsewhere = caller.page("pages/7").replace("127.0.0.1", "localhost")
    job_id = caller.batch("pages/7", elsewhere, "images/waves-1.svg", "http://192.0.2.1/")
    caller.wait_for_all(job_id)
    own, fetched, image, foreign = caller.look("batch", job_id).json()["results"]
    assert fetched["data"] == own["data"]
    assert (image["error_code"], foreign["error_code"]) == ("UNPROCESSABLE_CONTENT", "INVALID_URL")


def test_a_batch_can_be_announced_before_its_submission_is_answered(caller: Caller, receiver: Receiver):
    caller.webhook(receiver.url, "batch_completed")
    caller.sandbox.set_faults(webhook_early=1, never_finish=True)
    job_id = caller.batch("pages/1")
    (early,) = receiver.received
    assert early.job_id == job_id
    assert early.json["data"]["status"] in ("queued", "processing")


def test_the_end_of_a_batch_and_of_a_crawl_is_told_to_their_webhooks_without_content(
    caller: Caller, receiver: Receiver
):
    for event in ("batch_completed", "crawl_completed", "extract_completed"):
        caller.webhook(receiver.url, event)
    batch, crawl = caller.batch("pages/1", "broken/1"), caller.crawl("pages/1", limit=2)
    received = {one.job_id: one for one in receiver.wait(2)}
    assert set(received) == {batch, crawl}
    for job_id, event in ((batch, "batch_completed"), (crawl, "crawl_completed")):
        assert received[job_id].json["event"] == received[job_id].headers["X-Webhook-Event"] == event
        assert received[job_id].json["data"]["status"] == "completed"
        assert "results" not in received[job_id].json["data"]
    receiver.stays_at(2)


def test_a_thousand_pages_are_cheap_to_take_and_to_bring_to_their_end(caller: Caller):
    began = time.process_time()
    job_ids = [caller.batch(*(f"pages/{number}" for number in range(1000))) for _ in range(3)]
    for job_id in job_ids:
        assert caller.wait_for_all(job_id)["charged"] == 1000
    assert time.process_time() - began < 20


@pytest.mark.parametrize("count", [0, 1001])
def test_a_batch_takes_one_to_a_thousand_urls(caller: Caller, count: int):
    assert caller.post_batch(*["pages/1"] * count).status_code == 422


@pytest.mark.parametrize("status", [404, 405, 501])
def test_where_they_are_not_offered_every_call_says_so(status: int):
    options = {
        **OPTIONS,
        "batches_offered": False,
        "crawls_offered": False,
        "unoffered_status": status,
    }
    with SandboxServer(SandboxConfig.model_validate(options)) as sandbox:
        caller = Caller(sandbox)
        with caller.http:
            crawl = {"url": caller.page("pages/1")}
            assert caller.post_batch("pages/1").status_code == status
            assert caller.http.get("/v1/batch/jobs").status_code == status
            assert caller.http.delete("/v1/batch/x").status_code == status
            assert caller.http.post("/v1/crawl", json=crawl).status_code == status
            assert caller.look("crawl", "x").status_code == status


def test_pages_at_work_count_against_the_limit_and_waiting_ones_do_not(caller: Caller):
    caller.sandbox.set_faults(
        late_job={"seconds": 600, "url_contains": "pages"},
        never_finish={"url_contains": "code"},
        work_concurrency=2,
    )
    caller.batch("pages/1", "pages/2", "pages/3", "code")
    usage = caller.http.get("/v1/usage/concurrency").json()
    assert usage == {"work_concurrency_in_use": 1, "work_concurrency_limit": 2}
    busy = caller.batch("code")
    assert caller.http.get("/v1/usage/concurrency").json()["work_concurrency_in_use"] == 2
    for refused in (caller.post_batch("pages/4"), caller.post("pages/4")):
        assert (refused.status_code, refused.json()["code"]) == (429, "WORK_CONCURRENCY_LIMITED")
    caller.sandbox.finish_job(busy)
    caller.wait_for_all(busy)
    assert caller.post("pages/4").status_code == 202


def test_a_balance_that_runs_out_on_the_way_fails_the_pages_that_it_does_not_cover(caller: Caller):
    caller.sandbox.set_faults(balance=3)
    assert caller.post_batch("pages/1", "pages/2", "pages/3", "pages/4").status_code == 402
    crawl = caller.crawl("pages/1", limit=6)
    caller.wait_for_all(crawl)
    ends = [item["error_code"] for item in caller.true_items(crawl)]
    assert ends.count(None) == 3 == caller.sandbox.truth()["charged"]
    assert set(ends) == {None, "PAYMENT_REQUIRED"}
    assert caller.post_batch("pages/1").status_code == 402


def test_a_lost_answer_leaves_a_batch_behind_that_the_listing_shows(caller: Caller):
    caller.sandbox.set_faults(answer_lost={"count": 1, "url_contains": "pages/2"})
    assert caller.post_batch("pages/1").status_code == 202
    with pytest.raises(httpx.RemoteProtocolError):
        caller.post_batch("pages/1", "pages/2")
    listed = caller.http.get("/v1/batch/jobs").json()["jobs"]
    assert [line["accepted_urls"] for line in listed] == [2, 1]


def test_a_batch_is_not_listed_before_the_lag_is_over_and_capped_where_ordered(caller: Caller):
    caller.sandbox.set_faults(listing_lag=600)
    caller.batch("pages/1")
    assert caller.http.get("/v1/batch/jobs").json()["jobs"] == []
    caller.sandbox.set_faults(listing_lag=0, listing_capped_above=1)
    newest = [caller.batch("pages/1") for _ in range(2)][-1]
    listing = caller.http.get("/v1/batch/jobs").json()
    assert ([line["job_id"] for line in listing["jobs"]], listing["is_capped"]) == ([newest], True)


def test_one_page_of_results_can_fail_once(caller: Caller):
    job_id = caller.batch(*(f"pages/{number}" for number in range(30)))
    caller.wait_for_all(job_id)
    caller.sandbox.set_faults(results_500={"count": 1, "page": 2}, results_empty_page={"count": 1, "page": 3})
    answers = [caller.look("batch", job_id, page=page) for page in (1, 2, 2, 3, 3)]
    assert [answer.status_code for answer in answers] == [200, 500, 200, 200, 200]
    assert [len(answer.json()["results"]) for answer in answers[3:]] == [0, 10]


def test_the_pages_of_results_can_be_turned_around(caller: Caller):
    job_id = caller.batch(*(f"pages/{number}" for number in range(15)))
    caller.wait_for_all(job_id)

    def shown() -> list[str]:
        answers = [caller.look("batch", job_id, page=page) for page in (1, 2)]
        return [item["url"] for answer in answers for item in answer.json()["results"]]

    ordinary = shown()
    caller.sandbox.set_faults(results_reversed=True)
    assert shown() == ordinary[::-1]


def test_an_item_can_be_missing_extracted_or_not(caller: Caller):
    caller.sandbox.set_faults(
        item_missing=[{"url_contains": "pages/1"}, {"url_contains": "pages/2", "extracted": True}]
    )
    job_id = caller.batch("pages/1", "pages/2", "pages/3")
    caller.wait_for_all(job_id)
    answer = caller.look("batch", job_id)
    assert statuses(answer) == {"pages/3": "completed"}
    body = answer.json()
    assert (body["total_urls"], body["completed_urls"], body["pending_urls"]) == (3, 1, 0)
    assert [(item["status"], item["charged"]) for item in caller.true_items(job_id)] == [
        ("missing", 0),
        ("completed", 1),
        ("completed", 1),
    ]


def test_a_batch_of_missing_items_ends_too(caller: Caller):
    caller.sandbox.set_faults(item_missing=True)
    assert caller.wait_for_all(caller.batch("pages/1"))["charged"] == 0


def test_single_pages_are_told_to_fail_and_the_whole_to_end_in_any_way(caller: Caller):
    caller.sandbox.set_faults(
        job_failed={"url_contains": "pages/1", "code": "CAPTCHA_CHALLENGE"},
        job_cancelled={"url_contains": "pages/2"},
        bulk_ends_as={"status": "failed"},
    )
    job_id = caller.batch("pages/1", "pages/2", "pages/3")
    assert caller.wait_for_all(job_id)["status"] == "failed"
    answer = caller.look("batch", job_id)
    assert statuses(answer) == {"pages/1": "failed", "pages/2": "cancelled", "pages/3": "completed"}
    assert answer.json()["results"][0]["error_code"] == "CAPTCHA_CHALLENGE"


def test_absence_expiry_and_server_errors_befall_batches_as_they_do_jobs(caller: Caller):
    job_id = caller.batch("pages/1")
    caller.wait_for_all(job_id)
    caller.sandbox.set_faults(get_500=1, job_404=1)
    assert [caller.look("batch", job_id).status_code for _ in range(3)] == [500, 404, 200]
    caller.sandbox.set_faults(expire_results_after=0)
    assert caller.look("batch", job_id).status_code == 410


def test_strange_content_and_strange_answers_befall_batches_as_they_do_jobs(caller: Caller):
    job_id = caller.batch("pages/1", "pages/2")
    caller.wait_for_all(job_id)
    caller.sandbox.set_faults(
        strange_text={"url_contains": "pages/1", "count": 1},
        empty_data={"form": "null", "url_contains": "pages/2", "count": 1},
    )
    strange, empty = caller.look("batch", job_id).json()["results"]
    assert strange["data"]["markdown"].startswith("a\0b")
    assert (empty["status"], empty["data"]) == ("completed", None)
    caller.sandbox.set_faults(gzip_bomb={"count": 1, "megabytes": 2}, truncated_body=1)
    (bomb,) = caller.look("batch", job_id).json()["results"]
    assert len(bomb["data"]["markdown"]) == 2 * 1024 * 1024
    with pytest.raises(httpx.RemoteProtocolError):
        caller.look("batch", job_id)


def test_results_may_show_only_what_has_ended():
    options = {**OPTIONS, "results_shown": "ended", "faults": {"never_finish": {"url_contains": "pages/1"}}}
    with SandboxServer(SandboxConfig.model_validate(options)) as sandbox:
        caller = Caller(sandbox)
        with caller.http:
            job_id = caller.batch("pages/1", "pages/2")
            answer = caller.look("batch", job_id)
            while not answer.json()["results"]:
                answer = caller.look("batch", job_id)
            assert statuses(answer) == {"pages/2": "completed"}
            assert (answer.json()["status"], answer.json()["pending_urls"]) == ("processing", 1)


def test_a_crawl_stays_on_its_domain_unless_told_otherwise(caller: Caller):
    def found(**options: Any) -> dict[str, int]:
        body = {"url": caller.page("pages/1"), "limit": 10_000, **options}
        job_id = caller.http.post("/v1/crawl", json=body).json()["job_id"]
        caller.wait_for_all(job_id)
        items = caller.look("crawl", job_id, page_size=50).json()["results"]
        return {item["url"]: item["depth"] for item in items}

    pages = found()
    assert set(pages.values()) == {1, 2}
    assert all(url.startswith(f"{caller.sandbox.url}/site/") for url in pages)
    assert found(depth=1) == {caller.page("pages/1"): 1}


def test_total_pages_grow_as_pages_are_found(caller: Caller):
    caller.sandbox.set_faults(late_job={"seconds": 600, "url_contains": "pages/2"})
    job_id = caller.crawl("pages/1", limit=20)
    body = caller.look("crawl", job_id).json()
    while body["completed_pages"] < 1:
        body = caller.look("crawl", job_id).json()
    assert body["total_pages"] > 1
    assert body["status"] == "processing"


def test_the_same_seed_brings_the_same_fate(caller: Caller):
    def fates() -> list[str]:
        options = {**OPTIONS, "faults": {"job_failed": 0.5}}
        with SandboxServer(SandboxConfig.model_validate(options)) as sandbox:
            other = Caller(sandbox)
            with other.http:
                job_id = other.batch(*(f"pages/{number}" for number in range(40)))
                other.wait_for_all(job_id)
                return [item["status"] for item in other.true_items(job_id)]

    first = fates()
    assert first == fates()
    assert set(first) == {"completed", "failed"}
