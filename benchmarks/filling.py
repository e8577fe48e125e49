"""Ledgers as the pipeline leaves them behind, made in minutes instead of months: whole days are inserted at once."""

import hashlib
import random
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, case, func, insert, literal, null, select, true

from scraper_pipeline.ledger import Kind, Ledger, database
from scraper_pipeline.ledger.base import in_state
from scraper_pipeline.ledger.records import State, hash_url
from scraper_pipeline.ledger.schema import (
    dead_letters,
    jobs,
    partitions,
    processed_events,
    results,
    submissions,
)

MARKDOWN = "# A page\n\n" + "It says a little, and says it again. " * 8
_CHUNK = 50_000
_row = submissions.c


@dataclass(frozen=True)
class Day:
    """What a day of a filled ledger is like; numbers are those of targets.

    With a ``batch_size`` above 1, so many neighbours share a job. Submissions go out at ``begins_at``, or so many a
    second from then on. A job that is still waited for is due for a look at once.
    """

    begins_at: datetime
    numbers: range
    state_of: Callable[[int], State] = lambda number: State.STORED
    is_retried: Callable[[int], bool] = lambda number: False
    batch_size: int = 1
    per_second: float | None = None
    markdown: str = MARKDOWN

    @property
    def key(self) -> str:
        return f"{self.begins_at:%Y-%m-%d}"

    def sent_at(self, number: int) -> datetime:
        if self.per_second is None:
            return self.begins_at
        first_of_job = (number - self.numbers.start) // self.batch_size * self.batch_size
        return self.begins_at + timedelta(seconds=first_of_job / self.per_second)


def fill_day(ledger: Ledger, day: Day, chance: random.Random) -> None:
    """Insert a day's submissions, and what stands beside them: jobs, news, results and letters."""
    with ledger.audit.writing() as connection:
        if ledger.engine.dialect.name == "sqlite":
            connection.exec_driver_sql("PRAGMA cache_size=-1000000")  # of this connection: 1 GB
        numbers = day.numbers
        attempts = _Attempts(day, chance)
        for start in range(numbers.start, numbers.stop, _CHUNK):
            share = numbers[start - numbers.start :][:_CHUNK]
            connection.execute(insert(submissions), list(attempts.of(share)))
        _follow(connection, day)


def settle_down(ledger: Ledger) -> None:
    """Bring a filled database to where autovacuum and checkpoints bring it by themselves."""
    on_postgres = ledger.engine.dialect.name == "postgresql"
    with database.connect_at_once(ledger.engine) as connection:
        for statement in (
            ("VACUUM ANALYZE", "CHECKPOINT") if on_postgres else ("PRAGMA wal_checkpoint(TRUNCATE)",)
        ):
            connection.exec_driver_sql(statement)


@dataclass
class _Attempts:
    day: Day
    chance: random.Random
    _jobs: dict[int, tuple[int, str, str]] = field(default_factory=dict)

    def of(self, numbers: range) -> Iterator[dict[str, Any]]:
        for number in numbers:
            state = self.day.state_of(number)
            if self.day.is_retried(number):
                yield self._attempt(number, 1, State.SUPERSEDED)
                yield self._attempt(number, 2, state)
            else:
                yield self._attempt(number, 1, state)

    def _attempt(self, number: int, attempt: int, state: State) -> dict[str, Any]:
        day = self.day
        url = f"https://site.test/section-{number % 97}/article-{number}?ref=list"
        is_sent, is_bound = state != State.PLANNED, state not in (State.PLANNED, State.SENDING)
        request_id, job_id = self._request(number, attempt)
        sent_at, url_hash = day.sent_at(number), hash_url(url)
        return {
            "partition_key": day.key,
            "target_id": hashlib.sha256(url.encode()).hexdigest()[:32],
            "attempt": attempt,
            "url": url,
            "url_hash": url_hash,
            "options": {"formats": ["markdown"], "render_js": False},
            "labels": {"source": "list"},
            "kind": Kind.BATCH if day.batch_size > 1 else Kind.EXTRACT,
            "state": state,
            "planned_at": day.begins_at,
            "request_id": request_id if is_sent else None,
            "sent_at": sent_at if is_sent else None,
            "lease_until": sent_at if state == State.SENDING else None,
            "job_id": job_id if is_bound else None,
            "item_key": url_hash if is_bound else None,
            "accepted_at": sent_at if is_bound else None,
            "settled_at": sent_at if is_bound and state != State.ACCEPTED else None,
        }

    def _request(self, number: int, attempt: int) -> tuple[str, str]:
        """The request and the job that a target's attempt shares with its neighbours'."""
        group = number // self.day.batch_size
        known = self._jobs.get(attempt)
        if known is None or known[0] != group:
            request_id = uuid.UUID(int=self.chance.getrandbits(128)).hex
            known = (group, request_id, str(uuid.UUID(int=self.chance.getrandbits(128))))
            self._jobs[attempt] = known
        return known[1:]


def _follow(connection: Connection, day: Day) -> None:
    """Write what stands beside a day's submissions."""
    at = literal(day.begins_at, _row.planned_at.type)
    bound = (_row.partition_key == day.key, _row.job_id.is_not(None))
    waiting = func.sum(case((in_state(State.ACCEPTED), 1), else_=0)) > 0
    sent_at, accepted_at = func.min(_row.sent_at), func.min(_row.accepted_at)
    connection.execute(
        insert(partitions).values(
            partition_key=day.key, revision=1, changed_at=day.begins_at, planned_at=day.begins_at
        )
    )
    connection.execute(
        insert(jobs).from_select(
            ["job_id", "partition_key", "kind", "status", "sent_at", "accepted_at", "next_look_at"],
            select(
                _row.job_id, literal(day.key), func.min(_row.kind), case((waiting, "queued"), else_="completed"),
                sent_at, accepted_at, case((waiting, accepted_at), else_=null()),
            )
            .where(*bound)
            .group_by(_row.job_id),
        )
    )  # fmt: skip
    connection.execute(
        insert(processed_events).from_select(
            ["job_id", "poll_at", "received_at", "available_at", "processed_at"],
            select(_row.job_id, at, at, at, at).where(*bound).group_by(_row.job_id).having(~waiting),
        )
    )
    connection.execute(
        insert(results).from_select(
            ["job_id", "item_key", "partition_key", "target_id", "attempt", "url", "labels", "http_status", "markdown",
             "metadata", "tokens_charged", "content_sha256", "is_empty", "completed_at", "stored_at"],
            select(
                _row.job_id, _row.item_key, _row.partition_key, _row.target_id, _row.attempt, _row.url, _row.labels,
                literal(200), literal(day.markdown), _row.options, literal(1), _row.url_hash, ~true(), at, at,
            ).where(*bound, in_state(State.STORED)),
        )
    )  # fmt: skip
    connection.execute(
        insert(dead_letters).from_select(
            ["job_id", "item_key", "partition_key", "target_id", "url", "error_code", "error_message", "attempts",
             "parked_at", "resolved_at"],
            select(
                _row.job_id, _row.item_key, _row.partition_key, _row.target_id, _row.url, literal("PERMANENT_BLOCK"),
                literal("The site refuses the page."), _row.attempt, at, null(),
            ).where(*bound, in_state(State.DEAD)),
        )
    )  # fmt: skip
