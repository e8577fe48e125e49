"""What reading a list gives: rows as they were found, and what became of each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

Row = Mapping[str, str]
"""The cells of a row by column, without those that are empty."""
Rows = Iterator[tuple[int, Row | str]]
"""Each row with its number, or the reason why there is none."""


class TargetListError(Exception):
    """The list as a whole cannot be read; the message says where and what to do."""


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
