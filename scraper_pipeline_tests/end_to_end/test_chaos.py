"""The short form of `make chaos`: faults, kills and outages by a seed that is fixed, on both databases."""

import json
import os
import sys
from pathlib import Path

import pytest

from scraper_pipeline.local.processes import ChildProcess
from scraper_pipeline_tests.chaos.plan import Database, draw_plan

SEED, JOBS, KILLS = 20260301, 140, 14


@pytest.mark.timeout(400)
@pytest.mark.parametrize("database", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_nothing_is_lost_or_paid_twice_under_kills_faults_and_outages(
    database: Database, tmp_path: Path
) -> None:
    written = tmp_path / "report.json"
    command = [sys.executable, "-m", "scraper_pipeline_tests.chaos", "--json", str(written)]
    command += ["--seed", str(SEED), "--jobs", str(JOBS), "--kills", str(KILLS)]
    command += ["--database", database, "--minutes", "5"]
    with ChildProcess(command, os.environ, tmp_path / "chaos.log") as run:
        assert run.wait() == 0, run.last_lines(80)
    report = json.loads(written.read_text())
    assert report["kills"] == KILLS
    assert report["full_disks"] == (1 if report["disk"] else 0)
    assert report["database_outages"] == (2 if database == "postgres" else 0)
    assert len(report["faults"]) >= 5, "of more kinds than a slow machine may come to"
    assert (report["lost"], report["stored_twice"], report["paid_twice"]) == (0, 0, 0)
    assert report["stored"] + sum(report["dead_letters"].values()) == report["targets"]


def test_a_seed_decides_the_plan_and_another_seed_another_one() -> None:
    plans = [draw_plan(seed, JOBS, KILLS, "postgres") for seed in (1, 1, 2)]
    assert plans[0] == plans[1]
    assert plans[0].digest == plans[1].digest != plans[2].digest
    assert plans[0].kills == KILLS
