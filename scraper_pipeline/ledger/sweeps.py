"""What the sweep over the service's list of jobs needs to know, and what it leaves behind."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import and_, delete, exists, func, insert, select, true, update

from scraper_pipeline.ledger.base import StorePart, in_state
from scraper_pipeline.ledger.records import State, UnsettledJob
from scraper_pipeline.ledger.schema import (
    foreign_jobs,
    jobs,
    processed_events,
    submissions,
    sweeps,
)

KEPT_FOR = timedelta(days=30)
WATCHED = "given up"
_row, _event, _job, _sweep, _foreign = submissions.c, processed_events.c, jobs.c, sweeps.c, foreign_jobs.c

_is_watched = and_(in_state(State.DEAD), _row.given_up.is_(true()))


@dataclass(frozen=True)
class Offender:
    """A target that is not settled; ``since`` is when it was sent (UTC)."""

    kind: str
    partition_key: str
    target_id: str
    url: str
    job_id: str | None
    status: str | None
    since: datetime

    @property
    def is_watched(self) -> bool:
        return self.kind == WATCHED


class SweepStore(StorePart):
    """The sweep's watermark, the jobs that it looks for, and what is not settled."""

    def begin(self) -> int:
        """Note that a sweep begins, and forget those of long ago; returns its number."""
        now = self.clock()
        with self.writing() as connection:
            connection.execute(delete(sweeps).where(self.in_scope(sweeps), _sweep.began_at < now - KEPT_FOR))
            connection.execute(
                delete(foreign_jobs).where(
                    self.in_scope(foreign_jobs), _foreign.last_seen_at < now - KEPT_FOR
                )
            )
            row = {**self.scope_values, "began_at": now, "figures": {}}
            sweep_id: int = connection.execute(insert(sweeps).values(row).returning(_sweep.id)).scalar_one()
        return sweep_id

    def note_seen(self, sweep_id: int, until: datetime) -> None:
        """Every job made before ``until`` (service's time) was seen: the next sweep begins shortly before it."""
        with self.writing() as connection:
            connection.execute(update(sweeps).where(_sweep.id == sweep_id).values(seen_until=until))

    def end(self, sweep_id: int, figures: Mapping[str, int | float]) -> None:
        """Note what a sweep found."""
        with self.writing() as connection:
            connection.execute(
                update(sweeps)
                .where(_sweep.id == sweep_id)
                .values(ended_at=self.clock(), figures=dict(figures))
            )

    def seen_until(self) -> datetime | None:
        """The watermark: the service's time up to which the listing was seen whole; None before the first sweep."""
        with self.reading() as connection:
            seen_until: datetime | None = connection.scalar(
                select(func.max(_sweep.seen_until)).where(self.in_scope(sweeps))
            )
        return seen_until

    def last(self) -> tuple[datetime, Mapping[str, Any]] | None:
        """When the last sweep that came to its end did so, and what it found.

        Of several accounts, the figures of each one's last sweep together, and the end of the one that is longest ago.
        """
        found: list[Any] = []
        with self.reading() as connection:
            for one in self.each:
                found += connection.execute(
                    select(_sweep.ended_at, _sweep.figures)
                    .where(one.in_scope(sweeps), _sweep.ended_at.is_not(None))
                    .order_by(_sweep.began_at.desc(), _sweep.id.desc())
                    .limit(1)
                ).all()
        if not found:
            return None
        if len(found) == 1:
            return found[0].ended_at, found[0].figures
        total = Counter[str]()
        for row in found:
            total.update(row.figures)
        is_whole = all(row.figures.get("is_whole", 1) for row in found)
        return min(row.ended_at for row in found), {**total, "is_whole": int(is_whole)}

    def unsettled_jobs(self, sent_before: datetime, watched_since: datetime) -> list[UnsettledJob]:
        """Jobs sent before a moment that rows still wait for, or that were given up after ``watched_since``.

        Those whose news waits to be settled are left out: nothing more has to be learnt of them.
        """
        is_pending = exists().where(
            _event.job_id == _job.job_id, _event.processed_at.is_(None), _event.given_up_at.is_(None)
        )
        watched = and_(_is_watched, _row.accepted_at >= watched_since)
        found: dict[str, UnsettledJob] = {}
        with self.reading() as connection:
            for given_up, which in ((True, watched), (False, in_state(State.ACCEPTED))):
                rows = connection.execute(
                    select(_job.job_id, _job.kind, _job.sent_at, _job.accepted_at)
                    .join(submissions, _row.job_id == _job.job_id)
                    .where(self.in_scope(submissions), which, _row.sent_at <= sent_before, ~is_pending)
                    .distinct()
                )
                found.update(
                    (r.job_id, UnsettledJob(r.job_id, r.kind, r.sent_at, r.accepted_at, given_up))
                    for r in rows
                )
        return sorted(found.values(), key=lambda job: (job.sent_at, job.job_id))

    def pending_events(self, received_before: datetime) -> tuple[int, int]:
        """News received before a moment and not processed: how much of bound jobs, and of jobs that are not ours."""
        is_bound = exists().where(_row.job_id == _event.job_id)
        with self.reading() as connection:
            rows = connection.execute(
                select(is_bound.label("is_bound"), func.count().label("pending"))
                .where(
                    self.in_scope(processed_events),
                    _event.processed_at.is_(None),
                    _event.given_up_at.is_(None),
                    _event.received_at < received_before,
                )
                .group_by(is_bound)
            ).all()
        counts = {bool(row.is_bound): row.pending for row in rows}
        return int(counts.get(True, 0)), int(counts.get(False, 0))

    def oldest_unsettled_seconds(self) -> float:
        """The age of the oldest target that was sent and is not settled; 0 if there is none."""
        oldest = min(
            (offender.since for offender in self.offenders(1) if not offender.is_watched), default=None
        )
        return 0.0 if oldest is None else max(0.0, (self.clock() - oldest).total_seconds())

    def offenders(self, limit: int) -> list[Offender]:
        """Of the targets being sent, of those accepted, and of those given up and under watch, the oldest."""
        # The bound on the lease holds for every row; by it the index of the few rows being sent is found.
        sending = and_(in_state(State.SENDING), _row.lease_until < self.clock() + timedelta(days=1))
        found: list[Offender] = []
        with self.reading() as connection:
            for kind, which, age in (
                ("sending", sending, _row.lease_until),
                ("accepted", in_state(State.ACCEPTED), _row.sent_at),
                (WATCHED, _is_watched, _row.sent_at),
            ):
                rows = connection.execute(
                    select(
                        _row.partition_key, _row.target_id, _row.url, _row.job_id, _row.sent_at, _job.status
                    )
                    .outerjoin(jobs, _job.job_id == _row.job_id)
                    .where(self.in_scope(submissions), which)
                    .order_by(age)
                    .limit(limit)
                )  # fmt: skip
                found += [
                    Offender(kind, r.partition_key, r.target_id, r.url, r.job_id, r.status, r.sent_at)
                    for r in rows
                ]
        return sorted(found, key=lambda offender: (offender.is_watched, offender.since))
