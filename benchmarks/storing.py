"""The store path: outcomes committed in chunks, beside a commit for each row, and beside `DataFrame.to_sql`.

`python -m benchmarks.storing` measures SQLite and Postgres with pages of 5 and 50 kB. The ledger's work for a page is a
claim, a guarded change of state, the page, the job's end and the stamp on its news; the same work is done once with a
commit for each page. The plain table gets nothing but the page, a commit for each, or a data frame for each.
"""

import argparse
import hashlib
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import psycopg
from sqlalchemy import create_engine, select

from scraper_pipeline.ledger import (
    AcceptedSubmission,
    Channel,
    Ended,
    ItemOutcome,
    JobOutcome,
    Ledger,
    StoredPage,
    Target,
)
from scraper_pipeline.ledger.schema import jobs
from scraper_pipeline.lifecycle import LifecyclePolicy
from scraper_pipeline_tests.postgres import EphemeralPostgres

SIZES = (5_000, 50_000)
_DAY = "2026-03-01"
_LEASE = 600.0
_WORDS = [f"word{number:x}" for number in range(5000)]
_CREATE = "CREATE TABLE pages (url TEXT PRIMARY KEY, markdown TEXT, content_sha256 TEXT, stored_at TEXT)"
Pages = Mapping[str, StoredPage]


@dataclass(frozen=True)
class Rates:
    """Pages a second."""

    database: str
    page_bytes: int
    chunks: float
    chunks_of_one: float
    plain_rows: float
    frames: float


def measure(database: str, size: int, count: int) -> Rates:
    """Each form in turn, on databases of its own on the same disk."""
    pages = {url: page for url, page in _pages(count, size)}
    few = dict(list(pages.items())[: max(1, count // 20)])
    with _databases(database) as fresh:
        return Rates(
            database,
            size,
            chunks=_ledger_rate(fresh(), pages, LifecyclePolicy().settle_chunk),
            chunks_of_one=_ledger_rate(fresh(), few, 1),
            plain_rows=_plain_rate(fresh(), pages),
            frames=_frame_rate(fresh(), few),
        )


def _pages(count: int, size: int) -> Iterator[tuple[str, StoredPage]]:
    chance = Random(1)
    for number in range(count):
        url = f"https://site.test/pages/{number}"
        text = " ".join(chance.choices(_WORDS, k=size // 8))[:size]
        yield url, StoredPage(text, None, {"url": url, "http_status": 200}, 200, 1, datetime.now(UTC))


@contextmanager
def _databases(database: str) -> Iterator[Callable[[], str]]:
    """Makes an empty database at each call."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="storing-")))
        if database == "sqlite":
            yield lambda: f"sqlite:///{folder / str(time.monotonic_ns())}.db"
            return
        server = stack.enter_context(EphemeralPostgres(durable=True, prefers_system=True))
        yield lambda: server.url(server.create_database())


def _ledger_rate(url: str, pages: Pages, chunk: int) -> float:
    with Ledger.open(url) as ledger:
        _bring_to_the_end(ledger, pages)
        began = time.perf_counter()
        while claimed := ledger.outcomes.claim(_DAY, chunk, _LEASE):
            ended_at = datetime.now(UTC)
            ledger.outcomes.commit(
                [
                    JobOutcome(
                        job, Ended((ItemOutcome(job.item_key, pages[job.url]),), "completed", ended_at)
                    )
                    for job in claimed
                ]
            )
        seconds = time.perf_counter() - began
        assert ledger.progress.of(_DAY).stored == len(pages)
    return len(pages) / seconds


def _bring_to_the_end(ledger: Ledger, pages: Pages) -> None:
    """Plan and submit a page's job each, and have the news of its end."""
    ledger.submissions.plan(
        _DAY, (Target(hashlib.sha256(url.encode()).hexdigest()[:32], url, {}, {}) for url in pages)
    )
    while claimed := ledger.submissions.claim(_DAY, 500, _LEASE):
        accepted = [AcceptedSubmission(one.request_id, f"job {one.request_id}") for one in claimed]
        ledger.submissions.record_accepted(accepted, ledger.clock())
    with ledger.engine.connect() as connection:
        ledger.news.record(connection.scalars(select(jobs.c.job_id)).all(), Channel.POLL)


def _plain_rate(url: str, pages: Pages) -> float:
    connection, mark = _connect(url)
    connection.execute(_CREATE)
    connection.commit()
    insert = f"INSERT INTO pages VALUES ({mark}, {mark}, {mark}, {mark})"  # noqa: S608 (the driver's own mark)
    began = time.perf_counter()
    for page_url, page in pages.items():
        connection.execute(insert, (page_url, page.markdown, page.content_sha256, str(datetime.now(UTC))))
        connection.commit()
    seconds = time.perf_counter() - began
    connection.close()
    return len(pages) / seconds


def _connect(url: str) -> tuple[Any, str]:
    """The driver's own connection, on SQLite in the journal mode of the ledger, and its mark for a parameter."""
    if not url.startswith("sqlite"):
        return psycopg.connect(url.replace("+psycopg", "")), "%s"
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    for pragma in ("page_size=16384", "journal_mode=WAL", "synchronous=FULL"):
        connection.execute(f"PRAGMA {pragma}")
    return connection, "?"


def _frame_rate(url: str, pages: Pages) -> float:
    engine = create_engine(url)
    began = time.perf_counter()
    for page_url, page in pages.items():
        row = {
            "url": page_url,
            "markdown": page.markdown,
            "content_sha256": page.content_sha256,
            "stored_at": datetime.now(UTC),
        }
        pd.DataFrame([row]).to_sql("pages", engine, if_exists="append", index=False)
    seconds = time.perf_counter() - began
    engine.dispose()
    return len(pages) / seconds


def show(rates: Sequence[Rates]) -> str:
    """The rates as a table in Markdown, with ratios to the chunks' own."""
    lines = [
        "| ledger | page | in chunks, pages/s | a commit each | a plain table, a commit each | a data frame each |",
        "|---|---|---|---|---|---|",
    ]
    for one in rates:
        others = " | ".join(
            f"{rate:,.0f} ({one.chunks / rate:.1f} times)"
            for rate in (one.chunks_of_one, one.plain_rows, one.frames)
        )
        lines.append(f"| {one.database} | {one.page_bytes // 1000} kB | {one.chunks:,.0f} | {others} |")
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--pages", type=int, default=4_000)
    asked = options.parse_args()
    print(
        show([measure(database, size, asked.pages) for database in ("sqlite", "postgres") for size in SIZES])
    )


if __name__ == "__main__":
    main()
