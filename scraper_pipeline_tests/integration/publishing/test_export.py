"""The command ``export`` writes a day by hand, in three formats, and says clearly what it cannot do."""

import csv
import io
import json
from pathlib import Path

import click.testing
import pandas as pd
import pyarrow.parquet as pq
import pytest

from scraper_pipeline.cli import main
from scraper_pipeline.ledger import Ledger
from scraper_pipeline.publishing import PAGE_COLUMNS, Place, publish_pages
from scraper_pipeline_tests.integration.ledger.driving import DAY, page, plan
from scraper_pipeline_tests.integration.publishing.driving import store, table

TEXT = 'A "quoted" line,\nand \u05d0 \U0001f378 \u2028 another'


@pytest.fixture(autouse=True)
def inside(ledger: Ledger, sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with a day of two pages in the ledger, and one target in flight."""
    monkeypatch.setenv("SCRAPER_LEDGER_URL", sqlite_url)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    store(
        ledger,
        {"https://site.test/a": page(TEXT, metadata={"title": "Ä"}), "https://site.test/b": page(None)},
    )
    ledger.submissions.plan(DAY, [])
    plan(ledger, "https://site.test/in-flight")
    return tmp_path / "work"


def _run(*arguments: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(main, ["export", "--day", DAY, *arguments])


def _refusal(code: int, *arguments: str) -> str:
    result = _run(*arguments)
    assert result.exit_code == code, result.output
    return result.stderr


def test_parquet_is_the_default_and_has_what_is_published(
    ledger: Ledger, folder: Place, inside: Path
) -> None:
    result = _run()
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert result.stderr == (
        "2 pages of 2026-03-01, 20 columns: pages-2026-03-01.parquet\n"
        "Still in flight, and not in it: 1 target of 2026-03-01.\n"
    )
    publish_pages(ledger, folder, DAY)
    assert pq.read_table(inside / f"pages-{DAY}.parquet").equals(table(folder))


def test_csv_is_read_back_by_pandas_and_takes_chosen_columns(inside: Path) -> None:
    report = _run("--to", "out/day.csv", "--columns", "url, markdown,metadata,is_empty,stored_at", "--json")
    assert report.exit_code == 0, report.output
    path = inside / "out" / "day.csv"
    assert json.loads(report.stdout) == {
        "day": DAY, "file": "out/day.csv", "format": "csv", "rows": 2, "bytes": path.stat().st_size,
        "columns": ["url", "markdown", "metadata", "is_empty", "stored_at"], "in_flight": 1,
    }  # fmt: skip
    read = pd.read_csv(path).set_index("url").to_dict("index")
    assert read["https://site.test/a"] == {
        "markdown": TEXT, "metadata": '{"title": "Ä"}', "is_empty": False, "stored_at": "2026-03-01T12:00:00Z",
    }  # fmt: skip
    assert pd.isna(read["https://site.test/b"]["markdown"])


def test_json_lines_go_to_standard_output_and_nothing_else_does() -> None:
    result = _run("--to", "-", "--format", "jsonl")
    assert result.exit_code == 0, result.output
    lines = [json.loads(line) for line in result.stdout.removesuffix("\n").split("\n")]
    assert [set(line) for line in lines] == [set(PAGE_COLUMNS)] * 2
    [a] = [line for line in lines if line["url"].endswith("/a")]
    assert (a["markdown"], a["metadata"], a["is_empty"]) == (TEXT, {"title": "Ä"}, False)
    assert len(list(csv.reader(io.StringIO(_run("--to", "-", "--format", "csv").stdout)))) == 3


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--to", "day.xlsx"], "--format is needed: day.xlsx ends with none of .parquet, .csv"),
        (["--to", "-"], "standard output takes csv or jsonl"),
        (["--to", "-", "--format", "csv", "--json"], "no report beside it"),
        (["--columns", " ,"], "--columns names no column"),
    ],
)
def test_a_wrong_call_is_explained(arguments: list[str], said: str) -> None:
    assert said in _refusal(2, *arguments)


def test_what_cannot_be_done_is_told_in_a_line_and_leaves_nothing(inside: Path) -> None:
    (inside / "file").write_text("")
    for arguments, said in (
        (["--columns", "url,colour"], "There is no column colour; there are job_id, "),
        (["--day", "2026-03-02"], "Nothing was planned for 2026-03-02"),
        (["--to", "file/day.csv"], "file/day.csv can't be written"),
        (["--to", "/dev/null", "--format", "csv"], "/dev/null is no file"),
        (["--to", "gs://bucket/day.csv"], "gs://bucket needs another package"),
    ):
        complaint = _refusal(1, *arguments)
        assert complaint.startswith("Error: ")
        assert complaint.count("\n") == 1
        assert said in complaint
    assert [path.name for path in inside.iterdir()] == ["file"]
