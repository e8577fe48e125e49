"""What a page has its reader do, in order: commands with what they show, and what is clicked in Dagster meanwhile.

What happens away from the terminal stands in comments, which no reader sees: `<!-- list: pages/1 broken/2 -->` makes
`targets.csv` of pages of the sandbox's site, `<!-- in Dagster: submit_jobs 2026-01-31 -->` launches, and
`<!-- today: 2026-01-31 -->` says on which day the page was written: its dates move along with the present one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime

from scraper_pipeline_tests.documents import Document, Fence

EXECUTED = ("console", "pycon", "sql")
_NOTE = re.compile(r"^<!-- (list|in Dagster|today): (.*?) -->$", re.MULTILINE)
_DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")
_STATUS = re.compile(r"  # .*\bstatus (\d+)")


@dataclass(frozen=True)
class Command:
    """A line after `$`, what the page shows of its output, and the status that a comment says; else 0."""

    text: str
    shown: str
    line: int

    @property
    def status(self) -> int:
        said = _STATUS.search(self.text)
        return int(said[1]) if said else 0


@dataclass(frozen=True)
class Note:
    """What happens away from the terminal."""

    subject: str
    text: str


@dataclass(frozen=True)
class Statement:
    """A block that is no terminal's: Python as in a session, or SQL."""

    language: str
    text: str
    line: int


Step = Command | Note | Statement


def is_followed(page: Document) -> bool:
    """Whether anything of the page can be run."""
    return any(page.fences(*EXECUTED))


def steps(page: Document) -> Iterator[Step]:
    """Everything that the page has its reader do, its dates moved to the present."""
    found: list[tuple[int, Fence | Note]] = [(fence.begins_at, fence) for fence in page.fences(*EXECUTED)]
    found += [(note.start(), Note(note[1], note[2])) for note in _NOTE.finditer(page.text)]
    written = next(
        (note.text for _, note in found if isinstance(note, Note) and note.subject == "today"), None
    )
    for position, one in sorted(found, key=lambda pair: pair[0]):
        line = page.text.count("\n", 0, position) + 1
        if isinstance(one, Note):
            yield Note(one.subject, _moved(one.text, written))
        elif one.language == "console":
            yield from _commands([_moved(text, written) for text in one.lines], line)
        else:
            yield Statement(one.language, _moved("\n".join(one.lines), written), line)


def _moved(text: str, written: str | None) -> str:
    if written is None:
        return text
    passed = datetime.now(UTC).date() - date.fromisoformat(written)
    return _DATE.sub(lambda day: (date.fromisoformat(day[0]) + passed).isoformat(), text)


def _commands(lines: list[str], begins_at: int) -> Iterator[Command]:
    text, shown, line = "", list[str](), 0
    for number, read in enumerate(lines, begins_at + 1):
        if text.endswith("\\"):
            text = f"{text[:-1]}{read.removeprefix('> ').strip()}"
        elif read.startswith("$ "):
            if text:
                yield Command(text, "\n".join(shown), line)
            text, shown, line = read[2:], [], number
        elif text:
            shown.append(read)
        else:
            raise ValueError(f"line {number}: a console's block begins with a command")
    yield Command(text, "\n".join(shown), line)


def agrees(shown: str, printed: str) -> bool:
    """Whether a page shows what was printed; `...` stands for anything, and widths of tables don't count."""
    pattern = ".*?".join(re.escape(part) for part in _plain(shown).split("..."))
    return re.fullmatch(pattern, _plain(printed), re.DOTALL) is not None


def _plain(text: str) -> str:
    lines = (re.sub(r"\s+", " ", re.sub("[━─]+", "─", line)).strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line)
