"""What a ledger takes whose old content is dropped each morning, night by night.

24 nights of 1,000 pages of 20 kB that don't compress, of which the content of the newest 8 is kept. A database gives no
room back to the disk; it is to use it again: once pruning has begun, it must hardly grow. `unpruned` is what the
content of all nights would take by itself. Postgres vacuums by itself as in production, except that it looks for work
each second and has three seconds for a day.
"""

import argparse
import base64
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg

from benchmarks.filling import Day, fill_day
from benchmarks.growth import databases, ledger_size
from scraper_pipeline.ledger import Ledger, database

MOST_RATIO = 1.5
"""Of the size after the last night to that after the first night that something was pruned."""
KEPT = 8
_DAY_SECONDS = 3.0
_PAGE_BYTES = 20_000
_TODAY = datetime.now(UTC).replace(hour=2, minute=0, second=0, microsecond=0)


@dataclass(frozen=True)
class Night:
    """A ledger after so many nights, in bytes, and how long the pruning took."""

    night: int
    size: int
    unpruned: int
    dropped: int
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nights", type=int, default=24)
    parser.add_argument("--pages", type=int, default=1000, help="a night")
    options = parser.parse_args()
    is_flat = True
    for name in ("sqlite", "postgres"):
        nights = list(measure(name, options.nights, options.pages))
        before = nights[KEPT - 1]
        print(f"{name}\n{'night':>6} {'MB':>8} {'unpruned':>9} {'times night 8':>14} {'pruned in s':>12}")
        for night in nights:
            if night.night in (1, KEPT) or night.night % KEPT == 0 or night.night == options.nights:
                ratio = night.size / before.size
                print(
                    f"{night.night:6} {night.size / 1e6:8.1f} {night.unpruned / 1e6:9.1f} {ratio:14.2f} "
                    f"{night.seconds:12.2f}"
                )
        is_flat &= nights[-1].size <= MOST_RATIO * before.size
    sys.exit(0 if is_flat else 1)


def measure(name: str, nights: int, pages: int) -> Iterator[Night]:
    """Fill and prune, night by night."""
    chance = random.Random(1)
    with (
        tempfile.TemporaryDirectory(prefix="retention-") as folder,
        databases(name, Path(folder)) as (url, _),
        Ledger.open(url) as ledger,
    ):
        if name == "postgres":
            _have_it_vacuum_often(url)
        for night in range(1, nights + 1):
            markdown = base64.b64encode(chance.randbytes(_PAGE_BYTES * 3 // 4)).decode()
            begins_at = _TODAY - timedelta(days=nights - night)
            fill_day(
                ledger,
                Day(begins_at, range((night - 1) * pages, night * pages), batch_size=1000, markdown=markdown),
                chance,
            )
            began = time.perf_counter()
            before = f"{begins_at - timedelta(days=KEPT - 1):%Y-%m-%d}"
            dropped = sum(ledger.retention.drop_content(day) for day in ledger.retention.old_days(before))
            seconds = time.perf_counter() - began
            if name == "postgres":
                time.sleep(_DAY_SECONDS)
            else:
                with database.connect_at_once(ledger.engine) as connection:
                    connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
            yield Night(night, ledger_size(ledger), night * pages * _PAGE_BYTES, dropped, seconds)


def _have_it_vacuum_often(url: str) -> None:
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET autovacuum_naptime = '1s'")
        connection.execute("SELECT pg_reload_conf()")


if __name__ == "__main__":
    main()
