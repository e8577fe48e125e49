"""Jobs of other programs on the same account: kept for the operator, and adopted only where that is asked for."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, exists, func, select

from scraper_pipeline.ledger.base import StorePart, chunked, in_state
from scraper_pipeline.ledger.records import ForeignJob, Kind, State, Target, hash_url
from scraper_pipeline.ledger.schema import foreign_jobs, jobs, submissions

_row, _foreign = submissions.c, foreign_jobs.c


class ForeignJobStore(StorePart):
    """One row a job that no submission is bound to."""

    def being_sent(self) -> tuple[set[str], set[Kind]]:
        """Of the account's submissions that were not answered yet, in any feed: the URLs, and the kinds."""
        with self.reading() as connection:
            rows = connection.execute(
                select(_row.url, _row.kind).where(_row.account == self.scope.account, in_state(State.SENDING))
            ).all()
        return {row.url for row in rows}, {Kind(row.kind) for row in rows}

    def note(self, found: Sequence[ForeignJob]) -> int:
        """Keep the jobs of other programs for the operator; returns how many were seen for the first time."""
        now, added = self.clock(), 0
        for chunk in chunked(sorted(found, key=lambda job: job.job_id)):
            rows = [
                {
                    **self.scope_values,
                    "job_id": job.job_id,
                    "kind": job.kind,
                    "url": job.url,
                    "status": job.status,
                    "created_at": job.created_at,
                    "first_seen_at": now,
                    "last_seen_at": now,
                }
                for job in chunk
            ]
            statement = self.insert(foreign_jobs)
            with self.writing() as connection:
                known = set(
                    connection.scalars(
                        select(_foreign.job_id).where(_foreign.job_id.in_([job.job_id for job in chunk]))
                    )
                )
                connection.execute(
                    statement.on_conflict_do_update(
                        index_elements=["job_id"],
                        set_={name: statement.excluded[name] for name in ("status", "last_seen_at")},
                    ),
                    rows,
                )
            added += len(chunk) - len(known)
        return added

    def forget_ours(self) -> None:
        """Drop the jobs that turned out to be ours: a submission was bound to them later."""
        with self.writing() as connection:
            connection.execute(
                delete(foreign_jobs).where(
                    self.in_scope(foreign_jobs), exists().where(_row.job_id == _foreign.job_id)
                )
            )

    def newest(self, limit: int) -> tuple[int, list[ForeignJob]]:
        """How many jobs of other programs were seen in the last days, and the newest of them."""
        with self.reading() as connection:
            count = connection.scalar(
                select(func.count()).select_from(foreign_jobs).where(self.in_scope(foreign_jobs))
            )
            rows = connection.execute(
                select(_foreign.job_id, _foreign.kind, _foreign.url, _foreign.status, _foreign.created_at)
                .where(self.in_scope(foreign_jobs))
                .order_by(_foreign.first_seen_at.desc(), _foreign.job_id)
                .limit(limit)
            ).all()
        return count or 0, [ForeignJob(r.job_id, r.url, r.status, r.created_at, Kind(r.kind)) for r in rows]

    def adopt(self, job: ForeignJob, partition_key: str, target: Target, sent_at: datetime) -> bool:
        """Take a job of another program for the target's, as if it had been submitted by us.

        Nothing changes, and False is returned, if the partition has the target already, or the job is bound or no
        single one.
        """
        if job.kind is not Kind.EXTRACT or job.url is None:
            return False  # a batch or crawl is for many targets
        now = self.clock()
        is_bound = select(_row.id).where(_row.job_id == job.job_id)
        has_target = select(_row.id).where(
            self.in_scope(submissions),
            _row.partition_key == partition_key,
            _row.target_id == target.target_id,
        )
        row = {
            **self.scope_values,
            "partition_key": partition_key,
            "target_id": target.target_id,
            "attempt": 1,
            "url": target.url,
            "url_hash": hash_url(target.url),
            "options": dict(target.options),
            "labels": dict(target.labels),
            "state": State.ACCEPTED,
            "planned_at": now,
            "request_id": f"adopted-{job.job_id}",
            "sent_at": sent_at,
            "accepted_at": now,
            "job_id": job.job_id,
            "item_key": hash_url(target.url),
        }
        known = {
            **self.scope_values,
            "job_id": job.job_id,
            "partition_key": partition_key,
            "kind": "extract",
            "status": job.status,
            "sent_at": sent_at,
            "accepted_at": now,
            "next_look_at": now,
        }
        with self.writing() as connection:
            if connection.execute(is_bound).first() or connection.execute(has_target).first():
                return False
            inserted = connection.execute(
                self.insert(submissions).values(row).on_conflict_do_nothing().returning(_row.id)
            ).first()
            if inserted is None:  # another sweep was quicker
                return False
            connection.execute(self.insert(jobs).values(known).on_conflict_do_nothing())
            self.bump_revisions(connection, [partition_key])
        return True
