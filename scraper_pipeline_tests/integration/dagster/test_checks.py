"""Each asset check turns red for one kind of corruption, and only for that one."""

import dagster as dg
import pytest

from scraper_pipeline_tests.integration.dagster.corruption import CORRUPTIONS, Corruption
from scraper_pipeline_tests.integration.dagster.driving import (
    DAY,
    NEXT_DAY,
    Pipeline,
    checks_of,
    events_of,
    on_sqlite,
)

ALL_CHECKS = {
    "complete",
    "stored_once",
    "share_of_empty_pages",
    "share_of_repeated_pages",
    "size_is_usual",
    "share_of_parked_targets",
}


@pytest.fixture
def finished(pipeline: Pipeline) -> Pipeline:
    """A day of nine pages, all well: one of them is more than any share that is allowed."""
    pipeline.ask_for(*(f"pages/{number}" for number in range(1, 10)))
    pipeline.complete()
    return pipeline


@on_sqlite
@pytest.mark.parametrize("corruption", CORRUPTIONS, ids=lambda corruption: corruption.name)
def test_one_corrupted_row_turns_exactly_one_check_red_until_it_is_repaired(
    finished: Pipeline, corruption: Corruption
) -> None:
    corruption.inflict(finished.ledger.engine, DAY)
    checks = checks_of(finished.settle())
    assert checks.keys() == ALL_CHECKS
    assert {name for name, passed in checks.items() if not passed} == {corruption.check}

    corruption.repair(finished.ledger.engine, DAY)
    assert checks_of(finished.settle()) == dict.fromkeys(ALL_CHECKS, True)


@on_sqlite
@pytest.mark.parametrize("corruption", CORRUPTIONS, ids=lambda corruption: corruption.name)
def test_a_broken_invariant_fails_the_run_a_bad_share_only_warns_and_other_days_are_not_concerned(
    finished: Pipeline, corruption: Corruption
) -> None:
    finished.complete(NEXT_DAY)
    corruption.inflict(finished.ledger.engine, DAY)

    run = finished.settle()
    (red,) = [one for one in run.get_asset_check_evaluations() if not one.passed]
    blocks = corruption.check in ("complete", "stored_once")
    assert run.success is not blocks
    assert red.severity == (dg.AssetCheckSeverity.ERROR if blocks else dg.AssetCheckSeverity.WARN)
    assert events_of(run, "ASSET_MATERIALIZATION"), "what is stored stays visible"
    assert checks_of(finished.settle(NEXT_DAY)) == dict.fromkeys(ALL_CHECKS, True)
