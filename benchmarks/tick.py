"""How long a tick of `job_status_sensor` takes with 1,000, 10,000 and 100,000 pages in flight, and where its time goes.

`python -m benchmarks.tick` fills a ledger, lists the same jobs on loopback, and evaluates the real sensor on a real
Dagster instance, several times; on SQLite and on a Postgres of its own, with a job for each page and in batches of
1,000: all due for a look, none due, all ended and none settled, or all planned and none sent. Beside it, the guide's
way of looking: one GET for each job that is due, measured on a sample; on loopback, where it costs next to nothing.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import Any, Literal, get_args
from unittest import mock

import dagster as dg
import httpx
from sqlalchemy import func, select, text

from benchmarks.filling import Day, fill_day, settle_down
from scraper_pipeline import sensors
from scraper_pipeline.ledger import Ledger
from scraper_pipeline.ledger.records import State
from scraper_pipeline.ledger.schema import jobs, processed_events, submissions
from scraper_pipeline.local.processes import ChildProcess
from scraper_pipeline.resources import LedgerResource, ScraperResource
from scraper_pipeline_tests.postgres import EphemeralPostgres

MOST_SECONDS = 1.0
BATCH = 1000
_KEY = "benchmark"
Situation = Literal["due", "not due", "ended", "planned"]
_PER_SECOND = 100.0  # pages that a submit run brings out
_PARTS = ("_look", "_queued", "_submissions", "_settlements", "_conclusions", "_resolve")


@dataclass(frozen=True)
class Tick:
    """Medians over several ticks, in seconds. ``looked`` counts jobs; ``plain_seconds`` is a GET for each of them.

    ``parts`` are the ledger's opening, the poll, the runs asked for, and the resolution of lost answers.
    """

    database: str
    mode: str
    in_flight: int
    situation: Situation
    seconds: float
    looked: int
    requests: int
    plain_seconds: float
    parts: dict[str, float] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """How many times as long the plain way takes to learn the same."""
        return self.plain_seconds / self.seconds


def main() -> None:
    options = _read_options()
    databases = [options.database] if options.database else ["sqlite", "postgres"]
    ticks = []
    for database in databases:
        for batch_size in (1, BATCH):
            for in_flight in options.in_flight:
                for situation in get_args(Situation):
                    tick = measure(database, in_flight, batch_size, situation, rounds=options.rounds)
                    ticks.append(tick)
                    _show(tick)
    sys.exit(0 if all(tick.seconds <= MOST_SECONDS for tick in ticks) else 1)


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgres"], help="one of the two alone")
    parser.add_argument("--in-flight", type=int, nargs="+", default=[1000, 10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=5, help="the median of so many ticks is shown")
    return parser.parse_args()


def _show(tick: Tick) -> None:
    parts = ", ".join(f"{name.strip('_')} {seconds * 1000:.0f}" for name, seconds in tick.parts.items())
    plain = f", {tick.ratio:.1f} times as quick as a GET for each" if tick.looked else ""
    print(
        f"{tick.database:8} {tick.mode:7} {tick.in_flight:7} pages, {tick.situation:8}: {tick.seconds * 1000:6.0f} ms "
        f"for {tick.looked} jobs by {tick.requests} requests{plain} ({parts})",
        flush=True,
    )


def measure(
    database: str, in_flight: int, batch_size: int, situation: Situation = "due", *, rounds: int = 5
) -> Tick:
    """Evaluate the sensor with so many pages in flight, in jobs of ``batch_size``."""
    with tempfile.TemporaryDirectory(prefix="tick-") as name, _database(database, Path(name)) as url:
        folder = Path(name)
        with Ledger.open(url) as ledger:
            _fill(ledger, in_flight, batch_size, situation)
            told = _tell(ledger, folder / "jobs.jsonl")
            with _standing_jobs(folder) as address, _settings(url, address, folder):
                plain = _seconds_of_a_get(address, told, "batch" if batch_size > 1 else "extract")
                return _evaluate(ledger, folder, rounds, Tick(
                    database, "batch" if batch_size > 1 else "extract", in_flight, situation, 0, 0, 0, plain,
                ), address)  # fmt: skip


@contextmanager
def _database(name: str, folder: Path) -> Iterator[str]:
    if name == "sqlite":
        yield f"sqlite:///{folder / 'ledger.db'}"
    else:
        with EphemeralPostgres(durable=True) as server, server.database() as database:
            yield server.url(database)


def _fill(ledger: Ledger, in_flight: int, batch_size: int, situation: Situation) -> None:
    """A day that is submitted whole, or planned, and of which nothing is settled, after one that is over."""
    now, chance = datetime.now(UTC), random.Random(1)
    begins_at = now - timedelta(seconds=in_flight / _PER_SECOND + 30)
    over = Day(begins_at - timedelta(days=1), range(-2000, 0), batch_size=batch_size)
    fill_day(ledger, over, chance)
    day = Day(
        begins_at,
        range(in_flight),
        lambda number: State.PLANNED if situation == "planned" else State.ACCEPTED,
        batch_size=batch_size,
        per_second=_PER_SECOND,
    )
    fill_day(ledger, day, chance)
    with ledger.audit.writing() as connection:
        if situation == "not due":
            later = now + timedelta(hours=1)
            connection.execute(
                jobs.update().where(jobs.c.next_look_at.is_not(None)).values(next_look_at=later)
            )
        if situation == "ended":
            waiting = select(jobs.c.job_id, jobs.c.accepted_at, jobs.c.accepted_at).where(
                jobs.c.next_look_at.is_not(None)
            )
            told = ["job_id", "received_at", "available_at"]
            connection.execute(processed_events.insert().from_select(told, waiting))
            connection.execute(jobs.update().values(next_look_at=None))
    settle_down(ledger)


def _tell(ledger: Ledger, file: Path) -> list[str]:
    """Write the ledger's jobs down for the service, oldest first; returns the ids of those in flight."""
    in_flight = []
    with ledger.audit.reading() as connection, file.open("w") as lines:
        query = (
            select(
                jobs.c.job_id,
                jobs.c.kind,
                jobs.c.sent_at,
                jobs.c.status,
                func.min(submissions.c.url).label("url"),
            )
            .join(submissions, submissions.c.job_id == jobs.c.job_id)
            .group_by(jobs.c.job_id)
            .order_by(jobs.c.sent_at)
        )
        for row in connection.execute(query):
            told = {"job_id": row.job_id, "kind": row.kind, "url": row.url, "status": row.status}
            lines.write(json.dumps({**told, "created_at": row.sent_at.isoformat()}) + "\n")
            if row.status == "queued":
                in_flight.append(row.job_id)
    return in_flight


