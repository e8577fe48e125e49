"""Rule 3: news of bound jobs is claimed, so that one settlement at a time works on a job."""

import uuid
from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Any

from sqlalchemy import and_, func, or_, select, update

from scraper_pipeline.ledger.base import StorePart, chunked, in_state
from scraper_pipeline.ledger.records import Channel, ClaimedJob, Kind, State
from scraper_pipeline.ledger.schema import jobs, processed_events, submissions

_row, _event, _job = submissions.c, processed_events.c, jobs.c

_TOLD = tuple(_event[f"{channel}_at"] for channel in Channel)


class ClaimStore(StorePart):
    """Who works on which job now."""

    def claim(
        self, partition_key: str, limit: int, lease_seconds: float, kinds: Collection[str] = (Kind.EXTRACT,)
    ) -> list[ClaimedJob]:
        """Take up to ``limit`` jobs with unprocessed news that rows of this partition are bound to (rule 3).

        Until the lease ends no other caller gets them; an answer whose claim was lost meanwhile is dropped at commit.
        """
        now, token = self.clock(), uuid.uuid4().hex
        # Looked up event by event, by nothing but its id: of a join, or of another index, Postgres makes a loop over
        # everything while it has no statistics.
        is_mine = (
            select(and_(self.in_scope(jobs), _job.partition_key == partition_key, _job.kind.in_(kinds)))
            .where(_job.job_id == _event.job_id)
            .scalar_subquery()
        )
        pending = (
            select(_event.job_id)
            .where(
                _event.account == self.scope.account,
                _event.processed_at.is_(None),
                _event.given_up_at.is_(None),
                _event.available_at <= now,
                is_mine,
            )
            .order_by(_event.available_at, _event.job_id)
            .limit(limit)
            .with_for_update(skip_locked=True)
            .cte("pending")
        )
        with self.writing() as connection:
            claimed = connection.execute(
                update(processed_events)
                .where(_event.job_id.in_(select(pending.c.job_id)), _event.processed_at.is_(None))
                .values(
                    claimed_by=token,
                    available_at=now + timedelta(seconds=lease_seconds),
                    tries=_event.tries + 1,
                )
                .returning(_event.job_id, _event.tries, *_TOLD)
            ).all()
            tries = {row.job_id: row.tries for row in claimed}
            reported = {row.job_id: min((at for at in row[2:] if at), default=None) for row in claimed}
            found: list[Any] = []
            for chunk in chunked(tries):
                found += connection.execute(
                    select(
                        _job.job_id, _job.kind, _job.accepted_at, _job.missing_since, _job.pages_read,
                        func.min(_row.url).label("url"), func.min(_row.item_key).label("item_key"),
                    )
                    .join(submissions, _row.job_id == _job.job_id)
                    .where(self.among(_job.job_id, chunk))
                    .group_by(_job.job_id, _job.kind, _job.accepted_at, _job.missing_since, _job.pages_read)
                ).all()  # fmt: skip
        return [
            ClaimedJob(
                r.job_id,
                r.kind,
                token,
                r.url,
                r.item_key,
                r.accepted_at,
                r.missing_since,
                tries[r.job_id],
                r.pages_read,
                reported[r.job_id],
                self.scope.account,
            )
            for r in sorted(found, key=lambda r: r.job_id)
        ]

    def waiting_items(self, job_id: str) -> dict[str, str]:
        """The items that rows still wait for, or would take back after they were given up: their keys and URLs."""
        waiting = or_(in_state(State.ACCEPTED), and_(in_state(State.DEAD), _row.given_up))
        with self.reading() as connection:
            rows = connection.execute(select(_row.item_key, _row.url).where(_row.job_id == job_id, waiting))
            return {row.item_key: row.url for row in rows}

    def release(self, claimed: Iterable[ClaimedJob]) -> None:
        """Give claimed jobs back untouched, for anyone to take at once."""
        for chunk in chunked(claimed):
            with self.writing() as connection:
                connection.execute(
                    update(processed_events)
                    .where(
                        self.among(_event.job_id, [job.job_id for job in chunk]),
                        self.among(_event.claimed_by, sorted({job.claim for job in chunk})),
                        _event.processed_at.is_(None),
                    )
                    .values(available_at=self.clock(), claimed_by=None, tries=_event.tries - 1)
                )
