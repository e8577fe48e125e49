"""Submission by the account's places against a real service: nothing is sent that would only be refused."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import select

from scraper_pipeline.ledger import Target
from scraper_pipeline.ledger.schema import submissions
from scraper_pipeline.lifecycle import Bound, Places, submit_jobs
from scraper_pipeline.scraper_api import ConcurrencyUsage, PaymentRequired, Unauthorized
from scraper_pipeline_tests.integration.ledger.driving import rows
from scraper_pipeline_tests.integration.lifecycle.world import DAY, World

# What the ledger does here, its own tests try on both databases.
pytestmark = pytest.mark.parametrize("fresh_url", ["sqlite"], indirect=True)

USAGE = "GET /v1/usage/concurrency"
BATCH = "POST /v1/batch"


def _requests(world: World, call: str) -> int:
    return world.service.requests().get(call, 0)


def _most_at_once(world: World) -> int:
    """How many jobs were unfinished at the same time, by the service's own books."""
    changes = [(job["created_at"], 1) for job in world.jobs()]
    changes += [(job["completed_at"], -1) for job in world.jobs() if job["completed_at"]]
    most = now = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


def _places(world: World, read: Callable[[], Awaitable[ConcurrencyUsage]] | None = None) -> Places:
    """Places whose waits cost no time, read from the service unless told otherwise."""

    async def ask() -> ConcurrencyUsage:
        async with world.client() as client:
            return await client.get_concurrency()

    return Places(
        read or ask,
        world.policy,
        monotonic=world.clock.monotonic,
        sleep=world.skip_ahead,
        chance=world.chance,
    )


async def test_no_more_jobs_are_sent_than_the_account_has_places_for(world: World) -> None:
    world.service.set_faults(work_concurrency=5)
    report = await world.submit(*world.urls(23))
    assert (report.accepted, report.held_by) == (23, set())
    assert world.posts() == 23, "no request was refused"
    assert _most_at_once(world) <= 5
    assert _requests(world, USAGE) >= 5
    await world.bring_to_an_end()
    assert world.violations() == []


async def test_where_no_place_becomes_free_the_rest_stays_planned_and_the_report_says_why(
    world: World,
) -> None:
    world.service.set_faults(work_concurrency=3, never_finish=True)
    told: list[set[Bound]] = []
    world.patient(run_lease=0.3)
    report = await world.submit(
        *world.urls(8),
        seconds=60.0,
        places=_places(world),
        on_chunk=lambda report: told.append(set(report.held_by)),
    )
    assert (report.accepted, report.held_by, report.limited) == (3, {Bound.PLACES}, False)
    assert (world.ledger.progress.of(DAY).planned, world.ledger.progress.of(DAY).sending) == (5, 0)
    assert world.posts() == 3
    assert told[0] == set()
    assert {Bound.PLACES} in told, "whoever has a lease to keep hears of the wait"


async def test_crawls_need_a_place_too(world: World) -> None:
    world.service.set_faults(work_concurrency=1, never_finish={"url_contains": "pages/1"})
    await world.submit(world.url("pages/1"))
    crawl = Target("crawl", world.url("pages/2"), {"limit": 2, "depth": 1}, is_crawl=True)
    world.ledger.submissions.plan(DAY, [crawl])
    report = await world.submit(seconds=60.0, places=_places(world))
    assert (report.held_by, _requests(world, "POST /v1/crawl")) == ({Bound.PLACES}, 0)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"cut_before": {"on": "usage"}}, id="connection cut"),
        pytest.param({"rate_limit_429": {"on": "usage", "retry_after": 0}}, id="429"),
    ],
)
async def test_a_figure_that_can_not_be_had_holds_nothing_back_and_is_told_once(
    world: World, fault: dict[str, Any]
) -> None:
    world.service.set_faults(**fault)
    report = await world.submit(*world.urls(20))
    assert report.accepted == 20
    assert "get_concurrency" in (report.unbounded_because or "")
    assert _requests(world, USAGE) <= 2, "a cut connection is opened once more below the client"


async def test_a_key_that_is_refused_sends_nothing(world: World) -> None:
    world.service.set_faults(unauthorized={"on": "usage"})
    with pytest.raises(Unauthorized):
        await world.submit(*world.urls(5))
    assert (world.posts(), world.ledger.progress.of(DAY).planned) == (0, 5)


