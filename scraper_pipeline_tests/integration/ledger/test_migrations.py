"""A ledger that an earlier release has filled: every row is there after the migration, and no rule is broken."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, MetaData, Table, insert, select

from scraper_pipeline.ledger import Ledger, database, hash_url
from scraper_pipeline.ledger.schema import metadata
from scraper_pipeline_tests.integration.ledger.driving import DAY
from scraper_pipeline_tests.integration.ledger.releases import FilledLedger, releases
from scraper_pipeline_tests.revisions import migrate_to

THEN = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = datetime(2027, 6, 1, 12, tzinfo=UTC)
URLS = [f"https://site.test/{number}" for number in range(3)]


def sample() -> dict[str, list[dict[str, Any]]]:
    """A stored target, a parked one and one that waits, with all that belongs to them."""
    stored, parked, waiting = URLS
    day = {"partition_key": DAY}

    def submission(url: str, state: str) -> dict[str, Any]:
        return {
            **day, "target_id": hash_url(url), "attempt": 1, "url": url, "url_hash": hash_url(url), "options": {},
            "labels": {"topic": "old"}, "kind": "extract", "state": state, "planned_at": THEN, "request_id": f"r {url}",
            "sent_at": THEN, "job_id": f"job of {url}", "item_key": hash_url(url), "accepted_at": THEN,
        }  # fmt: skip

    def job(url: str) -> dict[str, Any]:
        return {
            **day, "job_id": f"job of {url}", "kind": "extract", "status": "completed", "sent_at": THEN,
            "accepted_at": THEN,
        }  # fmt: skip

    return {
        "submissions": [
            submission(stored, "stored"),
            submission(parked, "dead"),
            submission(waiting, "accepted"),
        ],
        "jobs": [job(url) for url in URLS],
        "processed_events": [
            {"job_id": f"job of {stored}", "received_at": THEN, "available_at": THEN, "processed_at": THEN}
        ],
        "results": [
            {
                **day, "job_id": f"job of {stored}", "item_key": hash_url(stored), "target_id": hash_url(stored),
                "attempt": 1, "url": stored, "labels": {"topic": "old"}, "markdown": "# Old", "metadata": {"a": [1]},
                "tokens_charged": 1, "content_sha256": "0" * 64, "is_empty": False, "completed_at": THEN,
                "stored_at": THEN,
            }
        ],
        "dead_letters": [
            {
                **day, "job_id": f"job of {parked}", "item_key": hash_url(parked), "target_id": hash_url(parked),
                "url": parked, "error_code": "HTTP_404", "error_message": "Gone.", "attempts": 1, "parked_at": THEN,
            }
        ],
        "quarantine": [{"source": "webhook", "reason": "no_job_id", "body": b"\x00\xff", "received_at": THEN}],
        "partitions": [{**day, "revision": 3, "changed_at": THEN, "planned_at": THEN}],
    }  # fmt: skip


FIRST, PREVIOUS = database.known_revisions()[-1], database.known_revisions()[1]


@pytest.mark.parametrize("revision", [FIRST, PREVIOUS])
def test_every_row_of_an_earlier_schema_is_kept(ledger_url: str, revision: str) -> None:
    filled = _fill(ledger_url, revision, sample())
    with Ledger.open(ledger_url) as ledger:
        _is_kept(ledger, filled)
        assert ledger.progress.of(DAY).accepted == 1


@pytest.mark.parametrize("path", releases(), ids=lambda path: path.stem)
def test_what_a_release_has_filled_is_upgraded_and_worked_on(ledger_url: str, path: Path) -> None:
    release = FilledLedger.read(path)
    filled = _fill(ledger_url, release.revision, release.tables)
    with Ledger.open(ledger_url, clock=lambda: LATER) as ledger:
        _is_kept(ledger, filled)
        rows = release.tables["submissions"]
        by_day = {day: [row for row in rows if row["partition_key"] == day] for day in _days(rows)}
        for day, of_day in by_day.items():
            progress, states = ledger.progress.of(day), Counter(row["state"] for row in of_day)
            assert (progress.stored, progress.dead) == (states["stored"], states["dead"]), day
            assert (progress.planned, progress.sending, progress.accepted) == (
                states["planned"], states["sending"], states["accepted"],
            ), day  # fmt: skip

        # And what that release left open is taken up by this one.
        [open_day] = [day for day in by_day if not ledger.progress.of(day).is_settled]
        [claimed] = ledger.submissions.claim(open_day, 10, 60.0)
        assert claimed.url in {row["url"] for row in by_day[open_day] if row["state"] == "planned"}
        settled = {job.job_id for job in ledger.outcomes.claim(open_day, 10, 60.0)}
        due = {job.job_id for job in ledger.news.take_due_jobs(100)}
        accepted = {row["job_id"] for row in by_day[open_day] if row["state"] == "accepted"}
        assert accepted <= settled | due
        assert settled, "one of them had news already"
        assert due
        assert len(ledger.submissions.overdue(120.0)) == 1


def _days(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    return {row["partition_key"] for row in rows}


@dataclass(frozen=True)
class _Rows:
    """Some rows of a table, by the columns that an older schema had."""

    columns: Sequence[str]
    rows: Counter[str]


def _fill(url: str, revision: str, tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, _Rows]:
    """Write these rows into a database at that revision; returns them by table, as they are read."""
    migrate_to(url, revision)
    engine = database.open_engine(url)
    old = MetaData()
    old.reflect(engine)
    filled: dict[str, _Rows] = {}
    with database.writing(engine) as connection:
        for name, rows in tables.items():
            # With the types of today, but only the columns of then.
            table = Table(name, MetaData(), *(c._copy() for c in _columns_of(name, old)))
            columns = [column.name for column in table.columns]
            for row in rows:
                connection.execute(insert(table).values({k: v for k, v in row.items() if k in columns}))
            filled[name] = _Rows(columns, Counter(map(repr, connection.execute(select(table)).all())))
    engine.dispose()
    return filled


def _columns_of(name: str, old: MetaData) -> list[Column[Any]]:
    return [column for column in metadata.tables[name].columns if column.name in old.tables[name].c]


def _is_kept(ledger: Ledger, filled: Mapping[str, _Rows]) -> None:
    """Every value is what it was, whatever columns came to it, and every rule holds."""
    with ledger.submissions.reading() as connection:
        for name, before in filled.items():
            columns = [metadata.tables[name].c[column] for column in before.columns]
            after = connection.execute(select(*columns)).all()
            assert Counter(map(repr, after)) == before.rows, name
    assert ledger.audit.check() == []
    assert ledger.revision == database.known_revisions()[0]
