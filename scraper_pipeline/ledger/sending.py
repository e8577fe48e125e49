"""Rule 1: planned rows are claimed for sending, one by one or as a batch, under request ids never used before."""

import uuid
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    String,
    and_,
    case,
    cast,
    func,
    literal,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.exc import IntegrityError, OperationalError

from scraper_pipeline.ledger.base import chunked, in_state
from scraper_pipeline.ledger.records import BatchTerms, ClaimedSubmission, Kind, State
from scraper_pipeline.ledger.schema import LITERAL, submissions
from scraper_pipeline.ledger.spending import IS_CRAWL, IS_PAGE, MOST_PAGES, Allowance, SpendingStore

CLAIM_TRIES = 5
GROUPS_TRIED = 20
_row = submissions.c
_CLAIMED = (
    _row.id, _row.request_id, _row.target_id, _row.attempt, _row.url, _row.options, _row.kind, _row.sent_at,
    _row.lease_until,
)  # fmt: skip


def _claimed_submission(row: Any) -> ClaimedSubmission:
    return ClaimedSubmission(
        row.request_id,
        row.target_id,
        row.attempt,
        row.url,
        row.options,
        row.sent_at,
        row.lease_until,
        Kind(row.kind),
    )


def _within(terms: BatchTerms, room: int | None) -> BatchTerms:
    return terms if room is None else replace(terms, largest=min(terms.largest, room))


