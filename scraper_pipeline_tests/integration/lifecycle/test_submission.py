"""Submission against a real service: what is sent, what is believed, and what is never sent twice."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select

from scraper_pipeline.ledger import Target, hash_url
from scraper_pipeline.ledger.schema import dead_letters, submissions
from scraper_pipeline.scraper_api import (
    AcceptedJob,
    PaymentRequired,
    ScraperClient,
    ScraperError,
    ServerError,
    Throttled,
    Unauthorized,
)
from scraper_pipeline.scraper_api.pacing import Budget
from scraper_pipeline_tests.integration.ledger.driving import rows
from scraper_pipeline_tests.integration.lifecycle.world import DAY, World

# What the ledger does here, its own tests try on both databases.
pytestmark = pytest.mark.parametrize("fresh_url", ["sqlite"], indirect=True)

NEXT_DAY = "2026-03-02"


async def test_each_target_is_sent_once_and_bound_to_the_job_that_it_made(world: World) -> None:
    world.patient(submit_chunk=7)
    urls = world.urls(20)
    report = await world.submit(*urls)
    assert (report.accepted, report.refused, report.released, report.unresolved) == (20, 0, 0, 0)
    assert world.posts() == 20
    bound = {row.url: row.job_id for row in rows(world.ledger, select(submissions))}
    assert bound == {job["url"]: job["job_id"] for job in world.jobs()}
    assert (await world.submit(*urls)).accepted == 0
    assert world.posts() == 20


async def test_each_chunk_is_reported_when_it_has_been_recorded(world: World) -> None:
    world.patient(submit_chunk=4)
    seen: list[tuple[int, int]] = []
    await world.submit(
        *world.urls(10),
        on_chunk=lambda report: seen.append((report.accepted, world.ledger.progress.of(DAY).accepted)),
    )
    assert seen == [(4, 4), (8, 8), (10, 10)]


@pytest.mark.parametrize("fault", ["answer_lost", "post_502_after_accept", "unreadable_answer"])
async def test_a_lost_answer_is_never_followed_by_a_second_post(world: World, fault: str) -> None:
    world.service.set_faults(**{fault: {"url_contains": "pages/1"}})
    report = await world.submit(world.url("pages/1"), world.url("pages/2"))
    assert (report.accepted, report.unresolved, report.released) == (1, 1, 0)
    await world.submit()
    world.service.clear_faults()
    assert world.posts() == 2
    world.let_grace_pass()
    assert (await world.resolve()).bound == 1
    await world.bring_to_an_end()
    assert world.posts() == 2
    assert world.ledger.progress.of(DAY).stored == 2
    assert world.violations() == []


@pytest.mark.parametrize("form", ["html", "empty", "no_job_id", "array", "cut"])
async def test_an_unreadable_acceptance_proves_nothing(world: World, form: str) -> None:
    world.service.set_faults(unreadable_answer={"form": form})
    with pytest.raises(ScraperError):
        await world.submit(world.url("pages/1"))
    assert world.ledger.progress.of(DAY).sending == 1
    assert world.posts() == 1


async def test_a_server_error_proves_nothing_even_where_no_job_was_made(world: World) -> None:
    world.service.set_faults(post_500_before=1)
    with pytest.raises(ServerError):
        await world.submit(world.url("pages/1"))
    assert world.ledger.progress.of(DAY).sending == 1
    world.let_grace_pass()
    assert (await world.resolve()).planned_again == 1
    await world.bring_to_an_end()
    [row] = rows(world.ledger, select(submissions))
    assert (row.state, row.attempt) == ("stored", 1)
    assert world.violations() == []


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        pytest.param({"unauthorized": True}, Unauthorized, id="401"),
        pytest.param({"forbidden": True}, Unauthorized, id="403"),
        pytest.param({"payment_required": True}, PaymentRequired, id="402"),
    ],
)
async def test_a_refusal_of_the_account_stops_the_run_and_leaves_all_planned(
    world: World, fault: dict[str, bool], error: type[ScraperError]
) -> None:
    world.patient(concurrency=2)
    world.service.set_faults(**fault)
    with pytest.raises(error) as raised:
        await world.submit(*world.urls(30))
    assert world.posts() <= 2, "the rest of the work is not hammered"
    assert ";" in str(raised.value), "the message says what to do"
    progress = world.ledger.progress.of(DAY)
    assert (progress.planned, progress.sending, progress.dead) == (30, 0, 0)
    assert rows(world.ledger, select(dead_letters)) == []
    world.service.clear_faults()
    await world.bring_to_an_end()
    assert len(world.jobs()) == 30
    assert world.violations() == []


async def test_what_is_throttled_beyond_its_lease_stays_planned(world: World) -> None:
    world.retries = replace(world.retries, throttling=Budget(1000, 6000.0), longest_retry_after=60.0)
    world.service.set_faults(rate_limit_429={"retry_after": 7})
    with pytest.raises(Throttled):
        await world.submit(*world.urls(5))
    progress = world.ledger.progress.of(DAY)
    assert (progress.planned, progress.sending, progress.dead) == (5, 0, 0)
    assert world.jobs() == []


async def test_a_balance_that_runs_out_on_the_way_loses_and_parks_nothing(world: World) -> None:
    world.patient(concurrency=2)
    world.service.set_faults(balance=5)
    with pytest.raises(PaymentRequired):
        await world.submit(*world.urls(12))
    progress = world.ledger.progress.of(DAY)
    assert (progress.accepted, progress.planned, progress.dead) == (5, 7, 0)


async def test_a_target_that_the_service_refuses_is_parked_and_the_others_go_on(world: World) -> None:
    empty = Target("1" * 32, "", {})
    impossible = Target("2" * 32, world.url("pages/9"), {"country": "nowhere"})
    world.ledger.submissions.plan(DAY, [empty, impossible])
    report = await world.submit(*world.urls(3))
    assert (report.accepted, report.refused) == (3, 2)
    letters = {row.target_id: row.error_code for row in rows(world.ledger, select(dead_letters))}
    assert letters == {empty.target_id: "INVALID_REQUEST", impossible.target_id: "INVALID_OPTIONS"}
    assert world.posts() == 4, "options that can't be sent are not sent"
    assert world.ledger.audit.check() == []


async def test_a_chunk_in_which_all_are_refused_is_no_failure_of_the_service(world: World) -> None:
    world.ledger.submissions.plan(DAY, [Target("1" * 32, "", {})])
    assert (await world.submit()).refused == 1


async def test_no_post_is_begun_that_can_not_end_inside_its_lease(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes 19 seconds, as far as the clock tells: of a lease of 60 the fourth would have 3."""
    world.patient(concurrency=1)
    submit = ScraperClient.submit_extract

    async def submit_slowly(*args: Any, **options: Any) -> AcceptedJob:
        accepted = await submit(*args, **options)
        world.clock.advance(19)
        return accepted

    with monkeypatch.context() as patch:
        patch.setattr(ScraperClient, "submit_extract", submit_slowly)
        report = await world.submit(*world.urls(8), seconds=30.0)
    assert (report.accepted + report.unresolved, report.released) == (3, 5)
    assert world.posts() == 3
    world.let_grace_pass()
    await world.resolve()
    await world.bring_to_an_end()
    assert world.violations() == []


