"""A night of 20,000 targets against the sandbox, from the list to the last stored page, beside a hand-written script.

`python -m benchmarks.night` runs the jobs `submit_jobs` and `settle_jobs` of Dagster, each run in a process of its own,
in batches and one by one, on SQLite and on Postgres. What starting a process takes is not counted on either side.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from scraper_pipeline.ledger import Ledger
from scraper_pipeline.local.demo import fetch_truth
from scraper_pipeline.local.stack import sandbox
from scraper_pipeline_tests.postgres import EphemeralPostgres

_MOST_RUNS = 20
# As many places as a night needs, so that it is the pipeline that is measured and not the plan of an account.
_SANDBOX = ("--max-delay", "2", "--concurrency-limit", "1000000")


@dataclass(frozen=True)
class Night:
    """What a night took; requests are those that reached the service."""

    mode: str
    database: str
    targets: int
    script_seconds: float
    submit_seconds: float
    settle_seconds: float
    settle_runs: int
    requests_per_result: float
    script_requests_per_result: float
    peak_mb: float

    @property
    def ratio(self) -> float:
        return (self.submit_seconds + self.settle_seconds) / self.script_seconds


def measure(mode: str, database: str, targets: int) -> Night:
    """The script first, then the pipeline, each against a sandbox of its own. Raises if a page is not as it must be."""
    with tempfile.TemporaryDirectory(prefix="night-") as name:
        folder = Path(name)
        with _service(folder / "script", targets) as (url, target_list):
            script = run_module("hand_written", url, str(target_list), str(folder / "results.jsonl"), mode)
            script_requests = _requests(url)
        with (
            _service(folder / "pipeline", targets) as (url, target_list),
            _ledger_url(database, folder) as ledger_url,
        ):
            environ = environment(folder, url, ledger_url, target_list, mode)
            day = f"{datetime.now(UTC):%Y-%m-%d}"
            submit = run_module("dagster_run", "submit_jobs", day, environ=environ)
            settles: list[dict[str, Any]] = []
            with Ledger.open(ledger_url) as ledger:
                while not settles or not ledger.progress.of(day).is_settled:
                    settles.append(run_module("dagster_run", "settle_jobs", day, environ=environ))
                    assert len(settles) < _MOST_RUNS, ledger.progress.of(day)
                stored = ledger.progress.of(day).stored
                assert stored == targets, stored
                violations = [*ledger.audit.check(), *ledger.audit.check_against(fetch_truth(url))]
                assert not violations, violations[:3]
            requests = _requests(url)
    assert script["results"] == targets, script
    return Night(
        mode,
        database,
        targets,
        script["seconds"],
        submit["seconds"],
        sum(run["seconds"] for run in settles),
        len(settles),
        requests / targets,
        script_requests / targets,
        max(run["peak_mb"] for run in (submit, *settles)),
    )


@contextmanager
def _service(folder: Path, targets: int) -> Iterator[tuple[str, Path]]:
    folder.mkdir()
    with sandbox(folder, _SANDBOX) as url:
        target_list = folder / "targets.txt"
        target_list.write_text("".join(f"{url}/site/pages/{number}\n" for number in range(1, targets + 1)))
        yield url, target_list


@contextmanager
def _ledger_url(database: str, folder: Path) -> Iterator[str]:
    if database == "sqlite":
        yield f"sqlite:///{folder / 'ledger.db'}"
        return
    with EphemeralPostgres(durable=True, prefers_system=True) as server, server.database() as name:
        yield server.url(name)


def environment(folder: Path, host: str, ledger_url: str, target_list: Path, mode: str) -> dict[str, str]:
    """The variables of a run, with a home for Dagster that is made below the folder."""
    home = folder / "dagster"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    return {
        "DAGSTER_HOME": str(home),
        "GEONODE_SCRAPER_API_KEY": "benchmark",
        "GEONODE_SCRAPER_HOST": host,
        "SCRAPER_LEDGER_URL": ledger_url,
        "SCRAPER_TARGETS": str(target_list),
        "SCRAPER_SUBMISSION_MODE": mode,
    }


def run_module(module: str, *arguments: str, environ: dict[str, str] | None = None) -> dict[str, Any]:
    """Run a module of this package to its end; what it prints last is its report."""
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", *arguments],
        env={**os.environ, **(environ or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-4000:])
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def _requests(url: str) -> int:
    counts: dict[str, int] = httpx.get(f"{url}/sandbox/requests", trust_env=False).raise_for_status().json()
    return sum(counts.values())


def show(nights: Sequence[Night]) -> str:
    """The nights as a table in Markdown."""
    lines = [
        "| mode | ledger | script, s | submit, s | settle, s (runs) | ratio | requests a result (script) | peak, MB |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {night.mode} | {night.database} | {night.script_seconds:.1f} | {night.submit_seconds:.1f} |"
        f" {night.settle_seconds:.1f} ({night.settle_runs}) | {night.ratio:.2f} |"
        f" {night.requests_per_result:.3f} ({night.script_requests_per_result:.3f}) | {night.peak_mb:.0f} |"
        for night in nights
    ]
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--targets", type=int, default=20_000)
    options.add_argument("--modes", nargs="+", default=["batch", "extract"])
    options.add_argument("--databases", nargs="+", default=["sqlite", "postgres"])
    asked = options.parse_args()
    nights = [measure(mode, database, asked.targets) for mode in asked.modes for database in asked.databases]
    print(show(nights))


if __name__ == "__main__":
    main()
