"""What the ledger forgets on purpose: the content of old pages, and the traces of news that was settled long ago.

Rows that say what was asked for, paid and stored stay for ever: they are what keeps a page from being paid twice.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Insert,
    Table,
    Update,
    and_,
    delete,
    exists,
    func,
    insert,
    null,
    or_,
    select,
    tuple_,
    update,
)

from scraper_pipeline.ledger.base import StorePart, chunked, in_state
from scraper_pipeline.ledger.records import State
from scraper_pipeline.ledger.schema import (
    dead_letters,
    deliveries,
    partitions,
    processed_events,
    quarantine,
    results,
    submissions,
)

_row, _page, _day, _event = submissions.c, results.c, partitions.c, processed_events.c
_letter, _delivery, _body = dead_letters.c, deliveries.c, quarantine.c
_has_content = or_(_page.markdown.is_not(None), _page.html.is_not(None))

WATCHED_FOR = timedelta(
    days=7
)  # a job that was given up is looked at for so long, and may be stored after all
AT_ONCE = 500  # rows of one transaction: nobody waits long for its locks
Progress = Callable[[int], None]


def _nobody_listens(_count: int) -> None:
    pass


@dataclass(frozen=True)
class Traces:
    """How many rows of each kind are, or were, old enough to be forgotten."""

    events: int = 0
    deliveries: int = 0
    quarantined: int = 0
    letters: int = 0

    def __add__(self, other: "Traces") -> "Traces":
        return Traces(
            self.events + other.events,
            self.deliveries + other.deliveries,
            self.quarantined + other.quarantined,
            self.letters + other.letters,
        )


@dataclass(frozen=True)
class OldDay:
    """A day as it was at a revision; ``is_open`` if a target of it is still waited for, or was given up lately."""

    partition_key: str
    revision: int
    is_open: bool


class RetentionStore(StorePart):
    """Forgets, a few hundred rows in a transaction; what is broken off is gone on with by the next call."""

    def old_days(self, before: str) -> list[OldDay]:
        """Days before this one that have changed since their content was last dropped, oldest first."""
        is_waited_for = or_(
            in_state(State.PLANNED, State.SENDING, State.ACCEPTED),
            and_(in_state(State.DEAD), _row.given_up, _row.accepted_at > self.clock() - WATCHED_FOR),
        )
        is_open = exists().where(
            self.in_scope(submissions), _row.partition_key == _day.partition_key, is_waited_for
        )
        with self.reading() as connection:
            rows = connection.execute(
                select(_day.partition_key, _day.revision, is_open.label("is_open"))
                .where(
                    self.in_scope(partitions),
                    _day.partition_key < before,
                    or_(_day.pruned_revision.is_(None), _day.pruned_revision != _day.revision),
                )
                .order_by(_day.partition_key)
            ).all()
        return [OldDay(row.partition_key, row.revision, bool(row.is_open)) for row in rows]

    def pruned(self, partition_keys: Sequence[str]) -> list[str]:
        """Those of the partitions whose content was dropped."""
        found: set[str] = set()
        with self.reading() as connection:
            for keys in chunked(partition_keys):
                of_these = and_(self.in_scope(partitions), _day.partition_key.in_(keys))
                found.update(
                    connection.scalars(
                        select(_day.partition_key).where(of_these, _day.pruned_at.is_not(None))
                    )
                )
        return sorted(found)

    def pages_with_content(self, partition_key: str) -> int:
        """How many stored pages of a day have content to be dropped."""
        with self.reading() as connection:
            return connection.scalar(select(func.count()).where(self._with_content(partition_key))) or 0

    def drop_content(self, day: OldDay, on_rows: Progress = _nobody_listens) -> int:
        """Drop the Markdown and HTML of a day's stored pages, for good; returns of how many.

        It stops where the day is found to have changed since it was looked at. The rows of pages stay, with hash,
        labels, metadata and price, so that nothing is paid or stored again.
        """
        dropped, of_day = 0, and_(self.in_scope(partitions), _day.partition_key == day.partition_key)
        unchanged = select(_day.revision).where(of_day, _day.revision == day.revision).with_for_update()
        with closing(self._keys(results, self._with_content(day.partition_key))) as found:
            for keys in chunked(found, AT_ONCE):
                these = and_(self._is_one_of(results, keys), _has_content)
                with self.writing() as connection:
                    if connection.scalar(unchanged) is None:
                        return dropped
                    done = connection.execute(self._without_content(these)).rowcount
                dropped += done
                on_rows(done)
        with self.writing() as connection:
            connection.execute(
                update(partitions)
                .where(of_day, _day.revision == day.revision)
                .values(pruned_at=self.clock(), pruned_revision=day.revision)
            )
        return dropped

    def _without_content(self, these: ColumnElement[bool]) -> Update | Insert:
        if self.engine.dialect.name == "postgresql":
            return update(results).where(these).values(markdown=None, html=None)
        # Replaced, since SQLite leaves a page of its file to a row that has shrunk, as good as empty, for ever.
        kept = [null() if column in (_page.markdown, _page.html) else column for column in results.c]
        return (
            insert(results).prefix_with("OR REPLACE").from_select(list(results.c), select(*kept).where(these))
        )

    def traces(self, news_before: datetime | None, letters_before: datetime | None = None) -> Traces:
        """What ``forget`` would forget."""
        counts = {}
        with self.reading() as connection:
            for name, table, is_old in self._kinds(news_before, letters_before):
                counts[name] = connection.scalar(select(func.count()).select_from(table).where(is_old)) or 0
        return Traces(**counts)

    def forget(
        self,
        news_before: datetime | None,
        letters_before: datetime | None = None,
        on_rows: Progress = _nobody_listens,
    ) -> Traces:
        """Delete events that were processed, deliveries that were made and bodies that were quarantined before a time.

        Of dead letters, only those whose target was tried again or stored: an open one and a discarded one stand for
        ever. None leaves that kind alone.
        """
        forgotten = {}
        for name, table, is_old in self._kinds(news_before, letters_before):
            forgotten[name] = 0
            for keys in chunked(self._keys(table, is_old), AT_ONCE):
                with self.writing() as connection:
                    gone = connection.execute(delete(table).where(self._is_one_of(table, keys), is_old))
                forgotten[name] += gone.rowcount
                on_rows(gone.rowcount)
        return Traces(**forgotten)

    def _kinds(
        self, news_before: datetime | None, letters_before: datetime | None
    ) -> list[tuple[str, Table, ColumnElement[bool]]]:
        """The kinds of rows that may be forgotten, and which of each."""
        kinds: list[tuple[str, Table, ColumnElement[bool]]] = []
        if news_before is not None:
            kinds += [
                ("events", processed_events, _event.processed_at < news_before),
                ("deliveries", deliveries, _delivery.created_at < news_before),
                ("quarantined", quarantine, _body.received_at < news_before),
            ]
        if letters_before is not None:
            is_over = and_(_letter.resolution.is_not(None), _letter.resolution != "discarded")
            kinds.append(("letters", dead_letters, and_(is_over, _letter.resolved_at < letters_before)))
        return [(name, table, and_(self.in_scope(table), is_old)) for name, table, is_old in kinds]

    def _with_content(self, partition_key: str) -> ColumnElement[bool]:
        return and_(self.in_scope(results), _page.partition_key == partition_key, _has_content)

    def _keys(self, table: Table, which: ColumnElement[bool]) -> Generator[tuple[Any, ...], None, None]:
        """The primary keys of these rows, read as they are asked for."""
        statement = select(*table.primary_key).where(which).execution_options(yield_per=AT_ONCE)
        with self.reading() as connection, connection.execute(statement) as found:
            yield from (tuple(key) for key in found)

    def _is_one_of(self, table: Table, keys: Sequence[tuple[Any, ...]]) -> ColumnElement[bool]:
        columns = list(table.primary_key)
        if len(columns) == 1:
            return self.among(columns[0], [key[0] for key in keys])
        if self.engine.dialect.name == "postgresql":
            return tuple_(*columns).in_(keys)
        # Written out, since SQLite looks through the whole table for a pair that is in a list.
        return or_(
            *(and_(*(column == part for column, part in zip(columns, key, strict=True))) for key in keys)
        )