async def test_an_answer_that_comes_after_the_lease_is_not_waited_for(world: World) -> None:
    world.patient(send_lease=4.0)
    world.retries = replace(world.retries, least_request_seconds=0.2)
    world.service.set_faults(slow_answer={"seconds": 60})
    with pytest.raises(ScraperError):
        await world.submit(world.url("pages/1"))
    assert world.ledger.progress.of(DAY).sending == 1
    world.service.clear_faults()
    world.let_grace_pass()
    await world.bring_to_an_end()
    assert world.posts() == 1
    assert world.violations() == []


async def test_a_limit_on_pages_leaves_the_rest_planned(world: World) -> None:
    report = await world.submit(*world.urls(10), max_pages=4)
    assert (report.accepted, report.limited) == (4, True)
    assert world.posts() == 4
    assert world.ledger.progress.of(DAY).planned == 6


async def test_a_limit_on_the_day_counts_what_all_runs_have_sent_since_midnight(world: World) -> None:
    world.patient(daily_page_limit=5)
    assert (await world.submit(*world.urls(3), day=NEXT_DAY)).accepted == 3
    report = await world.submit(*world.urls(10))
    assert (report.accepted, report.limited) == (2, True)
    world.clock.advance(24 * 3600)
    assert (await world.submit()).accepted == 5


async def test_a_limit_counts_pages_whose_answer_was_lost(world: World) -> None:
    world.service.set_faults(answer_lost={"url_contains": "pages/1"})
    report = await world.submit(world.url("pages/1"), world.url("pages/2"), *world.urls(9)[2:], max_pages=3)
    assert report.accepted + report.unresolved == world.posts() == 3


async def test_a_url_of_five_thousand_bytes_is_submitted_and_settled(world: World) -> None:
    url = world.url("pages/1?q=" + "x" * 5000)
    await world.bring_to_an_end(url)
    assert world.ledger.progress.of(DAY).stored == 1
    assert [job["url"] for job in world.jobs()] == [url]


async def test_the_same_url_with_other_options_is_sent_after_the_first_and_not_beside_it(
    world: World,
) -> None:
    url = world.url("pages/1")
    world.ledger.submissions.plan(
        DAY, [Target(hash_url(url), url), Target("f" * 32, url, {"formats": ["html"]})]
    )
    report = await world.submit()
    assert report.accepted == world.posts() == 2
    await world.bring_to_an_end()
    assert world.violations() == []
