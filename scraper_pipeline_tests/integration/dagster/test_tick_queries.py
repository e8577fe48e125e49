"""A tick asks the ledger by index alone: what was over long ago costs it nothing."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, insert

from scraper_pipeline.ledger import Channel, Kind, Ledger
from scraper_pipeline.ledger.records import State
from scraper_pipeline.ledger.schema import jobs, partitions, processed_events, results, submissions
from scraper_pipeline_tests.integration.dagster.driving import DAY, NEXT_DAY, Pipeline

OVER, IN_FLIGHT = 8000, 60
TABLES = "submissions|jobs|processed_events|results|dead_letters"
Statement = tuple[str, Any]


def _insert(ledger: Ledger, day: str, state: State, count: int, at: datetime) -> list[str]:
    """Rows of a day with all that stands beside them; returns their jobs."""
    names = [f"{day}-{state}-{number}" for number in range(count)]
    is_bound, is_over = state in (State.ACCEPTED, State.STORED), state is State.STORED
    with ledger.audit.writing() as connection:
        connection.execute(
            insert(submissions),
            [
                {
                    "partition_key": day, "target_id": name, "attempt": 1, "url": f"https://site.test/{name}",
                    "url_hash": name, "options": {}, "labels": {}, "state": state, "planned_at": at,
                    "request_id": None if state is State.PLANNED else name,
                    "sent_at": None if state is State.PLANNED else at, "lease_until": at,
                    "job_id": name if is_bound else None, "item_key": name if is_bound else None,
                    "accepted_at": at if is_bound else None,
                }
                for name in names
            ],
        )  # fmt: skip
        if not is_bound:
            return []
        connection.execute(
            insert(jobs),
            [
                {
                    "job_id": name, "partition_key": day, "kind": Kind.EXTRACT, "status": "queued", "sent_at": at,
                    "accepted_at": at, "next_look_at": None if is_over else at,
                }
                for name in names
            ],
        )  # fmt: skip
        if is_over:
            times = dict.fromkeys(("received_at", "available_at", "processed_at"), at)
            connection.execute(insert(processed_events), [{"job_id": name, **times} for name in names])
            connection.execute(
                insert(results),
                [
                    {
                        "job_id": name, "item_key": name, "partition_key": day, "target_id": name, "attempt": 1,
                        "url": name, "labels": {}, "metadata": {}, "content_sha256": "", "is_empty": False,
                        "stored_at": at,
                    }
                    for name in names
                ],
            )  # fmt: skip
    return names


def _fill(ledger: Ledger) -> None:
    """A day that is over, then one with work for every part of a tick."""
    now = datetime.now(UTC)
    _insert(ledger, DAY, State.STORED, OVER, now - timedelta(days=1))
    accepted = _insert(ledger, NEXT_DAY, State.ACCEPTED, IN_FLIGHT, now - timedelta(seconds=20))
    _insert(ledger, NEXT_DAY, State.PLANNED, IN_FLIGHT, now)
    _insert(ledger, NEXT_DAY, State.SENDING, 3, now - timedelta(minutes=10))
    ledger.news.record(accepted[:10], Channel.WEBHOOK)
    with ledger.audit.writing() as connection:
        for day in (DAY, NEXT_DAY):
            connection.execute(
                insert(partitions).values(partition_key=day, revision=1, changed_at=now, planned_at=now)
            )
    if ledger.engine.dialect.name == "postgresql":
        with ledger.audit.writing() as connection:
            connection.exec_driver_sql("ANALYZE")


@contextmanager
def _heard() -> Iterator[dict[str, Any]]:
    """The statements on the ledger's tables, by their text, with the values that they were given."""
    heard: dict[str, Any] = {}

    def hear(_: Connection, __: Any, statement: str, values: Any, ___: Any, is_many: bool) -> None:
        if re.search(rf"\b({TABLES})\b", statement) and "event_logs" not in statement:
            heard[statement] = values[0] if is_many else values

    event.listen(Engine, "before_cursor_execute", hear)
    try:
        yield heard
    finally:
        event.remove(Engine, "before_cursor_execute", hear)


def _scans(connection: Connection, statement: str, values: Any) -> list[str]:
    """The steps of a statement's plan that read a table, or all of an account's rows, whatever they are."""
    if connection.engine.dialect.name == "postgresql":
        [[plan]] = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement}", values).all()
        text = json.dumps(plan)
        return re.findall(rf'"Node Type": "Seq Scan"[^{{}}]*"Relation Name": "({TABLES})"', text)
    steps = [row.detail for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)]
    # That index holds nothing but what waits.
    scan = (
        rf"SCAN ({TABLES})\b(?! USING INDEX ix_events_pending)"
        r"|SEARCH \w+ USING .*\(account=\?( AND feed=\?)?\)$|.*AUTOMATIC"
    )
    return [step for step in steps if re.match(scan, step)]


def test_no_query_of_a_tick_reads_what_is_over(pipeline: Pipeline) -> None:
    _fill(pipeline.ledger)
    seen_green = json.dumps({"submit_jobs": {DAY: 1}, "settle_jobs": {DAY: 1}})
    with _heard() as heard:
        asked = pipeline.asked(seen_green)
    assert {("submit_jobs", NEXT_DAY), ("settle_jobs", NEXT_DAY)} <= asked
    assert len(heard) >= 10, "the poll, the runs asked for, and the resolution of lost answers"
    with pipeline.ledger.engine.connect() as connection:
        found = {statement: _scans(connection, statement, values) for statement, values in heard.items()}
    assert {statement: scans for statement, scans in found.items() if scans} == {}


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT count(*) FROM submissions WHERE url = 'x'",
        "SELECT min(planned_at) FROM submissions WHERE account = 'default' AND feed = 'default'",
    ],
)
def test_a_query_that_reads_everything_would_be_noticed(pipeline: Pipeline, statement: str) -> None:
    _fill(pipeline.ledger)
    with pipeline.ledger.engine.connect() as connection:
        assert _scans(connection, statement, ()) != []
