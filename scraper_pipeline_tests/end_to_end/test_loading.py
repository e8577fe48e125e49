"""Everything that loads the project's definitions finds them, and has nothing to complain of."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from scraper_pipeline.local.processes import ChildProcess, free_port
from scraper_pipeline.settings import project_folder
from scraper_pipeline_tests.end_to_end.driving import Ui, descendants

BIN = Path(sys.executable).parent


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A ledger that nobody has yet, and a home for Dagster."""
    (tmp_path / "dagster").mkdir()
    return {
        **os.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "DAGSTER_HOME": str(tmp_path / "dagster"),
        "DG_CLI_CONFIG": str(tmp_path / "dg.toml"),
        "SCRAPER_LEDGER_URL": f"sqlite:///{tmp_path / 'ledger.db'}",
    }


def _run(environ: dict[str, str], *command: str) -> str:
    ended = subprocess.run(
        [str(BIN / command[0]), *command[1:]],
        cwd=project_folder(),
        env=environ,
        capture_output=True,
        text=True,
        timeout=100,
    )
    output = ended.stdout + ended.stderr
    assert ended.returncode == 0, output
    return output


def test_dg_checks_the_definitions_without_a_warning(environ: dict[str, str], tmp_path: Path) -> None:
    output = _run(environ, "dg", "check", "defs")
    assert "All definitions loaded successfully" in output
    assert "arning" not in output
    assert not (tmp_path / "ledger.db").exists()


@pytest.mark.timeout(300)
def test_dg_dev_serves_the_project_without_a_warning(environ: dict[str, str], tmp_path: Path) -> None:
    port = str(free_port())
    log = tmp_path / "dg-dev.log"
    started = Path.cwd()
    os.chdir(project_folder())  # dg finds the project by it
    try:
        server = ChildProcess([str(BIN / "dg"), "dev", "--host", "127.0.0.1", "--port", port], environ, log)
        with server:
            ui = Ui(f"http://127.0.0.1:{port}")
            ui.wait_until_loaded(server, 180)
            ui.close()
            below = descendants(server.pid)
        assert below
        assert not any(process.is_running() for process in below)
        assert "arning" not in log.read_text()
    finally:
        os.chdir(started)
