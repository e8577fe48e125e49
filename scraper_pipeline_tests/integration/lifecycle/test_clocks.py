"""Time that runs out and clocks that are set back: budgets go by monotonic time, and the ledger loses nothing."""

import asyncio
import time
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from scraper_pipeline.ledger import Channel
from scraper_pipeline.sandbox.clock import Clock
from scraper_pipeline_tests.integration.lifecycle.world import DAY, World, WorldClock

# What the ledger does here, its own tests try on both databases.
pytestmark = pytest.mark.parametrize("fresh_url", ["sqlite"], indirect=True)

HOUR = 3600.0


@dataclass
class SteppingClock(WorldClock):
    """A wall clock that can be set back, of the pipeline alone: the service keeps the true time."""

    set_back_by: float = 0.0

    def now(self) -> datetime:
        return super().now() - timedelta(seconds=self.set_back_by)

    def set_back(self, seconds: float) -> None:
        self.set_back_by += seconds

    @property
    def for_service(self) -> Clock:
        return Clock(now=super().now, monotonic=self.monotonic)


@pytest.fixture
def world_clock() -> SteppingClock:
    return SteppingClock()


@pytest.fixture
def stepping(world: World, world_clock: SteppingClock) -> World:
    """The world of this module, whose clock can be set back."""
    assert world.clock is world_clock
    return world


def _news(world: World) -> None:
    world.await_ends()
    world.ledger.news.record([job["job_id"] for job in world.jobs()], Channel.WEBHOOK)


def test_a_settlement_with_no_time_at_all_still_settles_what_there_is(world: World) -> None:
    asyncio.run(world.submit(*world.urls(3)))
    _news(world)
    world.patient(drain=0.0, drain_quiet=0.0)
    assert world.settle().stored == 3


def test_a_settlement_with_no_time_at_all_still_looks_once(world: World) -> None:
    asyncio.run(world.submit(*world.urls(3)))
    world.await_ends()
    world.clock.advance(1)
    world.patient(drain=0.0, drain_quiet=60.0)
    world.settle()
    assert [one.pending for one in world.ledger.progress.partitions_to_settle()] == [3]


def test_a_settlement_ends_in_its_time_although_the_wall_clock_is_set_back_again_and_again(
    stepping: World, world_clock: SteppingClock
) -> None:
    stepping.service.set_faults(never_finish=True)
    stepping.patient(drain=5.0, drain_quiet=600.0)
    asyncio.run(stepping.submit(stepping.url("pages/1")))

    def pause(seconds: float) -> None:
        time.sleep(0.01)
        world_clock.advance(seconds)
        world_clock.set_back(HOUR)

    began = world_clock.monotonic()
    for chunk in stepping.settlement(sleep=pause).outcomes():
        stepping.ledger.outcomes.commit(chunk)
    assert world_clock.set_back_by >= HOUR
    assert 5.0 <= world_clock.monotonic() - began < 60.0


def test_what_a_webhook_tells_after_the_clock_was_set_back_is_settled_at_once(
    stepping: World, world_clock: SteppingClock
) -> None:
    asyncio.run(stepping.submit(*stepping.urls(3)))
    world_clock.set_back(HOUR)
    _news(stepping)
    assert stepping.settle().stored == 3
    assert stepping.violations() == []


@pytest.mark.parametrize("known_before", [True, False], ids=["news before", "no news"])
def test_a_clock_that_is_set_back_an_hour_delays_and_loses_and_doubles_nothing(
    stepping: World, world_clock: SteppingClock, known_before: bool
) -> None:
    asyncio.run(stepping.submit(*stepping.urls(4)))
    stepping.plan(stepping.url("pages/9"))
    stepping.claim()  # by a run that is killed: nobody knows whether its POST arrived
    if known_before:
        _news(stepping)
        stepping.ledger.outcomes.claim(DAY, 2, stepping.policy.settle_lease)  # and so was this one
    world_clock.set_back(HOUR)
    asyncio.run(stepping.submit())
    stepping.settle()
    assert stepping.posts() == 4, "what may have been sent is not sent again on the word of a clock"
    world_clock.advance(HOUR)
    stepping.let_grace_pass()
    asyncio.run(stepping.resolve())
    asyncio.run(stepping.bring_to_an_end())
    assert stepping.ledger.progress.of(DAY).stored == 5
    assert stepping.posts() == 5
    assert stepping.violations() == []
