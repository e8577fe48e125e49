"""Pages are read as their readers read them: what is typed, what is shown, and what may differ."""

from pathlib import Path

import pytest

from scraper_pipeline_tests.documents import ROOT, Document
from scraper_pipeline_tests.integration.documents.reading import Command, Note, agrees, steps


def _page(tmp_path: Path, *lines: str) -> Document:
    path = tmp_path / "page.md"
    path.write_text("\n".join(lines))
    return Document(path)


@pytest.mark.parametrize(
    ("shown", "printed", "is_same"),
    [
        ("2 pages", "2 pages\n", True),
        ("2 pages", "3 pages\n", False),
        ("2 pages", "2 pages\nand more\n", False),
        ("2 pages\n...", "2 pages\nand more\n", True),
        ("job ... ended", "job 4b2f7b1e ended", True),
        ("job ... ended", "job 4b2f7b1e runs", False),
        ("┏━━━┓\n│ a │", "┏━━━━━━┓\n│ a    │", True),
    ],
)
def test_what_is_printed_is_compared_but_for_what_is_elided(shown: str, printed: str, is_same: bool) -> None:
    assert agrees(shown, printed) is is_same


def test_commands_have_their_output_their_status_and_what_happens_before_them(tmp_path: Path) -> None:
    page = _page(
        tmp_path,
        "<!-- in Dagster: submit_jobs 2026-01-31 -->",
        "```console",
        "$ scraper-pipeline audit  # status 1, on purpose",
        "1 violations.",
        "$ scraper-pipeline plan \\",
        ">   --day 2026-01-31",
        "```",
    )
    note, audit, plan = steps(page)
    assert note == Note("in Dagster", "submit_jobs 2026-01-31")
    assert isinstance(audit, Command)
    assert isinstance(plan, Command)
    assert (audit.status, audit.shown, audit.line) == (1, "1 violations.", 3)
    assert (plan.status, plan.text, plan.shown) == (0, "scraper-pipeline plan --day 2026-01-31", "")


def test_dates_move_along_where_a_page_says_when_it_was_written(tmp_path: Path) -> None:
    fence = ("```console", "$ scraper-pipeline plan --day 2020-01-30", "```")
    (still,) = steps(_page(tmp_path, *fence))
    _, moved = steps(_page(tmp_path, "<!-- today: 2020-01-31 -->", *fence))
    assert isinstance(still, Command)
    assert isinstance(moved, Command)
    assert still.text.endswith("2020-01-30")
    assert moved.text != still.text


def test_the_tutorial_has_its_reader_do_something() -> None:
    kinds = [type(step).__name__ for step in steps(Document(ROOT / "docs" / "tutorial.md"))]
    assert kinds.count("Command") > 15
    assert kinds.count("Note") == 4
