"""The database restarts while work is under way: an error is raised, and what was not done stays eligible."""

import asyncio
import signal
import time
from collections.abc import Iterator

import pytest
from sqlalchemy.exc import OperationalError

from scraper_pipeline.ledger import Channel, Ledger, ResubmissionPolicy
from scraper_pipeline.sandbox import SandboxServer
from scraper_pipeline_tests.integration.ledger.driving import outcome, page
from scraper_pipeline_tests.integration.lifecycle.world import DAY, World, WorldClock
from scraper_pipeline_tests.postgres import EphemeralPostgres

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def own_server() -> Iterator[EphemeralPostgres]:
    """A server that no other test uses, and that keeps what was committed."""
    with EphemeralPostgres(durable=True) as server:
        yield server


@pytest.fixture
def world(own_server: EphemeralPostgres, service: SandboxServer, world_clock: WorldClock) -> Iterator[World]:
    with (
        own_server.database() as name,
        Ledger.open(
            own_server.url(name),
            clock=world_clock.now,
            resubmission=ResubmissionPolicy(3, first_delay_seconds=5.0),
        ) as ledger,
    ):
        yield World(ledger, service, world_clock)


def test_a_settlement_goes_on_after_a_restart_between_its_chunks(
    world: World, own_server: EphemeralPostgres
) -> None:
    world.patient(settle_chunk=3)
    asyncio.run(world.submit(*world.urls(9)))
    world.ledger.news.record([job["job_id"] for job in world.jobs()], Channel.WEBHOOK)
    chunks = 0
    for chunk in world.settlement().outcomes():
        chunks += 1
        if chunks == 2:
            own_server.stop(how=signal.SIGQUIT)
            own_server.start()
        world.ledger.outcomes.commit(chunk)
    assert chunks >= 3
    assert world.ledger.progress.of(DAY).stored == 9
    assert world.violations() == []


def test_a_chunk_that_meets_an_outage_is_an_error_and_is_settled_later(
    world: World, own_server: EphemeralPostgres
) -> None:
    asyncio.run(world.submit(*world.urls(4)))
    jobs = [job["job_id"] for job in world.jobs()]
    world.ledger.news.record(jobs, Channel.WEBHOOK)
    claimed = world.ledger.outcomes.claim(DAY, 2, world.policy.settle_lease)
    own_server.stop(how=signal.SIGQUIT)
    with pytest.raises(OperationalError) as raised:
        world.ledger.outcomes.commit([outcome(job, page("the page")) for job in claimed])
    assert "the page" not in str(raised.value)
    own_server.start()
    assert world.ledger.progress.of(DAY).accepted == 4
    world.clock.advance(world.policy.settle_lease)
    world.settle()
    assert world.ledger.progress.of(DAY).stored == 4
    assert world.violations() == []


def test_jobs_whose_acceptance_could_not_be_recorded_are_found_again(
    world: World, own_server: EphemeralPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.plan(*world.urls(6))
    store = type(world.ledger.submissions)
    record = store.record_accepted

    def record_into_an_outage(*arguments, **named):
        while world.posts() < 6:
            time.sleep(0.01)
        own_server.stop(how=signal.SIGQUIT)
        return record(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(store, "record_accepted", record_into_an_outage)
        with pytest.raises((OperationalError, ExceptionGroup)):
            asyncio.run(world.submit())
    own_server.start()
    assert world.ledger.progress.of(DAY).sending == 6
    world.let_grace_pass()
    asyncio.run(world.resolve())
    asyncio.run(world.bring_to_an_end())
    assert world.ledger.progress.of(DAY).stored == 6
    assert world.violations() == []


def test_a_sweep_that_a_restart_interrupts_is_done_by_the_next_one(
    world: World, own_server: EphemeralPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = world.urls(4)
    world.plan(*urls)
    for claimed in world.claim():
        asyncio.run(world.post(claimed.url))
    world.let_grace_pass()
    store = type(world.ledger.submissions)
    resolve, calls = store.resolve, 0

    def resolve_into_an_outage(*arguments, **named):
        nonlocal calls
        calls += 1
        if calls == 3:
            own_server.stop(how=signal.SIGQUIT)
        return resolve(*arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(store, "resolve", resolve_into_an_outage)
        with pytest.raises(OperationalError):
            asyncio.run(world.resolve())
    own_server.start()
    progress = world.ledger.progress.of(DAY)
    assert (progress.accepted, progress.sending) == (2, 2)
    assert asyncio.run(world.resolve()).bound == 2
    assert world.violations() == [] or world.settle().stored == 4
