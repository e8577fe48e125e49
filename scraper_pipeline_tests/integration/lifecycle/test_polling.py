"""The poll against a real service: it looks at what is due by the cheaper way, and believes no clock but one."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta

import pytest
from sqlalchemy import select, update

from scraper_pipeline.ledger import GivenUp, LetterCode
from scraper_pipeline.ledger.schema import jobs, processed_events
from scraper_pipeline.lifecycle.polling import LEAST_REQUESTS
from scraper_pipeline.scraper_api import ServerError
from scraper_pipeline_tests.integration.ledger.driving import Interrupted, finish, rows
from scraper_pipeline_tests.integration.lifecycle.world import DAY, World

# What the ledger does here, its own tests try on both databases.
pytestmark = pytest.mark.parametrize("fresh_url", ["sqlite"], indirect=True)

# What the ledger does here, its own tests try on both databases.
pytestmark = pytest.mark.parametrize("fresh_url", ["sqlite"], indirect=True)


def _news(world: World) -> set[str]:
    return {row.job_id for row in rows(world.ledger, select(processed_events)) if row.poll_at is not None}


async def _submit(world: World, *urls: str) -> set[str]:
    """Submit, and let the first looks become due."""
    await world.submit(*urls)
    world.clock.advance(1)
    return {job["job_id"] for job in world.jobs()}


async def test_a_poll_with_nothing_due_asks_nothing(world: World) -> None:
    assert (await world.poll()).requests == world.listings() == 0


async def test_where_polling_is_off_nothing_is_asked_and_the_sweep_brings_the_news(world: World) -> None:
    world.patient(polls=False)
    accepted = await _submit(world, *world.urls(3))
    world.await_ends()
    assert (await world.poll()).requests == world.listings() == 0
    assert world.settle().stored == 0
    world.clock.advance(world.policy.sweep_after + 1)
    await world.sweep()
    assert world.settle().stored == len(accepted)


async def test_many_due_jobs_are_looked_at_by_listing(world: World) -> None:
    accepted = await _submit(world, *world.urls(130))
    world.await_ends()
    report = await world.poll()
    assert (report.looked, report.ended) == (130, 130)
    assert report.requests == world.listings() == 2
    assert _news(world) == accepted
    assert world.gets() == 0, "a poll fetches no content"


async def test_few_due_jobs_among_many_are_looked_at_one_by_one(world: World) -> None:
    accepted = await _submit(world, *world.urls(130))
    world.await_ends()
    first, last = sorted(accepted, key=[job["job_id"] for job in world.jobs()].index)[:: len(accepted) - 1]
    far = world.clock.now().replace(year=2100)
    looks = {job: None if job in (first, last) else far for job in accepted}
    world.ledger.news.schedule_looks({job: at for job, at in looks.items() if at}, {})
    report = await world.poll()
    assert (report.looked, report.ended) == (2, 2)
    assert world.listings() == 2, "a listing of all that was made between them would be as dear"
    assert _news(world) == {first, last}


def _put_off(world: World, job_ids: Iterable[str]) -> None:
    world.ledger.news.schedule_looks(dict.fromkeys(job_ids, world.clock.now().replace(year=2100)), {})


async def test_a_straggler_does_not_make_the_listing_of_the_others_long(world: World) -> None:
    [straggler] = await _submit(world, world.url("pages/1000"))
    world.clock.advance(60)
    between = await _submit(world, *world.urls(250)) - {straggler}
    world.clock.advance(60)
    due = await _submit(world, *(world.url(f"pages/{number}") for number in range(300, 312))) - between
    world.await_ends()
    _put_off(world, between)
    report = await world.poll()
    assert (report.looked, report.ended) == (13, 13)
    assert report.requests == 2, "one for the straggler, one for the listing of the rest"
    assert _news(world) == due


async def test_a_job_that_is_met_at_its_end_is_news_though_its_look_is_not_due(world: World) -> None:
    jobs_made = sorted(await _submit(world, *world.urls(12)))
    world.await_ends()
    _put_off(world, jobs_made[:4])
    report = await world.poll()
    assert (report.looked, report.ended, report.requests) == (8, 12, 1)
    assert _news(world) == set(jobs_made)
    assert {row.next_look_at for row in rows(world.ledger, select(jobs))} == {None}


async def test_a_job_of_another_program_that_is_met_at_its_end_is_no_news(world: World) -> None:
    ours = await _submit(world, *world.urls(12))
    foreign = (await world.post(world.url("pages/50"))).job_id
    world.await_ends()
    await world.poll()
    assert _news(world) == ours - {foreign}


async def test_what_was_looked_at_together_is_due_together(world: World) -> None:
    world.service.set_faults(never_finish=True)
    await _submit(world, *world.urls(12))
    await world.poll()
    assert len({row.next_look_at for row in rows(world.ledger, select(jobs))}) == 1


async def test_a_poll_asks_no_more_than_its_rate_soon_makes_up_for_and_the_rest_stays_due(
    world: World,
) -> None:
    world.patient(status_requests_per_second=0.1)
    world.service.set_faults(never_finish=True, work_concurrency=1000)
    await _submit(world, *world.urls(450))
    seen = asked = 0
    for _ in range(3):
        report = await world.poll()
        assert report.requests == world.listings() - asked <= LEAST_REQUESTS
        seen += report.looked
        asked = world.listings()
        world.clock.advance(60)
    assert seen >= 450, "the longest due first"


async def test_where_more_is_due_than_can_be_looked_at_what_ended_last_is_found_all_the_same(
    world: World,
) -> None:
    world.patient(status_requests_per_second=0.1, longest_look=0.05)
    world.service.set_faults(never_finish=True, work_concurrency=1000)
    old = await _submit(world, *world.urls(420))
    world.service.clear_faults()
    world.service.set_faults(work_concurrency=1000)
    world.clock.advance(60)
    new = await _submit(world, *(world.url(f"pages/{number}") for number in range(1000, 1010))) - old
    world.await_ends(but=420)
    world.clock.advance(1)
    assert (await world.poll()).ended == 10
    assert _news(world) == new


async def test_jobs_whose_times_were_taken_by_another_clock_are_found_though_not_where_they_should_be(
    world: World,
) -> None:
    first = await _submit(world, *world.urls(150))
    world.clock.advance(8)
    due = await _submit(world, *(world.url(f"pages/{number}") for number in range(300, 450))) - first
    world.clock.advance(8)
    last = await _submit(world, *(world.url(f"pages/{number}") for number in range(600, 750))) - first - due
    world.await_ends()
    _put_off(world, first | last)
    made = [row for row in rows(world.ledger, select(jobs)) if row.job_id in due]
    ahead = timedelta(seconds=5)
    times = {
        "sent_at": min(row.sent_at for row in made) + ahead,
        "accepted_at": max(row.accepted_at for row in made) + ahead,
    }
    with world.ledger.news.writing() as connection:
        connection.execute(update(jobs).where(jobs.c.job_id.in_(due)).values(times))
    report = await world.poll()
    assert (report.looked, report.missing) == (150, 0)
    assert _news(world) >= due


async def test_a_listing_that_is_cut_short_is_split(world: World) -> None:
    world.patient(submit_chunk=5)
    urls = world.urls(20)
    for start in range(0, 20, 5):
        await world.submit(*urls[start : start + 5])
        world.clock.advance(60)
    world.await_ends()
    world.service.set_faults(listing_capped_above=6)
    report = await world.poll()
    assert (report.looked, report.ended, report.missing) == (20, 20, 0)


async def test_where_no_listing_is_whole_each_job_is_looked_at_by_itself(world: World) -> None:
    accepted = await _submit(world, *world.urls(6))
    world.await_ends()
    world.service.set_faults(listing_capped_above=1)
    assert (await world.poll()).ended == 6
    assert _news(world) == accepted


async def test_a_job_that_still_runs_is_looked_at_again_later(world: World) -> None:
    world.service.set_faults(never_finish=True)
    [job] = await _submit(world, world.url("pages/1"))
    assert (await world.poll()).ended == 0
    [row] = rows(world.ledger, select(jobs))
    assert (row.status, row.looks) == ("processing", 1)
    assert row.next_look_at is not None
    world.service.finish_job(job)
    world.await_ends()
    world.clock.advance(world.policy.longest_look)
    assert (await world.poll()).ended == 1
    assert [row.next_look_at for row in rows(world.ledger, select(jobs))] == [None]


async def test_a_job_that_the_listing_lacks_again_and_again_is_left_to_settlement(world: World) -> None:
    world.plan(world.url("pages/1"))
    [claimed] = world.claim()
    world.bind(claimed, "nobody-knows-me")
    for _ in range(3):
        world.clock.advance(1)
        assert (await world.poll()).missing == 0
    world.clock.advance(1)
    assert (await world.poll()).missing == 1
    [event] = rows(world.ledger, select(processed_events))
    assert (event.job_id, event.poll_at) == ("nobody-knows-me", None)
    assert [one.pending for one in world.ledger.progress.partitions_to_settle()] == [1]


async def test_a_job_that_runs_for_too_long_is_left_to_settlement(world: World) -> None:
    world.service.set_faults(never_finish=True)
    await _submit(world, world.url("pages/1"))
    world.clock.advance(world.policy.job_timeout)
    assert (await world.poll()).overdue == 1
    assert [one.pending for one in world.ledger.progress.partitions_to_settle()] == [1]
    assert _news(world) == set(), "that it is overdue is no news of its end"


async def test_a_status_that_nobody_knows_is_kept_and_is_no_end(world: World) -> None:
    world.service.set_faults(unknown_status={"status": "archived"}, never_finish=True)
    await _submit(world, world.url("pages/1"))
    report = await world.poll()
    assert (report.ended, report.unknown_statuses) == (0, {"archived"})
    assert [row.status for row in rows(world.ledger, select(jobs))] == ["archived"]


@pytest.mark.parametrize("ahead", [300.0, -300.0], ids=["ahead", "behind"])
@pytest.mark.parametrize("count", [1, 12])
async def test_a_service_whose_clock_is_minutes_off_hides_no_job(
    world: World, ahead: float, count: int
) -> None:
    world.service.set_faults(clock_shift=ahead)
    await _submit(world, *world.urls(count))
    world.await_ends()
    report = await world.poll()
    assert (report.looked, report.ended) == (count, count)


async def test_pollers_take_turns_and_rest_in_proportion_to_what_they_asked(world: World) -> None:
    world.patient(status_requests_per_second=0.01)
    world.service.set_faults(never_finish=True)
    await _submit(world, *world.urls(3))
    assert (await world.poll()).requests == 1
    for _ in range(3):
        world.clock.advance(10)
        assert (await world.poll()).requests == 0, "one request in a hundred seconds is the rate"
    world.clock.advance(80)
    assert (await world.poll()).requests == 1


async def test_two_pollers_at_once_ask_once(world: World) -> None:
    world.service.set_faults(latency={"on": "list", "seconds": 0.2})
    await _submit(world, *world.urls(3))
    reports = await asyncio.gather(world.poll(), world.poll())
    assert sorted(report.looked for report in reports) == [0, 3]
    assert world.listings() == 1


async def test_an_outage_of_the_listing_is_an_error_and_what_was_due_stays_due(world: World) -> None:
    await _submit(world, *world.urls(3))
    world.await_ends()
    world.service.set_faults(list_500=True)
    with pytest.raises(ServerError):
        await world.poll()
    world.service.clear_faults()
    world.clock.advance(30)
    assert (await world.poll()).ended == 3


async def test_a_poll_that_is_killed_after_its_news_loses_and_doubles_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted = await _submit(world, *world.urls(3))
    world.await_ends()

    def killed(*_: object) -> None:
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(type(world.ledger.news), "schedule_looks", killed)
        with pytest.raises(Interrupted):
            await world.poll()
    assert _news(world) == accepted
    world.clock.advance(30)
    assert (await world.poll()).ended == 3
    world.settle()
    assert world.ledger.progress.of(DAY).stored == 3
    assert world.violations() == []


async def test_a_poll_out_of_time_leaves_the_rest_due(world: World) -> None:
    await _submit(world, *world.urls(130))
    world.await_ends()
    report = await world.poll(seconds=0.0)
    assert report.looked == 0
    world.clock.advance(30)
    assert (await world.poll()).ended == 130


async def test_a_given_up_job_that_ends_after_all_is_noticed(world: World) -> None:
    world.service.set_faults(never_finish=True)
    [job] = await _submit(world, world.url("pages/1"))
    finish(world.ledger, {job: GivenUp(LetterCode.TIMED_OUT, "It took too long.")})
    world.clock.advance(601)
    assert (await world.poll()).ended == 0
    world.service.finish_job(job)
    world.await_ends()
    world.clock.advance(601)
    assert (await world.poll()).ended == 1
    assert world.settle().stored == 1
    assert world.violations() == []


async def test_a_job_that_is_given_up_while_a_poll_looks_at_it_stays_under_watch(world: World) -> None:
    world.service.set_faults(never_finish=True, latency={"on": "list", "seconds": 0.3})
    [job] = await _submit(world, world.url("pages/1"))
    world.clock.advance(world.policy.job_timeout + 1)
    poll = asyncio.create_task(world.poll())
    await asyncio.sleep(0.15)
    finish(world.ledger, {job: GivenUp(LetterCode.TIMED_OUT, "It took too long.")})
    assert (await poll).overdue == 1
    world.service.finish_job(job)
    world.await_ends()
    world.clock.advance(601)
    assert (await world.poll()).ended == 1
    assert world.settle().stored == 1


async def test_a_given_up_job_is_not_watched_for_ever(world: World) -> None:
    world.service.set_faults(never_finish=True)
    [job] = await _submit(world, world.url("pages/1"))
    finish(world.ledger, {job: GivenUp(LetterCode.TIMED_OUT, "It took too long.")})
    world.clock.advance(world.policy.watch_for + 1)
    await world.poll()
    assert world.ledger.news.seconds_until_next_look() is None


async def test_a_given_up_job_that_is_listed_as_completed_and_is_not_there_is_not_asked_for_for_ever(
    world: World,
) -> None:
    [job] = await _submit(world, world.url("pages/1"))
    world.await_ends()
    finish(world.ledger, {job: GivenUp(LetterCode.LOST, "The service does not know it.")})
    world.clock.advance(world.policy.watch_for + 1)
    report = await world.poll()
    assert report.ended == 0
    assert world.ledger.news.seconds_until_next_look() is None
