"""Events in the wrong order, and of kinds that nobody knows: only the job's state, fetched anew, decides."""

import asyncio

import pytest
from sqlalchemy import select

from scraper_pipeline.ledger import Delivery
from scraper_pipeline.ledger.schema import jobs, processed_events
from scraper_pipeline_tests.integration.ledger.driving import contents, rows
from scraper_pipeline_tests.integration.lifecycle.world import DAY, World

# What the ledger does here, its own tests try on both databases.
pytestmark = pytest.mark.parametrize("fresh_url", ["sqlite"], indirect=True)


def _submit_endless(world: World) -> str:
    world.service.set_faults(never_finish=True)
    asyncio.run(world.submit(world.url("pages/1")))
    [job] = world.jobs()
    return str(job["job_id"])


def _end(world: World, job_id: str) -> None:
    world.service.finish_job(job_id)
    world.await_ends()


def test_an_event_that_claims_a_job_has_ended_is_not_believed(world: World) -> None:
    job_id = _submit_endless(world)
    world.ledger.inbox.commit([Delivery(job_id, "extract_completed", "d-1")])
    report = world.ledger.outcomes.commit(next(world.settlement().outcomes()))
    assert (report.postponed, report.stored, report.dead) == (1, 0, 0)
    _end(world, job_id)
    world.clock.advance(1)
    assert world.settle().stored == 1
    assert world.violations() == []


def test_a_late_event_that_claims_a_job_still_runs_is_not_believed(world: World) -> None:
    job_id = _submit_endless(world)
    _end(world, job_id)
    world.ledger.inbox.commit([Delivery(job_id, "extract_processing", "d-2")])
    assert world.settle().stored == 1


def test_events_that_come_after_the_end_change_nothing_and_cost_no_request(world: World) -> None:
    job_id = _submit_endless(world)
    _end(world, job_id)
    world.ledger.inbox.commit([Delivery(job_id, "extract_completed", "d-1")])
    world.settle()
    before, asked = contents(world.ledger), world.gets()
    late = [
        Delivery(job_id, kind, f"d-{kind}") for kind in ("extract_processing", "extract_queued", "archived")
    ]
    assert world.ledger.inbox.commit(late) == [False] * 3
    world.settle()
    assert contents(world.ledger)["results"] == before["results"]
    assert contents(world.ledger)["submissions"] == before["submissions"]
    [event] = rows(world.ledger, select(processed_events))
    assert event.processed_at is not None
    assert event.event_type == "extract_completed"
    assert world.gets() == asked
    assert world.violations() == []


@pytest.mark.parametrize("status", ["archived", "starting", "Completed", "done"])
def test_a_status_that_nobody_knows_is_kept_verbatim_until_one_comes_that_is_known(
    world: World, status: str
) -> None:
    world.service.set_faults(unknown_status={"status": status}, never_finish=True)
    asyncio.run(world.submit(world.url("pages/1")))
    [job] = world.jobs()
    world.ledger.inbox.commit([Delivery(job["job_id"], "extract_completed")])
    report = world.ledger.outcomes.commit(next(world.settlement().outcomes()))
    assert (report.postponed, report.stored, report.dead) == (1, 0, 0)
    assert [row.status for row in rows(world.ledger, select(jobs))] == [status]
    world.service.clear_faults()
    _end(world, job["job_id"])
    world.clock.advance(60)
    world.settle()
    assert world.ledger.progress.of(DAY).stored == 1
    assert world.violations() == []