class SendingStore(SpendingStore):
    """Who may send what now."""

    def claim(
        self,
        partition_key: str,
        limit: int,
        lease_seconds: float,
        terms: BatchTerms | None = None,
        allowance: Allowance | None = None,
    ) -> list[ClaimedSubmission]:
        """Take due rows from planned to sending, each request under an id never used before (rule 1).

        Up to ``limit`` rows, each a request of its own; or where ``terms`` allow it, up to as many rows with equal
        options as one batch takes, under one request. With a ``limit`` of 0 only a batch is taken. A row waits while
        another one of its URL is sending in any partition; what stands behind it doesn't. No more pages are claimed
        than the ``allowance`` has left when the claim is committed.
        """
        if allowance:
            self._remember_past(allowance)
        for remaining in reversed(range(CLAIM_TRIES)):
            try:
                with self.writing() as connection:
                    room = self._room(connection, allowance)
                    most = limit if room is None else min(limit, room)
                    if terms is not None:
                        return self._claim_group(
                            connection, partition_key, most, lease_seconds, _within(terms, room)
                        )
                    if most <= 0:
                        return []
                    chosen = self._claimable(partition_key, most, self.clock(), where=IS_PAGE)
                    return self._claim(connection, select(chosen.cte("chosen").c.id), lease_seconds)
            except (IntegrityError, OperationalError):
                # another process claimed the same URL in another partition between our look and our commit
                if not remaining:
                    raise
        raise AssertionError("unreachable")

    def _claim_group(
        self,
        connection: Connection,
        partition_key: str,
        limit: int,
        lease_seconds: float,
        terms: BatchTerms,
    ) -> list[ClaimedSubmission]:
        """Claim rows that share the options of the one that has waited longest: as a batch, or one by one.

        Where nothing may go one by one, what makes no batch is passed over.
        """
        now = self.clock()
        choice = IS_PAGE if limit > 0 else and_(IS_PAGE, _row.kind != Kind.ALONE)
        for _ in range(GROUPS_TRIED):
            first = connection.execute(
                self._claimable(partition_key, 1, now, _row.options, _row.kind, where=choice)
            ).first()
            if first is None or max(limit, terms.largest) <= 0:
                return []
            fits = first.kind != Kind.ALONE and terms.fits(first.options)
            alike = and_(
                IS_PAGE,
                _row.options == first.options,
                (_row.kind == Kind.ALONE) == (first.kind == Kind.ALONE),
            )
            most = max(limit, terms.largest) if fits else limit
            row_ids = list(connection.scalars(self._claimable(partition_key, most, now, where=alike)))
            is_batch = fits and len(row_ids) >= terms.smallest
            if is_batch or limit > 0:
                break
            choice = and_(choice, _row.options != first.options)
        else:
            return []
        claimed: list[ClaimedSubmission] = []
        request_id = uuid.uuid4().hex if is_batch else None
        for chunk in chunked(row_ids[: terms.largest if is_batch else limit]):
            claimed += self._claim(connection, chunk, lease_seconds, request_id)
        return claimed

    def claim_crawl(
        self,
        partition_key: str,
        room: int | None,
        lease_seconds: float,
        allowance: Allowance | None = None,
    ) -> list[ClaimedSubmission]:
        """Take the first due crawl that can't cost more than ``room`` pages, if there is one, as ``claim`` does."""
        if allowance:
            self._remember_past(allowance)
        try:
            with self.writing() as connection:
                allowed = self._room(connection, allowance)
                room = allowed if room is None else room if allowed is None else min(room, allowed)
                fits = IS_CRAWL if room is None else and_(IS_CRAWL, room >= MOST_PAGES)
                chosen = self._claimable(partition_key, 1, self.clock(), where=fits).cte("chosen")
                return self._claim(connection, select(chosen.c.id), lease_seconds)
        except IntegrityError:
            return []  # another process sends the same URL at this moment

    def has_due(self, partition_key: str) -> bool:
        """Whether anything of the partition could be sent now, if only there were room for it."""
        with self.reading() as connection:
            return connection.execute(self._claimable(partition_key, 1, self.clock())).first() is not None

    def _claim(
        self,
        connection: Connection,
        row_ids: "Select[tuple[int]] | list[int]",
        lease_seconds: float,
        batch_request_id: str | None = None,
    ) -> list[ClaimedSubmission]:
        now = self.clock()
        lease_until = now + timedelta(seconds=lease_seconds)
        own_request_id = literal(f"{uuid.uuid4().hex}-", String) + cast(_row.id, String)
        single = case((IS_CRAWL, literal(str(Kind.CRAWL))), else_=literal(str(Kind.EXTRACT)))
        claimed = connection.execute(
            update(submissions)
            .where(_row.id.in_(row_ids), in_state(State.PLANNED))
            .values(
                state=State.SENDING,
                kind=Kind.BATCH if batch_request_id else single,
                request_id=batch_request_id or own_request_id,
                sent_at=now,
                lease_until=lease_until,
            )
            .returning(*_CLAIMED)
        ).all()
        return [_claimed_submission(row) for row in sorted(claimed, key=lambda r: r.id)]

    def set_apart(self, request_ids: Iterable[str]) -> int:
        """Plan the rows of batches that were refused as a whole, and so made no job, to go out one by one (rule 2)."""
        apart, moved_partitions = 0, set[str]()
        with self.writing() as connection:
            for chunk in chunked(request_ids):
                rows = connection.execute(
                    update(submissions)
                    .where(_row.request_id.in_(chunk), in_state(State.SENDING))
                    .values(
                        state=State.PLANNED, kind=Kind.ALONE, request_id=None, sent_at=None, lease_until=None
                    )
                    .returning(_row.partition_key)
                ).all()
                apart += len(rows)
                moved_partitions.update(row.partition_key for row in rows)
            self.bump_revisions(connection, moved_partitions)
        return apart

    def _claimable(
        self,
        partition_key: str,
        limit: int,
        now: datetime,
        *columns: ColumnElement[Any],
        where: ColumnElement[bool] | None = None,
    ) -> "Select[Any]":
        """The ids of the rows that may be claimed now, first planned first, or other columns of them."""
        other = submissions.alias()
        same_url = and_(other.c.account == _row.account, other.c.url_hash == _row.url_hash)
        sending = other.c.state == LITERAL[State.SENDING]
        earlier_here = and_(
            other.c.feed == _row.feed,
            other.c.partition_key == _row.partition_key,
            other.c.id < _row.id,
            (other.c.kind == Kind.CRAWL) == IS_CRAWL,
            or_(other.c.not_before.is_(None), other.c.not_before <= now),
        )
        waiting = other.c.state.in_([LITERAL[State.PLANNED], LITERAL[State.SENDING]])
        # Counted row by row: of NOT EXISTS, Postgres makes a join of everything planned while it has no statistics.
        # A CASE: of an OR, SQLite looks through all that was planned earlier instead of the few rows of the URL.
        ahead = (
            select(func.count())
            .select_from(other)
            .where(same_url, waiting, case((sending, true()), else_=earlier_here))
            .scalar_subquery()
        )
        return (
            select(*(columns or (_row.id,)))
            .where(
                self.in_scope(submissions),
                _row.partition_key == partition_key,
                in_state(State.PLANNED),
                true() if where is None else where,
                or_(_row.not_before.is_(None), _row.not_before <= now),
                ahead == 0,
            )
            .order_by(_row.id)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
