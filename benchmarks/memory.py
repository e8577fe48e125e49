"""Peak memory of the runs that submit, settle and publish pages of 50 kB: it goes by the chunk, not by the day.

`python -m benchmarks.memory` takes days of 2,000 and 20,000 targets; `--full` takes 20,000 and 200,000, which needs
12 GB of disk and some minutes. Beside them: the same day's results in one data frame, as a script would hold them.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.night import environment, run_module
from scraper_pipeline.ledger import Ledger
from scraper_pipeline.local.processes import ChildProcess

_PAGE_BYTES = 50_000
_START_SECONDS = 60.0


@dataclass(frozen=True)
class Memory:
    """The peaks of the runs, and what a process with Dagster takes before it does anything."""

    targets: int
    peak_mb: float
    published_mb: float
    idle_mb: float
    frame_mb: float | None
    settle_seconds: float


def measure(targets: int, *, with_frame: bool) -> Memory:
    """Submit, settle and publish a day on SQLite. Raises if a page is missing."""
    with tempfile.TemporaryDirectory(prefix="memory-") as name:
        folder = Path(name)
        address = folder / "address"
        command = [sys.executable, "-m", "benchmarks.large_pages", str(_PAGE_BYTES), str(address)]
        with ChildProcess(command, {}, folder / "service.log"):
            end = time.monotonic() + _START_SECONDS
            while not address.exists():
                assert time.monotonic() < end, "the service did not start"
                time.sleep(0.05)
            url = address.read_text()
            target_list = folder / "targets.txt"
            target_list.write_text(
                "".join(f"https://site.test/pages/{number}\n" for number in range(targets))
            )
            ledger_url = f"sqlite:///{folder / 'ledger.db'}"
            environ = environment(folder, url, ledger_url, target_list, "batch")
            environ["SCRAPER_PAGES_URL"] = str(folder / "pages")
            day = f"{datetime.now(UTC):%Y-%m-%d}"
            submit, settle, publish = (
                run_module("dagster_run", job, day, environ=environ)
                for job in ("submit_jobs", "settle_jobs", "publish_pages")
            )
        with Ledger.open(ledger_url) as ledger:
            progress = ledger.progress.of(day)
            assert progress.stored == targets, progress
        return Memory(
            targets,
            max(submit["peak_mb"], settle["peak_mb"]),
            publish["peak_mb"],
            min(run["before_mb"] for run in (submit, settle, publish)),
            _frame_mb(ledger_url) if with_frame else None,
            settle["seconds"],
        )


def _frame_mb(ledger_url: str) -> float:
    """The peak of a process that reads all results into one data frame."""
    program = (
        "import pandas, resource, sqlalchemy, sys; "
        "frame = pandas.read_sql('SELECT * FROM results', sqlalchemy.create_engine(sys.argv[1])); "
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, ledger_url], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def show(rows: Sequence[Memory]) -> str:
    """The days as a table in Markdown."""
    lines = [
        "| targets | submit and settle, MB | publish, MB | before a run, MB | one data frame, MB | settled in, s |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.targets:,} | {row.peak_mb:.0f} | {row.published_mb:.0f} | {row.idle_mb:.0f} |"
        f" {'–' if row.frame_mb is None else f'{row.frame_mb:.0f}'} | {row.settle_seconds:.0f} |"
        for row in rows
    ]
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--full", action="store_true", help="20,000 and 200,000 targets")
    small, large = (20_000, 200_000) if options.parse_args().full else (2_000, 20_000)
    print(show([measure(small, with_frame=True), measure(large, with_frame=False)]))


if __name__ == "__main__":
    main()
