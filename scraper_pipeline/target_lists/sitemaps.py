"""Lists as sitemaps (sitemaps.org): what a site says of its pages, read as text from a stranger."""

import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit
from xml.parsers import expat

from scraper_pipeline.target_lists.downloads import Downloads, Patience, shown_url
from scraper_pipeline.target_lists.entries import Rows, TargetListError
from scraper_pipeline.target_lists.identity import InvalidTarget, normalise_url
from scraper_pipeline.target_lists.lines import open_list

_PIECE = 1024 * 1024  # expat takes a long token up anew with every piece
_LONGEST_TEXT = 16 * 1024
_DEEPEST = 100
_GZIP = b"\x1f\x8b"
_KINDS = {"urlset": "url", "sitemapindex": "sitemap"}


@dataclass(frozen=True)
class Bounds:
    """How much of a sitemap is read: bytes are counted decoded. A file's own bound is that of the protocol."""

    bytes_each: int = 50 * 1024 * 1024
    bytes_in_all: int = 1024 * 1024 * 1024
    sitemaps: int = 1000
    patience: Patience = field(default_factory=Patience)


BOUNDS = Bounds()


def sitemap_rows(location: str | Path, bounds: Bounds = BOUNDS) -> Rows:
    """The pages of a sitemap (a URL, or a Path), or of those that a sitemap index names; ``lastmod`` is a label.

    Entries are counted in the order in which they are read, those of an index before those of its sitemaps. An index
    in an index, and a sitemap on another site than its index, are not followed. Raises TargetListError, also for a
    sitemap of an index that cannot be read: a list with a hole would look like one that has shrunk.
    """
    with closing(_Reading(bounds)) as reading:
        numbers, children = count(1), list[tuple[int, str]]()
        first = reading.open(location)
        for entry in reading.entries(first):
            number = next(numbers)
            if entry.kind == "url":
                yield number, entry.row
            elif len(children) == bounds.sitemaps:
                raise TargetListError(f"{first.shown} names more than {bounds.sitemaps} sitemaps")
            elif reason := _why_not(entry.loc, first.site):
                yield number, reason
            else:
                children.append((number, entry.loc))
        for named_by, url in children:
            for entry in reading.entries(reading.open(url)):
                if entry.kind == "sitemap":
                    yield named_by, "the index names another index, and those are followed one step only"
                    break
                yield next(numbers), entry.row


@dataclass(frozen=True)
class _Document:
    shown: str
    file: IO[bytes]
    site: str | None = None


def _why_not(url: str, site: str | None) -> str | None:
    """Why a sitemap is not followed; what its index was read from decides where it may be."""
    try:
        host = urlsplit(normalise_url(url)).hostname or ""
    except InvalidTarget as error:
        return str(error)
    if site is None or host == site or host.endswith(f".{site}"):
        return None
    return "the sitemap is on another site than its index: list it by itself"


@dataclass(frozen=True)
class _Entry:
    kind: str
    loc: str
    lastmod: str = ""

    @property
    def row(self) -> dict[str, str]:
        cells = {"url": self.loc, "lastmod": self.lastmod}
        return {name: text for name, text in cells.items() if text}


