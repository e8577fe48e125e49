"""The columns of published pages: the same in every file and for good, and one more for each label of the day.

Columns are added at the end and never renamed, retyped or taken away.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from scraper_pipeline.publishing.errors import PublishingError

LABEL_PREFIX = "label_"


class ColumnType(StrEnum):
    """What a column holds; ``JSON`` is an object, as text where the format knows no objects."""

    TEXT = "text"
    INTEGER = "integer"
    SMALL_INTEGER = "small integer"
    BOOLEAN = "boolean"
    TIME = "time (UTC)"
    JSON = "JSON"


PAGE_COLUMNS: Mapping[str, ColumnType] = {
    "job_id": ColumnType.TEXT,
    "item_key": ColumnType.TEXT,
    "account": ColumnType.TEXT,
    "feed": ColumnType.TEXT,
    "partition_key": ColumnType.TEXT,
    "target_id": ColumnType.TEXT,
    "attempt": ColumnType.SMALL_INTEGER,
    "url": ColumnType.TEXT,
    "labels": ColumnType.JSON,
    "http_status": ColumnType.SMALL_INTEGER,
    "markdown": ColumnType.TEXT,
    "html": ColumnType.TEXT,
    "metadata": ColumnType.JSON,
    "tokens_charged": ColumnType.INTEGER,
    "content_sha256": ColumnType.TEXT,
    "is_empty": ColumnType.BOOLEAN,
    "completed_at": ColumnType.TIME,
    "stored_at": ColumnType.TIME,
    "parent_url": ColumnType.TEXT,
    "depth": ColumnType.SMALL_INTEGER,
}


@dataclass(frozen=True)
class Column:
    """One column of a file; a label's comes out of ``labels``."""

    name: str
    type: ColumnType
    label: str | None = None

    def value_in(self, row: Mapping[str, Any]) -> Any:
        """This column's value of a row of the ledger."""
        return row[self.name] if self.label is None else row["labels"].get(self.label)


def columns_of_day(labels: Iterable[str]) -> tuple[Column, ...]:
    """The columns of a day whose targets have these labels."""
    columns = [Column(name, kind) for name, kind in PAGE_COLUMNS.items()]
    columns += [Column(f"{LABEL_PREFIX}{label}", ColumnType.TEXT, label) for label in sorted(labels)]
    return tuple(columns)


def choose_columns(columns: Sequence[Column], names: Sequence[str]) -> tuple[Column, ...]:
    """The named ones of these columns, in the order of the names. Raises PublishingError for any other name."""
    by_name = {column.name: column for column in columns}
    if unknown := [name for name in names if name not in by_name]:
        raise PublishingError(f"There is no column {', '.join(unknown)}; there are {', '.join(by_name)}")
    return tuple(by_name[name] for name in dict.fromkeys(names))


def needed_of_ledger(columns: Sequence[Column]) -> list[str]:
    """The ledger's columns that the values of these are in."""
    return list(dict.fromkeys("labels" if column.label is not None else column.name for column in columns))


def json_text(value: Any) -> str:
    """JSON as it is written in a cell: one line, keys in order, so that both databases give the same."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
