"""Each asset check turns red for one kind of corruption, and only for that one."""

import dagster as dg

from scraper_pipeline_tests.integration.dagster.corruption import CORRUPTIONS
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


@on_sqlite
def test_one_corrupted_row_turns_exactly_one_check_red_until_it_is_repaired(pipeline: Pipeline) -> None:
    """Days of nine pages, all well: one of them is more than any share that is allowed."""
    pipeline.ask_for(*(f"pages/{number}" for number in range(1, 10)))
    pipeline.complete()
    pipeline.complete(NEXT_DAY)
    for corruption in CORRUPTIONS:
        corruption.inflict(pipeline.ledger.engine, DAY)
        run, run_of_next_day = pipeline.settle(), pipeline.settle(NEXT_DAY)
        corruption.repair(pipeline.ledger.engine, DAY)

        checks = checks_of(run)
        assert checks.keys() == ALL_CHECKS
        assert {name for name, passed in checks.items() if not passed} == {corruption.check}, corruption.name
        (red,) = [one for one in run.get_asset_check_evaluations() if not one.passed]
        is_blocking = corruption.check in ("complete", "stored_once")
        assert run.success is not is_blocking
        assert red.severity == (dg.AssetCheckSeverity.ERROR if is_blocking else dg.AssetCheckSeverity.WARN)
        assert events_of(run, "ASSET_MATERIALIZATION"), "what is stored stays visible"
        assert checks_of(run_of_next_day) == dict.fromkeys(ALL_CHECKS, True), "other days are not concerned"
    assert checks_of(pipeline.settle()) == dict.fromkeys(ALL_CHECKS, True)
