"""The documents as the tests read them: their fences, headings, links and spans of code."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from scraper_pipeline.settings import project_folder

ROOT = project_folder()
_FENCE = re.compile(r"^( *)(`{3,})(\w*)[^\n]*\n(.*?)^\1\2[ \t]*$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"(`+)(.+?)\1", re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
_ANCHOR = re.compile(r'<a id="([^"]+)"')


@dataclass(frozen=True)
class Fence:
    """A fenced block: its language, its lines without their common indentation, and where it begins."""

    language: str
    lines: tuple[str, ...]
    begins_at: int


@dataclass(frozen=True)
class Document:
    """A page of Markdown."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @cached_property
    def text(self) -> str:
        return self.path.read_text("utf-8")

    @cached_property
    def prose(self) -> str:
        """The text without what is fenced."""
        return _FENCE.sub("", self.text)

    @cached_property
    def spans(self) -> tuple[str, ...]:
        """What stands between backticks, line breaks as blanks."""
        return tuple(re.sub(r"\s+", " ", found[2].strip()) for found in _SPAN.finditer(self.prose))

    @cached_property
    def links(self) -> tuple[str, ...]:
        return tuple(_LINK.findall(_SPAN.sub("", self.prose)))

    @cached_property
    def anchors(self) -> frozenset[str]:
        """What a link to the page may end with: its headings, as GitHub makes anchors of them, and its own."""
        return frozenset({*map(_slug, _HEADING.findall(self.prose)), *_ANCHOR.findall(self.prose)})

    @cached_property
    def code(self) -> tuple[str, ...]:
        """Every line of code: of fences, of what is indented, and the spans."""
        indented = re.findall(r"^ {4,}(\S.*)$", self.prose, re.MULTILINE)
        return (*(line for fence in self.fences() for line in fence.lines), *indented, *self.spans)

    def fences(self, *languages: str) -> Iterator[Fence]:
        """The fenced blocks in these languages, or all of them, in order."""
        for found in _FENCE.finditer(self.text):
            indentation, _, language, body = found.groups()
            if not languages or language in languages:
                lines = tuple(line.removeprefix(indentation) for line in body.splitlines())
                yield Fence(language, lines, found.start())

    def section(self, heading: str) -> str:
        """The text below a heading, down to the next one of its kind. Raises ValueError if there is none."""
        _, found, rest = self.text.partition(f"\n{heading}\n")
        if not found:
            raise ValueError(f"{self.name} has no heading {heading!r}")
        return re.split(rf"\n#{{1,{heading.count('#')}}} ", rest)[0]


def _slug(heading: str) -> str:
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")


README = Document(ROOT / "README.md")
PAGES = tuple(Document(path) for path in sorted((ROOT / "docs").glob("*.md")))
DOCUMENTS = (README, *PAGES)


def document(name: str) -> Document:
    """A document by its path below the checkout."""
    return next(one for one in DOCUMENTS if one.name == name)
