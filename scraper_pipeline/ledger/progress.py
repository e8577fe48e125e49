"""What the ledger says about a day: how far it is, what can be done now, and what came out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, RowMapping, Table, exists, func, or_, select, true

from scraper_pipeline.ledger.base import StorePart, account_names, in_state, quantile
from scraper_pipeline.ledger.records import PartitionRevision, PendingPartition, Progress, State
from scraper_pipeline.ledger.schema import (
    LITERAL,
    current_results,
    dead_letters,
    jobs,
    partitions,
    processed_events,
    results,
    submissions,
)

_row, _event, _job, _result, _letter = submissions.c, processed_events.c, jobs.c, results.c, dead_letters.c
LETTER_COLUMNS = tuple(column.name for column in dead_letters.c)
RESULT_COLUMNS = tuple(column.name for column in current_results.c)


@dataclass(frozen=True)
class ResultFigures:
    """Numbers about the stored pages of a partition.

    ``latencies`` are from acceptance to storage, in seconds, shortest first; ``stored_after`` are the seconds from the
    day's first acceptance, in no order.
    """

    pages: int
    empty: int
    tokens_charged: int
    latencies: Sequence[float] = field(repr=False)
    stored_after: Sequence[float] = field(repr=False)

    @property
    def latency_p50(self) -> float:
        return quantile(self.latencies, 0.5)

    @property
    def latency_p95(self) -> float:
        return quantile(self.latencies, 0.95)


class ProgressStore(StorePart):
    """Reads only."""

    def of(self, partition_key: str) -> Progress:
        """The newest submissions of a partition, counted by state."""
        with self.reading() as connection:
            counts = connection.execute(
                select(_row.state, func.count())
                .where(self.in_scope(submissions), _row.partition_key == partition_key, in_state(*_NEWEST))
                .group_by(_row.state)
            ).all()
        return Progress(**{state: count for state, count in counts})

    def resubmissions(self, partition_key: str) -> int:
        """How many attempts of a partition were superseded by another one."""
        with self.reading() as connection:
            return (
                connection.scalar(
                    select(func.count())
                    .select_from(submissions)
                    .where(
                        self.in_scope(submissions),
                        _row.partition_key == partition_key,
                        in_state(State.SUPERSEDED),
                    )
                )
                or 0
            )

    def revision(self, partition_key: str) -> int:
        """How often the partition's rows have changed; 0 for one that has none."""
        with self.reading() as connection:
            revision = connection.scalar(
                select(func.sum(partitions.c.revision)).where(
                    self.in_scope(partitions), partitions.c.partition_key == partition_key
                )
            )
        return int(revision or 0)  # Postgres adds whole numbers up to a decimal

    def revisions(self, limit: int) -> list[PartitionRevision]:
        """The newest partitions (by key) with their revisions."""
        with self.reading() as connection:
            rows = connection.execute(
                select(partitions.c.partition_key, func.sum(partitions.c.revision).label("revision"))
                .where(self.in_scope(partitions))
                .group_by(partitions.c.partition_key)
                .order_by(partitions.c.partition_key.desc())
                .limit(limit)
            ).all()
        return [PartitionRevision(row.partition_key, int(row.revision)) for row in rows]

    def is_planned(self, partition_key: str) -> bool:
        """Whether some list was planned for the partition from its first line to its last."""
        with self.reading() as connection:
            return (
                connection.scalar(
                    select(func.max(partitions.c.planned_at)).where(
                        self.in_scope(partitions), partitions.c.partition_key == partition_key
                    )
                )
                is not None
            )

    def partitions_to_submit(self) -> list[PendingPartition]:
        """Partitions with planned rows that are due and not held back by a sending row of their URL."""
        now, other = self.clock(), submissions.alias()
        held_back = exists().where(
            other.c.account == _row.account,
            other.c.url_hash == _row.url_hash,
            other.c.state == LITERAL[State.SENDING],
        )
        with self.reading() as connection:
            rows = connection.execute(
                select(
                    _row.partition_key,
                    func.count().label("pending"),
                    func.max(_row.id).label("newest"),
                )
                .where(
                    self.in_scope(submissions),
                    in_state(State.PLANNED),
                    or_(_row.not_before.is_(None), _row.not_before <= now),
                    ~held_back,
                )
                .group_by(_row.partition_key)
                .order_by(_row.partition_key)
            ).all()
        return [PendingPartition(r.partition_key, r.pending, f"{r.newest}-{r.pending}") for r in rows]

    def partitions_to_settle(self) -> list[PendingPartition]:
        """Partitions with unprocessed news of bound jobs that nobody holds now."""
        now = self.clock()
        with self.reading() as connection:
            rows = connection.execute(
                select(
                    _job.partition_key,
                    func.count().label("pending"),
                    func.max(_event.received_at).label("newest"),
                )
                .join(jobs, _job.job_id == _event.job_id)
                .where(
                    self.in_scope(jobs),
                    self.is_ours(processed_events),
                    _event.processed_at.is_(None),
                    _event.given_up_at.is_(None),
                    _event.available_at <= now,
                )
                .group_by(_job.partition_key)
                .order_by(_job.partition_key)
            ).all()
        return [
            PendingPartition(r.partition_key, r.pending, f"{r.newest:%Y%m%dT%H%M%S%f}-{r.pending}")
            for r in rows
        ]

    def oldest_open_seconds(self, partition_key: str | None = None) -> float:
        """The age of the oldest target that is not settled, from when it was planned; 0 if there is none.

        Of one partition, or of all.
        """
        here = true() if partition_key is None else _row.partition_key == partition_key
        with self.reading() as connection:
            oldest: datetime | None = connection.scalar(
                select(func.min(_row.planned_at)).where(
                    self.in_scope(submissions), in_state(State.PLANNED, State.SENDING, State.ACCEPTED), here
                )
            )
        return 0.0 if oldest is None else max(0.0, (self.clock() - oldest).total_seconds())

    def figures(self, partition_key: str) -> ResultFigures:
        """Counts and latencies of a partition's current results."""
        with self.reading() as connection:
            rows = connection.execute(
                select(_result.is_empty, _result.tokens_charged, _result.stored_at, _job.accepted_at)
                .outerjoin(jobs, _job.job_id == _result.job_id)
                .where(self.in_scope(results), _result.partition_key == partition_key)
                .execution_options(yield_per=5000)
            )
            pages = empty = tokens = 0
            times: list[tuple[float, float]] = []
            for row in rows:
                pages += 1
                empty += bool(row.is_empty)
                tokens += row.tokens_charged or 0
                if row.accepted_at is not None:
                    times.append((row.accepted_at.timestamp(), row.stored_at.timestamp()))
        begin = min((accepted for accepted, _ in times), default=0.0)
        latencies = sorted(stored - accepted for accepted, stored in times)
        return ResultFigures(pages, empty, tokens, latencies, [stored - begin for _, stored in times])

    def submissions_preview(self, partition_key: str, limit: int = 10) -> list[dict[str, Any]]:
        """The newest rows of a partition without any content: url, state, attempt, job."""
        return self._preview(
            select(_row.url, _row.state, _row.attempt, _row.job_id)
            .where(self.in_scope(submissions), _row.partition_key == partition_key, in_state(*_NEWEST))
            .order_by(_row.id.desc())
            .limit(limit)
        )

    def results_preview(self, partition_key: str, limit: int = 10) -> list[dict[str, Any]]:
        """The latest stored results of a partition without any content."""
        return self._preview(
            select(
                _result.url, _result.http_status, _result.is_empty,
                func.coalesce(func.length(_result.markdown), 0).label("markdown_characters"), _result.attempt,
            )
            .where(self.in_scope(results), _result.partition_key == partition_key)
            .order_by(_result.stored_at.desc(), _result.job_id)
            .limit(limit)
        )  # fmt: skip

    def letters_preview(self, partition_key: str, limit: int = 10) -> list[dict[str, Any]]:
        """The latest open dead letters of a partition."""
        return self._preview(
            select(_letter.url, _letter.error_code, _letter.attempts, _letter.error_message)
            .where(
                self.in_scope(dead_letters),
                _letter.partition_key == partition_key,
                _letter.resolved_at.is_(None),
            )
            .order_by(_letter.parked_at.desc(), _letter.id.desc())
            .limit(limit)
        )

    def letters_by_code(self, partition_key: str) -> dict[str, int]:
        """Open dead letters of a partition, counted by code."""
        with self.reading() as connection:
            rows = connection.execute(
                select(_letter.error_code, func.count())
                .where(
                    self.in_scope(dead_letters),
                    _letter.partition_key == partition_key,
                    _letter.resolved_at.is_(None),
                )
                .group_by(_letter.error_code)
                .order_by(_letter.error_code)
            ).all()
        return {code: count for code, count in rows}

    def _preview(self, statement: Any) -> list[dict[str, Any]]:
        with self.reading() as connection:
            return [dict(row._mapping) for row in connection.execute(statement)]

    def read_results(self, partition_keys: Sequence[str], columns: Sequence[str]) -> list[RowMapping]:
        """The current results of some partitions, one row a target, with the columns asked for."""
        return self._read(current_results, current_results.c.target_id, partition_keys, columns, true())

    def read_letters(self, partition_keys: Sequence[str], columns: Sequence[str]) -> list[RowMapping]:
        """The open dead letters of some partitions, with the columns asked for."""
        return self._read(dead_letters, _letter.id, partition_keys, columns, _letter.resolved_at.is_(None))

    def _read(
        self,
        table: Table,
        order: ColumnElement[Any],
        partition_keys: Sequence[str],
        columns: Sequence[str],
        condition: ColumnElement[bool],
    ) -> list[RowMapping]:
        unknown = sorted(set(columns) - set(table.c.keys()))
        if unknown:
            raise ValueError(
                f"{table.name} has no column {', '.join(unknown)}; it has {', '.join(table.c.keys())}"
            )
        rows: list[RowMapping] = []
        with self.reading() as connection:
            for partition_key in partition_keys:
                statement = (
                    select(*(table.c[name] for name in columns))
                    .where(self.in_scope(table), table.c.partition_key == partition_key, condition)
                    .order_by(order)
                )
                rows += connection.execute(statement).mappings().all()
        return rows

    def has_open_targets(self) -> bool:
        """Whether anything is planned, sending or accepted, or a job that was given up is still under watch."""
        # A least value is the index's first entry; what merely exists, Postgres may seek from the table's beginning.
        firsts = [
            select(func.min(_row.partition_key)).where(one.in_scope(submissions), in_state(state))
            for one in self.each
            for state in (State.PLANNED, State.SENDING, State.ACCEPTED)
        ]
        watched = [
            select(func.min(_job.next_look_at)).where(one.in_scope(jobs), _job.next_look_at.is_not(None))
            for one in self.each
        ]
        with self.reading() as connection:
            found = connection.execute(
                select(*(first.scalar_subquery() for first in (*firsts, *watched)))
            ).one()
        return any(first is not None for first in found)

    def accounts(self) -> list[str]:
        """Every account that has a row, of whatever scope."""
        with self.reading() as connection:
            return list(connection.scalars(account_names()))


_NEWEST = (State.PLANNED, State.SENDING, State.ACCEPTED, State.STORED, State.DEAD)
