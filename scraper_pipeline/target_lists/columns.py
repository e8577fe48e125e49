"""What the columns of a list mean, wherever it lives: the URL, options, the scope of a crawl, labels."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, time
from itertools import chain

from pydantic import JsonValue

from scraper_pipeline.ledger import Target
from scraper_pipeline.scraper_api import CrawlScope, ExtractOptions, InvalidOptions
from scraper_pipeline.target_lists.entries import Row, TargetListError
from scraper_pipeline.target_lists.identity import InvalidTarget, make_target

URL = "url"
LIST_LABEL = "list"
OPTION_COLUMNS: dict[str, Callable[[str], JsonValue]] = {
    "render_js": str.lower,
    "formats": lambda cell: re.split(r"[\s|,]+", cell.lower()),
    "country": str.upper,
    "proxy_type": str.lower,
    "wait_until": str.lower,
    "wait_for": str,
    "wait_timeout": str,
    "timeout": str,
}
_SCOPE_COLUMNS = ("depth", "limit")
_LONGEST_CELL = 128 * 1024  # as long as the module csv takes one
_NOT_STORABLE = re.compile(r"[\x00\ud800-\udfff]")


@dataclass(frozen=True)
class Defaults:
    """What a list says of each of its rows: options and labels that a row's own cells come before."""

    options: Mapping[str, JsonValue] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)


def name_columns(where: str, header: Sequence[str]) -> list[str]:
    """The columns of a header, those that mean something in their one spelling. Raises TargetListError."""
    names = [name.strip() for name in header]
    columns = [name.lower() if name.lower() in {URL, *OPTION_COLUMNS} else name for name in names]
    twice = sorted({name for name in columns if name and columns.count(name) > 1})
    if twice:
        raise TargetListError(f"{where} has several columns named {', '.join(twice)}: keep one of each")
    return columns


def typed_columns(where: str, header: Sequence[str]) -> list[str]:
    """The columns of what is no text, and so must have one named ``url``. Raises TargetListError."""
    columns = name_columns(where, header)
    if URL not in columns:
        raise TargetListError(f"{where} has no column `url`: name the column that holds the URLs so")
    return columns


def row_of(columns: Sequence[str], cells: Iterable[str]) -> Row:
    """The cells that hold something, by column."""
    return {name: cell.strip() for name, cell in zip(columns, cells, strict=False) if name and cell.strip()}


def typed_row(columns: Sequence[str], values: Iterable[object]) -> Row | str:
    """A row of a database or a Parquet file as a CSV would have it, or why there can be none."""
    cells = []
    for name, value in zip(columns, values, strict=True):
        if isinstance(value, bytes | bytearray | memoryview):
            return f"the column {name} holds bytes: leave it out, or make text of it"
        cells.append(_cell(value))
        if len(cells[-1]) > _LONGEST_CELL:
            return f"the column {name} holds more than {_LONGEST_CELL} characters: leave it out"
    return row_of(columns, cells)


def _cell(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None or value != value:  # NaN and NaT, which are written for what is missing
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))  # a column of whole numbers, some of which are missing
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, list | tuple):
        return "|".join(map(_cell, value))
    return str(value)


def target_of(row: Row, defaults: Defaults) -> Target | str:
    """The target that a row asks for, or why it asks for none."""
    cells = dict(row)
    url = cells.pop(URL, "")
    if not url:
        return "the row has no URL"
    options = {name: cells.pop(name) for name in OPTION_COLUMNS if name in cells}
    scope: dict[str, str] | None = None
    if cells.get("kind", "").lower() == "crawl":  # any other `kind` is a label, and so are its neighbours
        del cells["kind"]
        scope = {name: cells.pop(name) for name in _SCOPE_COLUMNS if name in cells}
    if any(_NOT_STORABLE.search(text) for text in chain(options.values(), cells.values())):
        return "a cell holds the character NUL"
    mapping = {**defaults.options, **{name: OPTION_COLUMNS[name](cell) for name, cell in options.items()}}
    try:
        crawl = None if scope is None else CrawlScope.from_mapping(scope)
        return make_target(url, ExtractOptions.from_mapping(mapping), {**defaults.labels, **cells}, crawl)
    except (InvalidTarget, InvalidOptions) as error:
        return str(error)
