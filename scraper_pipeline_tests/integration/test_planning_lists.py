"""The command `plan` shows each list by itself, and says at once what is wrong with any of them."""

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import click.testing
import pytest

from scraper_pipeline.cli import main
from scraper_pipeline.ledger import Ledger, ListTerms
from scraper_pipeline.target_lists import make_target

DAY = "2026-01-05"
LISTS = """
lists:
  shops:
    source: shops-{date}.csv
    budget: {max_pages_per_day: 3}
  stock:
    source: stock.txt
    schedule: manual
"""


@pytest.fixture
def lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of two lists with a target in common."""
    monkeypatch.setenv("SCRAPER_LEDGER_URL", f"sqlite:///{tmp_path / 'ledger.db'}")
    monkeypatch.setenv("SCRAPER_TARGETS", str(tmp_path / "targets.yaml"))
    (tmp_path / "targets.yaml").write_text(LISTS)
    rows = [f"https://shop.test/{number},," for number in range(4)]
    (tmp_path / f"shops-{DAY}.csv").write_text(
        "\n".join(["url,kind,limit", rows[0], "https://shop.test/all,crawl,9", *rows[1:]]) + "\nnonsense,,\n"
    )
    (tmp_path / "stock.txt").write_text("https://shop.test/1\nhttps://shop.test/x\nhttps://shop.test/x\n")
    return tmp_path


def plan(*arguments: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, ["plan", "--day", DAY, *arguments])


def report(*arguments: str) -> dict[str, Any]:
    result = plan("--json", *arguments)
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def test_each_list_is_shown_with_what_is_new_and_what_its_budget_leaves_out(lists: Path) -> None:
    shown = report()
    shops, stock = shown["lists"]
    assert shops == {
        "list": "shops", "account": "default", "source": f"{lists}/shops-{DAY}.csv", "schedule": "daily",
        "targets": 5, "new": 3, "most_pages_paid_for_new": 3, "max_pages_per_day": 3, "max_pages_per_month": None,
        "beyond_budget": 2, "problems": 1,
    }  # fmt: skip
    assert (stock["targets"], stock["new"], stock["problems"]) == (2, 1, 1), "a target of both is the first's"
    assert (shown["targets"], shown["new"], shown["to_submit"], shown["most_pages_paid"]) == (7, 4, 4, 4)
    assert [(one["list"], one["line"]) for one in shown["problems"]] == [("shops", 7), ("stock", 3)]
    assert [one["list"] for one in report("--list", "stock")["lists"]] == ["stock"]

    said = plan().stdout
    assert (
        "  shops: 5 targets; 3 new, for at most 3 pages; 2 beyond its budget; 1 line with problems." in said
    )
    assert "  stock, line 3: the same as line 2" in said


def test_what_a_plan_foretells_is_what_planning_does(lists: Path) -> None:
    with Ledger.open(f"sqlite:///{lists / 'ledger.db'}") as ledger:
        planned = [make_target(f"https://shop.test/{number}") for number in range(2)]
        ledger.submissions.plan(DAY, planned, ListTerms("shops", pages_per_day=3))
    shops = report()["lists"][0]
    assert (shops["new"], shops["beyond_budget"]) == (1, 2)


def test_lists_that_cannot_be_read_are_all_named_and_nothing_else_is_said(lists: Path) -> None:
    (lists / "stock.txt").unlink()
    (lists / f"shops-{DAY}.csv").write_text("link\nx\n")
    result = plan("--json")
    assert result.exit_code == 1
    assert result.stdout == ""
    (said,) = result.stderr.splitlines()
    assert "list shops: " in said
    assert "has no column `url`" in said
    assert f"list stock: {lists}/stock.txt cannot be opened" in said


def _plan_range(*arguments: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, ["plan", *arguments])


def test_a_range_whose_lists_cannot_be_read_is_shown_as_far_as_it_can_be_and_ends_with_1(lists: Path) -> None:
    result = _plan_range("--since", DAY, "--until", "2026-01-06")
    assert result.exit_code == 1
    assert f"│ {DAY} │" in result.stdout
    assert f"list shops: {lists}/shops-2026-01-06.csv cannot be opened" in result.stderr
    assert "without the day whose lists could not be read" in result.stdout
    assert _plan_range("--since", DAY, "--until", "2026-01-06", "--json").exit_code == 1


def test_a_range_says_what_the_limits_leave(lists: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "No page limit is set." in _plan_range("--since", DAY, "--until", DAY).stdout
    monkeypatch.setenv("SCRAPER_DAILY_PAGE_LIMIT", "1")
    result = _plan_range("--since", DAY, "--until", DAY)
    assert "1 pages are left today: 3 would stay planned." in result.stdout
    report = json.loads(_plan_range("--since", DAY, "--until", DAY, "--json").stdout)
    assert (report["pages_left_today"], report["pages_beyond_the_limits"]) == (1, 3)


def test_days_that_are_no_partitions_are_named_and_not_counted(
    lists: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRAPER_START_DATE", DAY)
    monkeypatch.setenv("SCRAPER_TARGETS", str(lists / "stock.txt"))
    today = datetime.now(UTC).date()
    before, later = date(2025, 12, 28), today + timedelta(2)
    result = _plan_range("--since", str(before), "--until", str(later))
    assert result.exit_code == 0, result.output
    assert f"2025-12-28 to 2026-01-04 are no partitions: SCRAPER_START_DATE is {DAY}." in result.stdout
    assert f"{today + timedelta(1)} to {later} are no partitions yet: today is {today}." in result.stdout
    report = json.loads(_plan_range("--since", str(before), "--until", str(later), "--json").stdout)
    assert (report["days"][0]["day"], report["days"][-1]["day"]) == (DAY, str(today))
    assert len(report["left_out"]) == 2
    for day, said in ((before, "SCRAPER_START_DATE is"), (later, "today is")):
        refused = _plan_range("--day", str(day))
        assert (refused.exit_code, said in refused.stderr) == (2, True), refused.output
    assert "today is" in _plan_range("--since", str(later), "--until", str(later)).stderr


def test_a_file_of_lists_that_is_wrong_fails_with_every_line(lists: Path) -> None:
    (lists / "targets.yaml").write_text(
        LISTS.replace("source: shops", "sorce: shops").replace("manual", "often")
    )
    result = plan()
    assert result.exit_code == 1
    (said,) = result.stderr.splitlines()
    assert said.startswith(f"Error: {lists}/targets.yaml, line 3: lists.shops.source is missing; line 4: ")
    assert "did you mean source?" in said
    assert "line 8: lists.stock.schedule takes daily, manual or cron" in said


def test_a_list_that_is_not_there_is_answered_with_the_one_that_was_meant(lists: Path) -> None:
    result = plan("--list", "stok")
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: there is no list named 'stok'; did you mean stock?\n",
    )
