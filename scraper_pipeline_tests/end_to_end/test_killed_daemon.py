"""Dagster's daemon is killed in the middle of a day and started again, as an operator's service manager would do."""

import os
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from scraper_pipeline.local.processes import ChildProcess, free_port
from scraper_pipeline.local.stack import SANDBOX_KEY, sandbox
from scraper_pipeline.settings import project_folder
from scraper_pipeline_tests.end_to_end.driving import QUIET_SECONDS, Observer, observe, wait_for
from scraper_pipeline_tests.postgres import SUPERUSER, EphemeralPostgres

DAY = "2026-01-05"
PAGES = [*range(5, 25), *range(40, 50)]
FAULTS = '{"never_finish": {"url_contains": "/site/pages/4"}}'
WORKSPACE = ("-w", str(project_folder() / "workspace.yaml"))

pytestmark = [pytest.mark.timeout(600), pytest.mark.postgres]


@pytest.fixture
def environ(postgres_server: EphemeralPostgres, tmp_path: Path) -> Iterator[Mapping[str, str]]:
    """Ledger and Dagster's own storage: two databases of Postgres, as in production."""
    home = tmp_path / "dagster"
    home.mkdir()
    given = {
        **os.environ,
        "DAGSTER_HOME": str(home),
        "GEONODE_SCRAPER_API_KEY": SANDBOX_KEY,
        "SCRAPER_PAGES_URL": str(tmp_path / "pages"),
        "SCRAPER_TARGETS": str(tmp_path / "targets.txt"),
        "SCRAPER_DRAIN_QUIET_SECONDS": QUIET_SECONDS,
    }
    shutil.copy(project_folder() / "deploy" / "dagster.yaml", home / "dagster.yaml")
    server = postgres_server
    with server.database() as ledger, server.database() as storage:
        yield {
            **given,
            "SCRAPER_LEDGER_URL": server.url(ledger),
            "DAGSTER_POSTGRES_HOST": "127.0.0.1",
            "DAGSTER_POSTGRES_PORT": str(server.port),
            "DAGSTER_POSTGRES_DB": storage,
            "DAGSTER_POSTGRES_USER": SUPERUSER,
            "DAGSTER_POSTGRES_PASSWORD": server.password,
        }


def test_a_day_ends_complete_when_the_daemon_is_killed_and_started_again(
    environ: Mapping[str, str], tmp_path: Path
) -> None:
    with ExitStack() as stack:
        sandbox_url = stack.enter_context(
            sandbox(tmp_path, ("--max-delay", "0.5", "--fetch-timeout", "60", "--faults", FAULTS))
        )
        given = {**environ, "GEONODE_SCRAPER_HOST": sandbox_url}
        Path(given["SCRAPER_TARGETS"]).write_text(
            "".join(f"{sandbox_url}/site/pages/{page}\n" for page in PAGES)
        )
        daemon = stack.enter_context(_daemon(given, tmp_path / "daemon.log"))
        observer = stack.enter_context(_webserver(given, tmp_path / "webserver.log"))

        observer.ui.launch("submit_jobs", DAY)
        wait_for(
            lambda: 0 < observer.progress(DAY).stored < len(PAGES),
            180,
            "a part of the day to be stored",
            lambda: f"{observer.progress(DAY)} {daemon.last_lines()}",
        )
        os.kill(daemon.pid, signal.SIGKILL)
        wait_for(lambda: not daemon.is_running, 60, "the daemon to be gone")
        observer.finish_jobs()

        stack.enter_context(_daemon(given, tmp_path / "daemon-again.log"))
        observer.wait_until_done([DAY], 200)

        assert observer.progress(DAY).stored == len(PAGES)
        assert observer.posts() == len(PAGES), "nothing was paid twice"
        assert observer.audit() == []


def _daemon(environ: Mapping[str, str], log: Path) -> ChildProcess:
    return ChildProcess([sys.executable, "-m", "dagster._daemon", "run", *WORKSPACE], environ, log)


@contextmanager
def _webserver(environ: Mapping[str, str], log: Path) -> Iterator[Observer]:
    port = str(free_port())
    command = [sys.executable, "-m", "dagster_webserver", "-h", "127.0.0.1", "-p", port, *WORKSPACE]
    with (
        ChildProcess(command, environ, log),
        observe(
            f"http://127.0.0.1:{port}", environ["SCRAPER_LEDGER_URL"], environ["GEONODE_SCRAPER_HOST"]
        ) as observer,
    ):
        yield observer
