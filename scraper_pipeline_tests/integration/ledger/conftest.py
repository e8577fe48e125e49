"""What the ledger's tests share: a ledger on either database, and a clock that only the test turns."""

from collections.abc import Iterator

import pytest

from scraper_pipeline.ledger import Ledger, ResubmissionPolicy
from scraper_pipeline_tests.integration.ledger.damages import DAMAGES, Damage, populate
from scraper_pipeline_tests.integration.ledger.driving import HandClock


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def ledger(fresh_url: str, clock: HandClock) -> Iterator[Ledger]:
    policy = ResubmissionPolicy(max_attempts=3, first_delay_seconds=5.0)
    with Ledger.open(fresh_url, clock=clock, resubmission=policy) as ledger:
        yield ledger


@pytest.fixture(params=DAMAGES.values(), ids=list(DAMAGES))
def damage(request: pytest.FixtureRequest) -> Damage:
    chosen: Damage = request.param
    return chosen


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def damaged_ledger(request: pytest.FixtureRequest, damage: Damage, clock: HandClock) -> Iterator[Ledger]:
    """A ledger with a target in every state and one damage; it is the test's own where a key had to go for it."""
    fresh = "" if damage.unlocked_by else "fresh_"
    with Ledger.open(request.getfixturevalue(f"{fresh}{request.param}_url"), clock=clock) as ledger:
        populate(ledger, clock)
        damage.inflict(ledger)
        yield ledger
