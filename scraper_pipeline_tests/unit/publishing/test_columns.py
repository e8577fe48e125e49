"""The columns of published pages are those of the ledger, for good, and what is written of them is so."""

import re

import pytest

from scraper_pipeline.ledger import RESULT_COLUMNS
from scraper_pipeline.publishing import PAGE_COLUMNS, ColumnType, PublishingError
from scraper_pipeline.publishing.columns import choose_columns, columns_of_day, needed_of_ledger
from scraper_pipeline.settings import project_folder

RESULTS = (project_folder() / "docs" / "results.md").read_text("utf-8")
WRITTEN_AS = {
    ColumnType.TEXT: "string",
    ColumnType.JSON: "string",
    ColumnType.INTEGER: "int64",
    ColumnType.SMALL_INTEGER: "int32",
    ColumnType.BOOLEAN: "bool",
    ColumnType.TIME: "timestamp in µs, UTC",
}


def test_they_are_the_columns_of_the_view() -> None:
    assert tuple(PAGE_COLUMNS) == RESULT_COLUMNS


def test_the_document_names_exactly_these_with_their_types() -> None:
    table = RESULTS.split("\n## Columns")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.+?) \| (.+?) \|", table, re.MULTILINE)
    written = [(name, kind) for names, kind in rows for name in re.findall("`(.+?)`", names)]
    assert written == [
        *((name, WRITTEN_AS[kind]) for name, kind in PAGE_COLUMNS.items()),
        ("label_...", "string"),
    ]


def test_labels_become_columns_behind_the_others_by_name() -> None:
    columns = columns_of_day({"topic", "Kunde", "a b"})
    assert [column.name for column in columns[len(PAGE_COLUMNS) :]] == [
        "label_Kunde",
        "label_a b",
        "label_topic",
    ]
    assert columns[-1].value_in({"labels": {"topic": "prices"}}) == "prices"
    assert columns[-1].value_in({"labels": {}}) is None


def test_chosen_columns_come_in_the_order_asked_for_and_once() -> None:
    chosen = choose_columns(columns_of_day({"topic"}), ["label_topic", "url", "url"])
    assert [column.name for column in chosen] == ["label_topic", "url"]
    assert needed_of_ledger(chosen) == ["labels", "url"]


def test_a_column_that_the_day_does_not_have_is_named_with_those_that_it_has() -> None:
    with pytest.raises(PublishingError, match=r"no column colour, label_x; there are job_id, .*label_topic"):
        choose_columns(columns_of_day({"topic"}), ["url", "colour", "label_x"])
