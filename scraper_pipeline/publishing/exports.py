"""A day's pages by hand: as Parquet, CSV or a line of JSON a page, with all columns or chosen ones."""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, TextIO

from scraper_pipeline.ledger import Ledger
from scraper_pipeline.publishing.columns import (
    Column,
    ColumnType,
    choose_columns,
    json_text,
    needed_of_ledger,
)
from scraper_pipeline.publishing.days import outline_of
from scraper_pipeline.publishing.errors import PublishingError
from scraper_pipeline.publishing.parquet import write_parquet
from scraper_pipeline.publishing.places import Place


class ExportFormat(StrEnum):
    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"


@dataclass(frozen=True)
class Selection:
    """Which pages and columns are wanted (all columns if none is named).

    ``advance`` is told after each row how many are read, of how many.
    """

    day: str
    columns: Sequence[str] | None = None
    advance: Callable[[int, int], None] = lambda done, total: None


@dataclass(frozen=True)
class Export:
    """What was written."""

    day: str
    rows: int
    columns: tuple[str, ...]


def export_file(
    ledger: Ledger, selection: Selection, file_format: ExportFormat, place: Place, name: str
) -> Export:
    """Write a day's pages to a file, which appears once it is whole. Raises PublishingError."""
    with place.drafting(name) as draft:
        with _reading(ledger, selection) as (export, columns, rows):
            if file_format is ExportFormat.PARQUET:
                write_parquet(draft.path, columns, rows, {})
            else:
                with draft.path.open("x", encoding="utf-8", newline="") as file:
                    _write_text(file, file_format, columns, rows)
        draft.publish()
    return export


def export_stream(ledger: Ledger, selection: Selection, file_format: ExportFormat, stream: TextIO) -> Export:
    """Write a day's pages as text to a stream. Raises PublishingError."""
    with _reading(ledger, selection) as (export, columns, rows):
        _write_text(stream, file_format, columns, rows)
    return export


_Rows = Iterator[Mapping[str, Any]]


@contextmanager
def _reading(ledger: Ledger, selection: Selection) -> Iterator[tuple[Export, tuple[Column, ...], _Rows]]:
    with ledger.pages.of(selection.day) as pages:
        outline = outline_of(pages.keys())
        columns = outline.columns
        if selection.columns is not None:
            columns = choose_columns(columns, selection.columns)
        if {"markdown", "html"}.intersection(column.name for column in columns) and pages.lack_content():
            raise PublishingError(
                f"Content of {selection.day} was pruned from the ledger: its published file has it. For the rest, name "
                "columns without markdown and html"
            )

        def rows() -> _Rows:
            for done, row in enumerate(pages.rows(needed_of_ledger(columns)), start=1):
                yield row
                selection.advance(done, outline.rows)

        yield Export(selection.day, outline.rows, tuple(column.name for column in columns)), columns, rows()


def _write_text(stream: TextIO, file_format: ExportFormat, columns: Sequence[Column], rows: _Rows) -> None:
    names = [column.name for column in columns]
    if file_format is ExportFormat.CSV:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow(names)
        for row in rows:
            table.writerow([_cell(column, row) for column in columns])
        return
    for row in rows:
        values = [_plain(column, row) for column in columns]
        stream.write(json.dumps(dict(zip(names, values, strict=True)), ensure_ascii=False) + "\n")


def _cell(column: Column, row: Mapping[str, Any]) -> Any:
    value = _plain(column, row)
    if column.type is ColumnType.JSON:
        return json_text(value)
    return str(value).lower() if isinstance(value, bool) else value


def _plain(column: Column, row: Mapping[str, Any]) -> Any:
    value = column.value_in(row)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return value
