"""Rule 1: planned rows are claimed for sending, one by one or as a batch, under request ids never used before."""

import uuid
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
    exists,
    func,
    literal,
    literal_column,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.exc import IntegrityError, OperationalError

from scraper_pipeline.ledger.base import StorePart, chunked, in_state
from scraper_pipeline.ledger.records import BatchTerms, ClaimedSubmission, Kind, State
from scraper_pipeline.ledger.schema import LITERAL, submissions

CLAIM_TRIES = 5
CRAWL_LIMIT = 50  # the service's own, where a crawl names none
_row = submissions.c
IS_CRAWL = _row.kind == literal_column("'crawl'")
IS_PAGE = _row.kind != literal_column("'crawl'")
MOST_PAGES = func.coalesce(_row.options["limit"].as_integer(), CRAWL_LIMIT)
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


class SendingStore(StorePart):
    """Who may send what now."""

    def claim(
        self, partition_key: str, limit: int, lease_seconds: float, terms: BatchTerms | None = None
    ) -> list[ClaimedSubmission]:
        """Take due rows from planned to sending, each request under an id never used before (rule 1).

        Up to ``limit`` rows, each a request of its own; or where ``terms`` allow it, up to as many rows with equal
        options as one batch takes, under one request. A row waits while another one of its URL is sending in any
        partition; what stands behind it doesn't.
        """
        for remaining in reversed(range(CLAIM_TRIES)):
            try:
                with self.writing() as connection:
                    if terms is None:
                        chosen = self._claimable(partition_key, limit, self.clock(), where=IS_PAGE)
                        return self._claim(connection, select(chosen.cte("chosen").c.id), lease_seconds)
                    return self._claim_group(connection, partition_key, limit, lease_seconds, terms)
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
        """Claim rows that share the options of the one that has waited longest: as a batch, or one by one."""
        now = self.clock()
        first = connection.execute(
            self._claimable(partition_key, 1, now, _row.options, _row.kind, where=IS_PAGE)
        ).first()
        if first is None:
            return []
        fits = first.kind != Kind.ALONE and terms.fits(first.options)
        alike = and_(
            IS_PAGE, _row.options == first.options, (_row.kind == Kind.ALONE) == (first.kind == Kind.ALONE)
        )
        most = max(limit, terms.largest) if fits else limit
        row_ids = list(connection.scalars(self._claimable(partition_key, most, now, where=alike)))
        is_batch = fits and len(row_ids) >= terms.smallest
        claimed: list[ClaimedSubmission] = []
        request_id = uuid.uuid4().hex if is_batch else None
        for chunk in chunked(row_ids[: terms.largest if is_batch else limit]):
            claimed += self._claim(connection, chunk, lease_seconds, request_id)
        return claimed

    def claim_crawl(
        self, partition_key: str, room: int | None, lease_seconds: float
    ) -> list[ClaimedSubmission]:
        """Take the first due crawl that can't cost more than ``room`` pages, if there is one, as ``claim`` does."""
        fits = IS_CRAWL if room is None else and_(IS_CRAWL, room >= MOST_PAGES)
        try:
            with self.writing() as connection:
                chosen = self._claimable(partition_key, 1, self.clock(), where=fits).cte("chosen")
                return self._claim(connection, select(chosen.c.id), lease_seconds)
        except IntegrityError:
            return []  # another process sends the same URL at this moment

    def has_due_crawl(self, partition_key: str) -> bool:
        """Whether a crawl could be sent now if only there were room for all that it may cost."""
        with self.reading() as connection:
            due = self._claimable(partition_key, 1, self.clock(), where=IS_CRAWL)
            return connection.execute(due).first() is not None

    def pages_planned(self, partition_key: str) -> int:
        """The most pages that the partition's planned rows may cost: one each, and of a crawl its limit."""
        pages = case((IS_PAGE, 1), else_=MOST_PAGES)
        with self.reading() as connection:
            planned = connection.scalar(
                select(func.sum(pages)).where(
                    self.in_scope(submissions), _row.partition_key == partition_key, in_state(State.PLANNED)
                )
            )
        return planned or 0

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

    def split(self, request_id: str, lease_seconds: float) -> list[ClaimedSubmission]:
        """Give each row of a batch that certainly made no job a request of its own, under a new lease (rule 2)."""
        now = self.clock()
        with self.writing() as connection:
            rows = connection.execute(
                update(submissions)
                .where(_row.request_id == request_id, in_state(State.SENDING))
                .values(
                    kind=Kind.EXTRACT,
                    request_id=literal(f"{uuid.uuid4().hex}-", String) + cast(_row.id, String),
                    sent_at=now,
                    lease_until=now + timedelta(seconds=lease_seconds),
                )
                .returning(*_CLAIMED)
            ).all()
        return [_claimed_submission(row) for row in sorted(rows, key=lambda r: r.id)]

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
        planned = other.c.state == LITERAL[State.PLANNED]
        earlier_here = and_(
            other.c.feed == _row.feed,
            other.c.partition_key == _row.partition_key,
            other.c.id < _row.id,
            (other.c.kind == Kind.CRAWL) == IS_CRAWL,
            or_(other.c.not_before.is_(None), other.c.not_before <= now),
        )
        waiting = other.c.state.in_([LITERAL[State.PLANNED], LITERAL[State.SENDING]])
        return (
            select(*(columns or (_row.id,)))
            .where(
                self.in_scope(submissions),
                _row.partition_key == partition_key,
                in_state(State.PLANNED),
                true() if where is None else where,
                or_(_row.not_before.is_(None), _row.not_before <= now),
                ~exists().where(same_url, waiting, or_(sending, and_(planned, earlier_here))),
            )
            .order_by(_row.id)
            .limit(limit)
            .with_for_update(skip_locked=True)
        )
