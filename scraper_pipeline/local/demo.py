"""The demo: a day of the sandbox's pages, from the list to the stored pages, along the path that a user would take."""

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx

from scraper_pipeline.accounts import open_ledger
from scraper_pipeline.ledger import Kind, Ledger, Progress, ServiceJob, Violation
from scraper_pipeline.local.dagster_ui import DagsterError
from scraper_pipeline.local.occupancy import occupying
from scraper_pipeline.local.stack import LocalStack, local_stack
from scraper_pipeline.settings import load_settings

_LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class DemoSummary:
    """How the demo went; ``requests_per_result`` counts every request that the service got."""

    day: str
    progress: Progress
    extracted: int
    resubmitted: int
    requests: int
    seconds: float
    violations: tuple[Violation, ...]
    folder: Path
    ledger_url: str

    @property
    def requests_per_result(self) -> float:
        return self.requests / self.progress.stored if self.progress.stored else 0.0

    @property
    def is_good(self) -> bool:
        return not self.violations and self.progress.is_settled and self.progress.stored == self.extracted


def run_demo(
    folder: Path,
    pages: int,
    *,
    port: int | None = None,
    timeout: float,
    show: Callable[[str], None],
    advance: Callable[[Progress], None],
    hold: Callable[[LocalStack, DemoSummary], None] = lambda stack, summary: None,
) -> DemoSummary:
    """Run a fresh demo below ``folder``, which is emptied before; ``hold`` is called while everything is still up.

    Raises DagsterError when a run fails, when the day is not done within ``timeout`` seconds, and where another demo
    runs in the folder.
    """
    if folder.exists():
        with occupying(folder / "dagster", "nowhere yet"):
            shutil.rmtree(folder)
    folder.mkdir(parents=True)
    target_list = folder / "targets.txt"
    environ = {
        "SCRAPER_LEDGER_URL": f"sqlite:///{folder / 'ledger.db'}",
        "SCRAPER_TARGETS": str(target_list),
        # one day: the graph of a demo that is kept shows it filled, not one day of hundreds
        "SCRAPER_START_DATE": datetime.now(UTC).strftime("%Y-%m-%d"),
        "SCRAPER_TIMEZONE": "UTC",
        # each further attempt takes two runs of Dagster, and whoever tries this waits for them
        "SCRAPER_MAX_ATTEMPTS": "2",
    }
    show("Starting the sandbox of the service, and Dagster with its daemon ...")
    with local_stack(folder, environ, port=port, sandbox_options=("--flaky-failures", "1")) as stack:
        target_list.write_text(fetch_targets(stack.sandbox_url or "", pages))
        settings = load_settings(stack.environ)
        day = environ["SCRAPER_START_DATE"]
        show(f"Dagster is up at {stack.ui.url}. Launching submit_jobs for {day} with {pages} pages ...")
        began = time.monotonic()
        run_id = stack.ui.launch("submit_jobs", day)
        with open_ledger(settings) as ledger:
            _wait_until_done(stack, ledger, day, run_id, began + timeout, advance)
            seconds = time.monotonic() - began
            truth = fetch_truth(stack.sandbox_url or "")
            summary = DemoSummary(
                day=day,
                progress=ledger.progress.of(day),
                extracted=sum(job.charged for job in truth),
                resubmitted=ledger.progress.resubmissions(day),
                requests=_count_requests(stack.sandbox_url or ""),
                seconds=seconds,
                violations=(*ledger.audit.check(), *ledger.audit.check_against(truth)),
                folder=folder,
                ledger_url=settings.ledger_location,
            )
        hold(stack, summary)
    return summary


def _wait_until_done(
    stack: LocalStack, ledger: Ledger, day: str, run_id: str, end: float, advance: Callable[[Progress], None]
) -> None:
    """Wait for the ledger to say that the day is settled, and for Dagster to show it green."""
    while True:
        progress = ledger.progress.of(day)
        advance(progress)
        if progress.targets and progress.is_settled and stack.ui.is_materialized("stored_results", day):
            return
        if not progress.targets and stack.ui.run_status(run_id) in ("FAILURE", "CANCELED"):
            raise DagsterError(f"The run failed: {stack.ui.failure_message(run_id)}")
        if not stack.dagster.is_running:
            raise DagsterError(
                f"Dagster ended. The end of {stack.dagster.log}:\n{stack.dagster.last_lines()}"
            )
        if time.monotonic() > end:
            raise DagsterError(
                f"{progress.in_flight} of {progress.targets} targets are still in flight: {progress}"
            )
        time.sleep(_LOOK_SECONDS)


def fetch_targets(sandbox_url: str, pages: int) -> str:
    """A list of the sandbox's own pages, one a line."""
    response = httpx.get(
        f"{sandbox_url}/sandbox/targets", params={"pages": pages}, trust_env=False, timeout=30
    )
    response.raise_for_status()
    return response.text


def fetch_truth(sandbox_url: str) -> list[ServiceJob]:
    """What the sandbox knows of every job that it was given, and of every page of a batch or crawl."""
    response = httpx.get(f"{sandbox_url}/sandbox/truth", trust_env=False, timeout=120)
    response.raise_for_status()
    truth = json.loads(response.content)
    # A synchronous extraction is somebody's own, and in no ledger.
    pages = [job for job in truth["jobs"] if job["mode"] == "async"] + truth["items"]
    return [
        ServiceJob(
            page["job_id"], page["url"], page["status"], int(page["charged"]), page.get("kind", Kind.EXTRACT)
        )
        for page in pages
    ]


def _count_requests(sandbox_url: str) -> int:
    response = httpx.get(f"{sandbox_url}/sandbox/requests", trust_env=False, timeout=30)
    response.raise_for_status()
    counts: dict[str, int] = response.json()
    return sum(counts.values())
