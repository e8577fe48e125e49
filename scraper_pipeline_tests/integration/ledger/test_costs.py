"""What was paid is told by what came of it, from the index alone, and so is what may have been paid besides."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import event

from scraper_pipeline.ledger import (
    AcceptedSubmission,
    Ended,
    Failure,
    ForeignJob,
    GivenUp,
    ItemOutcome,
    JobOutcome,
    Kind,
    Ledger,
    LetterCode,
    Outcome,
    Scope,
    Spent,
    Target,
    Uncounted,
    hash_url,
)
from scraper_pipeline.ledger.costs import CostStore
from scraper_pipeline_tests.integration.ledger.driving import (
    DAY,
    LEASE,
    PERMANENT,
    RETRYABLE,
    HandClock,
    accept,
    accept_planned,
    bring_news,
    claim_one,
    finish,
    page,
    plan,
    target,
)

URLS = [f"https://site.test/{number}" for number in range(10)]
CRAWL = "https://site.test/crawl"


def _spent(ledger: Ledger, by: str | None = None, hours: float = 1.0) -> list[Spent]:
    now = ledger.clock()
    return ledger.costs.spent(now - timedelta(hours=hours), now + timedelta(seconds=1), by)


def _uncounted(ledger: Ledger) -> Uncounted:
    now = ledger.clock()
    return ledger.costs.uncounted(now - timedelta(hours=1), now + timedelta(seconds=1))


@pytest.fixture
def settled(ledger: Ledger, clock: HandClock) -> Ledger:
    """One attempt of each outcome, and one page that took two."""
    labels = ["prices", "prices", "prices", "company", "company", "", ""]
    named = [
        target(url, {}, **({"topic": topic} if topic else {}))
        for url, topic in zip(URLS, labels, strict=False)
    ]
    ledger.submissions.plan(DAY, named)
    jobs = dict(zip(URLS, sorted(accept_planned(ledger)), strict=False))
    finish(
        ledger,
        {
            jobs[URLS[0]]: page(),
            jobs[URLS[1]]: page(""),
            jobs[URLS[2]]: page(tokens_charged=3),
            jobs[URLS[3]]: RETRYABLE,
            jobs[URLS[4]]: PERMANENT,
            jobs[URLS[5]]: GivenUp(LetterCode.TIMED_OUT, "It took too long."),
        },
    )
    clock.advance(5)
    [again] = accept_planned(ledger)
    finish(ledger, {again: page(tokens_charged=None)})
    return ledger


def test_every_attempt_is_counted_by_what_came_of_it(settled: Ledger) -> None:
    assert _spent(settled) == [
        Spent("", Outcome.EMPTY, 1, 1),
        Spent("", Outcome.GIVEN_UP, 1, 0),
        Spent("", Outcome.IN_FLIGHT, 1, 0),
        Spent("", Outcome.PARKED, 1, 0),
        Spent("", Outcome.RETRIED, 1, 0),
        Spent("", Outcome.STORED, 3, 5),
    ]


def test_costs_are_counted_by_attempt(settled: Ledger) -> None:
    by_attempt = {(one.key, one.outcome): one.pages for one in _spent(settled, "attempt")}
    assert by_attempt["2", Outcome.STORED] == 1
    assert by_attempt["1", Outcome.STORED] == 4


def test_costs_are_counted_by_label_and_those_without_it_by_themselves(settled: Ledger) -> None:
    pages: dict[str, int] = {}
    for one in _spent(settled, "label:topic"):
        pages[one.key] = pages.get(one.key, 0) + one.pages
    assert pages == {"prices": 5, "company": 1, "": 0}


def test_a_span_has_what_was_sent_in_it_and_not_at_its_end(settled: Ledger, clock: HandClock) -> None:
    now = clock.now
    assert settled.costs.spent(now, now) == []
    assert settled.costs.spent(now, now + timedelta(seconds=1)) == [Spent("", Outcome.STORED, 1, 1)]
    assert sum(one.attempts for one in settled.costs.spent(now - timedelta(hours=1), now)) == 7
    assert settled.costs.first_sent_since(now - timedelta(hours=1)) == now - timedelta(seconds=5)
    assert settled.costs.first_sent_since(now + timedelta(hours=1)) is None


def test_other_feeds_of_the_account_are_counted_too_and_other_accounts_are_not(settled: Ledger) -> None:
    other_feed = Ledger(settled.engine, Scope(feed="other"), settled.clock)
    other_account = Ledger(settled.engine, Scope(account="other"), settled.clock)
    assert _spent(other_feed) == _spent(settled)
    assert _spent(other_account) == []
    assert _uncounted(other_account) == Uncounted()


def test_a_crawl_is_one_attempt_and_costs_its_pages(ledger: Ledger) -> None:
    ledger.submissions.plan(DAY, [Target("c" * 32, CRAWL, {"limit": 30}, is_crawl=True)])
    [claimed] = ledger.submissions.claim_crawl(DAY, None, LEASE)
    ledger.submissions.record_accepted(
        [AcceptedSubmission(claimed.request_id, "crawl", Kind.CRAWL)], ledger.clock()
    )
    assert _spent(ledger) == [Spent("", Outcome.IN_FLIGHT, 1, 0)]
    assert _uncounted(ledger).in_flight == 30
    bring_news(ledger, "crawl")
    [job] = ledger.outcomes.claim(DAY, 1, LEASE, (Kind.CRAWL,))
    found = {CRAWL: page(), f"{CRAWL}/1": page(" "), f"{CRAWL}/2": page()}
    items = tuple(ItemOutcome(hash_url(url), content, url) for url, content in found.items())
    ledger.outcomes.commit([JobOutcome(job, Ended(items, "completed"))])
    assert _spent(ledger) == [Spent("", Outcome.EMPTY, 0, 1), Spent("", Outcome.STORED, 1, 2)]
    assert _uncounted(ledger) == Uncounted()


def test_what_may_be_charged_besides_is_told_by_its_reason(settled: Ledger, clock: HandClock) -> None:
    [large] = accept(settled, "https://site.test/large")
    finish(settled, {large: GivenUp(LetterCode.TOO_LARGE, "Too large.")})
    finish(settled, {large: PERMANENT})  # the letter has the newer reason
    plan(settled, "https://site.test/unresolved")
    unresolved = claim_one(settled)
    settled.submissions.give_up_unresolved([unresolved.request_id], "Nobody knows.")
    for code in (LetterCode.EXPIRED, LetterCode.UNREADABLE):
        [job] = accept(settled, f"https://site.test/{code}")
        finish(settled, {job: Failure(code, "Not to be had.", retryable=False)})
    settled.foreign_jobs.note(
        [
            ForeignJob("other-1", "https://other.test/", "completed", clock.now),
            ForeignJob("other-2", "https://other.test/", "failed", clock.now),
            ForeignJob("other-3", "https://other.test/", "completed", clock.now - timedelta(days=2)),
            ForeignJob("other-4", None, "completed", None, Kind.BATCH),
        ]
    )
    found = _uncounted(settled)
    assert found == Uncounted(
        in_flight=1, given_up=1, unresolved=1, not_storable=2, other_programs=1, other_programs_bulk=1
    )
    assert found.pages == 6


def test_a_lost_job_that_is_found_again_after_its_resubmission_was_paid_twice(
    ledger: Ledger, clock: HandClock
) -> None:
    [job] = accept(ledger, URLS[0])
    finish(ledger, {job: GivenUp(LetterCode.LOST, "Gone.")})
    ledger.resubmissions.resubmit(ledger.resubmissions.settled_targets(DAY, "failed"))
    assert _uncounted(ledger).given_up == 1
    finish(ledger, {job: page()})
    finish(ledger, dict.fromkeys(accept_planned(ledger), page()))
    assert _uncounted(ledger) == Uncounted(paid_twice=1)
    assert _spent(ledger) == [Spent("", Outcome.STORED, 2, 2)]


def test_no_page_is_read_for_what_it_cost(fresh_sqlite_url: str, clock: HandClock) -> None:
    """Rows are as wide as their pages: SQLite is to find everything in indexes."""
    with Ledger.open(fresh_sqlite_url, clock=clock) as ledger:
        statements: list[tuple[str, Any]] = []
        event.listen(
            ledger.engine,
            "before_cursor_execute",
            lambda _connection, _cursor, statement, values, *_rest: statements.append((statement, values)),
        )
        costs: CostStore = ledger.costs
        costs.spent(clock.now - timedelta(days=1), clock.now, "label:topic")
        with ledger.engine.connect() as connection:
            plans = [
                row.detail
                for statement, values in list(statements)
                if statement.startswith("SELECT")
                for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
            ]
    touched = [step for step in plans if " page " in step or " results " in step]
    assert touched
    assert [step for step in touched if "COVERING INDEX" not in step] == []
