"""Lists as CSV, with commas, semicolons or tabs."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from scraper_pipeline.target_lists.columns import URL, name_columns, row_of
from scraper_pipeline.target_lists.entries import Row, Rows, TargetListError

Lines = Iterator[tuple[int, str]]
_DELIMITERS = ",;\t"


def find_delimiter(header: str) -> str | None:
    """What separates the columns of a first line, if one of them is named ``url``."""
    if "://" in header:  # a URL that happens to hold ",url"
        return None
    for delimiter in _DELIMITERS:
        try:
            cells = next(csv.reader([header], delimiter=delimiter))
        except csv.Error:
            continue
        if any(cell.strip().lower() == URL for cell in cells):
            return delimiter
    return None


def csv_rows(path: Path, lines: Lines, first: int, delimiter: str) -> Rows:
    """The rows below the header, which is the next of the ``lines`` and has the number ``first``.

    Raises TargetListError where a row takes the rest of the file with it.
    """
    rows = csv.reader((line for _, line in lines), delimiter=delimiter, strict=True)
    try:
        columns = name_columns(str(path), next(rows))
    except csv.Error as error:
        raise TargetListError(
            f"{path}, line {first}: the names of the columns cannot be read ({error})"
        ) from None
    while True:
        start = first + rows.line_num
        try:
            cells = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            if _is_unclosed_quote(error):
                raise TargetListError(f"{path}, line {start}: a quote in this row is never closed") from None
            end = first + rows.line_num - 1
            where = "" if end == start else f" up to line {end}"
            yield (
                start,
                f"the row{where} cannot be read as CSV ({error}); a quote inside a cell is written twice",
            )
        else:
            if any(cell.strip() for cell in cells):
                yield start, _read_row(columns, cells)


def _is_unclosed_quote(error: csv.Error) -> bool:
    return str(error).startswith(("unexpected end of data", "field larger than field limit"))


def _read_row(columns: Sequence[str], cells: Sequence[str]) -> Row | str:
    if any(cell.strip() for cell in cells[len(columns) :]):
        return f"the row has {len(cells)} cells for {len(columns)} columns: quote a cell that holds the delimiter"
    return row_of(columns, cells)
