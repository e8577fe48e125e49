"""What every part of the store shares: the engine, the scope of its rows, and the clock."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Self, TypeVar

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Engine,
    Select,
    Table,
    and_,
    any_,
    func,
    literal,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite

from scraper_pipeline.ledger import database
from scraper_pipeline.ledger.records import Scope, State
from scraper_pipeline.ledger.schema import LITERAL, partitions, submissions

Clock = Callable[[], datetime]
T = TypeVar("T")

IN_LIST = 500  # ids in one statement: far below every engine's limit on variables


def utc_now() -> datetime:
    return datetime.now(UTC)


def chunked(items: Iterable[T], size: int = IN_LIST) -> Iterator[list[T]]:
    """The items in lists of at most ``size``, in order; the source is read as it is needed."""
    source = iter(items)
    while chunk := list(islice(source, size)):
        yield chunk


@dataclass(frozen=True)
class StorePart:
    """A part of the ledger's store; each public method is one transaction."""

    engine: Engine
    scope: Scope
    clock: Clock

    def writing(self) -> AbstractContextManager[Connection]:
        if self.scope.beside:
            raise ValueError("a ledger over several accounts is read; write to that of one of them")
        return database.writing(self.engine)

    def reading(self) -> AbstractContextManager[Connection]:
        return database.reading(self.engine)

    def in_scope(self, table: Table) -> ColumnElement[bool]:
        return and_(self.is_ours(table), table.c.feed == self.scope.feed)

    def is_ours(self, table: Table) -> ColumnElement[bool]:
        """Whether a row is of the scope's account, or of one of its accounts, in whatever feed."""
        if self.scope.beside:
            return table.c.account.in_(self.scope.accounts)
        is_ours: ColumnElement[bool] = table.c.account == self.scope.account
        return is_ours

    @property
    def each(self) -> tuple[Self, ...]:
        """This part for each account by itself, where the scope has several."""
        return (
            tuple(replace(self, scope=scope) for scope in self.scope.each) if self.scope.beside else (self,)
        )

    @property
    def scope_values(self) -> dict[str, str]:
        return {"account": self.scope.account, "feed": self.scope.feed}

    def among(self, column: ColumnElement[T], values: Collection[T]) -> ColumnElement[bool]:
        """Whether the column has one of these values: on Postgres one parameter, so its text stays the same."""
        if self.engine.dialect.name == "postgresql":
            return column == any_(literal(list(values), ARRAY(column.type)))
        return column.in_(values)

    def insert(self, table: Table) -> "postgresql.Insert | sqlite.Insert":
        """An INSERT of the engine's own kind, which knows ON CONFLICT."""
        return postgresql.insert(table) if self.engine.dialect.name == "postgresql" else sqlite.insert(table)

    def bump_revisions(self, connection: Connection, partition_keys: Iterable[str]) -> None:
        """Count a change of these partitions; the last statement of a transaction, since its rows are shared by all."""
        for partition_key in sorted(set(partition_keys)):
            row = {
                **self.scope_values,
                "partition_key": partition_key,
                "revision": 1,
                "changed_at": self.clock(),
            }
            statement = self.insert(partitions).values(row)
            connection.execute(
                statement.on_conflict_do_update(
                    index_elements=["account", "feed", "partition_key"],
                    set_={"revision": partitions.c.revision + 1, "changed_at": statement.excluded.changed_at},
                )
            )


def in_state(*states: State) -> ColumnElement[bool]:
    """A predicate on ``submissions.state`` that partial indexes can serve."""
    column = submissions.c.state
    return (
        column == LITERAL[states[0]] if len(states) == 1 else column.in_([LITERAL[state] for state in states])
    )


def account_names() -> Select[str]:
    """Every account that has submissions, each found by one step through an index."""
    of = submissions.c.account
    names = select(func.min(of).label("name")).cte("names", recursive=True)
    following = select(func.min(of)).where(of > names.c.name)
    names = names.union_all(select(following.scalar_subquery()).where(names.c.name.is_not(None)))
    return select(names.c.name).where(names.c.name.is_not(None))


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which this share of an ordered sequence lies; 0 if it is empty."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
