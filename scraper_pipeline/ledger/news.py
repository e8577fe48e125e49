"""News of jobs, whichever channel brings it, and when each job is to be looked at next."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import case, func, or_, select, update

from scraper_pipeline.ledger.base import StorePart, chunked
from scraper_pipeline.ledger.records import Channel, DueJob
from scraper_pipeline.ledger.schema import jobs, processed_events

LOOK_LEASE_SECONDS = 30.0
_event, _job = processed_events.c, jobs.c


class NewsStore(StorePart):
    """One row a job, however often and from wherever its end is reported."""

    def record(self, job_ids: Iterable[str], channel: Channel) -> None:
        """Note terminal evidence of these jobs; the first time of each channel is kept.

        A given-up job is reopened; ``processed_at`` is never cleared. Jobs need not be bound yet: their news waits.
        """
        self._record(job_ids, {f"{channel}_at": self.clock()}, reopen=True)

    def request_settlement(self, job_ids: Iterable[str]) -> None:
        """Have these jobs looked at by a settlement although no channel has reported their end."""
        self._record(job_ids, {}, reopen=False)

    def _record(self, job_ids: Iterable[str], seen: Mapping[str, datetime], reopen: bool) -> None:
        now = self.clock()
        for chunk in chunked(sorted(set(job_ids))):
            rows = [
                {**self.scope_values, "job_id": job_id, "received_at": now, "available_at": now, **seen}
                for job_id in chunk
            ]
            statement = self.insert(processed_events)
            # A webhook's secret tells its account less surely than whoever asked the service with the account's key.
            changes: dict[str, Any] = {"account": statement.excluded.account}
            is_another = None if seen else _event.account != self.scope.account
            changes |= {name: func.coalesce(_event[name], statement.excluded[name]) for name in seen}
            if reopen:
                changes["given_up_at"] = None
                changes["available_at"] = case(
                    (_event.given_up_at.is_not(None), statement.excluded.available_at),
                    else_=_event.available_at,
                )
            with self.writing() as connection:
                connection.execute(
                    statement.on_conflict_do_update(
                        index_elements=["job_id"], set_=changes, where=is_another
                    ),
                    rows,
                )

    def take_over(self) -> int:
        """Make news of jobs of this scope its own where a webhook has left it under another account.

        Two accounts may be given the same secret, or a secret that says no account. Returns how many jobs it was.
        """
        is_mine = select(_job.job_id).where(_job.job_id == _event.job_id, self.in_scope(jobs)).exists()
        # As two ranges, which both databases find in the index: mostly there is nobody else's.
        is_of_another = or_(_event.account < self.scope.account, _event.account > self.scope.account)
        with self.writing() as connection:
            return connection.execute(
                update(processed_events)
                .where(
                    is_of_another,
                    _event.processed_at.is_(None),
                    _event.given_up_at.is_(None),
                    is_mine,
                )
                .values(**self.scope_values)
            ).rowcount

    def take_due_jobs(self, limit: int) -> list[DueJob]:
        """Jobs whose next look is due, longest overdue first; a second caller gets others for the next half minute."""
        now = self.clock()
        with self.writing() as connection:
            due = (
                select(_job.job_id)
                .where(self.in_scope(jobs), _job.next_look_at <= now)
                .order_by(_job.next_look_at)
                .limit(limit)
                .with_for_update(skip_locked=True)
                .cte("due")
            )
            rows = connection.execute(
                update(jobs)
                .where(_job.job_id.in_(select(due.c.job_id)), _job.next_look_at <= now)
                .values(next_look_at=now + timedelta(seconds=LOOK_LEASE_SECONDS))
                .returning(_job.job_id, _job.kind, _job.sent_at, _job.accepted_at, _job.looks)
            ).all()
            given_up: set[str] = set()
            for chunk in chunked([row.job_id for row in rows]):
                given_up.update(
                    connection.scalars(
                        select(_event.job_id).where(_event.job_id.in_(chunk), _event.given_up_at.is_not(None))
                    )
                )
        return [
            DueJob(r.job_id, r.kind, r.sent_at, r.accepted_at, r.looks, r.job_id in given_up)
            for r in sorted(rows, key=lambda r: (r.accepted_at, r.job_id))
        ]

    def watched(self, job_ids: Iterable[str]) -> set[str]:
        """Those of the jobs that are looked at again some time: bound, and not known to have ended."""
        found: set[str] = set()
        with self.reading() as connection:
            for chunk in chunked(job_ids):
                found.update(
                    connection.scalars(
                        select(_job.job_id).where(
                            self.in_scope(jobs), _job.job_id.in_(chunk), _job.next_look_at.is_not(None)
                        )
                    )
                )
        return found

    def count_jobs_accepted(self, start: datetime, end: datetime, kind: str, at_most: int) -> int:
        """How many jobs of a kind were accepted on the account within [start, end]: what a listing holds at least.

        Counts no further than ``at_most``.
        """
        accepted = (
            select(_job.accepted_at)
            .where(
                _job.account == self.scope.account,
                _job.kind == kind,
                _job.accepted_at >= start,
                _job.accepted_at <= end,
            )
            .limit(at_most)
            .subquery()
        )
        with self.reading() as connection:
            return connection.scalar(select(func.count()).select_from(accepted)) or 0

    def schedule_looks(self, looks: Mapping[str, datetime | None], statuses: Mapping[str, str]) -> None:
        """Set when each job is looked at next (None: not again), and the status that the look showed, verbatim."""
        alike: dict[tuple[datetime | None, str | None], list[str]] = {}
        for job_id, look_at in looks.items():
            alike.setdefault((look_at, statuses.get(job_id)), []).append(job_id)
        with self.writing() as connection:
            for chunk in chunked(sorted(looks)):  # in the order of a commit, which may hold some of them
                mine = select(_job.job_id).where(_job.job_id.in_(chunk)).order_by(_job.job_id)
                connection.execute(mine.with_for_update()).all()
            for (look_at, status), job_ids in alike.items():
                changes: dict[str, Any] = {"next_look_at": look_at, "looks": _job.looks + 1}
                if status is not None:
                    changes["status"] = status
                for chunk in chunked(job_ids):
                    connection.execute(update(jobs).where(_job.job_id.in_(chunk)).values(changes))

    def seconds_until_next_look(self) -> float | None:
        """How long until some job's look is due (0 if one is), or None if none is planned."""
        with self.reading() as connection:
            soonest = connection.scalar(
                select(func.min(_job.next_look_at)).where(self.in_scope(jobs), _job.next_look_at.is_not(None))
            )
        return None if soonest is None else max(0.0, (soonest - self.clock()).total_seconds())
