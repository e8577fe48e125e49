"""A ledger that an earlier release has filled: every row is there after the migration, and no rule is broken."""

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import MetaData, Table, insert, select

from scraper_pipeline.ledger import Ledger, database, hash_url
from scraper_pipeline.ledger.schema import metadata
from scraper_pipeline_tests.integration.ledger.driving import DAY
from scraper_pipeline_tests.revisions import migrate_to

THEN = datetime(2026, 3, 1, 12, tzinfo=UTC)
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
def test_every_row_of_an_earlier_release_is_kept(ledger_url: str, revision: str) -> None:
    engine = database.open_engine(ledger_url)
    migrate_to(ledger_url, revision)
    old = MetaData()
    old.reflect(engine)
    filled: dict[str, Counter[str]] = {}
    with database.writing(engine) as connection:
        for name, rows in sample().items():
            # With the types of today, but only the columns of then.
            table = Table(
                name,
                MetaData(),
                *(c._copy() for c in metadata.tables[name].columns if c.name in old.tables[name].c),
            )
            columns = [column.name for column in table.columns]
            for row in rows:
                connection.execute(insert(table).values({k: v for k, v in row.items() if k in columns}))
            filled[name] = Counter(map(repr, connection.execute(select(table)).all()))
    engine.dispose()

    with Ledger.open(ledger_url) as ledger:
        with ledger.submissions.reading() as connection:
            for name, rows_before in filled.items():
                kept = [metadata.tables[name].c[column.name] for column in old.tables[name].c]
                by_name = {column.name: column for column in kept}
                names = [c.name for c in metadata.tables[name].columns if c.name in by_name]
                after = connection.execute(select(*(by_name[one] for one in names))).all()
                assert Counter(map(repr, after)) == rows_before, name
        assert ledger.audit.check() == []
        assert ledger.progress.of(DAY).accepted == 1
        assert ledger.revision == database.known_revisions()[0]
