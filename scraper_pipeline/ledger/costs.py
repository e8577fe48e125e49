"""What was paid, and for what came of it, as far as the ledger knows; and how much may have been paid besides.

Everything is counted over the whole account, by when it was sent, as the page limits count it.
"""

from collections.abc import Iterator
from dataclasses import astuple, dataclass
from datetime import datetime
from enum import StrEnum

from sqlalchemy import (
    ColumnElement,
    Connection,
    Label,
    Text,
    and_,
    case,
    cast,
    exists,
    func,
    literal_column,
    or_,
    select,
    tuple_,
)

from scraper_pipeline.ledger.base import StorePart, in_state
from scraper_pipeline.ledger.records import Kind, LetterCode, State
from scraper_pipeline.ledger.schema import dead_letters, foreign_jobs, is_unusual, results, submissions
from scraper_pipeline.ledger.spending import IS_CRAWL, IS_PAGE, MAY_COST

_row, _letter, _foreign = submissions.c, dead_letters.c, foreign_jobs.c
_TARGET = ("account", "feed", "partition_key", "target_id")
# Pages that were extracted, or may have been, and can't be had: they may be charged, and are in no result.
_NOT_STORABLE = (LetterCode.TOO_LARGE, LetterCode.EXPIRED, LetterCode.UNREADABLE)


class Outcome(StrEnum):
    """What came of an attempt, or of a page; ``GIVEN_UP`` is one whose job may still end."""

    STORED = "stored"
    EMPTY = "empty"
    RETRIED = "retried"
    PARKED = "parked"
    GIVEN_UP = "given_up"
    IN_FLIGHT = "in_flight"


@dataclass(frozen=True)
class Spent:
    """Attempts with one outcome, and the pages that were paid for them; ``key`` is what they are grouped by."""

    key: str
    outcome: Outcome
    attempts: int
    pages: int


@dataclass(frozen=True)
class Uncounted:
    """Why the service may have charged other pages than the ledger has paid for, in pages at most.

    ``paid_twice`` are in the ledger's figure already. Of other programs' batches and crawls only the number is known.
    """

    in_flight: int = 0
    given_up: int = 0
    unresolved: int = 0
    not_storable: int = 0
    other_programs: int = 0
    other_programs_bulk: int = 0
    paid_twice: int = 0

    @property
    def pages(self) -> int:
        """The most pages that may have been charged beyond the ledger's, as far as that can be told."""
        return self.in_flight + self.given_up + self.unresolved + self.not_storable + self.other_programs

    def __add__(self, other: "Uncounted") -> "Uncounted":
        return Uncounted(*(mine + theirs for mine, theirs in zip(astuple(self), astuple(other), strict=True)))


class CostStore(StorePart):
    """Reads only. Spans of time include their start and not their end."""

    def spent(self, start: datetime, end: datetime, by: str | None = None) -> list[Spent]:
        """What was sent in a span and what it cost, by ``attempt``, ``account`` or ``label:NAME``, or altogether."""
        sent, key = self._sent(start, end), _grouping(by).label("key")
        found: dict[tuple[str, Outcome], list[int]] = {}

        def add(key: str, outcome: Outcome, attempts: int, pages: int) -> None:
            total = found.setdefault((key, outcome), [0, 0])
            total[0] += attempts
            total[1] += pages

        with self.reading() as connection:
            for name, outcome, attempts, pages in _attempts(connection, sent, key):
                add(name, outcome, attempts, pages)
            for name, pages in _crawled(connection, sent, key):
                add(name, Outcome.STORED, 0, pages)
            for name, is_empty, attempts, pages, paid in _unusual_pages(connection, sent, key):
                add(name, Outcome.STORED, -attempts, -pages)
                add(name, Outcome.EMPTY if is_empty else Outcome.STORED, attempts, paid)
        return [Spent(*group, *total) for group, total in sorted(found.items()) if any(total)]

    def uncounted(self, start: datetime, end: datetime) -> Uncounted:
        """What may make the service's figure for a span differ from the ledger's."""
        sent = self._sent(start, end)
        is_given_up = and_(in_state(State.DEAD, State.SUPERSEDED), _row.given_up, ~_has_page())
        with self.reading() as connection:

            def most_pages(*conditions: ColumnElement[bool]) -> int:
                rows = select(func.sum(MAY_COST)).where(sent, *conditions)
                return int(connection.scalar(rows) or 0)

            def with_letter(*codes: LetterCode) -> ColumnElement[bool]:
                ended_in = select(*(_letter[name] for name in _TARGET), _letter.attempts)
                return tuple_(*(_row[name] for name in _TARGET), _row.attempt).in_(
                    ended_in.where(self.is_ours(dead_letters), _letter.error_code.in_(codes))
                )

            made_at = func.coalesce(_foreign.created_at, _foreign.first_seen_at)
            completed = connection.execute(
                select(_foreign.kind, func.count())
                .where(
                    self.is_ours(foreign_jobs),
                    _foreign.status == "completed",
                    made_at >= start,
                    made_at < end,
                )
                .group_by(_foreign.kind)
            )
            others: dict[str, int] = {kind: count for kind, count in completed}
            single = others.pop(Kind.EXTRACT, 0)
            settled = in_state(State.DEAD, State.SUPERSEDED)
            return Uncounted(
                in_flight=most_pages(in_state(State.SENDING, State.ACCEPTED)),
                given_up=most_pages(is_given_up),
                unresolved=most_pages(settled, with_letter(LetterCode.UNRESOLVED)),
                not_storable=most_pages(settled, ~_row.given_up, with_letter(*_NOT_STORABLE)),
                other_programs=single,
                other_programs_bulk=sum(others.values()),
                paid_twice=most_pages(in_state(State.SUPERSEDED), _row.given_up, IS_PAGE, _has_page()),
            )

    def first_sent_since(self, since: datetime) -> datetime | None:
        """When the first of what was sent from a time on was sent."""
        with self.reading() as connection:
            first: datetime | None = connection.scalar(
                select(func.min(_row.sent_at)).where(self.is_ours(submissions), _row.sent_at >= since)
            )
        return first

    def _sent(self, start: datetime, end: datetime) -> ColumnElement[bool]:
        return and_(self.is_ours(submissions), _row.sent_at >= start, _row.sent_at < end)


