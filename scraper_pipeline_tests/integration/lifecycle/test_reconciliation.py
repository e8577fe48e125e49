"""The sweep against a real service: what no other channel has brought is found in the list of jobs."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from scraper_pipeline.ledger import Channel, Target, hash_url
from scraper_pipeline.ledger.schema import jobs, processed_events, submissions
from scraper_pipeline.lifecycle.listing import WindowReader
from scraper_pipeline.scraper_api import DeadlineExceeded, ServerError
from scraper_pipeline_tests.integration.ledger.driving import rows
from scraper_pipeline_tests.integration.lifecycle.world import DAY, World

# What the ledger does here, its own tests try on both databases.
pytestmark = pytest.mark.parametrize("fresh_url", ["sqlite"], indirect=True)


def _found(world: World) -> set[str]:
    return {row.job_id for row in rows(world.ledger, select(processed_events)) if row.sweep_at is not None}


def _adopting(url: str) -> Target:
    return Target(hash_url(url), url)


async def _submit(world: World, *urls: str) -> set[str]:
    before = {job["job_id"] for job in world.jobs()}
    await world.submit(*urls)
    world.await_ends()
    return {job["job_id"] for job in world.jobs()} - before


def _let_threshold_pass(world: World) -> None:
    world.clock.advance(world.policy.sweep_after + 1)


async def test_an_end_that_no_channel_reported_is_found_and_settled(world: World) -> None:
    accepted = await _submit(world, *world.urls(3))
    _let_threshold_pass(world)
    report = await world.sweep()
    assert (report.ended, report.listed, report.foreign, report.is_whole) == (3, 3, 0, True)
    assert _found(world) == accepted
    world.settle()
    assert world.ledger.progress.of(DAY).stored == 3
    assert world.gets() == 3, "the sweep itself fetches no content"
    assert world.violations() == []


@pytest.mark.parametrize("shift", [-300.0, 0.0, 300.0])
async def test_no_clock_of_the_service_makes_a_job_be_taken_early_or_missed(
    world: World, shift: float
) -> None:
    world.service.set_faults(clock_shift=shift)
    accepted = await _submit(world, *world.urls(3))
    world.clock.advance(world.policy.sweep_after - 30)
    assert (await world.sweep()).ended == 0
    world.clock.advance(31)
    report = await world.sweep()
    assert (report.ended, report.foreign) == (3, 0)
    assert _found(world) == accepted


async def test_what_is_already_known_is_not_made_news_again(world: World) -> None:
    accepted = await _submit(world, *world.urls(2))
    world.ledger.news.record(accepted, Channel.WEBHOOK)
    _let_threshold_pass(world)
    assert (await world.sweep()).ended == 0
    world.settle()
    report = await world.sweep()
    assert (report.ended, report.stale, _found(world)) == (0, 0, set())


async def test_news_that_was_received_and_never_processed_is_shown_and_taken_up(world: World) -> None:
    accepted = await _submit(world, *world.urls(2))
    world.ledger.news.record([*accepted, "job of nobody"], Channel.WEBHOOK)
    claimed = world.ledger.outcomes.claim(DAY, 10, world.policy.settle_lease)  # by a run that is killed now
    assert len(claimed) == 2
    _let_threshold_pass(world)
    report = await world.sweep()
    assert (report.stale, report.unbound_news) == (2, 1)
    world.settle()
    assert world.ledger.progress.of(DAY).stored == 2


async def test_lost_answers_are_resolved_on_the_way(world: World) -> None:
    world.plan(world.url("pages/1"), world.url("pages/2"))
    first, _ = world.claim()
    await world.post(first.url)
    world.let_grace_pass()
    report = await world.sweep()
    assert (report.resolution.bound, report.resolution.planned_again, report.foreign) == (1, 1, 0)
    assert report.figures["answers_bound"] == 1


async def test_the_jobs_of_another_program_are_reported_and_not_touched(world: World) -> None:
    mine = await _submit(world, *world.urls(2))
    async with world.client() as client:
        for number in range(200):
            await client.submit_extract(world.url(f"pages/{1000 + number}"))
    world.await_ends()
    for _ in range(2):
        _let_threshold_pass(world)
        report = await world.sweep()
        assert (report.foreign, report.adopted) == (200, 0)
        world.settle()
    count, listed = world.ledger.foreign_jobs.newest(1000)
    assert (count, len({job.job_id for job in listed} - mine)) == (200, 200)
    assert {row.job_id for row in rows(world.ledger, select(processed_events))} == mine
    assert len(rows(world.ledger, select(submissions))) == world.gets() == 2


async def test_a_job_whose_submission_is_under_way_is_no_other_programs(world: World) -> None:
    world.plan(world.url("pages/1"))
    [claimed] = world.claim()
    job = await world.post(claimed.url)
    report = await world.sweep(make_target=_adopting)
    assert (report.listed, report.foreign, report.adopted) == (1, 0, 0)
    world.bind(claimed, job.job_id)
    assert (await world.sweep()).foreign == 0


async def test_a_job_that_turns_out_to_be_ours_is_no_longer_reported(world: World) -> None:
    job = await world.post(world.url("pages/1"))
    assert (await world.sweep()).foreign == 1
    world.plan(world.url("pages/1"))
    [claimed] = world.claim()
    world.bind(claimed, job.job_id)
    assert (await world.sweep()).foreign == 0


async def test_other_programs_jobs_are_adopted_only_when_asked_under_the_day_of_their_creation(
    world: World,
) -> None:
    job = await world.post(world.url("pages/1"))
    world.await_ends()
    made_on = world.clock.now().strftime("%Y-%m-%d")
    world.clock.advance(24 * 3600.0)
    report = await world.sweep(make_target=_adopting)
    assert (report.foreign, report.adopted) == (0, 0), "before the first sweep's window nothing is looked at"
    other = await world.post(world.url("pages/2"))
    world.await_ends()
    created_on = world.clock.now().strftime("%Y-%m-%d")
    assert created_on != made_on
    report = await world.sweep(make_target=_adopting)
    assert (report.foreign, report.adopted) == (0, 1)
    _let_threshold_pass(world)
    assert (await world.sweep(make_target=_adopting)).ended == 1
    world.settle(created_on)
    [row] = rows(world.ledger, select(submissions))
    assert (row.job_id, row.partition_key, row.state) == (other.job_id, created_on, "stored")
    assert job.job_id not in _found(world)
    assert world.ledger.audit.check() == []


async def test_a_target_that_the_day_has_already_is_not_adopted_a_second_time(world: World) -> None:
    today = world.clock.now().strftime("%Y-%m-%d")
    await world.submit(world.url("pages/1"), day=today)
    await world.post(world.url("pages/1"))
    report = await world.sweep(make_target=_adopting)
    assert (report.foreign, report.adopted) == (1, 0)
    assert len(rows(world.ledger, select(submissions))) == 1


async def test_a_job_that_was_listed_late_is_found_by_the_next_sweep(world: World) -> None:
    """It becomes visible after its window was read whole, and the watermark was set behind it."""
    await world.sweep()
    world.service.set_faults(listing_lag=60.0)
    await world.post(world.url("pages/1"))
    world.clock.advance(30)
    assert (await world.sweep()).foreign == 0
    world.clock.advance(31)
    assert (await world.sweep()).foreign == 1


async def test_an_empty_page_before_a_full_one_hides_nothing_and_moves_no_watermark(world: World) -> None:
    async with world.client() as client:
        for number in range(120):
            await client.submit_extract(world.url(f"pages/{number}"))
    world.service.set_faults(listing_empty_page=2)
    report = await world.sweep()  # the first call only asks for the time
    assert (report.listed, report.is_whole) == (20, False)
    assert world.ledger.sweeps.seen_until() is None
    report = await world.sweep()
    assert (report.listed, report.is_whole) == (120, True)
    assert world.ledger.sweeps.seen_until() is not None


async def test_a_listing_that_is_cut_short_is_halved_until_it_is_whole(world: World) -> None:
    for number in range(12):
        await world.post(world.url(f"pages/{number}"))
        world.clock.advance(4)
    world.service.set_faults(listing_capped_above=3)
    report = await world.sweep()
    assert (report.listed, report.foreign, report.is_whole) == (12, 12, True)


async def test_the_watermark_stays_before_a_second_that_can_not_be_listed_whole(world: World) -> None:
    await world.sweep()
    before = world.ledger.sweeps.seen_until()
    await asyncio.gather(*(world.post(world.url(f"pages/{number}")) for number in range(12)))
    world.service.set_faults(listing_capped_above=1)
    world.clock.advance(5)
    report = await world.sweep()
    assert not report.is_whole
    assert world.ledger.sweeps.seen_until() == before
    world.service.set_faults(listing_capped_above=None)
    world.clock.advance(3600)
    report = await world.sweep()
    assert (report.foreign, report.is_whole) == (12, True), "an hour later they are still in the window"


async def test_a_sweep_that_is_cut_short_has_brought_the_next_one_forward(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.sweep()
    world.clock.advance(5 * 3600.0)
    before = world.ledger.sweeps.seen_until()
    read = WindowReader.page

    async def read_three_pages(self: WindowReader[Any], *window: Any) -> Any:
        if self.requests == 3:
            self.end = self.monotonic()
        return await read(self, *window)

    monkeypatch.setattr(WindowReader, "page", read_three_pages)
    with pytest.raises(DeadlineExceeded):
        await world.sweep()
    monkeypatch.undo()
    after = world.ledger.sweeps.seen_until()
    assert before is not None
    assert after is not None
    assert before < after < world.clock.now() - timedelta(hours=1)
    assert (await world.sweep()).is_whole


async def test_a_sweep_without_time_says_so_and_loses_nothing(world: World) -> None:
    accepted = await _submit(world, *world.urls(2))
    _let_threshold_pass(world)
    with pytest.raises(DeadlineExceeded):
        await world.sweep(seconds=0.0)
    await world.sweep()
    assert _found(world) == accepted


async def test_jobs_from_long_ago_are_looked_up_by_id_and_days_are_not_listed_again(world: World) -> None:
    world.service.set_faults(never_finish=1)
    await world.submit(*world.urls(240))
    world.await_ends(but=1)
    _let_threshold_pass(world)
    await world.sweep()
    world.settle()
    world.clock.advance(4 * 3600.0)
    await world.sweep()
    world.clock.advance(600.0)
    report = await world.sweep()
    assert report.requests <= 5, "the time, the window of each kind, and the one that is left"


async def test_the_sweep_alone_gives_up_and_takes_back(world: World) -> None:
    world.service.set_faults(never_finish=1)
    await world.submit(world.url("pages/1"))
    [job] = world.jobs()
    world.clock.advance(world.policy.sweep_after + world.policy.job_timeout)
    assert (await world.sweep()).overdue == 1
    world.patient(drain_quiet=0.0)
    world.settle()
    assert world.ledger.progress.of(DAY).dead == 1
    world.service.finish_job(job["job_id"])
    world.await_ends()
    assert (await world.sweep()).ended == 1
    world.settle()
    assert world.ledger.progress.of(DAY).stored == 1
    assert world.violations() == []


async def test_a_job_that_the_service_has_lost_is_noticed_by_the_sweep(world: World) -> None:
    world.service.set_faults(listing_lag=10_000.0, job_404=True)
    await _submit(world, world.url("pages/1"))
    _let_threshold_pass(world)
    assert (await world.sweep()).missing == 1
    world.settle()
    assert world.ledger.progress.of(DAY).dead == 1


async def test_an_outage_is_an_error_and_no_empty_list(world: World) -> None:
    await _submit(world, *world.urls(2))
    _let_threshold_pass(world)
    world.service.set_faults(list_500=True)
    with pytest.raises(ServerError):
        await world.sweep()
    assert _found(world) == set()
    assert world.ledger.sweeps.seen_until() is None


async def test_what_is_not_settled_is_named_with_its_age(world: World) -> None:
    world.service.set_faults(never_finish=1)
    await world.submit(world.url("pages/1"))
    world.clock.advance(100)
    world.plan(world.url("pages/2"))
    world.claim()
    assert 99 < world.ledger.sweeps.oldest_unsettled_seconds() < 160
    first, second = world.ledger.sweeps.offenders(10)
    assert (first.kind, first.url, second.kind, second.url) == (
        "accepted", world.url("pages/1"), "sending", world.url("pages/2"),
    )  # fmt: skip
    assert [row.job_id for row in rows(world.ledger, select(jobs))] == [first.job_id]


async def test_pages_that_are_added_while_a_window_is_read_are_read_too(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Late jobs of the window become visible between its first page and its last, and push others a page on."""
    async with world.client() as client:
        for number in range(100):
            await client.submit_extract(world.url(f"pages/{number}"))
        world.service.set_faults(listing_lag=60.0)
        for number in range(100, 150):
            await client.submit_extract(world.url(f"pages/{number}"))
    world.clock.advance(30)
    read = WindowReader.page

    async def become_visible(self: WindowReader[Any], *window: Any) -> Any:
        listing = await read(self, *window)
        if len(listing.jobs) == 100 and len(self.seen) == 0:
            world.clock.advance(40)
        return listing

    monkeypatch.setattr(WindowReader, "page", become_visible)
    report = await world.sweep()
    later = await world.sweep()
    assert report.listed >= 100
    assert (later.listed, later.foreign) == (150, 150)
