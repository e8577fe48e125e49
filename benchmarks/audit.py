"""How long the audit of a large ledger takes, as a whole and by rule.

`python -m benchmarks.audit` builds a ledger of a million targets over fifty days and checks its invariants: 97 % are
stored, 2 % dead, the rest in flight, and 3 % were tried twice. `--url` names another empty database than a SQLite file
in a temporary folder; `--keep` measures a ledger that an earlier run has built there.
"""

import argparse
import random
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import func, select

from benchmarks.filling import Day, fill_day, settle_down
from scraper_pipeline.ledger import Ledger, ServiceJob
from scraper_pipeline.ledger.invariants import invariants
from scraper_pipeline.ledger.records import State
from scraper_pipeline.ledger.schema import submissions

MOST_SECONDS = 2.0
_BEGIN = datetime(2026, 3, 1, 6, tzinfo=UTC)
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
        share = range(targets * number // days, targets * (number + 1) // days)
        begins_at = _BEGIN + timedelta(days=number)
        fill_day(ledger, Day(begins_at, share, _state_of, _is_retried), chance)
    settle_down(ledger)
    with ledger.audit.reading() as connection:
        return connection.scalar(select(func.count()).select_from(submissions)) or 0


def _state_of(number: int) -> State:
    """What one target in a hundred is, the next hundred is again."""
    kind = number % 100
    if kind < 97:
        return State.STORED
    in_flight = (State.ACCEPTED, State.PLANNED, State.SENDING)
    return State.DEAD if kind < 99 else in_flight[number // 100 % 3]


def _is_retried(number: int) -> bool:
    return number % 100 in (10, 40, 98)


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
