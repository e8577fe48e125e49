"""How a ledger grows, night by night, and whether what is done every day stays as quick as it was.

`python -m benchmarks.growth` fills ledgers as the pipeline leaves them behind: 30 nights of 2,000 targets on SQLite and
on a Postgres of its own. `--nights 365 --targets 20000 --database sqlite` is a year of a large list, of some 20 GB,
for which `--folder` names a roomy disk. Beside the bytes, a plain table of the same pages, with neither attempts nor
jobs nor news.
"""

import argparse
import json
import os
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock

import dagster as dg
import psycopg
from sqlalchemy import make_url

from benchmarks.filling import Day, fill_day, settle_down
from benchmarks.tick import tick_once
from scraper_pipeline.ledger import (
    AcceptedSubmission,
    Channel,
    Ended,
    ItemOutcome,
    JobOutcome,
    Ledger,
    StoredPage,
    Target,
    hash_url,
)
from scraper_pipeline.ledger.records import State
from scraper_pipeline.ledger.schema import (
    dead_letters,
    jobs,
    partitions,
    processed_events,
    results,
    run_leases,
    submissions,
)
from scraper_pipeline_tests.postgres import EphemeralPostgres

MOST_RATIO = 3.0  # of any cost at the end to that after the first night
_PAGE = "Some words of a page. " * 9  # 198 bytes
_CHUNK = 64
_ROUNDS = 5
_TABLES = (submissions, jobs, processed_events, results, dead_letters, partitions, run_leases)
_TODAY = datetime.now(UTC).replace(hour=2, minute=0, second=0, microsecond=0)
_PROBED = f"{_TODAY:%Y-%m-%d}"


@dataclass(frozen=True)
class Costs:
    """What is done every day, in seconds: a tick with a night under way, a chunk through its life, a night's plan."""

    tick: float
    chunk: float
    plan: float


@dataclass(frozen=True)
class Night:
    """A ledger after so many nights. ``overhead`` and ``plain_overhead`` are bytes a target beside its page's text."""

    database: str
    night: int
    targets: int
    size: int
    overhead: float
    plain_overhead: float
    costs: Costs


def main() -> None:
    options = _read_options()
    databases = [options.database] if options.database else ["sqlite", "postgres"]
    is_steady = True
    for database in databases:
        nights = list(
            measure(database, options.nights, options.targets, options.folder, batch_size=options.batch_size)
        )
        is_steady &= _show(nights)
    sys.exit(0 if is_steady else 1)


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgres"], help="one of the two alone")
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--targets", type=int, default=2000, help="a night")
    parser.add_argument("--batch-size", type=int, default=1000, help="pages a job; 1 is a job for each")
    parser.add_argument("--folder", type=Path, help="where the ledger is made; a temporary folder by default")
    return parser.parse_args()


def _show(nights: Sequence[Night]) -> bool:
    first, is_steady = nights[0], True
    print(
        f"{first.database}: bytes a target beside its text, seconds, and in brackets how many times those of night 1\n"
        f"{'night':>6} {'targets':>9} {'MB':>8} {'bytes':>6} {'plain':>6} {'tick':>15} {'chunk':>15} {'plan':>15}"
    )
    for night in nights:
        shown = []
        for name in ("tick", "chunk", "plan"):
            cost, ratio = getattr(night.costs, name), getattr(night.costs, name) / getattr(first.costs, name)
            shown.append(f"{cost:7.3f} ({ratio:4.1f})")
            is_steady &= ratio <= MOST_RATIO
        print(
            f"{night.night:6} {night.targets:9} {night.size / 1e6:8.1f} {night.overhead:6.0f} "
            f"{night.plain_overhead:6.0f} {' '.join(f'{cost:>15}' for cost in shown)}"
        )
    return is_steady


def measure(
    database: str, nights: int, targets: int, folder: Path | None = None, *, batch_size: int = 1000
) -> Iterator[Night]:
    """Fill a ledger, and measure it after the first night, the last, and some between; each is told as it comes."""
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="growth-", dir=folder) as name,
        databases(database, Path(name)) as urls,
    ):
        url, plain_url = urls
        chance = random.Random(1)
        with Ledger.open(url) as ledger:
            empty = ledger_size(ledger)
        for night in range(1, nights + 1):
            with Ledger.open(url) as ledger:
                fill_day(ledger, _night(night, nights, targets, batch_size), chance)
            if night in _points(nights):
                with Ledger.open(url) as ledger:  # anew: the filling has filled its cache
                    settle_down(ledger)
                    size, count = ledger_size(ledger) - empty, night * targets
                    plain = _plain_overhead(plain_url, min(count, 200_000))
                    costs = _costs(ledger, url, targets, Path(name))
                    content = count * _STORED * len(_PAGE)
                    yield Night(database, night, count, size, (size - content) / count, plain, costs)


