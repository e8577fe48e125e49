"""The demo as a user starts it: it ends well, has stored everything, and leaves nothing running."""

import os
import re
import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from scraper_pipeline.ledger import Ledger
from scraper_pipeline.settings import project_folder
from scraper_pipeline_tests.end_to_end.driving import processes_with

PAGES = 40


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """An environment in which the package is installed away from the checkout, whose `var` stays untouched."""
    shutil.copytree(project_folder() / "scraper_pipeline", tmp_path / "installed" / "scraper_pipeline")
    return {**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "MARK_OF_THIS_TEST": uuid.uuid4().hex}


@pytest.mark.timeout(480)
def test_the_demo_stores_every_page_that_the_service_extracted_and_ends_all_its_processes(
    installed: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    command = [
        sys.executable,
        "-m",
        "scraper_pipeline.cli",
        "demo",
        "--pages",
        str(PAGES),
        "--timeout",
        "400",
    ]

    ended = subprocess.run(command, cwd=folder, env=installed, capture_output=True, text=True, timeout=440)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert processes_with("MARK_OF_THIS_TEST", installed["MARK_OF_THIS_TEST"]) == []
    assert "Audit: clean" in ended.stdout
    stored, extracted = re.search(r"(\d+) of (\d+) that the service extracted", ended.stdout).groups()  # type: ignore[union-attr]
    assert stored == extracted
    assert int(stored) >= PAGES - 4
    assert "Traceback" not in ended.stdout + ended.stderr

    with Ledger.open(f"sqlite:///{folder / 'var' / 'demo' / 'ledger.db'}") as ledger:
        assert ledger.audit.check() == []
        (day,) = ledger.progress.revisions(limit=10)
        progress = ledger.progress.of(day.partition_key)
    assert (progress.targets, progress.stored, progress.in_flight) == (PAGES, int(stored), 0)