async def test_a_balance_that_runs_out_beside_a_full_account_loses_nothing(world: World) -> None:
    world.patient(concurrency=1)
    world.service.set_faults(work_concurrency=4, balance=6)
    with pytest.raises(PaymentRequired):
        await world.submit(*world.urls(12))
    progress = world.ledger.progress.of(DAY)
    assert (progress.accepted, progress.planned, progress.dead) == (6, 6, 0)


async def test_a_run_with_nothing_to_send_asks_nothing(world: World) -> None:
    await world.submit()
    assert _requests(world, USAGE) == 0


async def test_several_days_of_one_run_share_what_was_read(world: World) -> None:
    days = [f"2026-03-{number:02d}" for number in range(1, 6)]
    async with world.client() as client:
        places = Places.of(client, world.policy, monotonic=world.clock.monotonic, chance=world.chance)
        for number, day in enumerate(days):
            world.plan(world.url(f"pages/{number}"), day=day)
            await submit_jobs(world.ledger, client, day, world.policy, places=places)
    assert (world.posts(), _requests(world, USAGE)) == (5, 1)


async def test_batches_are_not_held_back_by_the_figure_and_what_stands_before_them_waits_alone(
    world: World,
) -> None:
    """Single jobs that wait for a place come first in the list, and a batch passes them."""
    world.patient(submission_mode="auto")
    await world.submit(*(world.url(f"slow/{number}") for number in range(3)))
    world.ledger.submissions.plan(
        DAY,
        [
            Target(f"{number:032d}", world.url(f"pages/{number}"), {"timeout": 5000 + number})
            for number in range(1, 4)
        ],
    )
    world.service.set_faults(never_finish=True)
    report = await world.submit(
        *(world.url(f"pages/{number}") for number in range(10, 80)),
        seconds=60.0,
        places=_places(world, _full),
    )
    assert (report.accepted, report.held_by, _requests(world, BATCH)) == (70, {Bound.PLACES}, 1)
    states = {row.url: row.state for row in rows(world.ledger, select(submissions))}
    assert [states[world.url(f"pages/{number}")] for number in (1, 2, 3)] == ["planned"] * 3


async def _full() -> ConcurrencyUsage:
    return ConcurrencyUsage(in_use=100, limit=100)


async def test_once_the_service_has_refused_a_batch_for_want_of_places_batches_wait(world: World) -> None:
    world.patient(submission_mode="auto", largest_batch=50)
    world.service.set_faults(work_concurrency=1, never_finish=True)
    await world.submit(world.url("pages/1"))
    report = await world.submit(
        *(world.url(f"pages/{number}") for number in range(2, 102)), seconds=60.0, places=_places(world)
    )
    assert (report.accepted, report.held_by) == (0, {Bound.PLACES})
    refused = _requests(world, BATCH)
    assert refused >= 1
    assert world.ledger.progress.of(DAY).planned == 100
    world.service.clear_faults()
    for job in world.jobs():
        world.service.finish_job(job["job_id"])
    world.await_ends()
    report = await world.submit()
    assert (report.accepted, _requests(world, BATCH)) == (100, refused + 2)


async def test_a_single_job_that_is_refused_for_want_of_places_fails_no_run(world: World) -> None:
    """Somebody else took the place between our look and our request."""
    world.service.set_faults(
        rate_limit_429={"on": "post", "code": "WORK_CONCURRENCY_LIMITED", "retry_after": None, "count": 4}
    )
    report = await world.submit(world.url("pages/1"), seconds=60.0, places=_places(world))
    assert report.accepted == 1
    assert report.errors["Throttled"] >= 1


async def test_rows_of_a_batch_that_was_refused_wait_for_places_one_by_one(world: World) -> None:
    world.patient(submission_mode="auto")
    world.service.set_faults(work_concurrency=10)
    bad = [f"ftp://host.test/file{number}" for number in range(60)]
    report = await world.submit(*bad)
    assert (report.accepted, _requests(world, BATCH), world.posts()) == (60, 1, 60)
    assert _most_at_once(world) <= 10
