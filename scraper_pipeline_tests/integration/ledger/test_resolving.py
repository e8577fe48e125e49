"""Rule 5, the ledger's part: what a listing said of a lost answer is committed only while it still holds."""

import pytest
from sqlalchemy import select

from scraper_pipeline.ledger import Ledger, OverdueSubmission
from scraper_pipeline.ledger.schema import dead_letters
from scraper_pipeline_tests.integration.ledger.driving import (
    GRACE,
    LEASE,
    NEXT_DAY,
    RETRYABLE,
    HandClock,
    accept,
    attempts,
    claim,
    claim_one,
    finish,
    plan,
    record,
    rows,
    state_of,
)

A, B = "https://site.test/a", "https://site.test/b"


def _only_overdue(ledger: Ledger, clock: HandClock) -> OverdueSubmission:
    clock.advance(LEASE + GRACE + 1)
    [overdue] = ledger.submissions.overdue(GRACE)
    return overdue


@pytest.mark.parametrize("job_id", ["none", "job a"])
def test_nothing_is_resolved_before_the_grace_has_ended(
    ledger: Ledger, clock: HandClock, job_id: str
) -> None:
    plan(ledger, A)
    claimed = claim_one(ledger)
    clock.advance(LEASE + GRACE)
    assert ledger.submissions.overdue(GRACE) == []
    assert not ledger.submissions.resolve(claimed.request_id, job_id, clock.now, GRACE)
    assert state_of(ledger, A) == "sending"
    clock.advance(0.001)
    assert [one.request_id for one in ledger.submissions.overdue(GRACE)] == [claimed.request_id]


def test_rows_of_all_days_are_overdue_oldest_first(ledger: Ledger, clock: HandClock) -> None:
    plan(ledger, B, day=NEXT_DAY)
    claim(ledger, NEXT_DAY)
    clock.advance(10)
    plan(ledger, A)
    claim(ledger)
    clock.advance(LEASE + GRACE + 1)
    assert [one.url for one in ledger.submissions.overdue(GRACE)] == [B, A]


def test_a_lost_answer_that_made_no_job_leaves_the_same_attempt_planned(
    ledger: Ledger, clock: HandClock
) -> None:
    plan(ledger, A)
    claim(ledger)
    overdue = _only_overdue(ledger, clock)
    assert ledger.submissions.resolve(overdue.request_id, "none", clock.now, GRACE)
    assert attempts(ledger, A) == ["planned"]
    assert claim_one(ledger).attempt == 1


def test_a_lost_answer_is_bound_to_the_job_that_was_found(ledger: Ledger, clock: HandClock) -> None:
    plan(ledger, A)
    claim(ledger)
    overdue = _only_overdue(ledger, clock)
    assert ledger.submissions.resolve(overdue.request_id, "job a", clock.now, GRACE)
    assert state_of(ledger, A) == "accepted"
    assert ledger.submissions.bound_jobs(["job a", "job b"]) == {"job a"}
    assert ledger.audit.check() == []


@pytest.mark.parametrize("job_id", ["none", "job of the earlier request"])
def test_a_sweep_that_took_long_leaves_a_newer_request_alone(
    ledger: Ledger, clock: HandClock, job_id: str
) -> None:
    plan(ledger, A)
    claim(ledger)
    overdue = _only_overdue(ledger, clock)
    ledger.submissions.resolve(overdue.request_id, "none", clock.now, GRACE)
    newer = claim_one(ledger)
    clock.advance(LEASE + GRACE + 1)
    assert not ledger.submissions.resolve(overdue.request_id, job_id, clock.now, GRACE)
    [still] = ledger.submissions.overdue(GRACE)
    assert still.request_id == newer.request_id


@pytest.mark.parametrize("job_id", ["none", "found by the sweep"])
def test_a_sweep_that_took_long_leaves_a_recorded_row_alone(
    ledger: Ledger, clock: HandClock, job_id: str
) -> None:
    plan(ledger, A)
    claimed = claim_one(ledger)
    overdue = _only_overdue(ledger, clock)
    assert record(ledger, claimed, "told by the late answer") == 1
    assert not ledger.submissions.resolve(overdue.request_id, job_id, clock.now, GRACE)
    assert state_of(ledger, A) == "accepted"
    assert ledger.submissions.bound_jobs([job_id]) == set()


@pytest.mark.parametrize("is_superseded", [False, True], ids=["accepted", "superseded"])
def test_a_job_that_any_row_holds_is_not_taken_for_a_lost_one(
    ledger: Ledger, clock: HandClock, is_superseded: bool
) -> None:
    [job] = accept(ledger, A)
    if is_superseded:
        finish(ledger, {job: RETRYABLE})
    plan(ledger, B)
    claim(ledger)
    assert ledger.submissions.bound_jobs([job]) == {job}
    overdue = _only_overdue(ledger, clock)
    assert not ledger.submissions.resolve(overdue.request_id, job, clock.now, GRACE)
    assert state_of(ledger, B) == "sending"


def test_past_the_hard_limit_a_row_is_parked_as_unresolved(ledger: Ledger, clock: HandClock) -> None:
    plan(ledger, A, B)
    first, second = claim(ledger)
    record(ledger, second, "job b")
    parked = ledger.submissions.give_up_unresolved([first.request_id, second.request_id], "Nobody knows.")
    assert parked == 1
    assert (state_of(ledger, A), state_of(ledger, B)) == ("dead", "accepted")
    assert [(one.url, one.error_code) for one in rows(ledger, select(dead_letters))] == [(A, "unresolved")]
    assert ledger.audit.check() == []
