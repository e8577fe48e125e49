"""Every operation of the ledger in any order, by actors that interleave and die: the rules hold after each step.

``STATE_MACHINE=long`` looks further, at other examples each time (``--hypothesis-seed=N`` repeats a run).
"""

import asyncio
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from sqlalchemy import event

from scraper_pipeline.ledger import Ledger, ResubmissionPolicy
from scraper_pipeline_tests.integration.ledger.driving import HandClock
from scraper_pipeline_tests.integration.ledger.state_machine.machine import LedgerMachine

_COMMON = settings(
    deadline=None,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)
PROFILES = {
    "short": settings(_COMMON, max_examples=60, stateful_step_count=50, derandomize=True),
    "search": settings(
        _COMMON,
        max_examples=120,
        stateful_step_count=50,
        derandomize=True,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    ),
    "long": settings(_COMMON, max_examples=3000, stateful_step_count=80),
}
PROFILE = os.environ.get("STATE_MACHINE", "short")


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    with asyncio.Runner() as runner:
        yield runner.get_loop()


@pytest.fixture
def hasty_ledger(fresh_url: str, clock: HandClock) -> Iterator[Ledger]:
    """A ledger that doesn't wait for the disk: no machine is switched off here."""
    with Ledger.open(fresh_url, clock=clock, resubmission=ResubmissionPolicy(2, 5.0)) as ledger:
        if ledger.engine.dialect.name == "sqlite":
            ledger.engine.dispose()
            event.listen(ledger.engine, "connect", lambda raw, _: raw.execute("PRAGMA synchronous=OFF"))
        yield ledger


@pytest.mark.timeout(0 if PROFILE == "long" else 600)
def test_the_rules_hold_whatever_happens_in_whatever_order(
    hasty_ledger: Ledger, clock: HandClock, loop: asyncio.AbstractEventLoop
) -> None:
    chosen = PROFILES[PROFILE]
    if PROFILE == "short" and hasty_ledger.engine.dialect.name == "postgresql":
        chosen = settings(chosen, max_examples=35)  # each of its statements takes a trip to the server
    run_state_machine_as_test(
        lambda: LedgerMachine(hasty_ledger, clock, loop),  # type: ignore[arg-type]
        settings=chosen,
    )
