"""The invariants of the design as queries, each of which finds the targets that break one rule.

A million rows are to be checked in seconds, so whatever concerns all of them is read once from an index that holds all
that is asked for, and rows themselves are fetched only of what is already suspected. Within one partition, which has
few rows, the index is that of the partition instead.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    CompoundSelect,
    FromClause,
    Select,
    Subquery,
    Table,
    and_,
    except_,
    exists,
    func,
    literal_column,
    or_,
    select,
    tuple_,
    union,
    union_all,
)

from scraper_pipeline.ledger.base import in_state
from scraper_pipeline.ledger.letters import STANDS, of_target
from scraper_pipeline.ledger.records import Scope, State
from scraper_pipeline.ledger.schema import LITERAL, dead_letters, jobs, processed_events, results, submissions

_row, _event, _job, _result, _letter = submissions.c, processed_events.c, jobs.c, results.c, dead_letters.c
_found = (_row.partition_key, _row.target_id)
_TARGET = ("account", "feed", "partition_key", "target_id")
_is_crawl = _row.kind == literal_column("'crawl'")
_ALL = 2**63 - 1  # a limit that is none keeps the order of a subquery
_WITHOUT_PAGE = (State.PLANNED, State.SENDING, State.ACCEPTED, State.DEAD)


@dataclass(frozen=True)
class Invariant:
    """A rule, what it means that it is broken, and the query for the ``partition_key, target_id`` that break it."""

    rule: str
    detail: str
    broken: Select[Any] | CompoundSelect[Any]


def invariants(
    scope: Scope, partition_key: str | None = None, *, on_sqlite: bool = False
) -> tuple[Invariant, ...]:
    """Every rule that the ledger alone can show to be broken, over all partitions of a scope or over one."""
    part = _Part(scope, partition_key, on_sqlite)
    return (
        Invariant(
            "one_state",
            "the target is not in exactly one state by its newest submission",
            union(_superseded_by_nothing(part), _overtaken(part)),
        ),
        Invariant(
            "stored_has_result", "the target is stored but its result is missing", _without_result(part)
        ),
        Invariant("result_has_row", "a result stands for which no submission is stored", _without_row(part)),
        Invariant("stored_once", "the same item of a job is stored more than once", _stored_twice(part)),
        Invariant(
            "dead_has_letter",
            "the target is dead but has no dead letter, neither an open one nor a discarded one",
            select(*_found).where(part.in_state(State.DEAD), ~exists().where(of_target(), STANDS)),
        ),
        Invariant(
            "letter_has_dead",
            "a dead letter, open or discarded, stands for a target that is not dead",
            select(_letter.partition_key, _letter.target_id).where(
                part.of(dead_letters), STANDS, ~exists().where(of_target(), in_state(State.DEAD))
            ),
        ),
        Invariant(
            "stamped_is_settled",
            "the job is stamped as processed while the target waits for its outcome",
            select(*_found)
            .join(processed_events, _event.job_id == _row.job_id)
            .where(
                part.in_state(State.ACCEPTED, State.DEAD),
                or_(in_state(State.ACCEPTED), _row.given_up),
                _event.processed_at.is_not(None),
            ),
        ),
        Invariant(
            "accepted_is_known",
            "the target waits for a job that the ledger has no record of",
            select(*_found).where(part.in_state(State.ACCEPTED), ~exists().where(_job.job_id == _row.job_id)),
        ),
        Invariant(
            "one_request_per_job", "the job is bound to more than one request", _of_several_requests(part)
        ),
        Invariant("one_sending_per_url", "the URL is being sent twice at once", _sending_together(part)),
    )


@dataclass(frozen=True)
class _Part:
    """The rows that are looked at: a partition's, or all of the scope."""

    scope: Scope
    partition_key: str | None
    on_sqlite: bool

    @property
    def is_merged(self) -> bool:
        """Whether items are compared by merging indexes, which Postgres does by itself and SQLite only when told to."""
        return self.on_sqlite and self.partition_key is None

    def of(self, table: Table) -> ColumnElement[bool]:
        within = and_(table.c.account == self.scope.account, table.c.feed == self.scope.feed)
        return (
            within
            if self.partition_key is None
            else and_(within, table.c.partition_key == self.partition_key)
        )

    def has(self, table: Table) -> ColumnElement[bool]:
        """The same as ``of``, for rows that are suspected already: no engine takes it for a way to find all rows."""
        within = and_(table.c.account.concat("") == self.scope.account, table.c.feed == self.scope.feed)
        return (
            within
            if self.partition_key is None
            else and_(within, table.c.partition_key == self.partition_key)
        )

    def in_state(self, *states: State) -> ColumnElement[bool]:
        """The part's submissions in these states, found through the index by partition and state."""
        if self.partition_key is not None:
            return and_(self.of(submissions), in_state(*states))
        return and_(
            self.of(submissions), _row.partition_key.in_(select(self._partitions().c.key)), in_state(*states)
        )

    def _partitions(self) -> CTE:
        """The keys of all partitions, each found by one step through an index."""
        steps = select(func.min(_row.partition_key).label("key")).where(self.of(submissions))
        keys = steps.cte("keys", recursive=True)
        following = select(func.min(_row.partition_key)).where(
            self.of(submissions), _row.partition_key > keys.c.key
        )
        return keys.union_all(select(following.scalar_subquery()).where(keys.c.key.is_not(None)))


