"""The drill of production: its plan is its seed's, it starts what is shipped, and the document tells of all of it."""

import re
import signal
from datetime import date
from pathlib import Path

from scraper_pipeline.settings import project_folder
from scraper_pipeline_tests.drill.__main__ import SCENARIOS
from scraper_pipeline_tests.drill.plan import DATABASE, RUN, draw_plan
from scraper_pipeline_tests.drill.units import Folders, read_unit

TODAY = date(2026, 3, 5)


def test_the_same_seed_is_the_same_plan_and_another_is_not() -> None:
    plan = draw_plan(1, TODAY, days=3, targets=300, rounds=2)
    assert plan == draw_plan(1, TODAY, days=3, targets=300, rounds=2)
    assert plan != draw_plan(2, TODAY, days=3, targets=300, rounds=2)
    assert list(plan.days) == ["2026-03-03", "2026-03-04", "2026-03-05"]


def test_every_process_is_struck_in_every_round_and_the_database_in_both_ways() -> None:
    strikes = draw_plan(1, TODAY, days=3, targets=300, rounds=2).strikes
    names = {strike.name for strike in strikes}
    assert {"webserver", "daemon", "code-server", "receiver-1", "receiver-2", "proxy", RUN} < names
    assert all(sum(strike.name == name for strike in strikes) == 2 for name in names)
    assert {strike.how for strike in strikes if strike.name == DATABASE} == {signal.SIGINT, signal.SIGQUIT}


def test_a_unit_is_started_as_systemd_would(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    folders.etc.mkdir()
    (folders.etc / "dagster.env").write_text(
        "DAGSTER_CODE_SERVER_HOST=10.0.0.7\nDAGSTER_CODE_SERVER_PORT=4000\n"
    )
    (folders.etc / "pipeline.env").write_text("# a comment\nSCRAPER_TARGETS='a list.csv'\n")
    unit = read_unit("code-server", folders, {"PATH": "/bin"})
    program, *words = unit.command
    assert program.endswith("/bin/dagster")
    assert words[:6] == ["code-server", "start", "--host", "10.0.0.7", "--port", "4000"]
    assert unit.environ["SCRAPER_TARGETS"] == "a list.csv"
    assert unit.before[1:] == ("end-lost-runs",)
    assert (unit.restart_after, unit.stop_within) == (5.0, 60.0)


def test_the_document_tells_of_every_scenario() -> None:
    text = (project_folder() / "docs" / "reliability.md").read_text("utf-8")
    _, section = text.split("## The production topology, for real")
    told = re.findall(r"^\| `([a-z-]+)` \|", section.split("\n## ")[0], re.MULTILINE)
    assert sorted(told) == sorted(SCENARIOS)
