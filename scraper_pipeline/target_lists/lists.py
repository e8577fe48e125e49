"""A list of targets as it is planned: where it lives, what it is called, when it is due, and what it may cost."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

from scraper_pipeline.ledger import ListTerms, Scope, Target
from scraper_pipeline.target_lists.columns import LIST_LABEL, Defaults, target_of
from scraper_pipeline.target_lists.entries import Duplicate, Rejected, Rows, TargetListError
from scraper_pipeline.target_lists.lines import line_rows
from scraper_pipeline.target_lists.sources import Source

DAILY, MANUAL = "daily", "manual"


@dataclass(frozen=True)
class TargetList:
    """One list. ``schedule`` is DAILY, MANUAL, or when it is submitted, as five fields of cron; ``account`` pays.

    Targets of a list with a name of its own (``is_named``) carry it as the label `list`.
    """

    source: Source
    terms: ListTerms = field(default_factory=ListTerms)
    is_named: bool = False
    defaults: Defaults = field(default_factory=Defaults)
    schedule: str = DAILY
    account: str = Scope().account

    @property
    def name(self) -> str:
        return self.terms.name

    def title(self, day: date) -> str:
        """What people know the list by: its name, or else where it lives."""
        return f"list {self.name}" if self.is_named else self.source.shown(day)

    def read(self, day: date) -> Iterator[Target | Rejected | Duplicate]:
        """Yield each of that day's targets once, and every line that gives none with its reason, in the list's order.

        Beside the rows at hand only the targets' ids are kept in memory. Raises TargetListError while it is iterated:
        before the first row where the list is absent or has no column `url`, later where the rest cannot be read.
        """
        try:
            for entry in _read(self.source.rows(day), self.defaults):
                yield self._labelled(entry) if isinstance(entry, Target) and self.is_named else entry
        except TargetListError as error:
            if not self.is_named:
                raise
            raise TargetListError(f"list {self.name}: {error}") from None

    def _labelled(self, target: Target) -> Target:
        if LIST_LABEL in target.labels:
            raise TargetListError(f"the label `{LIST_LABEL}` is the list's name: rename that column")
        return replace(target, labels={**target.labels, LIST_LABEL: self.name})


def read_target_list(path: Path) -> Iterator[Target | Rejected | Duplicate]:
    """Yield each target of a text or CSV file once, and every line that gives none with its reason, in its order.

    A list whose first line names a column `url` is CSV (also with semicolons or tabs); its other columns are options
    or labels. Any other list is text: a URL a line, blank lines and `#` comments aside. A file named `.csv` or `.tsv`
    has to be CSV. The encoding is UTF-8. Beside the line at hand only the targets' ids are kept in memory.

    Raises TargetListError while it is iterated: before the first line where the file is missing or has no column
    `url`, later where a line is not UTF-8 or a quote is never closed.
    """
    return _read(line_rows(path), Defaults())


def _read(rows: Rows, defaults: Defaults) -> Iterator[Target | Rejected | Duplicate]:
    first_lines: dict[bytes, int] = {}
    for line, row in rows:
        entry = row if isinstance(row, str) else target_of(row, defaults)
        if isinstance(entry, str):
            yield Rejected(line, entry)
        else:
            first_line = first_lines.setdefault(bytes.fromhex(entry.target_id), line)
            yield entry if first_line == line else Duplicate(line, first_line)