def _is_item(one: FromClause, other: FromClause) -> ColumnElement[bool]:
    return and_(one.c.job_id == other.c.job_id, one.c.item_key == other.c.item_key)


def _same_target(other: FromClause) -> ColumnElement[bool]:
    return and_(*(other.c[name] == _row[name] for name in _TARGET))


def _superseded_by_nothing(part: _Part) -> Select[Any]:
    later = submissions.alias("later")
    return select(*_found).where(
        part.in_state(State.SUPERSEDED), ~exists().where(_same_target(later), later.c.attempt > _row.attempt)
    )


def _overtaken(part: _Part) -> Select[Any]:
    """Targets with a live row that is not their newest, and so also those with two."""
    earlier = submissions.alias("earlier")
    is_live = earlier.c.state != LITERAL[State.SUPERSEDED]
    return (
        select(*_found)
        .join(earlier, and_(_same_target(earlier), earlier.c.attempt < _row.attempt, is_live))
        .where(part.of(submissions), _row.attempt > 1)
    )


def _without_result(part: _Part) -> Select[Any] | CompoundSelect[Any]:
    crawled = exists().where(_result.job_id == _row.job_id, _is_crawl)
    if not part.is_merged:
        has_result = exists().where(_is_item(results, submissions))
        return select(*_found).where(part.in_state(State.STORED), ~has_result, ~crawled)
    lacking = _items_lacking(submissions, results)
    stored = select(*_found).where(part.has(submissions), in_state(State.STORED), ~crawled)
    return union_all(
        stored.join(
            lacking,
            and_(
                lacking.c.job_id == _row.job_id,
                lacking.c.item_key.is_not_distinct_from(_row.item_key),  # a row may have lost its key
            ),
        ),
        stored.where(_row.job_id.is_(None)),
    )


def _without_row(part: _Part) -> Select[Any] | CompoundSelect[Any]:
    of_result = _is_item(submissions, results)
    # The pages of a crawl belong to its one row, and some may be there before all of them are.
    crawled = exists().where(_row.job_id == _result.job_id, _is_crawl)
    found = select(_result.partition_key, _result.target_id)
    if not part.is_merged:
        accounted = exists().where(of_result, in_state(State.STORED, State.SUPERSEDED))
        return found.where(part.of(results), ~accounted, ~crawled)
    lacking = _items_lacking(results, submissions)
    return union_all(
        found.join(lacking, _is_item(lacking, results)).where(part.has(results), ~crawled),
        found.join(submissions, of_result).where(part.in_state(*_WITHOUT_PAGE), ~_is_crawl),
    )


def _items_lacking(one: Table, other: Table) -> Subquery:
    """The (job_id, item_key) in one table that are not in the other, by a merge of two ordered indexes."""
    ours, others = one.alias("ours"), other.alias("others")
    item = (ours.c.job_id, ours.c.item_key)
    lacking = except_(select(*item), select(others.c.job_id, others.c.item_key))
    return lacking.order_by(*item).limit(_ALL).subquery("lacking")


def _stored_twice(part: _Part) -> Select[Any]:
    found, item = (_result.partition_key, _result.target_id), (_result.job_id, _result.item_key)
    if part.partition_key is not None:
        return select(*found).where(part.of(results)).group_by(*found, *item).having(func.count() > 1)
    some = results.alias("some")
    twice = select(some.c.job_id, some.c.item_key).group_by(some.c.job_id, some.c.item_key)
    return (
        select(*found).where(part.has(results), tuple_(*item).in_(twice.having(func.count() > 1))).distinct()
    )


def _of_several_requests(part: _Part) -> Select[Any]:
    one, other = submissions.alias("one"), submissions.alias("other")
    shared = (
        select(one.c.job_id).where(one.c.job_id.is_not(None)).group_by(one.c.job_id).having(func.count() > 1)
    )
    several = (
        select(other.c.job_id)
        .where(other.c.job_id.in_(shared))
        .group_by(other.c.job_id)
        .having(func.min(other.c.request_id) != func.max(other.c.request_id))
    )
    return select(*_found).where(part.has(submissions), _row.job_id.in_(several))


def _sending_together(part: _Part) -> Select[Any]:
    other = submissions.alias("other")
    url = (other.c.account, other.c.url_hash)
    together = (
        select(*url)
        .where(other.c.state == LITERAL[State.SENDING])
        .group_by(*url)
        .having(func.count() > 1)
        .subquery()
    )
    return (
        select(*_found)
        .join(together, and_(together.c.account == _row.account, together.c.url_hash == _row.url_hash))
        .where(part.has(submissions), in_state(State.SENDING))
    )
