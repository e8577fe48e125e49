"""Every operation of the ledger in any order, by actors that interleave and die: the rules hold after each step.

``STATE_MACHINE=long`` looks further, at other examples each time (``--hypothesis-seed=N`` repeats a run). ``pytest -s``
tells how often it came to each branch that batches add.
"""

import asyncio
import os
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from scraper_pipeline.ledger import Ledger, ResubmissionPolicy, audit
from scraper_pipeline.ledger.invariants import invariants
from scraper_pipeline.lifecycle import bulk
from scraper_pipeline.scraper_api import results
from scraper_pipeline_tests.integration.ledger.driving import HandClock
from scraper_pipeline_tests.integration.ledger.state_machine.branches import OFTEN_REACHED, reached
from scraper_pipeline_tests.integration.ledger.state_machine.jobs import RESULTS_PAGE
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
        max_examples=260,
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
    """A ledger that submits again after five seconds."""
    with Ledger.open(fresh_url, clock=clock, resubmission=ResubmissionPolicy(2, 5.0)) as ledger:
        yield ledger


@pytest.fixture(autouse=True)
def _audit_prepared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its queries are the same each time, and composing them takes longer than all else together."""
    monkeypatch.setattr(audit, "invariants", cache(invariants))


@pytest.fixture(autouse=True)
def _tiny_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of three has three pages of results."""
    for module in (bulk, results):
        monkeypatch.setattr(module, "LARGEST_RESULTS_PAGE", RESULTS_PAGE)


@pytest.mark.timeout(0 if PROFILE == "long" else 600)
def test_the_rules_hold_whatever_happens_in_whatever_order(
    hasty_ledger: Ledger, clock: HandClock, loop: asyncio.AbstractEventLoop
) -> None:
    chosen, is_quick = PROFILES[PROFILE], hasty_ledger.engine.dialect.name == "sqlite"
    if PROFILE == "short" and not is_quick:
        chosen = settings(chosen, max_examples=8)  # each of its statements takes a trip to the server
    reached.clear()
    run_state_machine_as_test(
        lambda: LedgerMachine(hasty_ledger, clock, loop),  # type: ignore[arg-type]
        settings=chosen,
    )
    print(*(f"{count:7,d} {branch}" for branch, count in sorted(reached.items())), sep="\n")
    if PROFILE == "short" and is_quick:
        assert reached.keys() >= OFTEN_REACHED, "the examples no longer come to where batches matter"
