"""Dead letters: what one says of the submission that was parked, which there are, and how a person discards one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, and_, exists, func, literal_column, or_, select, true, update

from scraper_pipeline.ledger.base import StorePart, chunked
from scraper_pipeline.ledger.records import State
from scraper_pipeline.ledger.schema import dead_letters, submissions

DISCARDED = "discarded"
_letter, _row = dead_letters.c, submissions.c
IS_OPEN = _letter.resolved_at.is_(None)
IS_DISCARDED = _letter.resolution == literal_column(f"'{DISCARDED}'")
STANDS = or_(IS_OPEN, IS_DISCARDED)
"""Every dead target has one letter that stands, and nobody else has: it is open until a person discards it."""


def letter_row(row: Any, code: str, message: str, now: datetime) -> dict[str, Any]:
    """The columns of a letter for a row of ``submissions``, which may have no job."""
    return {
        "job_id": row.job_id,
        "item_key": row.item_key,
        "account": row.account,
        "feed": row.feed,
        "partition_key": row.partition_key,
        "target_id": row.target_id,
        "url": row.url,
        "error_code": code,
        "error_message": message,
        "attempts": row.attempt,
        "parked_at": now,
    }


def of_target() -> ColumnElement[bool]:
    """Whether a letter and a row of ``submissions`` are of the same target."""
    return and_(*(_letter[name] == _row[name] for name in ("account", "feed", "partition_key", "target_id")))


class LetterState(StrEnum):
    """Letters by what has become of them; ``RESOLVED`` are those whose target was tried again or stored after all."""

    OPEN = "open"
    DISCARDED = "discarded"
    RESOLVED = "resolved"
    ALL = "all"


_IN_STATE: dict[LetterState, ColumnElement[bool]] = {
    LetterState.OPEN: IS_OPEN,
    LetterState.DISCARDED: IS_DISCARDED,
    LetterState.RESOLVED: ~STANDS,
    LetterState.ALL: true(),
}


@dataclass(frozen=True)
class LetterFilter:
    """Which letters are meant: those that fit everything that is given.

    ``since`` and ``until`` are days, both included; ``url_part`` is looked for in either case.
    """

    codes: tuple[str, ...] = ()
    days: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    url_part: str | None = None

    @property
    def is_empty(self) -> bool:
        return self == LetterFilter()

    def conditions(self) -> list[ColumnElement[bool]]:
        given: list[ColumnElement[bool]] = []
        if self.codes:
            given.append(_letter.error_code.in_(self.codes))
        if self.days:
            given.append(_letter.partition_key.in_(self.days))
        if self.since is not None:
            given.append(_letter.partition_key >= self.since)
        if self.until is not None:
            given.append(_letter.partition_key <= self.until)
        if self.url_part:
            given.append(_letter.url.icontains(self.url_part, autoescape=True))
        for name, value in self.labels.items():
            has_label = _row.labels[name].as_string() == value
            given.append(exists().where(of_target(), _row.attempt == _letter.attempts, has_label))
        return given


@dataclass(frozen=True)
class DeadLetter:
    """One parked target; ``attempts`` counts those made until then, which is also the number of the last one."""

    letter_id: int
    partition_key: str
    target_id: str
    url: str
    code: str
    message: str
    attempts: int
    job_id: str | None
    parked_at: datetime
    resolved_at: datetime | None
    resolution: str | None
    note: str | None
    account: str = "default"


@dataclass(frozen=True)
class Attempt:
    """One submission of a target, and the letter that it ended in, if it did."""

    attempt: int
    state: State
    kind: str
    job_id: str | None
    planned_at: datetime
    sent_at: datetime | None
    settled_at: datetime | None
    letter: DeadLetter | None


@dataclass(frozen=True)
class Reason:
    """How many open letters have one code, with the newest of them as an example."""

    code: str
    count: int
    url: str
    message: str


class LetterStore(StorePart):
    """Whatever is read here holds no page content."""

    def find(
        self, which: LetterFilter, state: LetterState = LetterState.OPEN, limit: int | None = None
    ) -> list[DeadLetter]:
        """The letters that fit, newest first."""
        with self.reading() as connection:
            rows = connection.execute(
                select(dead_letters)
                .where(self.in_scope(dead_letters), _IN_STATE[state], *which.conditions())
                .order_by(_letter.id.desc())
                .limit(limit)
            ).all()
        return [_read(row) for row in rows]

    def ids(self, which: LetterFilter, limit: int | None = None) -> list[int]:
        """The open letters that fit, those that were parked first before the others."""
        with self.reading() as connection:
            return list(
                connection.scalars(
                    select(_letter.id)
                    .where(self.in_scope(dead_letters), IS_OPEN, *which.conditions())
                    .order_by(_letter.id)
                    .limit(limit)
                )
            )

    def unknown(self, letter_ids: Iterable[int]) -> list[int]:
        """Those of the ids that no letter has."""
        asked = list(dict.fromkeys(letter_ids))
        known: set[int] = set()
        with self.reading() as connection:
            for chunk in chunked(asked):
                known.update(
                    connection.scalars(
                        select(_letter.id).where(self.in_scope(dead_letters), _letter.id.in_(chunk))
                    )
                )
        return [letter_id for letter_id in asked if letter_id not in known]

    def count(self, which: LetterFilter, state: LetterState = LetterState.OPEN) -> dict[str, int]:
        """How many letters fit, by their code."""
        with self.reading() as connection:
            rows = connection.execute(
                select(_letter.error_code, func.count())
                .where(self.in_scope(dead_letters), _IN_STATE[state], *which.conditions())
                .group_by(_letter.error_code)
                .order_by(func.count().desc(), _letter.error_code)
            ).all()
        return {code: count for code, count in rows}

    def reasons(self, partition_key: str, limit: int = 10) -> list[Reason]:
        """Why most of a partition's targets are parked: its open letters by code, the most frequent first."""
        by_code = (
            select(
                _letter.error_code,
                func.count().label("letters"),
                func.max(_letter.id).label("newest"),
            )
            .where(self.in_scope(dead_letters), _letter.partition_key == partition_key, IS_OPEN)
            .group_by(_letter.error_code)
            .order_by(func.count().desc(), _letter.error_code)
            .limit(limit)
            .subquery()
        )
        with self.reading() as connection:
            rows = connection.execute(
                select(by_code.c.error_code, by_code.c.letters, _letter.url, _letter.error_message)
                .join(dead_letters, _letter.id == by_code.c.newest)
                .order_by(by_code.c.letters.desc(), by_code.c.error_code)
            ).all()
        return [Reason(*row) for row in rows]

    def discarded(self, partition_key: str) -> int:
        """How many of a partition's targets were parked and discarded."""
        return sum(self.count(LetterFilter(days=(partition_key,)), LetterState.DISCARDED).values())

    def lineage(self, letter_id: int) -> tuple[DeadLetter, list[Attempt]] | None:
        """A letter and every attempt at its target, the first one first; None if there is no such letter."""
        with self.reading() as connection:
            found = connection.execute(
                select(dead_letters).where(self.in_scope(dead_letters), _letter.id == letter_id)
            ).one_or_none()
            if found is None:
                return None
            target = {name: getattr(found, name) for name in ("account", "partition_key", "target_id")}
            letters = connection.execute(
                select(dead_letters).where(self.in_scope(dead_letters)).filter_by(**target)
            ).all()
            attempts = connection.execute(
                select(submissions)
                .where(self.in_scope(submissions))
                .filter_by(**target)
                .order_by(_row.attempt)
            ).all()
        ended_in = {row.attempts: _read(row) for row in letters}
        return _read(found), [
            Attempt(
                row.attempt, State(row.state), row.kind, row.job_id, row.planned_at, row.sent_at, row.settled_at,
                ended_in.get(row.attempt),
            )
            for row in attempts
        ]  # fmt: skip

    def discard(self, letter_ids: Iterable[int], note: str | None = None) -> int:
        """Resolve open letters for good, their targets staying dead; returns how many were still open.

        What is discarded is resubmitted only by its letter's id.
        """
        discarded = 0
        for chunk in chunked(letter_ids):
            with self.writing() as connection:
                partition_keys = connection.scalars(
                    update(dead_letters)
                    .where(self.in_scope(dead_letters), _letter.id.in_(chunk), IS_OPEN)
                    .values(resolved_at=self.clock(), resolution=DISCARDED, note=note)
                    .returning(_letter.partition_key)
                ).all()
                self.bump_revisions(connection, partition_keys)
            discarded += len(partition_keys)
        return discarded


def _read(row: Any) -> DeadLetter:
    return DeadLetter(
        row.id, row.partition_key, row.target_id, row.url, row.error_code, row.error_message, row.attempts,
        row.job_id, row.parked_at, row.resolved_at, row.resolution, row.note, row.account,
    )  # fmt: skip
