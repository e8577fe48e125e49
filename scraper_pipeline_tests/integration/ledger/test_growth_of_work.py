"""A day of twice the size costs about twice the work: counted in steps of SQLite's machine, so no clock is asked."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from sqlalchemy import event

from scraper_pipeline.ledger import (
    AcceptedSubmission,
    BatchTerms,
    Ended,
    ItemOutcome,
    JobOutcome,
    Kind,
    Ledger,
)
from scraper_pipeline_tests.integration.ledger.driving import (
    DAY,
    LEASE,
    HandClock,
    bring_news,
    page,
    plan,
)

SMALL, LARGE = 400, 1600  # rows that share one batch
MOST_GROWTH = 2 * LARGE / SMALL
STEPS = 10
TERMS = BatchTerms(50, LARGE, lambda options: True)


@dataclass
class Work:
    steps: int = 0


@contextmanager
def _counted(ledger: Ledger) -> Iterator[Work]:
    work = Work()

    def count() -> None:
        work.steps += STEPS

    def watch(connection: sqlite3.Connection, *_: object) -> None:
        connection.set_progress_handler(count, STEPS)

    event.listen(ledger.engine, "checkout", watch)
    yield work


def _send(ledger: Ledger) -> None:
    claimed = ledger.submissions.claim(DAY, 0, LEASE, TERMS)
    ledger.submissions.record_accepted(
        [AcceptedSubmission(claimed[0].request_id, "the batch", Kind.BATCH)], ledger.clock()
    )


def _settle(ledger: Ledger) -> None:
    bring_news(ledger, "the batch")
    [job] = ledger.outcomes.claim(DAY, 1, LEASE, [Kind.BATCH])
    items = tuple(
        ItemOutcome(key, page(), url) for key, url in ledger.outcomes.waiting_items(job.job_id).items()
    )
    ledger.outcomes.commit([JobOutcome(job, Ended(items, "completed"))])


def _read(ledger: Ledger) -> None:
    figures, progress = ledger.progress.figures(DAY), ledger.progress.of(DAY)
    assert figures.pages == progress.stored == progress.targets > 0
    assert progress.is_settled


def _audit(ledger: Ledger) -> None:
    assert not ledger.audit.check()
    assert not ledger.audit.check_complete(DAY)
    assert not ledger.audit.check_stored_once(DAY)


PARTS: dict[str, Callable[[Ledger], None]] = {
    "sending": _send,
    "settling": _settle,
    "reading": _read,
    "auditing": _audit,
}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], int]:
    """The steps that each part of a day's work took, by the day's size."""
    taken = {}
    for size in (SMALL, LARGE):
        url = f"sqlite:///{tmp_path_factory.mktemp('growth') / 'ledger.db'}"
        with Ledger.open(url, clock=HandClock()) as ledger, _counted(ledger) as counted:
            plan(ledger, *(f"https://site.test/{number}" for number in range(size)))
            for name, do in PARTS.items():
                before = counted.steps
                do(ledger)
                taken[name, size] = counted.steps - before
    return taken


@pytest.mark.parametrize("part", PARTS)
def test_the_work_grows_with_the_day_and_no_faster(part: str, work: dict[tuple[str, int], int]) -> None:
    small, large = work[part, SMALL], work[part, LARGE]
    assert small > SMALL, "the steps are counted"
    assert large < MOST_GROWTH * small
