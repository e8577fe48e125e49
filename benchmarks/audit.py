"""How long the audit of a large ledger takes, as a whole and by rule.

`python -m benchmarks.audit` builds a ledger of a million targets over fifty days and checks its invariants: 97 % are
stored, 2 % dead, the rest in flight, and 3 % were tried twice. `--url` names another empty database than a SQLite file
in a temporary folder; `--keep` measures a ledger that an earlier run has built there.
"""

import argparse
import hashlib
import random
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, insert, literal, null, select, text, true

from scraper_pipeline.ledger import Ledger, ServiceJob
from scraper_pipeline.ledger.base import in_state
from scraper_pipeline.ledger.invariants import invariants
from scraper_pipeline.ledger.records import State, hash_url
from scraper_pipeline.ledger.schema import (
    dead_letters,
    jobs,
    partitions,
    processed_events,
    results,
    submissions,
)

MOST_SECONDS = 2.0
_BEGIN = datetime(2026, 3, 1, 6, tzinfo=UTC)
_MARKDOWN = "# A page\n\n" + "It says a little, and says it again. " * 8
_row = submissions.c


def main() -> None:
    options = _read_options()
    with tempfile.TemporaryDirectory(prefix="audit-", dir=options.folder) as folder:
        url = options.url or f"sqlite:///{Path(folder) / 'ledger.db'}"
        with Ledger.open(url) as ledger:
            if not options.keep:
                began = time.monotonic()
                rows = build(ledger, options.targets, options.days)
                print(f"built {rows} submissions in {time.monotonic() - began:.0f} s")
            seconds = measure(ledger, options.rounds)
            if options.books:
                _measure_books(ledger)
    sys.exit(0 if seconds <= MOST_SECONDS else 1)


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--url", help="SQLAlchemy URL of an empty database; a temporary SQLite file by default"
    )
    parser.add_argument("--folder", help="where the temporary SQLite file is made")
    parser.add_argument("--keep", action="store_true", help="the database holds such a ledger already")
    parser.add_argument("--targets", type=int, default=1_000_000)
    parser.add_argument("--days", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many is shown")
    parser.add_argument(
        "--books", action="store_true", help="time the comparison with the service's books, too"
    )
    return parser.parse_args()


def build(ledger: Ledger, targets: int, days: int) -> int:
    """Fill an empty ledger; returns how many submissions it has."""
    chance = random.Random(1)
    for number in range(days):
        noon = _BEGIN + timedelta(days=number)
        share = range(targets * number // days, targets * (number + 1) // days)
        with ledger.audit.writing() as connection:
            connection.execute(insert(submissions), list(_attempts(share, noon, chance)))
            _follow(connection, noon)
    if ledger.engine.dialect.name == "postgresql":
        with ledger.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM ANALYZE"))  # as autovacuum does by itself
    with ledger.audit.reading() as connection:
        return connection.scalar(select(func.count()).select_from(submissions)) or 0


def _attempts(share: range, noon: datetime, chance: random.Random) -> Iterator[dict[str, Any]]:
    """The rows of a day: what one target in a hundred is, the next hundred is again."""
    for number in share:
        url = f"https://site.test/section-{number % 97}/article-{number}?ref=list"
        kind = number % 100
        state = State.STORED if kind < 97 else State.DEAD if kind < 99 else _in_flight(number)
        if kind in (10, 40, 98):
            yield _attempt(url, noon, 1, State.SUPERSEDED, chance)
            yield _attempt(url, noon, 2, state, chance)
        else:
            yield _attempt(url, noon, 1, state, chance)


def _in_flight(number: int) -> State:
    return (State.ACCEPTED, State.PLANNED, State.SENDING)[number // 100 % 3]


def _attempt(url: str, noon: datetime, attempt: int, state: State, chance: random.Random) -> dict[str, Any]:
    is_sent, is_bound = state != State.PLANNED, state not in (State.PLANNED, State.SENDING)
    return {
        "partition_key": f"{noon:%Y-%m-%d}",
        "target_id": hashlib.sha256(url.encode()).hexdigest()[:32],
        "attempt": attempt,
        "url": url,
        "url_hash": hash_url(url),
        "options": {"formats": ["markdown"], "render_js": False},
        "labels": {"source": "list"},
        "state": state,
        "planned_at": noon,
        "request_id": uuid.UUID(int=chance.getrandbits(128)).hex if is_sent else None,
        "sent_at": noon if is_sent else None,
        "lease_until": noon if state == State.SENDING else None,
        "job_id": str(uuid.UUID(int=chance.getrandbits(128))) if is_bound else None,
        "item_key": hash_url(url) if is_bound else None,
        "accepted_at": noon if is_bound else None,
        "settled_at": noon if is_bound and state != State.ACCEPTED else None,
    }


def _follow(connection: Connection, noon: datetime) -> None:
    """Write what stands beside a day's submissions: jobs, news, results and letters, as they came in."""
    day = f"{noon:%Y-%m-%d}"
    at = literal(noon, _row.planned_at.type)
    bound = (_row.partition_key == day, _row.job_id.is_not(None))
    settled = in_state(State.STORED, State.DEAD, State.SUPERSEDED)
    connection.execute(
        insert(partitions).values(partition_key=day, revision=1, changed_at=noon, planned_at=noon)
    )
    connection.execute(
        insert(jobs).from_select(
            ["job_id", "partition_key", "kind", "status", "sent_at", "accepted_at"],
            select(_row.job_id, literal(day), literal("extract"), literal("completed"), at, at).where(*bound),
        )
    )
    connection.execute(
        insert(processed_events).from_select(
            ["job_id", "poll_at", "received_at", "available_at", "processed_at"],
            select(_row.job_id, at, at, at, at).where(*bound, settled),
        )
    )
    connection.execute(
        insert(results).from_select(
            ["job_id", "item_key", "partition_key", "target_id", "attempt", "url", "labels", "http_status", "markdown",
             "metadata", "tokens_charged", "content_sha256", "is_empty", "completed_at", "stored_at"],
            select(
                _row.job_id, _row.item_key, _row.partition_key, _row.target_id, _row.attempt, _row.url, _row.labels,
                literal(200), literal(_MARKDOWN), _row.options, literal(1), _row.url_hash, ~true(), at, at,
            ).where(*bound, in_state(State.STORED)),
        )
    )  # fmt: skip
    connection.execute(
        insert(dead_letters).from_select(
            ["job_id", "item_key", "partition_key", "target_id", "url", "error_code", "error_message", "attempts",
             "parked_at", "resolved_at"],
            select(
                _row.job_id, _row.item_key, _row.partition_key, _row.target_id, _row.url, literal("PERMANENT_BLOCK"),
                literal("The site refuses the page."), _row.attempt, at, null(),
            ).where(*bound, in_state(State.DEAD)),
        )
    )  # fmt: skip


def measure(ledger: Ledger, rounds: int) -> float:
    """Show the best time of every rule and of the whole; returns the latter, in seconds."""
    best: dict[str, float] = {}
    whole = processor = float("inf")
    for _ in range(rounds):
        began, processor_began = time.perf_counter(), time.process_time()
        violations = ledger.audit.check()
        whole = min(whole, time.perf_counter() - began)
        processor = min(processor, time.process_time() - processor_began)
        assert violations == [], violations[:3]
        with ledger.audit.reading() as connection:
            for one in invariants(ledger.scope, on_sqlite=ledger.engine.dialect.name == "sqlite"):
                began = time.perf_counter()
                assert connection.execute(one.broken).first() is None
                best[one.rule] = min(best.get(one.rule, float("inf")), time.perf_counter() - began)
    for rule, seconds in best.items():
        print(f"  {rule:24} {seconds:8.3f} s")
    [newest] = ledger.progress.revisions(limit=1)
    for check in (ledger.audit.check_complete, ledger.audit.check_stored_once):
        began = time.perf_counter()
        check(newest.partition_key)
        print(f"  {check.__name__:24} {time.perf_counter() - began:8.3f} s for a day")
    print(
        f"the whole audit took {whole:.2f} s on {ledger.engine.dialect.name}, of which {processor:.2f} s were spent in "
        f"this process; at most {MOST_SECONDS} s are allowed"
    )
    return whole


def _measure_books(ledger: Ledger) -> None:
    with ledger.audit.reading() as connection:
        rows = connection.execute(select(_row.job_id, _row.url, _row.state).where(_row.job_id.is_not(None)))
        books = [
            ServiceJob(
                row.job_id, row.url, "completed" if row.state == "stored" else "failed", row.state == "stored"
            )
            for row in rows
        ]
    began = time.perf_counter()
    assert ledger.audit.check_against(books) == []
    print(f"the comparison with the books of {len(books)} jobs took {time.perf_counter() - began:.2f} s")


if __name__ == "__main__":
    main()
