"""A run that is killed at any moment: what it left is taken up by the next one, and no page is paid twice."""

import signal

import pytest
from sqlalchemy import func, select

from scraper_pipeline.ledger.schema import submissions
from scraper_pipeline_tests.integration.lifecycle import doomed
from scraper_pipeline_tests.integration.lifecycle.world import DAY, World

NEXT_DAY = "2026-03-02"

SUBMITTING = {
    "after the intents are written": "call SubmissionStore.claim 1",
    "after a post was accepted": "call ScraperClient.submit_extract 3",
    "in the middle of a record": "statement INSERT INTO jobs 2",
    "before the commit of a record": "commit INSERT INTO jobs",
    "after the commit of a record": "call SubmissionStore.record_accepted 1",
}
SETTLING = {
    "after the first news": "statement INSERT INTO processed_events 1",
    "after a claim of jobs": "call OutcomeStore.claim 1",
    "after a fetch": "statement SELECT processed_events.job_id, processed_events.claimed_by 1",
    "before any result is stored": "statement INSERT INTO results 1",
    "after the results are stored": "statement UPDATE submissions SET state= 2",
    "after rows were superseded": "statement INSERT INTO submissions 1",
    "before the letters": "statement INSERT INTO dead_letters 1",
    "before the stamp": "statement SET claimed_by 2",
    "before the commit of a chunk": "commit INSERT INTO results",
    "after the commit of a chunk": "call OutcomeStore.commit 1",
}
MOMENTS = SUBMITTING | SETTLING


@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS.keys())
async def test_a_killed_run_costs_nothing_and_loses_nothing(
    world: World, fresh_url: str, moment: str
) -> None:
    urls = [*world.urls(5), world.url("flaky/1"), world.url("broken/1")]
    world.plan(*urls)
    run = doomed.start(world, fresh_url, [DAY], moment)
    assert doomed.await_end(run) == -signal.SIGKILL, "the moment never came"
    assert world.ledger.audit.check() == [], "half of a transition stands"
    assert not world.ledger.progress.of(DAY).is_settled
    world.let_grace_pass()
    await world.resolve()
    await world.bring_to_an_end()
    progress = world.ledger.progress.of(DAY)
    assert (progress.stored, progress.dead) == (6, 1)
    assert world.violations() == []
    paid = [job["url"] for job in world.jobs() if job["charged"]]
    assert sorted(paid) == sorted(set(paid)), "paid twice"


async def test_runs_that_are_killed_one_after_the_other_come_to_an_end_together(
    world: World, fresh_url: str
) -> None:
    urls = world.urls(8)
    world.plan(*urls)
    for moment in (
        "call SubmissionStore.claim 1",
        "call ScraperClient.submit_extract 2",
        "commit INSERT INTO results",
    ):
        run = doomed.start(world, fresh_url, [DAY], moment)
        assert doomed.await_end(run) == -signal.SIGKILL
        world.let_grace_pass()
        await world.resolve()
    await world.bring_to_an_end()
    assert world.ledger.progress.of(DAY).stored == 8
    assert len(world.jobs()) == 8
    assert world.violations() == []


def test_several_processes_submit_and_settle_the_same_days_at_once(world: World, fresh_url: str) -> None:
    urls = [*world.urls(25), world.url("flaky/1"), world.url("broken/1")]
    world.plan(*urls)
    world.plan(*urls, day=NEXT_DAY)
    runs = [
        doomed.start(world, fresh_url, days) for days in ([DAY, NEXT_DAY], [NEXT_DAY, DAY], [DAY, NEXT_DAY])
    ]
    assert [doomed.await_end(run) for run in runs] == [0, 0, 0]
    for day in (DAY, NEXT_DAY):
        progress = world.ledger.progress.of(day)
        assert (progress.stored, progress.dead) == (26, 1)
    with world.ledger.engine.connect() as connection:
        attempts = connection.scalar(select(func.count()).select_from(submissions))
    assert world.posts() == len(world.jobs()) == attempts
    assert world.violations() == []
