"""Rule 1 for batches: what goes out under one request, and what goes into no batch again."""

from sqlalchemy import select

from scraper_pipeline.ledger import BatchTerms, ClaimedSubmission, Kind, Ledger, Target
from scraper_pipeline.ledger.schema import submissions
from scraper_pipeline_tests.integration.ledger.driving import DAY, GRACE, LEASE, HandClock, plan, rows

A, B, C = (f"https://site.test/{name}" for name in "abc")
TERMS = BatchTerms(smallest=2, largest=10, fits=lambda options: True)


def _claim(ledger: Ledger, limit: int = 10) -> list[ClaimedSubmission]:
    return ledger.submissions.claim(DAY, limit, LEASE, TERMS)


def _kinds(ledger: Ledger) -> set[str]:
    return {row.kind for row in rows(ledger, select(submissions))}


def test_a_batch_carries_a_url_once(ledger: Ledger) -> None:
    ledger.submissions.plan(DAY, [Target("one", A), Target("other", A), Target("third", B)])
    claimed = _claim(ledger)
    assert sorted(one.url for one in claimed) == [A, B]
    assert len({one.request_id for one in claimed}) == 1
    assert _claim(ledger) == [], "its twin waits while the URL is being sent"


def test_what_is_too_little_for_a_batch_goes_out_by_itself_or_not_at_all(ledger: Ledger) -> None:
    plan(ledger, A)
    assert _claim(ledger, limit=0) == []
    [claimed] = _claim(ledger)
    assert claimed.kind is Kind.EXTRACT


def test_rows_of_a_batch_that_was_refused_as_a_whole_go_into_no_batch_again(ledger: Ledger) -> None:
    plan(ledger, A, B, C)
    refused = _claim(ledger)[0].request_id
    assert ledger.submissions.set_apart([refused]) == 3
    assert ledger.submissions.set_apart([refused]) == 0
    assert _kinds(ledger) == {Kind.ALONE}
    assert _claim(ledger, limit=0) == []
    assert len({one.request_id for one in _claim(ledger)}) == 3


def test_rows_of_a_batch_that_never_arrived_go_into_no_batch_again(ledger: Ledger, clock: HandClock) -> None:
    plan(ledger, A, B, C)
    lost = _claim(ledger)[0].request_id
    clock.advance(LEASE + GRACE + 1)
    assert ledger.submissions.resolve(lost, "none", clock.now, GRACE, Kind.BATCH)
    assert _claim(ledger, limit=0) == []
    assert len({one.request_id for one in _claim(ledger)}) == 3


def test_rows_of_a_batch_that_made_no_job_may_go_into_the_next(ledger: Ledger) -> None:
    plan(ledger, A, B, C)
    throttled = _claim(ledger)[0].request_id
    assert ledger.submissions.release([throttled]) == 3
    again = _claim(ledger, limit=0)
    assert len(again) == 3
    assert {one.request_id for one in again} != {throttled}
