"""Rule 5 against a real service: what became of a submission whose answer was lost."""

import asyncio
from datetime import timedelta

import pytest
from sqlalchemy import select

from scraper_pipeline.ledger.schema import dead_letters, submissions
from scraper_pipeline.lifecycle import resolve_lost_answers
from scraper_pipeline.scraper_api import DeadlineExceeded, ServerError
from scraper_pipeline_tests.integration.ledger.driving import execute, rows
from scraper_pipeline_tests.integration.lifecycle.world import DAY, World

# What the ledger does here, its own tests try on both databases.
pytestmark = pytest.mark.parametrize("fresh_url", ["sqlite"], indirect=True)

NEXT_DAY = "2026-03-02"


def _bound_job(world: World, url: str) -> str | None:
    job_id: str | None = [row.job_id for row in rows(world.ledger, select(submissions)) if row.url == url][-1]
    return job_id


async def _lose(world: World, *urls: str, day: str = DAY) -> list[str]:
    """Claim and post these URLs as a run does that is killed before it records anything; returns the jobs' ids."""
    world.plan(*urls, day=day)
    return [(await world.post(claimed.url)).job_id for claimed in world.claim(day)]


async def test_nothing_is_asked_while_no_row_is_past_its_grace(world: World) -> None:
    await _lose(world, world.url("pages/1"))
    world.clock.advance(world.policy.send_lease + world.policy.send_grace - 1)
    assert (await world.resolve()).requests == world.listings() == 0
    assert world.ledger.progress.of(DAY).sending == 1


async def test_the_job_of_a_lost_answer_is_found_and_settled(world: World) -> None:
    [job] = await _lose(world, world.url("pages/1"))
    world.let_grace_pass()
    report = await world.resolve()
    assert (report.bound, report.planned_again, report.waiting) == (1, 0, 0)
    assert _bound_job(world, world.url("pages/1")) == job
    world.settle()
    assert world.violations() == []


async def test_a_post_that_never_arrived_is_planned_again_with_the_same_attempt(world: World) -> None:
    world.plan(world.url("pages/1"))
    world.claim()
    world.let_grace_pass()
    assert (await world.resolve()).planned_again == 1
    [row] = rows(world.ledger, select(submissions))
    assert (row.state, row.attempt, row.request_id) == ("planned", 1, None)


async def test_rows_of_one_run_are_told_apart_by_their_urls(world: World) -> None:
    lost = await _lose(world, *world.urls(5))
    world.plan(world.url("pages/77"))
    world.claim()
    world.let_grace_pass()
    report = await world.resolve()
    assert (report.bound, report.planned_again) == (5, 1)
    assert {_bound_job(world, url) for url in world.urls(5)} == set(lost)
    assert report.requests <= 3, "one listing serves them all"


async def test_a_job_from_before_the_claim_is_another_programs(world: World) -> None:
    await world.post(world.url("pages/1"))
    world.clock.advance(world.policy.clock_skew + 30)
    world.plan(world.url("pages/1"))
    world.claim()
    world.let_grace_pass()
    report = await world.resolve()
    assert (report.bound, report.planned_again) == (0, 1)


async def test_a_job_from_before_one_of_two_claims_that_are_looked_up_together_is_not_that_ones(
    world: World,
) -> None:
    """The listing is read from the earlier claim on, so it has the job that was made between them."""
    world.plan(world.url("pages/1"))
    world.claim()
    await world.post(world.url("pages/2"))
    world.clock.advance(world.policy.clock_skew + 30)
    world.plan(world.url("pages/2"))
    world.claim()
    world.let_grace_pass()
    report = await world.resolve()
    assert (report.bound, report.planned_again) == (0, 2)


@pytest.mark.parametrize("is_superseded", [False, True], ids=["accepted", "superseded"])
async def test_a_job_that_another_row_holds_is_not_taken(world: World, is_superseded: bool) -> None:
    """A row of another day holds the URL's only job, and by the clocks that job was made after our claim."""
    url = world.url("broken/1") if is_superseded else world.url("pages/1")
    await world.submit(url, day=NEXT_DAY)
    if is_superseded:
        world.service.set_faults(job_failed=True)
        execute(world.ledger, "UPDATE submissions SET state = 'superseded'")
    world.plan(url)
    world.claim()
    execute_at = world.clock.now() - timedelta(seconds=30)
    with world.ledger.submissions.writing() as connection:
        connection.execute(
            submissions.update().where(submissions.c.partition_key == DAY).values(sent_at=execute_at)
        )
    world.let_grace_pass()
    report = await world.resolve()
    assert (report.bound, report.planned_again) == (0, 1)