def _grouping(by: str | None) -> ColumnElement[str]:
    if by is None:
        return cast(literal_column("''"), Text)
    if by in ("attempt", "account"):
        return _row[by]
    return func.coalesce(_row.labels[by.removeprefix("label:")].as_string(), literal_column("''"))


def _has_page() -> ColumnElement[bool]:
    of_job = results.c.job_id == _row.job_id
    return exists().where(of_job, or_(IS_CRAWL, results.c.item_key == _row.item_key))


def _attempts(
    connection: Connection, sent: ColumnElement[bool], key: Label[str]
) -> Iterator[tuple[str, Outcome, int, int]]:
    """Every attempt, with the page that was paid for it; those of crawls without their pages."""
    page = results.alias("page")
    is_its_page = and_(IS_PAGE, page.c.job_id == _row.job_id, page.c.item_key == _row.item_key)
    outcome = case(
        (in_state(State.SENDING, State.ACCEPTED), Outcome.IN_FLIGHT),
        (or_(page.c.job_id.is_not(None), in_state(State.STORED)), Outcome.STORED),
        (_row.given_up, Outcome.GIVEN_UP),
        (in_state(State.DEAD), Outcome.PARKED),
        else_=Outcome.RETRIED,
    )
    rows = connection.execute(
        select(key, outcome.label("outcome"), func.count(), func.count(page.c.job_id))
        .select_from(submissions)
        .outerjoin(page, is_its_page)
        .where(sent)
        .group_by("key", "outcome")
    )
    for name, came_of_it, attempts, pages in rows:
        yield str(name), Outcome(came_of_it), attempts, pages


def _crawled(connection: Connection, sent: ColumnElement[bool], key: Label[str]) -> Iterator[tuple[str, int]]:
    """The pages of crawls."""
    rows = connection.execute(
        select(key, func.count())
        .select_from(submissions)
        .join(results, results.c.job_id == _row.job_id)
        .where(sent, IS_CRAWL)
        .group_by("key")
    )
    for name, pages in rows:
        yield str(name), pages


def _unusual_pages(
    connection: Connection, sent: ColumnElement[bool], key: Label[str]
) -> Iterator[tuple[str, bool, int, int, int]]:
    """Pages that are empty, or not charged as one: how many attempts and pages these are, and what was paid."""
    # Held together by its limit, which is none: SQLite would find each among whole pages, and not in its index.
    unusual = (
        select(results.c.job_id, results.c.item_key, results.c.is_empty, results.c.tokens_charged)
        .where(is_unusual(results.c))
        .limit(2**63 - 1)
        .subquery("unusual")
    )
    of_page = and_(IS_PAGE, unusual.c.item_key == _row.item_key)
    for is_its_page, is_crawled in ((of_page, False), (IS_CRAWL, True)):
        rows = connection.execute(
            select(
                key,
                unusual.c.is_empty.label("is_empty"),
                func.count(),
                func.sum(func.coalesce(unusual.c.tokens_charged, 1)),
            )
            .select_from(unusual)
            .join(submissions, and_(unusual.c.job_id == _row.job_id, is_its_page))
            .where(sent)
            .group_by("key", "is_empty")
        )
        for name, is_empty, pages, paid in rows:
            yield str(name), is_empty, 0 if is_crawled else pages, pages, int(paid)
