"""What the project offers to Dagster is pinned, and loading it does nothing but load it."""

import os
import subprocess
import sys
import time
import warnings
from datetime import UTC, datetime
from pathlib import Path

import dagster as dg

from scraper_pipeline.definitions import defs
from scraper_pipeline.partitions import DAYS
from scraper_pipeline.schedules import daily_submission_schedule
from scraper_pipeline_tests.integration.dagster.outline import WRITTEN, outline

NO_NETWORK = """
import socket
def refuse(*arguments, **options): raise AssertionError("something wants to speak to somebody")
socket.socket.connect = socket.socket.connect_ex = socket.socket.bind = socket.getaddrinfo = refuse
import scraper_pipeline.definitions
from scraper_pipeline.cli import SECTIONS
for commands in SECTIONS.values():
    for command in commands.values(): command.load()
"""
# Dagster and pydantic, between themselves.
NOT_OURS = "ignore:The `__fields__` attribute is deprecated:DeprecationWarning"


def test_the_definitions_are_the_ones_that_are_written_down() -> None:
    assert outline(defs) == WRITTEN.read_text(), (
        "If the change is meant: python -m scraper_pipeline_tests.integration.dagster.outline"
    )


def test_the_definitions_fit_together() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "The `__fields__` attribute is deprecated")
        dg.Definitions.validate_loadable(defs)


def test_loading_touches_no_network_and_no_file_and_warns_of_nothing(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-W", NOT_OURS, "-c", NO_NETWORK],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(tmp_path / "home"),
            "SCRAPER_LEDGER_URL": f"sqlite:///{tmp_path / 'ledger.db'}",
        },
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_today_is_a_day_that_can_be_worked_on() -> None:
    keys = DAYS.get_partition_keys()
    assert keys[0] == "2026-01-01"
    assert DAYS.get_last_partition_key() == DAYS.get_partition_key_for_timestamp(time.time())


def test_the_schedule_submits_the_day_that_has_just_begun() -> None:
    at = datetime(2026, 3, 29, 0, 10, tzinfo=UTC)
    with dg.build_schedule_context(scheduled_execution_time=at) as context:
        request = daily_submission_schedule(context)
    assert isinstance(request, dg.RunRequest)
    assert request.partition_key == "2026-03-29"
    assert request.partition_key in DAYS.get_partition_keys()
