"""What the client's tests share: a scripted service, a clock that nobody waits for, and a client on both."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from scraper_pipeline.scraper_api import ScraperClient
from scraper_pipeline_tests.integration.scraper_api.scripted_server import ScriptedServer

API_KEY = "gn-key-of-the-tests"


@dataclass
class FakeClock:
    """Monotonic time that passes only by sleeping."""

    now: float = 1000.0
    slept: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class LongestJitter(random.Random):
    """The upper end of every range, so that waits can be foretold."""

    def uniform(self, a: float, b: float) -> float:
        return b


@pytest.fixture
async def service() -> AsyncIterator[ScriptedServer]:
    async with ScriptedServer() as server:
        yield server


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


Connect = Callable[..., ScraperClient]


@pytest.fixture
async def connect(service: ScriptedServer, clock: FakeClock) -> AsyncIterator[Connect]:
    """Makes clients of the scripted service on the fake clock."""
    async with AsyncExitStack() as clients:

        def make(**settings: Any) -> ScraperClient:
            defaults = {
                "host": service.url,
                "api_key": API_KEY,
                "monotonic": clock.monotonic,
                "sleep": clock.sleep,
                "random": LongestJitter(),
            }
            client = ScraperClient(**{**defaults, **settings})
            clients.push_async_callback(client.aclose)
            return client

        yield make


@pytest.fixture
def client(connect: Connect) -> ScraperClient:
    return connect()