@contextmanager
def _standing_jobs(folder: Path) -> Iterator[str]:
    address = folder / "address"
    command = [sys.executable, "-m", "benchmarks.standing_jobs", str(folder / "jobs.jsonl"), str(address)]
    with ChildProcess(command, os.environ, folder / "service.log") as process:
        end = time.monotonic() + 120
        while not address.exists():
            if not process.is_running or time.monotonic() > end:
                raise RuntimeError(process.last_lines())
            time.sleep(0.05)
        yield address.read_text()


@contextmanager
def _settings(ledger_url: str, address: str, folder: Path) -> Iterator[None]:
    settings = {
        "SCRAPER_LEDGER_URL": ledger_url,
        "SCRAPER_TARGETS": str(folder / "targets.txt"),
        "GEONODE_SCRAPER_HOST": address,
        "GEONODE_SCRAPER_API_KEY": _KEY,
    }
    with mock.patch.dict(os.environ, settings):
        yield


def _seconds_of_a_get(address: str, job_ids: Sequence[str], kind: str) -> float:
    """How long the guide's way takes for one job, by a sample of some hundred, one after the other."""
    if not job_ids:
        return 0.0
    sample = random.Random(1).sample(job_ids, min(300, len(job_ids)))
    with httpx.Client(base_url=address, headers={"X-Api-Key": _KEY}, trust_env=False) as client:
        client.get(f"/v1/{kind}/{sample[0]}").raise_for_status()
        began = time.perf_counter()
        for job_id in sample:
            client.get(f"/v1/{kind}/{job_id}").raise_for_status().json()
        return (time.perf_counter() - began) / len(sample)


def _evaluate(ledger: Ledger, folder: Path, rounds: int, tick: Tick, address: str) -> Tick:
    whole: list[float] = []
    looked: list[int] = []
    requests: list[int] = []
    parts: dict[str, list[float]] = {}
    cursor = None
    (folder / "dagster").mkdir()
    with dg.DagsterInstance.local_temp(str(folder / "dagster")) as instance:
        for number in range(rounds + 1):
            _end_leases(ledger)
            if tick.situation == "due":
                _make_due(ledger)
            before = _looks(ledger), _requests(address)
            with _timed() as seconds:
                began = time.perf_counter()
                cursor = tick_once(instance, cursor)
                took = time.perf_counter() - began
            if number == 0:
                continue  # the first one imports and compiles
            whole.append(took)
            looked.append(_looks(ledger) - before[0])
            requests.append(_requests(address) - before[1])
            seconds["the rest"] = took - sum(seconds.values())
            for name, part in seconds.items():
                parts.setdefault(name, []).append(part)
    count = round(statistics.median(looked))
    return Tick(
        tick.database, tick.mode, tick.in_flight, tick.situation, statistics.median(whole), count,
        round(statistics.median(requests)), tick.plain_seconds * count,
        {name: statistics.median(values) for name, values in parts.items()},
    )  # fmt: skip


def tick_once(instance: dg.DagsterInstance, cursor: str | None) -> str | None:
    context = dg.build_sensor_context(
        instance=instance,
        cursor=cursor,
        resources={"ledger": LedgerResource(), "scraper": ScraperResource()},
    )
    result = sensors.job_status_sensor(context)
    return result.cursor if isinstance(result, dg.SensorResult) else cursor


@contextmanager
def _timed() -> Iterator[dict[str, float]]:
    """Measure the parts of the sensor's evaluation."""
    seconds: dict[str, float] = {}

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def measured(*arguments: Any) -> Any:
            began = time.perf_counter()
            found = function(*arguments)
            if isinstance(found, Iterator):
                found = list(found)
            if asyncio.iscoroutine(found):

                async def awaited() -> Any:
                    answer = await found
                    seconds[name] = time.perf_counter() - began
                    return answer

                return awaited()
            seconds[name] = time.perf_counter() - began
            return found

        return measured

    with ExitStack() as patches:
        for name in _PARTS:
            patches.enter_context(mock.patch.object(sensors, name, timed(name, getattr(sensors, name))))
        yield seconds


def _end_leases(ledger: Ledger) -> None:
    """As time would: the next tick looks again, and asks for runs again."""
    with ledger.audit.writing() as connection:
        connection.execute(text("DELETE FROM run_leases"))


def _make_due(ledger: Ledger) -> None:
    with ledger.audit.writing() as connection:
        due = jobs.update().where(jobs.c.next_look_at.is_not(None))
        connection.execute(due.values(next_look_at=jobs.c.accepted_at))


def _looks(ledger: Ledger) -> int:
    with ledger.audit.reading() as connection:
        return connection.scalar(select(func.sum(jobs.c.looks))) or 0


def _requests(address: str) -> int:
    return int(httpx.get(f"{address}/requests", trust_env=False).json()["requests"])


if __name__ == "__main__":
    main()