def _points(nights: int) -> set[int]:
    year = {1, 30, 90, 180, 365}
    return {1, nights} | (
        {night for night in year if night <= nights} if nights > 90 else {nights // 4, nights // 2}
    )


_STORED = 0.98


def _night(night: int, nights: int, targets: int, batch_size: int) -> Day:
    """Of a hundred targets, two are refused for good, and three are tried twice."""
    begins_at = _TODAY - timedelta(days=nights + 1 - night)
    return Day(
        begins_at,
        range((night - 1) * targets, night * targets),
        lambda number: State.DEAD if number % 50 == 49 else State.STORED,
        lambda number: number % 100 in (10, 40, 98),
        batch_size,
        markdown=_PAGE,
    )


@contextmanager
def databases(name: str, folder: Path) -> Iterator[tuple[str, str]]:
    """The URLs of two empty databases."""
    if name == "sqlite":
        yield f"sqlite:///{folder / 'ledger.db'}", f"sqlite:///{folder / 'plain.db'}"
    else:
        with (
            EphemeralPostgres(durable=True) as server,
            server.database() as ledger,
            server.database() as plain,
        ):
            yield server.url(ledger), server.url(plain)


def ledger_size(ledger: Ledger) -> int:
    """The bytes that the tables and their indexes take."""
    if ledger.engine.dialect.name == "sqlite":
        return Path(ledger.engine.url.database or "").stat().st_size
    with ledger.audit.reading() as connection:
        return sum(
            connection.exec_driver_sql(f"SELECT pg_total_relation_size('{table.name}')").scalar_one()
            for table in _TABLES
        )


def _plain_overhead(url: str, count: int) -> float:
    """Bytes a page beside its text in a table that holds nothing else than an id, the URL and the text."""
    rows = ((f"https://site.test/section-{n % 97}/article-{n}?ref=list", _PAGE) for n in range(count))
    if url.startswith("sqlite"):
        path = Path(make_url(url).database or "")
        path.unlink(missing_ok=True)
        connection = sqlite3.connect(path)
        connection.execute(
            "CREATE TABLE pages (id INTEGER PRIMARY KEY, url TEXT NOT NULL, content TEXT NOT NULL)"
        )
        connection.executemany("INSERT INTO pages (url, content) VALUES (?, ?)", rows)
        connection.commit()
        connection.close()
        return path.stat().st_size / count - len(_PAGE)
    with psycopg.connect(
        make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    ) as plain:
        plain.execute("DROP TABLE IF EXISTS pages")
        plain.execute(
            "CREATE TABLE pages (id bigserial PRIMARY KEY, url text NOT NULL, content text NOT NULL)"
        )
        with plain.cursor().copy("COPY pages (url, content) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        [size] = plain.execute("SELECT pg_total_relation_size('pages')").fetchone() or (0,)
    return int(size) / count - len(_PAGE)


def _costs(ledger: Ledger, url: str, targets: int, folder: Path) -> Costs:
    """Plan one more night, bring chunks of it through, let the sensor look at it; and take all of it away again."""
    try:
        plan = _seconds(lambda: ledger.submissions.plan(_PROBED, _targets(targets)))
        chunks = [_seconds(lambda: _bring_through(ledger)) for _ in range(_ROUNDS)]
        _bring_out(ledger)
        ticks = list(_ticks(ledger, url, folder))
    finally:
        _forget(ledger)
    return Costs(statistics.median(ticks[1:]), statistics.median(chunks), plan)


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _targets(count: int) -> Iterable[Target]:
    for number in range(count):
        url = f"https://probe.test/{number}"
        yield Target(hash_url(url)[:32], url, {"formats": ["markdown"]}, {"source": "list"})


def _bring_out(ledger: Ledger) -> list[str]:
    """Claim a chunk and record its jobs, none of which is due for a look yet; returns their ids."""
    claimed = ledger.submissions.claim(_PROBED, _CHUNK, 60.0)
    accepted = [AcceptedSubmission(one.request_id, f"job-of-{one.request_id}") for one in claimed]
    ledger.submissions.record_accepted(accepted, ledger.clock() + timedelta(hours=1))
    return [one.job_id for one in accepted]


def _bring_through(ledger: Ledger) -> None:
    """A chunk from its claim to its results."""
    ledger.news.record(_bring_out(ledger), Channel.POLL)
    settling = ledger.outcomes.claim(_PROBED, _CHUNK, 120.0)
    page = StoredPage(
        markdown=_PAGE, html=None, metadata={}, http_status=200, tokens_charged=1, completed_at=ledger.clock()
    )
    outcomes = [
        JobOutcome(job, Ended((ItemOutcome(job.item_key, page, job.url),), "completed")) for job in settling
    ]
    stored = ledger.outcomes.commit(outcomes).stored
    assert stored == _CHUNK, f"{stored} of {_CHUNK} were stored"


def _ticks(ledger: Ledger, url: str, folder: Path) -> Iterator[float]:
    """A night is planned, a part of it under way, and nothing due for a look: what is asked is the ledger alone."""
    settings = {
        "SCRAPER_LEDGER_URL": url,
        "SCRAPER_TARGETS": str(folder / "targets.txt"),
        "GEONODE_SCRAPER_HOST": "http://127.0.0.1:9",
        "GEONODE_SCRAPER_API_KEY": "nobody-is-asked",
    }
    # The nights before are green in Dagster, as the sensor has seen long ago.
    green = {night.partition_key: night.revision for night in ledger.progress.revisions(400)}
    del green[_PROBED]
    cursor: str | None = json.dumps({"submit_jobs": green, "settle_jobs": green})
    home = folder / "dagster"
    home.mkdir(exist_ok=True)
    with mock.patch.dict(os.environ, settings), dg.DagsterInstance.local_temp(str(home)) as instance:
        for _ in range(_ROUNDS + 1):
            began = time.perf_counter()
            cursor = tick_once(instance, cursor)
            yield time.perf_counter() - began


def _forget(ledger: Ledger) -> None:
    with ledger.audit.writing() as connection:
        probed_jobs = jobs.select().where(jobs.c.partition_key == _PROBED).with_only_columns(jobs.c.job_id)
        connection.execute(processed_events.delete().where(processed_events.c.job_id.in_(probed_jobs)))
        for table in (results, jobs, submissions, partitions, run_leases):
            connection.execute(table.delete().where(table.c.partition_key == _PROBED))


if __name__ == "__main__":
    main()
