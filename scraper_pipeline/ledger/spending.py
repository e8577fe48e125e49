"""What submissions may cost, what the account has committed to, and what its limits leave. Everything is in pages."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, and_, case, func, literal_column, or_, select

from scraper_pipeline.ledger.base import StorePart, in_state
from scraper_pipeline.ledger.records import CRAWL_LIMIT, Kind, State
from scraper_pipeline.ledger.schema import results, submissions

# How far the clocks of two hosts that submit for one account may be apart, without one missing what the other sent.
CLOCKS_APART = timedelta(seconds=60)
_REMEMBERED_ANEW = timedelta(seconds=15)
_row = submissions.c
IS_CRAWL = _row.kind == literal_column("'crawl'")
IS_PAGE = _row.kind != literal_column("'crawl'")
MOST_PAGES = func.coalesce(_row.options["limit"].as_integer(), CRAWL_LIMIT)
MAY_COST = case((IS_PAGE, 1), else_=MOST_PAGES)


@dataclass(frozen=True)
class PageLimit:
    """The most pages that the account commits to in what is sent from ``since`` on; ``name`` is how people know it."""

    name: str
    since: datetime
    pages: int


@dataclass(frozen=True)
class PlannedGroup:
    """How many planned targets of a partition share their kind and options."""

    kind: Kind
    options: Mapping[str, Any]
    targets: int


class Allowance:
    """The page limits that one run's claims keep to, whatever other runs claim at the same time.

    It remembers what was committed to until a minute ago, so that each claim counts only what came since. What fails
    later than it was remembered stays counted until the next run.
    """

    def __init__(self, limits: Iterable[PageLimit] = ()) -> None:
        self.limits = tuple(limits)
        self.left: dict[str, int] = {}
        """Pages that each limit had left at the latest claim, before it took any."""
        self.past: dict[PageLimit, tuple[datetime, int]] = {}
        """Until when each limit's pages are remembered, and how many they are."""


class SpendingStore(StorePart):
    """Reads only, but for the lock under which limits are kept."""

    def pages_committed_since(self, since: datetime) -> int:
        """How many pages the account was or may still be charged for among the rows sent since ``since``.

        Attempts that failed are not charged; what was submitted again on purpose was paid before.
        """
        with self.reading() as connection:
            return self._pages_committed(connection, since)

    def pages_left(self, limits: Iterable[PageLimit]) -> dict[str, int]:
        """How many pages each limit leaves at this moment, by its name."""
        return {limit.name: max(0, limit.pages - self.pages_committed_since(limit.since)) for limit in limits}

    def pages_planned(self, partition_key: str) -> int:
        """The most pages that the partition's planned rows may cost: one each, and of a crawl its limit."""
        with self.reading() as connection:
            planned = connection.scalar(
                select(func.sum(MAY_COST)).where(
                    self.in_scope(submissions), _row.partition_key == partition_key, in_state(State.PLANNED)
                )
            )
        return int(planned or 0)

    def planned_groups(self, partition_key: str) -> list[PlannedGroup]:
        """The partition's planned rows, grouped as requests are made of them."""
        columns = (_row.kind, _row.options)
        with self.reading() as connection:
            groups = connection.execute(
                select(*columns, func.count().label("targets"))
                .where(
                    self.in_scope(submissions), _row.partition_key == partition_key, in_state(State.PLANNED)
                )
                .group_by(*columns)
            ).all()
        return [PlannedGroup(Kind(group.kind), group.options, group.targets) for group in groups]

    def _remember_past(self, allowance: Allowance) -> None:
        """Count what lies behind, before a claim begins: for a month that takes too long to be done under its lock."""
        until = self.clock() - CLOCKS_APART
        for limit in allowance.limits:
            begin, pages = allowance.past.get(limit, (limit.since, 0))
            if until < begin or (limit in allowance.past and until - begin < _REMEMBERED_ANEW):
                continue
            with self.reading() as connection:
                pages += self._pages_committed(connection, begin, until)
            allowance.past[limit] = (until, pages)

    def _room(self, connection: Connection, allowance: Allowance | None) -> int | None:
        """How many pages this transaction may claim; None without a limit.

        The claims of an account that have a limit wait for each other until they have committed: on SQLite as every
        writer does, on Postgres for a lock of their own.
        """
        if allowance is None or not allowance.limits:
            return None
        if connection.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(_lock_key(self.scope.account))))
        since: dict[datetime, int] = {}
        for limit in allowance.limits:
            begin, pages = allowance.past.get(limit, (limit.since, 0))
            if begin not in since:
                since[begin] = self._pages_committed(connection, begin)
            allowance.left[limit.name] = max(0, limit.pages - pages - since[begin])
        return min(allowance.left.values())

    def _pages_committed(
        self, connection: Connection, since: datetime, before: datetime | None = None
    ) -> int:
        of_job = results.c.job_id == _row.job_id
        # By name, since a role that reads figures may read no other column of it.
        of_item = or_(IS_CRAWL, results.c.item_key == _row.item_key)
        has_result = select(results.c.job_id).where(of_job, of_item).exists()
        crawled = select(func.count()).select_from(results).where(of_job).scalar_subquery()
        pages = case((IS_PAGE, 1), (in_state(State.SENDING, State.ACCEPTED), MOST_PAGES), else_=crawled)
        sent = and_(self.is_ours(submissions), _row.sent_at >= since)
        committed = connection.scalar(
            select(func.sum(pages))
            .select_from(submissions)
            .where(
                sent if before is None else and_(sent, _row.sent_at < before),
                or_(
                    in_state(State.SENDING, State.ACCEPTED, State.STORED),
                    and_(in_state(State.DEAD, State.SUPERSEDED), or_(_row.given_up, has_result)),
                ),
            )
        )
        return int(committed or 0)  # Postgres adds whole numbers up to a decimal


def _lock_key(account: str) -> int:
    digest = hashlib.sha256(f"page limits of {account}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
