"""The audit asks differently over all days and over one: both find the same, in their own feed, and by index alone."""

import re

import pytest
from sqlalchemy.dialects import sqlite

from scraper_pipeline.ledger import Ledger, Scope, Violation
from scraper_pipeline.ledger.invariants import invariants
from scraper_pipeline_tests.integration.ledger.damages import DEAD, STORED, populate
from scraper_pipeline_tests.integration.ledger.driving import DAY, NEXT_DAY, HandClock, execute


def _as_set(violations: list[Violation]) -> set[Violation]:
    assert len(violations) == len(set(violations)), "each is told once"
    return set(violations)


def test_a_damage_is_found_alike_over_all_days_and_in_its_own_and_by_its_own_feed_alone(
    damaged_ledger: Ledger,
) -> None:
    assert _as_set(damaged_ledger.audit.check(DAY)) == _as_set(damaged_ledger.audit.check()) != set()
    assert damaged_ledger.audit.check(NEXT_DAY) == []
    for scope in (Scope(feed="another"), Scope(account="another")):
        other = Ledger(damaged_ledger.engine, scope, damaged_ledger.clock)
        assert other.audit.check() == other.audit.check(DAY) == []


def test_a_stored_row_that_has_lost_its_job_is_found(ledger: Ledger, clock: HandClock) -> None:
    populate(ledger, clock)
    execute(ledger, "UPDATE submissions SET job_id = NULL, item_key = NULL WHERE url = :url", url=STORED)
    found = {violation.rule for violation in ledger.audit.check()}
    assert found == {"stored_has_result", "result_has_row"}
    assert _as_set(ledger.audit.check(DAY)) == _as_set(ledger.audit.check())


def test_a_row_that_is_planned_again_and_still_holds_a_stored_job_is_found(
    ledger: Ledger, clock: HandClock
) -> None:
    populate(ledger, clock)
    execute(ledger, "UPDATE submissions SET state = 'planned' WHERE url = :url", url=STORED)
    assert {violation.rule for violation in ledger.audit.check()} == {"result_has_row"}
    assert _as_set(ledger.audit.check(DAY)) == _as_set(ledger.audit.check())


def test_a_day_that_no_record_of_days_has_is_looked_at_all_the_same(ledger: Ledger, clock: HandClock) -> None:
    populate(ledger, clock)
    execute(ledger, "DELETE FROM dead_letters WHERE url = :url", url=DEAD)
    execute(ledger, "DELETE FROM partitions")
    assert {violation.rule for violation in ledger.audit.check()} == {"dead_has_letter"}


@pytest.mark.parametrize("day", [None, DAY], ids=["all days", "one day"])
@pytest.mark.parametrize("rule", [one.rule for one in invariants(Scope())])
def test_no_table_is_read_row_by_row(sqlite_url: str, rule: str, day: str | None) -> None:
    """A million rows hold gigabytes of pages; their indexes hold a hundredth of that."""
    [broken] = [one.broken for one in invariants(Scope(), day, on_sqlite=True) if one.rule == rule]
    statement = str(broken.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}))
    with Ledger.open(sqlite_url) as ledger, ledger.engine.connect() as connection:
        plan = [row.detail for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}")]
    tables = "submissions|results|jobs|processed_events|dead_letters|ours|others|some|one|other"
    scans = [step for step in plan if re.match(rf"SCAN ({tables})\b", step)]
    assert [step for step in scans if "INDEX" not in step] == []
    assert [step for step in plan if "AUTOMATIC" in step] == [], "an index is made for the query"
    whole_keys = [step for step in plan if re.match(r"SEARCH results .*\(account=\? AND feed=\?\)", step)]
    assert whole_keys == [], "every page is visited"