class _Reading:
    """Reads documents one after the other, as long as all of them together are no larger than may be."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds, self._bytes = bounds, 0
        self._downloads = Downloads(bounds.bytes_each, bounds.patience)

    def close(self) -> None:
        self._downloads.close()

    def open(self, location: str | Path) -> _Document:
        if isinstance(location, Path):
            return _Document(str(location), open_list(location))
        came = self._downloads.fetch(location)
        return _Document(shown_url(location), came.file, came.host.removeprefix("www."))

    def entries(self, document: _Document) -> Iterator[_Entry]:
        """The document's entries; it is closed when they end, or nobody wants more."""
        parser = _Parser()
        try:
            with document.file:
                for piece in self._pieces(document):
                    yield from parser.feed(piece)
            yield from parser.feed(b"", is_last=True)
        except zlib.error:
            raise TargetListError(f"{document.shown} is no gzip that can be read to its end") from None
        except expat.ExpatError as error:
            raise TargetListError(
                f"{document.shown}, line {error.lineno}: this is no XML ({expat.ErrorString(error.code)})"
            ) from None
        except _NoSitemap as error:
            raise TargetListError(f"{document.shown} {error}") from None

    def _pieces(self, document: _Document) -> Iterator[bytes]:
        own = 0
        for piece in _decoded(document.file):
            own, self._bytes = own + len(piece), self._bytes + len(piece)
            if own > self._bounds.bytes_each:
                raise TargetListError(f"{document.shown} is larger than {self._bounds.bytes_each} bytes")
            if self._bytes > self._bounds.bytes_in_all:
                raise TargetListError(
                    f"with {document.shown} the sitemaps are larger than {self._bounds.bytes_in_all} bytes"
                )
            yield piece


def _decoded(file: IO[bytes]) -> Iterator[bytes]:
    """The document in pieces; whether it is compressed its first bytes tell, for names and headers are often wrong."""
    first = file.read(_PIECE)
    pieces = _read_on(first, file)
    # Twice where a compressed file was compressed once more on its way.
    for _ in range(2):
        if not first.startswith(_GZIP):
            break
        inflated = _inflate(pieces)
        first = next(inflated, b"")
        pieces = _chain(first, inflated)
    yield from pieces


def _read_on(first: bytes, file: IO[bytes]) -> Iterator[bytes]:
    piece = first
    while piece:
        yield piece
        piece = file.read(_PIECE)


def _chain(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _inflate(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """What gzip holds, never more than a piece at once. Raises zlib.error, also where the end is missing."""
    member = zlib.decompressobj(wbits=31)
    for piece in pieces:
        left = piece
        while left:
            if member.eof:
                member = zlib.decompressobj(wbits=31)
            data = member.decompress(left, _PIECE)
            left = member.unused_data if member.eof else member.unconsumed_tail
            if data:
                yield data
    if not member.eof:
        raise zlib.error


class _NoSitemap(Exception):
    """The XML is something else."""


class _Parser:
    """Expat with a document's entries, without a document type: entities, and so their expansion, can't be declared."""

    def __init__(self) -> None:
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.buffer_text = True
        self._parser.StartDoctypeDeclHandler = self._refuse
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._path: list[str] = []
        self._namespace, self._kind = "", ""
        self._cells: dict[str, str] = {}
        self._found: list[_Entry] = []

    def feed(self, piece: bytes, is_last: bool = False) -> list[_Entry]:
        self._parser.Parse(piece, is_last)
        found, self._found = self._found, []
        return found

    def _refuse(self, name: str, *_: Any) -> None:
        raise _NoSitemap(
            "is a web page, no sitemap"
            if name.lower() == "html"
            else "declares a document type: no sitemap does"
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        namespace, _, local = name.rpartition(" ")
        if not self._path:
            self._namespace, self._kind = namespace, _KINDS.get(local, "")
            if not self._kind:
                raise _NoSitemap(f"is no sitemap: its root is no {' or '.join(_KINDS)}")
        if len(self._path) == _DEEPEST:
            raise _NoSitemap("is no sitemap: it is nested too deeply")
        # Extensions have elements of the same names in other namespaces.
        self._path.append(local if namespace == self._namespace else name)
        if self._path[1:] == [self._kind]:
            self._cells = {}

    def _end(self, _: str) -> None:
        if self._path[1:] == [self._kind]:
            cells = {name: text.strip() for name, text in self._cells.items()}
            self._found.append(_Entry(self._kind, cells.get("loc", ""), cells.get("lastmod", "")))
        self._path.pop()

    def _text(self, text: str) -> None:
        if len(self._path) == 3 and self._path[1] == self._kind and self._path[2] in ("loc", "lastmod"):
            so_far = self._cells.get(self._path[2], "")
            if len(so_far) < _LONGEST_TEXT:
                self._cells[self._path[2]] = so_far + text
