"""Rule 7 against a real service: settled targets are submitted once more, because somebody asked for it."""

import pytest
from sqlalchemy import select

from scraper_pipeline.ledger import Channel, LetterFilter, Which
from scraper_pipeline.ledger.schema import dead_letters, submissions
from scraper_pipeline.lifecycle import ResubmissionReport, resubmit_targets, retry_letters
from scraper_pipeline_tests.integration.ledger.driving import rows
from scraper_pipeline_tests.integration.lifecycle.world import DAY, World

# What the ledger does here, its own tests try on both databases.
pytestmark = pytest.mark.parametrize("fresh_url", ["sqlite"], indirect=True)


async def _ask(world: World, which: Which = "failed", limit: int | None = None) -> ResubmissionReport:
    async with world.client() as client:
        return await resubmit_targets(world.ledger, client, DAY, which, limit)


async def _give_up(world: World, url: str) -> str:
    """Have a target given up whose job goes on; returns the job."""
    world.service.set_faults(never_finish={"url_contains": url.rpartition("/")[2]})
    await world.submit(url)
    world.clock.advance(world.policy.job_timeout + 1)
    await world.poll()
    world.settle()
    [row] = rows(world.ledger, select(submissions))
    assert (row.state, row.given_up) == ("dead", True)
    world.service.clear_faults()
    return str(row.job_id)


async def test_a_parked_target_goes_out_again_with_its_letter_resolved(world: World) -> None:
    await world.submit(world.url("broken/1"))
    world.settle()
    assert (await _ask(world)).planned == 1
    [letter] = rows(world.ledger, select(dead_letters))
    assert letter.resolution == "resubmitted"
    assert [row.state for row in rows(world.ledger, select(submissions))] == ["superseded", "planned"]
    assert world.violations() == []


async def test_the_cap_counts_from_the_resubmission(world: World) -> None:
    world.service.set_faults(job_failed={"code": "TIMEOUT", "retryable": True})
    await world.submit(world.url("pages/1"))
    await _settle_until_parked(world)
    assert rows(world.ledger, select(dead_letters))[-1].attempts == 3
    await _ask(world)
    await world.submit()
    await _settle_until_parked(world)
    assert rows(world.ledger, select(dead_letters))[-1].attempts == 6


async def _settle_until_parked(world: World) -> None:
    for _ in range(3):
        world.settle()
        world.clock.advance(60)
        await world.submit()
    assert world.ledger.progress.of(DAY).dead == 1


async def test_what_is_stored_is_left_alone_unless_all_is_asked_for(world: World) -> None:
    await world.submit(*world.urls(3))
    world.settle()
    assert (await _ask(world)).planned == 0
    assert (await _ask(world, "all", limit=2)).planned == 2
    await world.submit()
    world.settle()
    assert world.posts() == 5
    assert world.ledger.progress.of(DAY).stored == 3
    assert world.violations() == []


async def test_a_target_whose_given_up_job_still_runs_is_refused(world: World) -> None:
    await _give_up(world, world.url("pages/1"))
    assert await _ask(world) == ResubmissionReport(planned=0, running=1, settled=0)
    assert world.posts() == 1


async def test_a_given_up_job_that_was_completed_after_all_is_settled_instead(world: World) -> None:
    job = await _give_up(world, world.url("pages/1"))
    world.service.finish_job(job)
    assert await _ask(world) == ResubmissionReport(planned=0, running=0, settled=1)
    world.settle()
    assert (world.ledger.progress.of(DAY).stored, world.posts()) == (1, 1)
    assert world.violations() == []


async def test_a_target_whose_job_the_service_has_lost_goes_out_again(world: World) -> None:
    await _give_up(world, world.url("pages/1"))
    world.service.set_faults(job_404=True)
    assert await _ask(world) == ResubmissionReport(planned=1, running=0, settled=0, pages=1)


async def test_two_operators_at_once_plan_a_target_once(world: World) -> None:
    await world.submit(world.url("broken/1"))
    world.settle()
    seen_by_both = world.ledger.resubmissions.settled_targets(DAY, "failed")
    assert world.ledger.resubmissions.resubmit(seen_by_both) == 1
    assert world.ledger.resubmissions.resubmit(seen_by_both) == 0
    assert world.ledger.progress.of(DAY).planned == 1


@pytest.mark.parametrize("which", ["failed", "all"])
async def test_what_is_in_flight_is_never_resubmitted(world: World, which: Which) -> None:
    world.service.set_faults(never_finish=True)
    await world.submit(world.url("pages/1"))
    world.plan(world.url("pages/2"))
    assert (await _ask(world, which)).planned == 0


async def test_a_target_that_is_stored_while_it_is_asked_about_is_not_paid_again(world: World) -> None:
    job = await _give_up(world, world.url("pages/1"))
    as_read = world.ledger.resubmissions.settled_targets(DAY, "failed")
    world.service.finish_job(job)
    world.ledger.news.record([job], Channel.POLL)
    world.settle()
    assert world.ledger.progress.of(DAY).stored == 1
    assert world.ledger.resubmissions.resubmit(as_read) == 0


async def test_chosen_letters_are_retried_as_a_resubmission_of_all_would_do_it(world: World) -> None:
    await world.submit(world.url("broken/1"), world.url("broken/2"), world.url("broken/3"))
    world.settle()
    first, second, third = world.ledger.letters.ids(LetterFilter())
    world.ledger.letters.discard([first])
    async with world.client() as client:
        report = await retry_letters(world.ledger, client, [first, second, 999])
        assert report == ResubmissionReport(planned=2, pages=2, resolved=1)
        assert await retry_letters(world.ledger, client, [first, second]) == ResubmissionReport(resolved=2)
        assert await retry_letters(world.ledger, client, [third], max_pages=0) == ResubmissionReport(beyond=1)
    assert world.ledger.letters.ids(LetterFilter()) == [third]
    await world.submit()
    assert world.posts() == 5
    assert world.violations() == []


async def test_a_chosen_letter_of_a_job_that_still_runs_is_refused(world: World) -> None:
    await _give_up(world, world.url("pages/1"))
    async with world.client() as client:
        report = await retry_letters(world.ledger, client, world.ledger.letters.ids(LetterFilter()))
    assert report == ResubmissionReport(running=1)