@pytest.mark.parametrize("completed_first", [True, False])
async def test_of_several_jobs_the_one_that_was_completed_is_taken(
    world: World, completed_first: bool
) -> None:
    url = world.url("pages/1")
    world.plan(url)
    world.claim()
    jobs = []
    for is_good in (completed_first, not completed_first):
        world.service.set_faults(job_failed=not is_good)
        jobs.append((await world.post(url)).job_id)
        world.await_ends()
    world.let_grace_pass()
    assert (await world.resolve()).bound == 1
    assert _bound_job(world, url) == jobs[0 if completed_first else 1]


async def test_while_one_of_several_jobs_still_runs_the_row_waits(world: World) -> None:
    url = world.url("pages/1")
    world.plan(url)
    world.claim()
    world.service.set_faults(job_failed=1)
    await world.post(url)
    world.service.set_faults(never_finish=True)
    running = (await world.post(url)).job_id
    world.let_grace_pass()
    report = await world.resolve()
    assert (report.bound, report.planned_again, report.waiting) == (0, 0, 1)
    assert world.ledger.progress.of(DAY).sending == 1
    world.service.finish_job(running)
    world.await_ends()
    assert (await world.resolve()).bound == 1
    assert _bound_job(world, url) == running


async def test_a_single_job_that_still_runs_is_bound_and_waited_for(world: World) -> None:
    world.service.set_faults(never_finish=True)
    [job] = await _lose(world, world.url("pages/1"))
    world.let_grace_pass()
    assert (await world.resolve()).bound == 1
    assert _bound_job(world, world.url("pages/1")) == job


async def test_past_the_hard_limit_a_row_that_still_waits_is_parked(world: World) -> None:
    url = world.url("pages/1")
    world.plan(url)
    world.claim()
    world.service.set_faults(never_finish=True)
    await world.post(url)
    await world.post(url)
    world.clock.advance(world.policy.unresolved_after - 1)
    assert (await world.resolve()).waiting == 1
    world.clock.advance(2)
    report = await world.resolve()
    assert (report.waiting, report.unresolved) == (0, 1)
    [letter] = rows(world.ledger, select(dead_letters))
    assert (letter.error_code, letter.url) == ("unresolved", url)
    assert world.ledger.audit.check() == []


async def test_a_listing_that_is_cut_short_is_halved_until_it_is_whole(world: World) -> None:
    urls = world.urls(12)
    world.plan(*urls)
    lost = []
    for claimed in world.claim():
        lost.append((await world.post(claimed.url)).job_id)
        world.clock.advance(4)
    world.service.set_faults(listing_capped_above=3)
    world.let_grace_pass()
    report = await world.resolve()
    assert (report.bound, report.planned_again) == (12, 0)
    assert report.requests > 4
    assert {_bound_job(world, url) for url in urls} == set(lost)


async def test_a_listing_that_stays_cut_short_proves_no_absence(world: World) -> None:
    """More jobs in a second than the service lists: nobody may conclude that ours isn't among them."""
    for url in world.urls(6):
        await world.post(url)
    world.plan(world.url("pages/99"))
    world.claim()
    world.service.set_faults(listing_capped_above=1)
    world.let_grace_pass()
    report = await world.resolve()
    assert (report.planned_again, report.waiting) == (0, 1)
    world.clock.advance(world.policy.unresolved_after)
    assert (await world.resolve()).unresolved == 1


async def test_a_listing_of_many_pages_is_read_to_its_end(world: World) -> None:
    world.plan(world.url("pages/1"))
    [claimed] = world.claim()
    job = (await world.post(claimed.url)).job_id
    async with world.client() as client:
        for number in range(210):
            await client.submit_extract(f"{world.service.url}/elsewhere/{number}")
    world.let_grace_pass()
    report = await world.resolve()
    assert (report.bound, report.planned_again) == (1, 0), "the oldest job is on the last page"
    assert _bound_job(world, claimed.url) == job


