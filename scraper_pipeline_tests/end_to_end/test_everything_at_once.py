"""Whatever may settle a day settles it at once: bare processes, the UI, a backfill, sweeps, and the daemon's sensor."""

import multiprocessing
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest
from sqlalchemy import select

from scraper_pipeline.ledger import Ledger, State
from scraper_pipeline.ledger.schema import results, submissions
from scraper_pipeline.lifecycle import LifecyclePolicy, Settlement
from scraper_pipeline.local.stack import SANDBOX_KEY, local_stack
from scraper_pipeline.scraper_api import ScraperClient
from scraper_pipeline.settings import project_folder
from scraper_pipeline_tests.end_to_end.driving import Observer, observe, wait_for
from scraper_pipeline_tests.integration.ledger.driving import rows
from scraper_pipeline_tests.postgres import SUPERUSER, EphemeralPostgres

DAY = "2026-01-05"
BACKFILLED = (DAY, "2026-01-06", "2026-01-07")  # nothing was planned for the other two
ASSETS = ("submitted_jobs", "stored_results", "dead_letters")
PROCESSES = 3
START_SECONDS = 240

ORDINARY = [f"pages/{number}" for number in range(10, 50)]
HELD = [f"pages/{number}" for number in range(60, 78)]
BROKEN = ["broken/1", "broken/2"]
PATHS = [*ORDINARY, *HELD, *BROKEN]
FAULTS = {"never_finish": [{"url_contains": "/site/pages/6"}, {"url_contains": "/site/pages/7"}]}

# Longer than the backfill takes to begin, so that whoever settles stays until the day is settled.
QUIET_SECONDS = 400.0


@pytest.fixture
def observer(postgres_server: EphemeralPostgres, tmp_path: Path) -> Iterator[Observer]:
    """A stack whose ledger and Dagster's storage are on Postgres as in production, where the most goes on at once."""
    environ = {
        "SCRAPER_TARGETS": str(tmp_path / "targets.txt"),
        "SCRAPER_SUBMISSION_MODE": "extract",
        "SCRAPER_DRAIN_QUIET_SECONDS": str(QUIET_SECONDS),
        "SCRAPER_SWEEP_AFTER_SECONDS": "0.001",
    }
    (tmp_path / "dagster").mkdir()
    shutil.copy(project_folder() / "deploy" / "dagster.yaml", tmp_path / "dagster" / "dagster.yaml")
    server = postgres_server
    with server.database() as ledger, server.database() as storage:
        environ |= {
            "SCRAPER_LEDGER_URL": server.url(ledger),
            "DAGSTER_POSTGRES_HOST": "127.0.0.1",
            "DAGSTER_POSTGRES_PORT": str(server.port),
            "DAGSTER_POSTGRES_DB": storage,
            "DAGSTER_POSTGRES_USER": SUPERUSER,
            "DAGSTER_POSTGRES_PASSWORD": server.password,
        }
        with _running(tmp_path, environ) as observer:
            yield observer


@contextmanager
def _running(folder: Path, environ: dict[str, str]) -> Iterator[Observer]:
    with (
        local_stack(folder, environ, sandbox_options=("--max-delay", "8", "--fetch-timeout", "60")) as stack,
        observe(stack.ui.url, environ["SCRAPER_LEDGER_URL"], stack.sandbox_url or "") as observer,
    ):
        lines = (f"{stack.sandbox_url}/site/{path}\n" for path in PATHS)
        Path(environ["SCRAPER_TARGETS"]).write_text("".join(lines))
        observer.set_faults(**FAULTS)
        observer.ui.stop_sensor("publication_sensor")  # its runs have no part in this
        yield observer


