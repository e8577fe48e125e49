"""Rules 1, 2 and 5: targets are planned, claimed, recorded with their job, and resolved when the answer was lost."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import (
    ColumnElement,
    Connection,
    and_,
    case,
    exists,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from scraper_pipeline.ledger.base import chunked, in_state
from scraper_pipeline.ledger.letters import letter_row
from scraper_pipeline.ledger.planning import PlanningStore
from scraper_pipeline.ledger.records import (
    AcceptedSubmission,
    Kind,
    LetterCode,
    OverdueSubmission,
    RefusedSubmission,
    State,
)
from scraper_pipeline.ledger.schema import dead_letters, jobs, submissions
from scraper_pipeline.ledger.sending import SendingStore

INVALID_URL = "INVALID_URL"
_row = submissions.c


class SubmissionStore(PlanningStore, SendingStore):
    """The life of a submission up to the moment when its job is known."""

    def record_accepted(self, accepted: Sequence[AcceptedSubmission], first_look_at: datetime) -> int:
        """Bind each job to the row whose request made it (rule 2); returns how many rows moved."""
        try:
            with self.writing() as connection:
                return self._bind(connection, accepted, first_look_at)
        except IntegrityError:
            # A resolution has bound one of these jobs meanwhile; it must not keep the others from being recorded.
            if len(accepted) == 1:
                return 0
            return sum(self.record_accepted([acceptance], first_look_at) for acceptance in accepted)

    def _bind(
        self, connection: Connection, accepted: Sequence[AcceptedSubmission], first_look_at: datetime
    ) -> int:
        now, moved_partitions, moved = self.clock(), set[str](), 0
        for acceptance in accepted:
            other = submissions.alias()
            bound_elsewhere = exists().where(
                other.c.job_id == acceptance.job_id, other.c.request_id != acceptance.request_id
            )
            rows = connection.execute(
                update(submissions)
                .where(_row.request_id == acceptance.request_id, in_state(State.SENDING), ~bound_elsewhere)
                .values(
                    state=State.ACCEPTED,
                    job_id=acceptance.job_id,
                    item_key=_row.url_hash,
                    accepted_at=now,
                    lease_until=None,
                )
                .returning(_row.partition_key, _row.sent_at)
            ).all()
            if rows:
                job = {
                    **self.scope_values,
                    "job_id": acceptance.job_id,
                    "partition_key": rows[0].partition_key,
                    "kind": acceptance.kind,
                    "status": "queued",
                    "sent_at": min(row.sent_at for row in rows),
                    "accepted_at": now,
                    "next_look_at": first_look_at,
                }
                connection.execute(self.insert(jobs).values(job).on_conflict_do_nothing())
                moved_partitions.add(rows[0].partition_key)
                moved += len(rows)
                self._park_invalid(connection, acceptance, now)
        self.bump_revisions(connection, moved_partitions)
        return moved

    def _park_invalid(self, connection: Connection, acceptance: AcceptedSubmission, now: datetime) -> None:
        """Park the rows whose URLs the service left out of a batch: no item will ever speak of them."""
        for keys in chunked(sorted(acceptance.invalid)):
            left_out = and_(
                _row.request_id == acceptance.request_id, _row.item_key.in_(keys), in_state(State.ACCEPTED)
            )
            self._park(connection, left_out, INVALID_URL, "The service takes this URL for invalid.", now)

    def record_refused(self, refused: Sequence[RefusedSubmission]) -> int:
        """Park the rows whose targets the service refused for good (rule 2); returns how many."""
        now, moved_partitions, parked = self.clock(), set[str](), 0
        with self.writing() as connection:
            for refusal in refused:
                mine = and_(_row.request_id == refusal.request_id, in_state(State.SENDING))
                rows = self._park(connection, mine, refusal.code, refusal.message, now)
                moved_partitions.update(row.partition_key for row in rows)
                parked += len(rows)
            self.bump_revisions(connection, moved_partitions)
        return parked

    def _park(
        self,
        connection: Connection,
        which: ColumnElement[bool],
        code: str,
        message: str,
        now: datetime,
    ) -> Sequence[Any]:
        rows = connection.execute(
            update(submissions)
            .where(which)
            .values(state=State.DEAD, lease_until=None, settled_at=now)
            .returning(
                _row.account, _row.feed, _row.partition_key, _row.target_id, _row.url, _row.attempt,
                _row.job_id, _row.item_key,
            )
        ).all()  # fmt: skip
        if rows:
            connection.execute(dead_letters.insert(), [letter_row(row, code, message, now) for row in rows])
        return rows

    def release(self, request_ids: Iterable[str]) -> int:
        """Put rows that certainly made no job back to planned, the attempt unspent (rule 2); returns how many."""
        released, moved_partitions = 0, set[str]()
        with self.writing() as connection:
            for chunk in chunked(request_ids):
                rows = connection.execute(
                    update(submissions)
                    .where(_row.request_id.in_(chunk), in_state(State.SENDING))
                    .values(state=State.PLANNED, request_id=None, sent_at=None, lease_until=None)
                    .returning(_row.partition_key)
                ).all()
                released += len(rows)
                moved_partitions.update(row.partition_key for row in rows)
            self.bump_revisions(connection, moved_partitions)
        return released

    def overdue(self, grace_seconds: float) -> list[OverdueSubmission]:
        """The requests of this scope still sending past lease and grace, oldest first (rule 5)."""
        before = self.clock() - timedelta(seconds=grace_seconds)
        requests: dict[str, list[Any]] = {}
        with self.reading() as connection:
            found = connection.execute(
                select(_row.id, _row.request_id, _row.kind, _row.url, _row.sent_at, _row.lease_until).where(
                    self.in_scope(submissions), in_state(State.SENDING), _row.lease_until < before
                )
            ).all()
        # Ordered here: for the order's sake SQLite would read all that was ever sent.
        for row in sorted(found, key=lambda row: (row.sent_at, row.id)):
            requests.setdefault(row.request_id, []).append(row)
        return [
            OverdueSubmission(
                request_id,
                tuple(row.url for row in rows),
                rows[0].sent_at,
                rows[0].lease_until,
                Kind(rows[0].kind),
            )
            for request_id, rows in requests.items()
        ]

    def bound_jobs(self, job_ids: Iterable[str]) -> set[str]:
        """Those of the jobs that a row of any attempt is bound to; superseded rows keep their job."""
        bound: set[str] = set()
        with self.reading() as connection:
            for chunk in chunked(job_ids):
                bound.update(
                    connection.scalars(select(_row.job_id).where(_row.job_id.in_(chunk)).distinct()).all()
                )
        return bound

    def resolve(
        self,
        request_id: str,
        job_id: str | Literal["none"],
        first_look_at: datetime,
        grace_seconds: float,
        kind: str = Kind.EXTRACT,
    ) -> bool:
        """Commit what a complete listing said of an overdue row: its job, or ``"none"`` (rule 5).

        Nothing changes unless the row is still sending under the same request and overdue.
        """
        before = self.clock() - timedelta(seconds=grace_seconds)
        with self.writing() as connection:
            overdue = and_(_row.request_id == request_id, in_state(State.SENDING), _row.lease_until < before)
            if job_id != "none":
                still = connection.execute(select(_row.id).where(overdue).with_for_update()).first()
                return bool(
                    still
                    and self._bind(connection, [AcceptedSubmission(request_id, job_id, kind)], first_look_at)
                )
            rows = connection.execute(
                update(submissions)
                .where(overdue)
                .values(
                    state=State.PLANNED,
                    request_id=None,
                    sent_at=None,
                    lease_until=None,
                    # A batch that never arrived may have been refused for one of its URLs.
                    kind=case((_row.kind == Kind.BATCH, Kind.ALONE), else_=_row.kind),
                )
                .returning(_row.partition_key)
            ).all()
            self.bump_revisions(connection, [row.partition_key for row in rows])
            return bool(rows)

    def give_up_unresolved(self, request_ids: Iterable[str], message: str) -> int:
        """Park rows whose answer could not be resolved within the hard limit; returns how many (rule 5)."""
        now, parked, moved_partitions = self.clock(), 0, set[str]()
        with self.writing() as connection:
            for chunk in chunked(request_ids):
                which = and_(_row.request_id.in_(chunk), in_state(State.SENDING))
                rows = self._park(connection, which, LetterCode.UNRESOLVED, message, now)
                parked += len(rows)
                moved_partitions.update(row.partition_key for row in rows)
            self.bump_revisions(connection, moved_partitions)
        return parked