async def test_a_listing_that_fails_is_an_error_and_decides_nothing(world: World) -> None:
    await _lose(world, world.url("pages/1"))
    world.let_grace_pass()
    world.service.set_faults(list_500=True)
    with pytest.raises(ServerError):
        await world.resolve()
    assert world.ledger.progress.of(DAY).sending == 1


@pytest.mark.parametrize("ahead", [300.0, -300.0], ids=["ahead", "behind"])
async def test_a_service_whose_clock_is_minutes_off_is_understood(world: World, ahead: float) -> None:
    world.service.set_faults(clock_shift=ahead)
    [job] = await _lose(world, world.url("pages/1"))
    world.clock.advance(3)
    world.plan(world.url("pages/2"))
    world.claim()
    world.let_grace_pass()
    report = await world.resolve()
    assert (report.bound, report.planned_again) == (1, 1)
    assert _bound_job(world, world.url("pages/1")) == job


async def test_a_job_that_the_listing_shows_late_is_found_if_it_lags_less_than_the_grace(
    world: World,
) -> None:
    world.service.set_faults(listing_lag=world.policy.send_grace - 20)
    await _lose(world, world.url("pages/1"))
    world.let_grace_pass()
    assert (await world.resolve()).bound == 1


@pytest.mark.parametrize("form", ["hundredths", "naive", "doubled_zone", "nanoseconds", "words"])
async def test_a_time_in_an_odd_form_loses_no_job(world: World, form: str) -> None:
    [job] = await _lose(world, world.url("pages/1"))
    world.service.set_faults(odd_timestamps={"on": "list", "forms": [form]})
    world.let_grace_pass()
    assert (await world.resolve()).bound == 1
    assert _bound_job(world, world.url("pages/1")) == job


@pytest.mark.parametrize("form", ["date", "leap_second"])
async def test_a_time_that_is_told_too_roughly_loses_no_job(world: World, form: str) -> None:
    """A job said to be made on a day, or in a second that isn't, may have been made after the claim."""
    [job] = await _lose(world, world.url("pages/1"))
    world.service.set_faults(odd_timestamps={"on": "list", "forms": [form]})
    world.let_grace_pass()
    report = await world.resolve()
    assert report.planned_again == 0, "planned again, the page would be paid twice"
    assert _bound_job(world, world.url("pages/1")) in (job, None)


async def test_resolving_twice_at_once_binds_once(world: World) -> None:
    await _lose(world, *world.urls(4))
    world.let_grace_pass()
    reports = await asyncio.gather(world.resolve(), world.resolve())
    assert sum(report.bound for report in reports) == 4
    assert world.ledger.audit.check() == []


async def test_a_listing_with_a_page_that_is_short_proves_no_absence(world: World) -> None:
    [job] = await _lose(world, world.url("pages/1"))
    for number in range(101):
        await world.post(world.url(f"pages/{1000 + number}"))
    world.let_grace_pass()
    world.service.set_faults(listing_empty_page={"count": 2})
    report = await world.resolve()
    assert (report.planned_again, report.waiting) == (0, 1)
    world.service.clear_faults()
    assert (await world.resolve()).bound == 1
    assert _bound_job(world, world.url("pages/1")) == job


async def test_an_empty_last_page_that_is_counted_proves_no_absence(world: World) -> None:
    [job] = await _lose(world, world.url("pages/1"))
    world.let_grace_pass()
    world.service.set_faults(listing_empty_page=True)
    report = await world.resolve()
    assert (report.planned_again, report.waiting) == (0, 1)
    world.service.clear_faults()
    assert (await world.resolve()).bound == 1
    assert _bound_job(world, world.url("pages/1")) == job


async def test_listings_that_never_end_in_time_do_not_keep_a_row_beyond_its_hard_limit(world: World) -> None:
    await _lose(world, world.url("pages/1"))
    world.clock.advance(world.policy.unresolved_after + 1)
    world.service.set_faults(latency={"on": "list", "seconds": 0.2})
    async with world.client() as client:
        with pytest.raises(DeadlineExceeded):
            await resolve_lost_answers(world.ledger, client, world.policy, seconds=0.1)
    assert rows(world.ledger, select(dead_letters))[0].error_code == "unresolved"
