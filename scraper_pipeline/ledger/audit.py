"""The invariants of the design as queries: each violation names its rule and the target that breaks it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, and_, case, exists, func, or_, select

from scraper_pipeline.ledger.base import StorePart, in_state
from scraper_pipeline.ledger.records import LetterCode, State, unmark_url
from scraper_pipeline.ledger.schema import LITERAL, dead_letters, jobs, processed_events, results, submissions

_row, _event, _job, _result, _letter = submissions.c, processed_events.c, jobs.c, results.c, dead_letters.c


# Pages that may have been paid and can't be had all the same: the letter says so, and nothing was lost by us.
PAID_AND_PARKED = frozenset({LetterCode.TOO_LARGE, LetterCode.EXPIRED, LetterCode.UNREADABLE})


@dataclass(frozen=True)
class Violation:
    """One broken invariant: the rule's name, whom it concerns, and what was found."""

    rule: str
    partition_key: str | None
    target_id: str | None
    detail: str


@dataclass(frozen=True)
class ServiceJob:
    """What the service itself says became of a job; ``charged`` is in pages."""

    job_id: str
    url: str
    status: str
    charged: int


class AuditStore(StorePart):
    """Reads only; the same checks serve the command line, the asset checks and the tests."""

    def check(self, partition_key: str | None = None) -> list[Violation]:
        """Every violation that the ledger alone can show, in all partitions or in one."""
        with self.reading() as connection:
            return [
                Violation(rule, row.partition_key, row.target_id, detail)
                for rule, detail, statement in self._checks(partition_key)
                for row in connection.execute(statement)
            ]

    def check_stored_once(self, partition_key: str) -> list[Violation]:
        """Results of a partition that stand twice, or that no submission accounts for."""
        return self._run(partition_key, "stored_once", "result_has_row")

    def check_complete(self, partition_key: str) -> list[Violation]:
        """Targets of a partition that are stored without a result, or dead without a letter, or in no single state."""
        return self._run(
            partition_key, "one_state", "stored_has_result", "dead_has_letter", "stamped_is_settled"
        )

    def _run(self, partition_key: str, *rules: str) -> list[Violation]:
        with self.reading() as connection:
            return [
                Violation(rule, row.partition_key, row.target_id, detail)
                for rule, detail, statement in self._checks(partition_key)
                if rule in rules
                for row in connection.execute(statement)
            ]

    def _checks(self, partition_key: str | None) -> Iterator[tuple[str, str, Select[Any]]]:
        def of(table: Any) -> Any:
            scope = self.in_scope(table)
            return scope if partition_key is None else and_(scope, table.c.partition_key == partition_key)

        live = case((_row.state != LITERAL[State.SUPERSEDED], 1), else_=0)
        yield (
            "one_state",
            "the target is not in exactly one state by its newest submission",
            select(_row.partition_key, _row.target_id)
            .where(of(submissions))
            .group_by(_row.partition_key, _row.target_id)
            .having(or_(func.sum(live) != 1, func.max(_row.attempt) != func.max(_row.attempt * live))),
        )
        has_result = exists().where(_result.job_id == _row.job_id, _result.item_key == _row.item_key)
        yield (
            "stored_has_result",
            "the target is stored but its result is missing",
            select(_row.partition_key, _row.target_id).where(
                of(submissions), in_state(State.STORED), ~has_result
            ),
        )
        accounted = exists().where(
            _row.job_id == _result.job_id,
            _row.item_key == _result.item_key,
            in_state(State.STORED, State.SUPERSEDED),
        )
        yield (
            "result_has_row",
            "a result stands for which no submission is stored",
            select(_result.partition_key, _result.target_id).where(of(results), ~accounted),
        )
        yield (
            "stored_once",
            "the same item of a job is stored more than once",
            select(_result.partition_key, _result.target_id)
            .where(of(results))
            .group_by(_result.partition_key, _result.target_id, _result.job_id, _result.item_key)
            .having(func.count() > 1),
        )
        same_target = and_(
            _letter.account == _row.account,
            _letter.feed == _row.feed,
            _letter.partition_key == _row.partition_key,
            _letter.target_id == _row.target_id,
        )
        open_letter = _letter.resolved_at.is_(None)
        yield (
            "dead_has_letter",
            "the target is dead but has no open dead letter",
            select(_row.partition_key, _row.target_id).where(
                of(submissions), in_state(State.DEAD), ~exists().where(same_target, open_letter)
            ),
        )
        yield (
            "letter_has_dead",
            "an open dead letter stands for a target that is not dead",
            select(_letter.partition_key, _letter.target_id).where(
                of(dead_letters), open_letter, ~exists().where(same_target, in_state(State.DEAD))
            ),
        )
        yield (
            "stamped_is_settled",
            "the job is stamped as processed while the target waits for its outcome",
            select(_row.partition_key, _row.target_id)
            .join(processed_events, _event.job_id == _row.job_id)
            .where(
                of(submissions),
                _event.processed_at.is_not(None),
                or_(in_state(State.ACCEPTED), and_(in_state(State.DEAD), _row.given_up)),
            ),
        )
        yield (
            "accepted_is_known",
            "the target waits for a job that the ledger has no record of",
            select(_row.partition_key, _row.target_id).where(
                of(submissions), in_state(State.ACCEPTED), ~exists().where(_job.job_id == _row.job_id)
            ),
        )
        other = submissions.alias()
        yield (
            "one_request_per_job",
            "the job is bound to more than one request",
            select(_row.partition_key, _row.target_id).where(
                of(submissions),
                exists().where(other.c.job_id == _row.job_id, other.c.request_id != _row.request_id),
            ),
        )
        yield (
            "one_sending_per_url",
            "the URL is being sent twice at once",
            select(_row.partition_key, _row.target_id).where(
                of(submissions),
                in_state(State.SENDING),
                exists().where(
                    other.c.account == _row.account,
                    other.c.url_hash == _row.url_hash,
                    other.c.state == LITERAL[State.SENDING],
                    other.c.id != _row.id,
                ),
            ),
        )

    def check_against(self, service: Iterable[ServiceJob]) -> list[Violation]:
        """Violations that need the service's own books: pages paid and not stored, paid twice, or stored unpaid."""
        jobs_there = {job.job_id: job for job in service}
        with self.reading() as connection:
            rows = self._rows_by_job(connection)
            targets = self._targets_by_url(connection)
            stored = {
                row.job_id: row
                for row in connection.execute(
                    select(_result.job_id, _result.partition_key, _result.target_id).where(
                        self.in_scope(results)
                    )
                )
            }
        violations = list(self._unpaid(stored, jobs_there))
        paid = Counter[str]()
        for job in jobs_there.values():
            url = unmark_url(job.url)
            if not job.charged or url not in targets:
                continue  # nothing was paid, or another program's job
            paid[url] += job.charged
            bound = rows.get(job.job_id)
            if job.job_id not in stored and not (bound and bound.given_reason in PAID_AND_PARKED):
                state = f"its submission is {bound.state}" if bound else "no submission is bound to it"
                violations.append(
                    Violation(
                        "paid_is_stored",
                        bound.partition_key if bound else None,
                        bound.target_id if bound else None,
                        f"job {job.job_id} was paid, but its page is not stored: {state}",
                    )
                )
        for url, pages in paid.items():
            allowed, partition_key, target_id = targets[url]
            if pages > allowed:
                violations.append(
                    Violation(
                        "paid_once",
                        partition_key,
                        target_id,
                        f"{pages} pages were paid where {allowed} was due",
                    )
                )
        return violations

    def _rows_by_job(self, connection: Connection) -> dict[str, Any]:
        rows = connection.execute(
            select(
                _row.job_id,
                _row.partition_key,
                _row.target_id,
                _row.state,
                _letter.error_code.label("given_reason"),
            )
            .outerjoin(dead_letters, and_(_letter.job_id == _row.job_id, _letter.item_key == _row.item_key))
            .where(self.in_scope(submissions), _row.job_id.is_not(None))
        )
        return {row.job_id: row for row in rows}

    def _targets_by_url(self, connection: Connection) -> dict[str, tuple[int, str, str]]:
        """For each URL: how often it may be paid (once a target and purpose), and one of its targets."""
        purposes: dict[str, tuple[int, str, str]] = {}
        rows: Sequence[Any] = connection.execute(
            select(_row.url, _row.partition_key, _row.target_id, _row.first_attempt)
            .where(self.in_scope(submissions))
            .group_by(_row.url, _row.partition_key, _row.target_id, _row.first_attempt)
        ).all()
        for row in rows:
            allowed = purposes.get(row.url, (0, "", ""))[0]
            purposes[row.url] = (allowed + 1, row.partition_key, row.target_id)
        return purposes

    @staticmethod
    def _unpaid(stored: dict[str, Any], jobs_there: dict[str, ServiceJob]) -> Iterator[Violation]:
        for job_id, row in stored.items():
            job = jobs_there.get(job_id)
            if job is None or job.status != "completed":
                said = f"is {job.status}" if job else "is unknown"
                yield Violation(
                    "stored_is_completed",
                    row.partition_key,
                    row.target_id,
                    f"a page of job {job_id} is stored, which {said} to the service",
                )
