"""Short ways to bring a ledger into a state, and to see what state it is in, without any service."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Engine, Select, event, select, text

from scraper_pipeline.ledger import (
    AcceptedSubmission,
    Channel,
    ClaimedJob,
    ClaimedSubmission,
    CommitReport,
    Ended,
    Failure,
    GivenUp,
    ItemOutcome,
    JobOutcome,
    Ledger,
    ListTerms,
    NotYet,
    StoredPage,
    Target,
)
from scraper_pipeline.ledger.schema import metadata, processed_events, submissions

DAY = "2026-03-01"
NEXT_DAY = "2026-03-02"
LEASE, GRACE = 60.0, 120.0
RETRYABLE = Failure("TIMEOUT", "The page did not load.", retryable=True)
PERMANENT = Failure("PERMANENT_BLOCK", "The site refuses the page.", retryable=False)
OUT_OF_BALANCE = Failure("PAYMENT_REQUIRED", "The balance is used up.", retryable=True, spends_attempt=False)

Result = StoredPage | Failure | GivenUp | NotYet


@dataclass
class HandClock:
    """A clock that only a test turns."""

    now: datetime = datetime(2026, 3, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> datetime:
        self.now += timedelta(seconds=seconds)
        return self.now


def target(url: str, options: Mapping[str, Any] | None = None, **labels: str) -> Target:
    identity = hashlib.sha256(json.dumps([url, options or {}], sort_keys=True).encode()).hexdigest()[:32]
    return Target(identity, url, options or {}, labels)


def page(markdown: str | None = "# A page", **changes: Any) -> StoredPage:
    values: dict[str, Any] = {
        "markdown": markdown,
        "html": None,
        "metadata": {"http_status": 200},
        "http_status": 200,
        "tokens_charged": 1,
        "completed_at": datetime(2026, 3, 1, 12, tzinfo=UTC),
    }
    return StoredPage(**(values | changes))


def plan(ledger: Ledger, *urls: str, day: str = DAY) -> None:
    terms = ListTerms(ledger.scope.account)  # a list has one account
    ledger.submissions.plan(day, [target(url) for url in urls], terms)


def claim(ledger: Ledger, day: str = DAY, limit: int = 1000) -> list[ClaimedSubmission]:
    return ledger.submissions.claim(day, limit, LEASE)


def claim_one(ledger: Ledger, day: str = DAY) -> ClaimedSubmission:
    [claimed] = claim(ledger, day, 1)
    return claimed


def record(ledger: Ledger, claimed: ClaimedSubmission, job_id: str) -> int:
    return ledger.submissions.record_accepted(
        [AcceptedSubmission(claimed.request_id, job_id)], ledger.clock()
    )


def accept(ledger: Ledger, *urls: str, day: str = DAY, prefix: str = "job of ") -> list[str]:
    """Plan and submit these URLs; returns their jobs' ids."""
    plan(ledger, *urls, day=day)
    return accept_planned(ledger, day, prefix)


def accept_planned(ledger: Ledger, day: str = DAY, prefix: str = "job of ") -> list[str]:
    """Submit what is planned and due; a job's id tells its URL, and its attempt after the first."""
    claimed = claim(ledger, day)
    job_ids = [f"{prefix}{one.url}" + (f" #{one.attempt}" if one.attempt > 1 else "") for one in claimed]
    recorded = ledger.submissions.record_accepted(
        [AcceptedSubmission(one.request_id, job_id) for one, job_id in zip(claimed, job_ids, strict=True)],
        ledger.clock(),
    )
    assert recorded == len(claimed)
    return job_ids


def bring_news(ledger: Ledger, *job_ids: str, channel: Channel = Channel.POLL) -> None:
    ledger.news.record(job_ids, channel)


def claim_jobs(ledger: Ledger, day: str = DAY, limit: int = 1000, lease: float = LEASE) -> list[ClaimedJob]:
    return ledger.outcomes.claim(day, limit, lease)


def outcome(job: ClaimedJob, result: Result) -> JobOutcome:
    """What a look at a job of one item found."""
    if isinstance(result, GivenUp | NotYet):
        return JobOutcome(job, result)
    status = "completed" if isinstance(result, StoredPage) else "failed"
    return JobOutcome(job, Ended((ItemOutcome(job.item_key, result),), status))


def settle(ledger: Ledger, results: Mapping[str, Result] | Result, day: str = DAY) -> CommitReport:
    """Claim what has news and commit what became of it: one result for all, or one for each job's id."""
    claimed = claim_jobs(ledger, day)
    return ledger.outcomes.commit(
        [outcome(job, results[job.job_id] if isinstance(results, Mapping) else results) for job in claimed]
    )


def finish(ledger: Ledger, results: Mapping[str, Result], day: str = DAY) -> CommitReport:
    """Bring news of these jobs, and settle them with these results."""
    bring_news(ledger, *results)
    return settle(ledger, results, day)


def attempts(ledger: Ledger, url: str, day: str = DAY) -> list[str]:
    """The states of a URL's attempts, in their order."""
    return [
        row.state for row in rows(ledger, select(submissions)) if (row.url, row.partition_key) == (url, day)
    ]


def state_of(ledger: Ledger, url: str, day: str = DAY) -> str:
    """The state of a URL's newest attempt."""
    return attempts(ledger, url, day)[-1]


def is_processed(ledger: Ledger, job_id: str) -> bool:
    [event_row] = rows(ledger, select(processed_events).where(processed_events.c.job_id == job_id))
    return event_row.processed_at is not None


def rows(ledger: Ledger, statement: Select[Any]) -> Sequence[Any]:
    with ledger.submissions.reading() as connection:
        found = connection.execute(statement).all()
    return sorted(found, key=lambda row: row.id) if found and hasattr(found[0], "id") else found


def execute(ledger: Ledger, statement: str, **parameters: Any) -> int:
    """Change the tables behind the store's back; returns how many rows that touched."""
    with ledger.submissions.writing() as connection:
        return connection.execute(text(statement), parameters).rowcount


def unstamp(ledger: Ledger) -> None:
    """Have every job settled once more, as if its stamp had never been set."""
    execute(ledger, "UPDATE processed_events SET processed_at = NULL, available_at = received_at")


def contents(ledger: Ledger) -> dict[str, list[tuple[Any, ...]]]:
    """Everything that stands in the ledger's tables."""
    with ledger.submissions.reading() as connection:
        return {
            table.name: sorted((tuple(row) for row in connection.execute(select(table))), key=repr)
            for table in metadata.sorted_tables
        }


class Interrupted(Exception):
    """What a test throws into the middle of a transaction."""


@dataclass
class Statements:
    """The statements that an engine has executed since they are watched."""

    seen: list[str] = field(default_factory=list)


@contextmanager
def interrupting(engine: Engine, nth: int | None) -> Iterator[Statements]:
    """Raise Interrupted in place of the nth statement (counted from 1); None only counts them."""
    statements = Statements()

    def look(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if statement.startswith("BEGIN"):
            return
        statements.seen.append(statement)
        if nth is not None and len(statements.seen) == nth:
            raise Interrupted(statement)

    event.listen(engine, "before_cursor_execute", look)
    try:
        yield statements
    finally:
        event.remove(engine, "before_cursor_execute", look)
