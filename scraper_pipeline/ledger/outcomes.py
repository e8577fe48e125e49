"""Rules 4 and 6: the outcome of a job is committed together with ``processed_at``."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, and_, bindparam, func, insert, literal, or_, select, update

from scraper_pipeline.ledger.base import chunked, in_state
from scraper_pipeline.ledger.claims import ClaimStore
from scraper_pipeline.ledger.errors import LedgerConflict
from scraper_pipeline.ledger.letters import STANDS, letter_row
from scraper_pipeline.ledger.records import (
    ClaimedJob,
    CommitReport,
    Ended,
    Failure,
    GivenUp,
    JobOutcome,
    Kind,
    LetterCode,
    NotYet,
    Part,
    State,
    StoredPage,
)
from scraper_pipeline.ledger.schema import dead_letters, jobs, processed_events, results, submissions

_row, _event, _job, _letter, _result = submissions.c, processed_events.c, jobs.c, dead_letters.c, results.c
WATCH_INTERVAL = timedelta(minutes=10)  # between looks at a job that was given up
ACCOUNT_WAIT = timedelta(minutes=10)  # before a target is tried again that failed for want of balance
_NOTHING_CRAWLED = Failure("NOTHING_CRAWLED", "The crawl ended without a page.", retryable=True)
_INVALID = Failure("INVALID_URL", "The service takes this URL for invalid.", retryable=False)
_MISSING = Failure(LetterCode.MISSING_ITEM, "The job ended without an item for this URL.", retryable=True)


@dataclass(frozen=True)
class ResubmissionPolicy:
    """How often a target is tried, and how long its next attempt waits (seconds, doubling)."""

    max_attempts: int = 3
    first_delay_seconds: float = 5.0

    def delay_after(self, attempts: int) -> timedelta:
        return timedelta(seconds=self.first_delay_seconds * 2 ** min(attempts - 1, 10))


@dataclass(frozen=True)
class _NextAttempt:
    row_id: int
    not_before: datetime
    free_of_charge: bool


@dataclass
class _Moves:
    """What one chunk's outcomes will change, decided while their rows are locked."""

    stored: list[int] = field(default_factory=list)
    empty: int = 0
    superseded: list[_NextAttempt] = field(default_factory=list)
    dead: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    given_up: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    confirmed_dead: list[tuple[Any, Failure]] = field(default_factory=list)
    reopened: list[Any] = field(default_factory=list)
    pages: list[dict[str, Any]] = field(default_factory=list)
    partitions: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class OutcomeStore(ClaimStore):
    """The one place where anything becomes final."""

    resubmission: ResubmissionPolicy = ResubmissionPolicy()

    def commit(self, outcomes: Sequence[JobOutcome]) -> CommitReport:
        """Commit a chunk of outcomes whole: results, dead letters, next attempts and ``processed_at`` (rules 4 and 6).

        Outcomes whose claim is no longer held are dropped and counted. Raises LedgerConflict, with nothing committed,
        if a guarded statement touched other rows than those locked.
        """
        report = CommitReport()
        for chunk in chunked(outcomes):
            with self.writing() as connection:
                report += self._commit(connection, chunk)
        return report

    def _commit(self, connection: Connection, outcomes: Sequence[JobOutcome]) -> CommitReport:
        held = self._lock_claims(connection, outcomes)
        bound = self._lock_rows(connection, held)
        now, moves = self.clock(), _Moves()
        for outcome in held:
            rows = bound.get(outcome.job.job_id, [])
            if isinstance(outcome.verdict, Ended | Part) and outcome.job.kind == Kind.CRAWL:
                self._decide_crawled(connection, outcome.job, outcome.verdict, rows, moves, now)
            elif isinstance(outcome.verdict, Ended | Part):
                self._decide_ended(outcome, outcome.verdict, rows, moves, now)
            elif isinstance(outcome.verdict, GivenUp):
                self._decide_given_up(outcome.verdict, rows, moves, now)
        self._apply(connection, moves, now)
        processed = self._close(connection, held, now)
        self.bump_revisions(connection, moves.partitions)
        return CommitReport(
            stored=len(moves.stored),
            empty=moves.empty,
            dead=len(moves.dead),
            resubmitted=len(moves.superseded),
            given_up=len(moves.given_up),
            processed=processed,
            postponed=sum(isinstance(outcome.verdict, NotYet) for outcome in held),
            dropped=len(outcomes) - len(held),
        )

    def _lock_claims(self, connection: Connection, outcomes: Sequence[JobOutcome]) -> list[JobOutcome]:
        rows = connection.execute(
            select(_event.job_id, _event.claimed_by, _event.processed_at, _event.given_up_at)
            .where(self.among(_event.job_id, [outcome.job.job_id for outcome in outcomes]))
            .order_by(_event.job_id)
            .with_for_update()
        ).all()
        holders = {
            row.job_id: row.claimed_by for row in rows if row.processed_at is None and row.given_up_at is None
        }
        return [outcome for outcome in outcomes if holders.get(outcome.job.job_id) == outcome.job.claim]

    def _lock_rows(self, connection: Connection, outcomes: Sequence[JobOutcome]) -> dict[str, list[Any]]:
        ended = [outcome.job.job_id for outcome in outcomes if not isinstance(outcome.verdict, NotYet)]
        bound: dict[str, list[Any]] = {}
        if ended:
            rows = connection.execute(
                select(
                    _row.id, _row.account, _row.feed, _row.partition_key, _row.target_id, _row.attempt,
                    _row.first_attempt, _row.url, _row.labels, _row.state, _row.job_id, _row.item_key, _row.given_up,
                )
                .where(self.among(_row.job_id, ended))
                .order_by(_row.id)
                .with_for_update()
            ).all()  # fmt: skip
            for row in rows:
                bound.setdefault(row.job_id, []).append(row)
        return bound

    def _decide_ended(
        self, outcome: JobOutcome, verdict: Ended | Part, rows: list[Any], moves: _Moves, now: datetime
    ) -> None:
        items = {item.item_key: item.result for item in verdict.items}
        for row in rows:
            result = items.get(row.item_key)
            if result is None:
                if isinstance(verdict, Part):
                    continue  # its item may be on a page that was not read yet
                result = _INVALID if row.item_key in verdict.invalid else _MISSING
            is_given_up = row.state == State.DEAD and row.given_up
            if isinstance(result, StoredPage):
                moves.pages.append(_result_row(outcome.job.job_id, row, result, now))
                if row.state == State.ACCEPTED or is_given_up:
                    moves.stored.append(row.id)
                    moves.empty += result.is_empty
                    moves.partitions.add(row.partition_key)
                elif row.state == State.SUPERSEDED:
                    moves.partitions.add(row.partition_key)  # a late page, and perhaps the only one
                if is_given_up:
                    moves.reopened.append(row)
            elif row.state == State.ACCEPTED:
                self._decide_failed(row, result, moves, now)
            elif is_given_up:
                moves.confirmed_dead.append((row, result))
                moves.partitions.add(row.partition_key)

    def _decide_crawled(
        self,
        connection: Connection,
        job: ClaimedJob,
        verdict: Ended | Part,
        rows: list[Any],
        moves: _Moves,
        now: datetime,
    ) -> None:
        """Every page of a crawl is a result of its one row, which is stored once all are read and there are some."""
        pages = [item for item in verdict.items if isinstance(item.result, StoredPage)]
        failures = [item.result for item in verdict.items if isinstance(item.result, Failure)]
        if failures:
            connection.execute(
                update(jobs)
                .where(_job.job_id == job.job_id)
                .values(pages_failed=_job.pages_failed + len(failures))
            )
        for row in rows:
            for item in pages:
                assert isinstance(item.result, StoredPage)  # noqa: S101 (chosen above)
                found = {**_result_row(job.job_id, row, item.result, now), "item_key": item.item_key}
                moves.pages.append({**found, "url": item.url or row.url})
                moves.empty += item.result.is_empty
            if pages and row.state == State.SUPERSEDED:
                moves.partitions.add(row.partition_key)
            is_given_up = row.state == State.DEAD and row.given_up
            if isinstance(verdict, Part) or not (row.state == State.ACCEPTED or is_given_up):
                continue
            if (
                pages
                or connection.execute(select(_result.item_key).where(_result.job_id == job.job_id)).first()
            ):
                moves.stored.append(row.id)
                moves.partitions.add(row.partition_key)
                if is_given_up:
                    moves.reopened.append(row)
            elif is_given_up:
                moves.confirmed_dead.append((row, failures[0] if failures else _NOTHING_CRAWLED))
                moves.partitions.add(row.partition_key)
            else:
                self._decide_failed(row, failures[0] if failures else _NOTHING_CRAWLED, moves, now)

    def _decide_failed(self, row: Any, failure: Failure, moves: _Moves, now: datetime) -> None:
        attempts = row.attempt - row.first_attempt + 1
        if not failure.spends_attempt:
            moves.superseded.append(_NextAttempt(row.id, now + ACCOUNT_WAIT, free_of_charge=True))
        elif failure.retryable and attempts < self.resubmission.max_attempts:
            not_before = now + self.resubmission.delay_after(attempts)
            moves.superseded.append(_NextAttempt(row.id, not_before, free_of_charge=False))
        else:
            moves.dead.append((row.id, letter_row(row, failure.code, failure.message, now)))
        moves.partitions.add(row.partition_key)

    @staticmethod
    def _decide_given_up(verdict: GivenUp, rows: list[Any], moves: _Moves, now: datetime) -> None:
        for row in rows:
            if row.state == State.ACCEPTED:
                moves.given_up.append((row.id, letter_row(row, verdict.code, verdict.message, now)))
                moves.partitions.add(row.partition_key)

    def _apply(self, connection: Connection, moves: _Moves, now: datetime) -> None:
        if moves.pages:
            statement = self.insert(results).on_conflict_do_nothing(index_elements=["job_id", "item_key"])
            connection.execute(statement, moves.pages)
        movable = or_(in_state(State.ACCEPTED), and_(in_state(State.DEAD), _row.given_up))
        self._move(
            connection, moves.stored, movable, {"state": State.STORED, "given_up": False, "settled_at": now}
        )
        self._move(
            connection,
            [following.row_id for following in moves.superseded],
            in_state(State.ACCEPTED),
            {"state": State.SUPERSEDED, "settled_at": now},
        )
        self._plan_next_attempts(connection, moves.superseded, now)
        for parked, given_up in ((moves.dead, False), (moves.given_up, True)):
            changes = {"state": State.DEAD, "given_up": given_up, "settled_at": now}
            self._move(connection, [row_id for row_id, _ in parked], in_state(State.ACCEPTED), changes)
            if parked:
                connection.execute(insert(dead_letters), [letter for _, letter in parked])
        for row in moves.reopened:
            self._change_letter(connection, row, {"resolved_at": now, "resolution": "stored"})
        for row, failure in moves.confirmed_dead:
            self._move(connection, [row.id], and_(in_state(State.DEAD), _row.given_up), {"given_up": False})
            self._change_letter(
                connection, row, {"error_code": failure.code, "error_message": failure.message}
            )

    def _move(self, connection: Connection, row_ids: list[int], guard: Any, changes: dict[str, Any]) -> None:
        if not row_ids:
            return
        moved = connection.execute(
            update(submissions).where(self.among(_row.id, row_ids), guard).values(changes)
        ).rowcount
        if moved != len(row_ids):
            raise LedgerConflict(f"{len(row_ids)} rows were to become {changes.get('state')}, {moved} did")

    def _plan_next_attempts(
        self, connection: Connection, following: list[_NextAttempt], now: datetime
    ) -> None:
        groups: dict[tuple[datetime, bool], list[int]] = {}
        for attempt in following:
            groups.setdefault((attempt.not_before, attempt.free_of_charge), []).append(attempt.row_id)
        carried = (
            "account", "feed", "partition_key", "target_id", "url", "url_hash", "options", "labels", "kind",
        )  # fmt: skip
        for (not_before, free_of_charge), row_ids in groups.items():
            connection.execute(
                insert(submissions).from_select(
                    [*carried, "attempt", "first_attempt", "state", "planned_at", "not_before"],
                    select(
                        *(_row[name] for name in carried),
                        _row.attempt + 1,
                        _row.first_attempt + int(free_of_charge),
                        literal(str(State.PLANNED)),
                        literal(now, _row.planned_at.type),
                        literal(not_before, _row.not_before.type),
                    ).where(self.among(_row.id, row_ids)),
                )
            )

    @staticmethod
    def _change_letter(connection: Connection, row: Any, changes: dict[str, Any]) -> None:
        connection.execute(
            update(dead_letters)
            .where(
                _letter.account == row.account,
                _letter.feed == row.feed,
                _letter.partition_key == row.partition_key,
                _letter.target_id == row.target_id,
                STANDS,
            )
            .values(changes)
        )

    def _close(self, connection: Connection, outcomes: Sequence[JobOutcome], now: datetime) -> int:
        """Stamp what is done, park what was given up, and postpone the rest; returns how many were stamped."""
        ended = {o.job.job_id: o.verdict for o in outcomes if isinstance(o.verdict, Ended)}
        given_up = [o.job.job_id for o in outcomes if isinstance(o.verdict, GivenUp)]
        stamped = 0
        if ended:
            left = (
                select(func.count())
                .select_from(submissions)
                .where(
                    _row.job_id == _event.job_id,
                    or_(in_state(State.ACCEPTED), and_(in_state(State.DEAD), _row.given_up)),
                )
                .scalar_subquery()
            )
            stamped = connection.execute(
                update(processed_events)
                .where(self.among(_event.job_id, ended), _event.processed_at.is_(None), left == 0)
                .values(processed_at=now, claimed_by=None)
            ).rowcount
            connection.execute(
                update(jobs)
                .where(_job.job_id == bindparam("job"))
                .values(
                    status=bindparam("ended_as"),
                    completed_at=bindparam("completed"),
                    next_look_at=None,
                    missing_since=None,
                ),
                [
                    {"job": job_id, "ended_as": verdict.status, "completed": verdict.completed_at}
                    for job_id, verdict in sorted(ended.items())
                ],
            )
        if given_up:
            connection.execute(
                update(processed_events)
                .where(self.among(_event.job_id, given_up), _event.processed_at.is_(None))
                .values(given_up_at=now, claimed_by=None)
            )
            connection.execute(
                update(jobs)
                .where(self.among(_job.job_id, given_up))
                .values(next_look_at=now + WATCH_INTERVAL)
            )
        for outcome in outcomes:
            if isinstance(outcome.verdict, NotYet):
                self._postpone(connection, outcome.job, outcome.verdict, now)
            elif isinstance(outcome.verdict, Part):
                self._hold(connection, outcome.job, outcome.verdict, now)
        return stamped

    @staticmethod
    def _hold(connection: Connection, job: ClaimedJob, verdict: Part, now: datetime) -> None:
        """Note how far the results were read, and keep the claim for what follows."""
        until = now + timedelta(seconds=verdict.lease_seconds)
        connection.execute(
            update(processed_events)
            .where(_event.job_id == job.job_id, _event.claimed_by == job.claim)
            .values(available_at=until)
        )
        connection.execute(
            update(jobs).where(_job.job_id == job.job_id).values(pages_read=verdict.pages_read)
        )

    @staticmethod
    def _postpone(connection: Connection, job: ClaimedJob, verdict: NotYet, now: datetime) -> None:
        connection.execute(
            update(processed_events)
            .where(_event.job_id == job.job_id, _event.claimed_by == job.claim)
            .values(available_at=verdict.look_again_at, claimed_by=None)
        )
        missing_since = (job.missing_since or now) if verdict.is_missing else None
        changes: dict[str, Any] = {"missing_since": missing_since}
        if verdict.status is not None:
            changes["status"] = verdict.status
        connection.execute(update(jobs).where(_job.job_id == job.job_id).values(changes))


def _result_row(job_id: str, row: Any, page: StoredPage, now: datetime) -> dict[str, Any]:
    return {
        "job_id": job_id,
        "item_key": row.item_key,
        "account": row.account,
        "feed": row.feed,
        "partition_key": row.partition_key,
        "target_id": row.target_id,
        "attempt": row.attempt,
        "url": row.url,
        "labels": row.labels,
        "http_status": page.http_status,
        "markdown": page.markdown,
        "html": page.html,
        "metadata": dict(page.metadata),
        "tokens_charged": page.tokens_charged,
        "content_sha256": page.content_sha256,
        "is_empty": page.is_empty,
        "completed_at": page.completed_at,
        "stored_at": now,
        "parent_url": page.parent_url,
        "depth": page.depth,
    }
