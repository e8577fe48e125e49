"""What `scraper-pipeline dev` serves: a check-up finds it well, and a kill costs it nothing."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from scraper_pipeline.checkup import check_everything
from scraper_pipeline.definitions import defs
from scraper_pipeline.lifecycle import SETTLE_LEASE
from scraper_pipeline.local.stack import LocalStack, local_stack
from scraper_pipeline_tests.end_to_end.driving import (
    QUIET_SECONDS,
    Observer,
    Process,
    code_servers,
    kill,
    observe,
    run_workers,
    wait_for,
)

FINISHED = "2026-01-05"
INTERRUPTED = ("2026-02-01", "2026-02-02")

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    folder = tmp_path_factory.mktemp("stack")
    environ = {
        "SCRAPER_LEDGER_URL": f"sqlite:///{folder / 'ledger.db'}",
        "SCRAPER_TARGETS": str(folder / "targets.txt"),
        "SCRAPER_DRAIN_QUIET_SECONDS": QUIET_SECONDS,
    }
    with local_stack(
        folder, environ, sandbox_options=("--max-delay", "0.5", "--fetch-timeout", "60")
    ) as stack:
        yield stack


@pytest.fixture(scope="module")
def observer(stack: LocalStack) -> Iterator[Observer]:
    with observe(stack.ui.url, stack.environ["SCRAPER_LEDGER_URL"], stack.sandbox_url or "") as observer:
        yield observer


@pytest.fixture(scope="module")
def finished(stack: LocalStack, observer: Observer) -> Observer:
    """A day of nine pages, brought to green by two runs beside the daemon's own: that is quicker."""
    _ask_for(stack, range(1, 10))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in stack.environ.items():
            patch.setenv(name, value)
        with dg.DagsterInstance.get() as instance:
            for job in ("submit_jobs", "settle_jobs"):
                run = defs.resolve_job_def(job).execute_in_process(partition_key=FINISHED, instance=instance)
                assert run.success
    observer.wait_until_done([FINISHED], 180)
    return observer


def _ask_for(stack: LocalStack, pages: range | list[int]) -> None:
    lines = (f"{stack.sandbox_url}/site/pages/{page}\n" for page in pages)
    Path(stack.environ["SCRAPER_TARGETS"]).write_text("".join(lines))


def test_a_check_up_of_what_runs_finds_it_well(stack: LocalStack, finished: Observer) -> None:
    settings, found = asyncio.run(check_everything(stack.environ))
    assert settings is not None
    assert [one for one in found if str(one.grade) != "ok"] == []
    assert {"daemon", "automation"} <= {one.subject for one in found}


def test_days_end_complete_when_the_code_server_is_killed_in_the_middle_of_their_settle_runs(
    observer: Observer, stack: LocalStack
) -> None:
    observer.set_faults(never_finish={"url_contains": "/site/pages/4"})
    pages = [*range(15, 35), *range(40, 50)]
    _ask_for(stack, pages)
    posts = observer.posts()
    submit = observer.ui.launch_over("submit_jobs", *INTERRUPTED)
    assert observer.ui.wait_for_run(submit) == "SUCCESS"

    server, runs = _wait_for_two_settle_runs_under_way(observer, stack)
    kill(server, runs[0])

    # From now on nobody does anything but the service. The other run goes on as an orphan, and the day of the killed
    # one is taken up again once that run's heartbeat has run out.
    observer.finish_jobs()
    observer.wait_until_done(INTERRUPTED, 240)
    assert observer.posts() == posts + len(INTERRUPTED) * len(pages), "nothing was paid twice"
    assert observer.audit() == []
    assert len(code_servers(stack.dagster.pid)) == 1, "and the project is served again"


def _wait_for_two_settle_runs_under_way(
    observer: Observer, stack: LocalStack
) -> tuple[Process, list[Process]]:
    """The code server and its two runs, each of which has stored a part of its day and waits for more."""
    found: list[tuple[Process, list[Process]]] = []

    def both_are_under_way() -> bool:
        found[:] = [(server, run_workers(server)) for server in code_servers(stack.dagster.pid)]
        days = [observer.progress(day) for day in INTERRUPTED]
        started = [run for run in observer.ui.runs("settle_jobs") if run["status"] == "STARTED"]
        return (
            all(0 < day.stored < day.targets for day in days)
            and observer.ledger.leases.live(SETTLE_LEASE) >= set(INTERRUPTED)
            and len(started) == 2
            and [len(runs) for _, runs in found] == [2]
        )

    wait_for(
        both_are_under_way,
        180,
        "two settle runs to have stored a part",
        lambda: f"{[observer.progress(day) for day in INTERRUPTED]} {found} {observer.ui.runs()[:4]}",
    )
    return found[0]