@pytest.mark.postgres
@pytest.mark.timeout(900)
def test_a_day_that_everything_settles_at_once_is_paid_once_and_stored_once(observer: Observer) -> None:
    with _processes_that_settle(observer) as (start, settling):
        assert observer.ui.wait_for_run(observer.ui.launch("submit_jobs", DAY), 120) == "SUCCESS"
        assert observer.posts() == len(PATHS)
        start.wait(START_SECONDS)
        backfill = observer.ui.backfill(ASSETS, BACKFILLED)
        runs = [observer.ui.materialize(ASSETS, DAY), observer.ui.launch_sweep()]
        wait_for(lambda: _runs_of(observer, backfill), 150, "the run of the backfill")
        [backfilled] = _runs_of(observer, backfill)
        waiting = (runs[0], backfilled)
        wait_for(
            lambda: all(observer.ui.run_status(run) == "STARTED" for run in waiting),
            120,
            "two runs of the day to be under way",
            lambda: observer.ui.runs(),
        )
        assert not any(process.done() for process in settling)
        assert observer.progress(DAY).accepted >= len(HELD), "all of them wait for the same pages"
        observer.finish_jobs()
        runs.append(backfilled)
        reports = [process.result(150) for process in settling]

    observer.wait_until_done([DAY], 150)
    assert {observer.ui.wait_for_run(run, 150) for run in runs} == {"SUCCESS"}
    assert len({pid for pid, _ in reports}) == PROCESSES
    assert 0 < sum(stored for _, stored in reports) <= len(PATHS)
    assert observer.posts() == len(PATHS)
    assert _states(observer.ledger) == {State.STORED: len(PATHS) - len(BROKEN), State.DEAD: len(BROKEN)}
    assert _stored_more_than_once(observer.ledger) == []
    assert observer.audit() == []


@contextmanager
def _processes_that_settle(
    observer: Observer,
) -> Iterator[tuple[Barrier, list[Future[tuple[int, int]]]]]:
    """Processes that begin to settle the day, all at once, when the caller comes to the barrier."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    start = context.Barrier(PROCESSES + 1)
    ledger_url = observer.ledger.engine.url.render_as_string(hide_password=False)
    with ProcessPoolExecutor(PROCESSES, context, start.wait, (START_SECONDS,)) as processes:
        try:
            yield (
                start,
                [processes.submit(_settle, ledger_url, observer.sandbox_url) for _ in range(PROCESSES)],
            )
        finally:
            start.abort()


def _settle(ledger_url: str, sandbox_url: str) -> tuple[int, int]:
    """Settle the day, in small chunks, until it is settled; returns the process's id and how much it has stored."""
    policy = LifecyclePolicy(settle_chunk=4, drain=QUIET_SECONDS, drain_quiet=QUIET_SECONDS)
    stored = 0
    with Ledger.open(ledger_url) as ledger:
        settlement = Settlement(
            ledger, lambda: ScraperClient(host=sandbox_url, api_key=SANDBOX_KEY), [DAY], policy
        )
        for chunk in settlement.outcomes():
            stored += ledger.outcomes.commit(chunk).stored
    return os.getpid(), stored


def _runs_of(observer: Observer, backfill: str) -> list[str]:
    return [run["runId"] for run in observer.ui.runs() if run["tags"].get("dagster/backfill") == backfill]


def _states(ledger: Ledger) -> Counter[str]:
    """How many targets are in each state, attempts that were superseded left aside. No target may be in two."""
    of_target: dict[str, list[str]] = {}
    for row in rows(ledger, select(submissions).where(submissions.c.state != State.SUPERSEDED)):
        of_target.setdefault(row.target_id, []).append(row.state)
    assert all(len(states) == 1 for states in of_target.values())
    return Counter(states[0] for states in of_target.values())


def _stored_more_than_once(ledger: Ledger) -> list[tuple[str, ...]]:
    """Items of a job, and targets, that have more than one result."""
    pages = rows(ledger, select(results.c.job_id, results.c.item_key, results.c.target_id))
    found = Counter[tuple[str, ...]]()
    for page in pages:
        found.update([(page.job_id, page.item_key), (page.target_id,)])
    return [key for key, count in found.items() if count > 1]
