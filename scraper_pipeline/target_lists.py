"""Reads lists of targets, text or CSV, line by line, and says of each line what became of it."""

import csv
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from urllib.parse import urlsplit

import idna
from pydantic import JsonValue

from scraper_pipeline.ledger import Target
from scraper_pipeline.scraper_api import CrawlScope, ExtractOptions, InvalidOptions

_LONGEST_URL = 8192
_LONGEST_LINE = 1024 * 1024
_OPTION_COLUMNS: dict[str, Callable[[str], JsonValue]] = {
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
_DELIMITERS = ",;\t"
_DEFAULT_PORTS = {"http": 80, "https": 443}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_NOT_STORABLE = re.compile(r"[\x00\ud800-\udfff]")


class TargetListError(Exception):
    """The list as a whole cannot be read; the message says where and what to do."""


class InvalidTarget(ValueError):
    """A URL that cannot be a target; the message says why, without showing it."""


@dataclass(frozen=True)
class Rejected:
    """A line that is no target, and why. Lines count from 1; a row over several lines is where it starts."""

    line: int
    reason: str


@dataclass(frozen=True)
class Duplicate:
    """A line with the same URL and options as an earlier one, whose labels stay."""

    line: int
    first_line: int


def read_target_list(path: Path) -> Iterator[Target | Rejected | Duplicate]:
    """Yield each target once, and every line that gives none with its reason, in the list's order.

    A list whose first line names a column `url` is CSV (also with semicolons or tabs); its other columns are options
    or labels. Any other list is text: a URL a line, blank lines and `#` comments aside. A file named `.csv` or `.tsv`
    has to be CSV. The encoding is UTF-8. Beside the line at hand only the targets' ids are kept in memory.

    Raises TargetListError while it is iterated: before the first line where the file is missing or has no column
    `url`, later where a line is not UTF-8 or a quote is never closed.
    """
    first_lines: dict[bytes, int] = {}
    for line, entry in _entries(path):
        if isinstance(entry, Target):
            first_line = first_lines.setdefault(bytes.fromhex(entry.target_id), line)
            yield entry if first_line == line else Duplicate(line, first_line)
        else:
            yield Rejected(line, entry)


def make_target(
    url: str,
    options: ExtractOptions | None = None,
    labels: Mapping[str, str] | None = None,
    crawl: CrawlScope | None = None,
) -> Target:
    """The target of a URL as written; its id is a hash of the normalised URL and the options.

    With ``crawl`` it asks for the pages that links lead to as well. Raises InvalidTarget and InvalidOptions.
    """
    options = options or ExtractOptions()
    if crawl is not None:
        options.check_fits_a_crawl()
    mapping = options.to_mapping() | (crawl.to_mapping() if crawl else {})
    parts = [normalise_url(url), mapping] + (["crawl"] if crawl else [])
    identity = json.dumps(parts, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    target_id = hashlib.sha256(identity.encode()).hexdigest()[:32]
    return Target(target_id, url, mapping, dict(labels or {}), is_crawl=crawl is not None)


def normalise_url(url: str) -> str:
    """A URL in the form that counts for its identity, where every spelling of scheme, host and port is the same.

    Path, query and fragment stay as they are, for sites may tell their spellings apart. Raises InvalidTarget.
    """
    if len(url.encode("utf-8", "surrogatepass")) > _LONGEST_URL:
        raise InvalidTarget(f"the URL is longer than {_LONGEST_URL} bytes")
    if _CONTROL.search(url):
        raise InvalidTarget("the URL holds a control character or half of a surrogate pair")
    if re.search(r"\s", url):
        raise InvalidTarget("the URL holds a blank; write it as %20")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InvalidTarget("the URL's host or port cannot be read") from None
    if parts.scheme not in _DEFAULT_PORTS or not host:
        raise InvalidTarget("this is no http or https URL with a host")
    userinfo, at, _ = parts.netloc.rpartition("@")
    host = f"[{host}]" if ":" in host else _ascii_host(host)
    suffix = "" if port in (None, _DEFAULT_PORTS[parts.scheme]) else f":{port}"
    rest = url[len(parts.scheme) + len("://") + len(parts.netloc) :]
    return f"{parts.scheme}://{userinfo}{at}{host}{suffix}{'' if rest.startswith('/') else '/'}{rest}"


def _ascii_host(host: str) -> str:
    # As browsers do it (UTS 46): unlike Python's own codec, it keeps ß apart from ss, and takes emoji.
    if host.isascii():
        return host
    try:
        labels = idna.uts46_remap(host, std3_rules=False, transitional=False).split(".")
        return ".".join(
            label if label.isascii() else f"xn--{label.encode('punycode').decode()}" for label in labels
        )
    except (idna.IDNAError, UnicodeError):
        raise InvalidTarget("the URL's host is no valid name") from None


def _entries(path: Path) -> Iterator[tuple[int, Target | str]]:
    lines = _lines(path)
    is_csv_by_name = path.suffix.lower() in (".csv", ".tsv")
    for number, line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        delimiter = _find_delimiter(line)
        rest = chain([(number, line)], lines)
        if delimiter is not None:
            yield from _csv_entries(path, rest, number, delimiter)
        elif is_csv_by_name:
            raise TargetListError(
                f"{path} has no column `url` in its first row: add one, or name the list .txt if it is a URL a line"
            )
        else:
            yield from _text_entries(rest)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        file = path.open("rb")
    except OSError as error:
        raise TargetListError(
            f"the list of targets {path} cannot be opened ({error.strerror}): set SCRAPER_TARGETS to a readable file"
        ) from error
    with file:
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


def _text_entries(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, Target | str]]:
    for number, line in lines:
        url = line.strip()
        if url and not url.startswith("#"):
            yield number, _target_or_reason(url, {}, {})


def _find_delimiter(header: str) -> str | None:
    if "://" in header:  # a URL that happens to hold ",url"
        return None
    for delimiter in _DELIMITERS:
        try:
            cells = next(csv.reader([header], delimiter=delimiter))
        except csv.Error:
            continue
        if any(cell.strip().lower() == "url" for cell in cells):
            return delimiter
    return None


def _csv_entries(
    path: Path, lines: Iterator[tuple[int, str]], first: int, delimiter: str
) -> Iterator[tuple[int, Target | str]]:
    rows = csv.reader((line for _, line in lines), delimiter=delimiter, strict=True)
    try:
        columns = _columns(path, next(rows))
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


def _columns(path: Path, header: Sequence[str]) -> list[str]:
    names = [name.strip() for name in header]
    columns = [name.lower() if name.lower() in {"url", *_OPTION_COLUMNS} else name for name in names]
    twice = sorted({name for name in columns if name and columns.count(name) > 1})
    if twice:
        raise TargetListError(f"{path} has several columns named {', '.join(twice)}: keep one of each")
    return columns


def _read_row(columns: Sequence[str], cells: Sequence[str]) -> Target | str:
    if any(cell.strip() for cell in cells[len(columns) :]):
        return f"the row has {len(cells)} cells for {len(columns)} columns: quote a cell that holds the delimiter"
    row = {name: cell.strip() for name, cell in zip(columns, cells, strict=False) if name and cell.strip()}
    url = row.pop("url", "")
    options = {name: row.pop(name) for name in _OPTION_COLUMNS if name in row}
    scope: dict[str, str] | None = None
    if row.get("kind", "").lower() == "crawl":  # any other `kind` is a label, and so are its neighbours
        del row["kind"]
        scope = {name: row.pop(name) for name in _SCOPE_COLUMNS if name in row}
    return _target_or_reason(url, options, row, scope) if url else "the row has no URL"


def _target_or_reason(
    url: str, options: Mapping[str, str], labels: Mapping[str, str], scope: Mapping[str, str] | None = None
) -> Target | str:
    if any(_NOT_STORABLE.search(text) for text in chain(options.values(), labels.values())):
        return "a cell holds the character NUL"
    try:
        mapping = {name: _OPTION_COLUMNS[name](cell) for name, cell in options.items()}
        crawl = None if scope is None else CrawlScope.from_mapping(scope)
        return make_target(url, ExtractOptions.from_mapping(mapping), labels, crawl)
    except (InvalidTarget, InvalidOptions) as error:
        return str(error)
