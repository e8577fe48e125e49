"""What the tests of the life of a job share: a world with a real service and a real ledger in it."""

from collections.abc import Iterator

import pytest

from scraper_pipeline.ledger import Ledger, ResubmissionPolicy
from scraper_pipeline.sandbox import SandboxConfig, SandboxServer
from scraper_pipeline_tests.integration.lifecycle.world import World, WorldClock


@pytest.fixture
def world_clock() -> WorldClock:
    return WorldClock()


@pytest.fixture
def service(world_clock: WorldClock) -> Iterator[SandboxServer]:
    # Places are short only where a test says so: many of these have hundreds of jobs that never end.
    config = SandboxConfig(min_delay=0.0, max_delay=0.02, fetch_timeout=30.0, work_concurrency_limit=100_000)
    with SandboxServer(config, clock=world_clock.for_service) as server:
        yield server


@pytest.fixture
def world(fresh_url: str, service: SandboxServer, world_clock: WorldClock) -> Iterator[World]:
    policy = ResubmissionPolicy(max_attempts=3, first_delay_seconds=5.0)
    with Ledger.open(fresh_url, clock=world_clock.now, resubmission=policy) as ledger:
        yield World(ledger, service, world_clock)
