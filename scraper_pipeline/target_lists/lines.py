"""Lists as text in a file: a URL a line, or CSV where the first line names a column `url`."""

from itertools import chain
from pathlib import Path
from typing import BinaryIO

from scraper_pipeline.target_lists.delimited import Lines, csv_rows, find_delimiter
from scraper_pipeline.target_lists.entries import Rows, TargetListError

_LONGEST_LINE = 1024 * 1024


def open_list(path: Path) -> BinaryIO:
    """The file, to be read from its beginning. Raises TargetListError."""
    try:
        return path.open("rb")
    except (OSError, ValueError) as error:
        hint = "; the one placeholder is {date}" if "{" in str(path) else ""
        raise TargetListError(
            f"{path} cannot be opened ({getattr(error, 'strerror', None) or error}): "
            f"SCRAPER_TARGETS, or the `source` of a list, has to name a readable file{hint}"
        ) from error


def line_rows(path: Path) -> Rows:
    """The rows of a list that is text. Raises TargetListError."""
    lines = _lines(path)
    is_csv_by_name = path.suffix.lower() in (".csv", ".tsv")
    for number, line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        delimiter = find_delimiter(line)
        rest = chain([(number, line)], lines)
        if delimiter is not None:
            yield from csv_rows(path, rest, number, delimiter)
        elif is_csv_by_name:
            raise TargetListError(
                f"{path} has no column `url` in its first row: add one, or name the list .txt if it is a URL a line"
            )
        else:
            yield from _text_rows(rest)


def _lines(path: Path) -> Lines:
    with open_list(path) as file:
        number = 0
        while raw := file.readline(_LONGEST_LINE + 1):
            number += 1
            if number == 1:
                if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
                    raise TargetListError(f"{path} is UTF-16: save it as UTF-8")
                raw = raw.removeprefix(b"\xef\xbb\xbf")
            if len(raw) > _LONGEST_LINE:
                raise TargetListError(
                    f"{path}, line {number}: longer than a list's line can be; is it a list of targets?"
                )
            try:
                yield number, raw.decode()
            except UnicodeDecodeError:
                raise TargetListError(f"{path}, line {number}: not UTF-8; save the list as UTF-8") from None


def _text_rows(lines: Lines) -> Rows:
    for number, line in lines:
        url = line.strip()
        if url and not url.startswith("#"):
            yield number, {"url": url}
