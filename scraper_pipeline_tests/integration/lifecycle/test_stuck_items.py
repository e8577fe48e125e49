"""One item that is stuck, and everything else that goes on beside it."""

import pytest
from sqlalchemy import func, select

from scraper_pipeline.ledger import Target
from scraper_pipeline.ledger.schema import dead_letters, submissions
from scraper_pipeline.scraper_api import NetworkError, ScraperError
from scraper_pipeline_tests.integration.ledger.driving import rows
from scraper_pipeline_tests.integration.lifecycle.world import DAY, World

# What the ledger does here, its own tests try on both databases.
pytestmark = pytest.mark.parametrize("fresh_url", ["sqlite"], indirect=True)

OTHERS = ("pages/500", "pages/501")


def _states(world: World) -> dict[str, int]:
    counted = select(submissions.c.state, func.count().label("rows")).group_by(submissions.c.state)
    return {row.state: row.rows for row in rows(world.ledger, counted)}


async def _submit_a_batch_and_others(world: World) -> None:
    world.patient(submission_mode="auto")
    await world.submit(*world.urls(60))
    world.await_batches()
    world.patient(submission_mode="extract")
    await world.submit(*(world.url(path) for path in OTHERS))
    world.await_ends()


async def test_a_batch_whose_results_have_expired_stops_neither_poll_nor_sweep(world: World) -> None:
    await _submit_a_batch_and_others(world)
    world.service.set_faults(expire_results_after=600.0)
    world.clock.advance(1200)
    report = await world.poll()
    assert report.ended == 3
    world.settle()
    assert _states(world) == {"dead": 62}
    assert {letter.error_code for letter in rows(world.ledger, select(dead_letters))} == {"expired"}
    await world.sweep()


async def test_a_batch_that_answers_with_errors_stops_no_other_news_and_is_given_up_by_age(
    world: World,
) -> None:
    await _submit_a_batch_and_others(world)
    world.service.set_faults(get_500={"url_contains": "pages/1"})
    world.clock.advance(5)
    assert (await world.poll()).ended == 2
    world.patient(drain_quiet=0.0)
    world.settle()
    assert _states(world) == {"stored": 2, "accepted": 60}
    world.clock.advance(world.policy.job_timeout)
    await world.poll()
    world.settle()
    assert _states(world) == {"stored": 2, "dead": 60}


async def test_a_candidate_that_can_not_be_read_keeps_no_row_beyond_its_limit(world: World) -> None:
    world.patient(submission_mode="auto")
    world.service.set_faults(answer_lost=1)
    with pytest.raises(NetworkError):
        await world.submit(*world.urls(60))
    world.service.clear_faults()
    world.ledger.submissions.plan(DAY, [Target("crawl", world.url("pages/900"), {"limit": 5}, is_crawl=True)])
    world.service.set_faults(answer_lost=1)
    with pytest.raises(NetworkError):
        await world.submit()
    world.service.clear_faults()
    world.await_batches()
    world.await_ends_of("crawls")
    world.service.set_faults(expire_results_after=60.0)
    world.clock.advance(world.policy.send_lease + world.policy.send_grace + 70)
    report = await world.resolve()
    assert (report.bound, report.waiting) == (1, 60), "the crawl behind it is found"
    world.clock.advance(world.policy.unresolved_after)
    await world.resolve()
    assert _states(world) == {"accepted": 1, "dead": 60}


async def test_one_url_that_a_batch_fails_for_keeps_the_others_from_going_out_no_longer_than_once(
    world: World,
) -> None:
    world.patient(submission_mode="auto")
    world.service.set_faults(post_500_before={"url_contains": "pages/7"})
    world.plan(*world.urls(6), world.url("pages/7"), *(world.url(f"pages/{n}") for n in range(80, 140)))
    with pytest.raises(ScraperError):
        await world.submit()
    world.let_grace_pass()
    await world.resolve()
    await world.submit()
    assert _states(world) == {"accepted": 66, "sending": 1}


async def test_a_crawl_that_is_too_dear_holds_up_no_page_of_its_url_and_says_so(world: World) -> None:
    world.patient(daily_page_limit=30)
    url = world.url("pages/1")
    world.ledger.submissions.plan(DAY, [Target("crawl", url, {"limit": 50}, is_crawl=True)])
    world.plan(url, world.url("pages/2"))
    report = await world.submit()
    assert (report.accepted, report.limited) == (2, True)
    assert world.ledger.submissions.pages_planned(DAY) == 50


async def test_what_can_not_be_resolved_stops_no_sweep(world: World) -> None:
    world.patient(submission_mode="extract")
    await world.submit(*(world.url(path) for path in OTHERS))
    world.await_ends()
    world.plan(world.url("pages/1"))
    world.claim()
    world.clock.advance(world.policy.sweep_after + 1)
    world.service.set_faults(list_500=2)
    report = await world.sweep()
    assert report.unresolved_because
    assert report.ended == 2
