"""What the ledger's tests share: a ledger on either database, and a clock that only the test turns."""

from collections.abc import Iterator

import pytest

from scraper_pipeline.ledger import Ledger, ResubmissionPolicy
from scraper_pipeline_tests.integration.ledger.driving import HandClock


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def ledger(fresh_url: str, clock: HandClock) -> Iterator[Ledger]:
    policy = ResubmissionPolicy(max_attempts=3, first_delay_seconds=5.0)
    with Ledger.open(fresh_url, clock=clock, resubmission=policy) as ledger:
        yield ledger
