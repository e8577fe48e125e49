"""Rule 2: an answer is recorded on the row whose request it answers, or not at all."""

import pytest
from sqlalchemy import select

from scraper_pipeline.ledger import AcceptedSubmission, Ledger, RefusedSubmission
from scraper_pipeline.ledger.schema import dead_letters, jobs, submissions
from scraper_pipeline_tests.integration.ledger.driving import (
    DAY,
    GRACE,
    LEASE,
    NEXT_DAY,
    RETRYABLE,
    HandClock,
    Interrupted,
    accept,
    attempts,
    claim,
    claim_one,
    finish,
    interrupting,
    plan,
    record,
    rows,
    state_of,
)

A, B = "https://site.test/a", "https://site.test/b"


def _job_of(ledger: Ledger, url: str) -> str | None:
    job_id: str | None = [row.job_id for row in rows(ledger, select(submissions)) if row.url == url][-1]
    return job_id


def _let_grace_pass(clock: HandClock) -> None:
    clock.advance(LEASE + GRACE + 1)


def test_an_acceptance_is_recorded_with_its_job(ledger: Ledger, clock: HandClock) -> None:
    plan(ledger, A)
    claimed = claim_one(ledger)
    assert record(ledger, claimed, "job a") == 1
    assert state_of(ledger, A) == "accepted"
    [job] = rows(ledger, select(jobs))
    assert (job.job_id, job.partition_key, job.status, job.next_look_at) == (
        "job a",
        DAY,
        "queued",
        clock.now,
    )


def test_a_late_answer_to_an_earlier_request_changes_nothing(ledger: Ledger, clock: HandClock) -> None:
    plan(ledger, A)
    earlier = claim_one(ledger)
    _let_grace_pass(clock)
    assert ledger.submissions.resolve(earlier.request_id, "none", clock.now, GRACE)
    later = claim_one(ledger)
    assert record(ledger, earlier, "job of the earlier request") == 0
    assert state_of(ledger, A) == "sending"
    assert record(ledger, later, "job of the later request") == 1
    assert _job_of(ledger, A) == "job of the later request"


def test_a_late_answer_does_not_rebind_a_row_that_a_sweep_has_bound(ledger: Ledger, clock: HandClock) -> None:
    plan(ledger, A)
    claimed = claim_one(ledger)
    _let_grace_pass(clock)
    assert ledger.submissions.resolve(claimed.request_id, "found by the sweep", clock.now, GRACE)
    assert record(ledger, claimed, "told by the answer") == 0
    assert _job_of(ledger, A) == "found by the sweep"


def test_a_late_answer_does_not_bring_a_parked_row_back(ledger: Ledger, clock: HandClock) -> None:
    plan(ledger, A)
    claimed = claim_one(ledger)
    assert ledger.submissions.give_up_unresolved([claimed.request_id], "Nobody knows.") == 1
    assert record(ledger, claimed, "job a") == 0
    assert state_of(ledger, A) == "dead"


@pytest.mark.parametrize("is_superseded", [False, True], ids=["accepted", "superseded"])
def test_a_job_is_bound_to_one_request_only(ledger: Ledger, clock: HandClock, is_superseded: bool) -> None:
    [job] = accept(ledger, A)
    if is_superseded:
        finish(ledger, {job: RETRYABLE})
    plan(ledger, B)
    assert record(ledger, claim_one(ledger), job) == 0
    assert state_of(ledger, B) == "sending"


def test_an_answer_that_comes_twice_is_recorded_once(ledger: Ledger) -> None:
    plan(ledger, A)
    claimed = claim_one(ledger)
    assert record(ledger, claimed, "job a") == 1
    assert record(ledger, claimed, "job a") == 0
    assert ledger.audit.check() == []


def test_answers_are_recorded_whole_or_not_at_all(ledger: Ledger) -> None:
    plan(ledger, A, B)
    claimed = claim(ledger)
    answers = [AcceptedSubmission(one.request_id, f"job of {one.url}") for one in claimed]
    with interrupting(ledger.engine, None) as statements:
        ledger.submissions.record_accepted([], ledger.clock())
    assert statements.seen == []
    for nth in (2, 3, 4, 5):
        with pytest.raises(Interrupted), interrupting(ledger.engine, nth):
            ledger.submissions.record_accepted(answers, ledger.clock())
        assert ledger.progress.of(DAY).sending == 2
        assert rows(ledger, select(jobs)) == []
    assert ledger.submissions.record_accepted(answers, ledger.clock()) == 2


def test_a_refused_target_is_dead_with_its_letter(ledger: Ledger) -> None:
    plan(ledger, A, B)
    refused, other = claim(ledger)
    refusal = RefusedSubmission(refused.request_id, "INVALID_URL", "The URL cannot be read")
    assert ledger.submissions.record_refused([refusal]) == 1
    assert state_of(ledger, refused.url) == "dead"
    assert state_of(ledger, other.url) == "sending"
    [letter] = rows(ledger, select(dead_letters))
    assert (letter.url, letter.error_code, letter.attempts) == (refused.url, "INVALID_URL", 1)
    assert letter.error_message == "The URL cannot be read"
    assert ledger.audit.check() == []


def test_a_refusal_does_not_park_a_row_that_has_a_job(ledger: Ledger) -> None:
    plan(ledger, A)
    claimed = claim_one(ledger)
    record(ledger, claimed, "job a")
    assert ledger.submissions.record_refused([RefusedSubmission(claimed.request_id, "X", "late")]) == 0
    assert state_of(ledger, A) == "accepted"
    assert rows(ledger, select(dead_letters)) == []


def test_a_row_that_made_no_job_is_planned_again_with_its_attempt_unspent(ledger: Ledger) -> None:
    plan(ledger, A)
    assert ledger.submissions.release([claim_one(ledger).request_id]) == 1
    assert attempts(ledger, A) == ["planned"]
    assert claim_one(ledger).attempt == 1


def test_a_row_that_has_a_job_is_not_planned_again(ledger: Ledger) -> None:
    plan(ledger, A)
    claimed = claim_one(ledger)
    record(ledger, claimed, "job a")
    assert ledger.submissions.release([claimed.request_id]) == 0
    assert state_of(ledger, A) == "accepted"


def test_pages_that_may_be_charged_are_counted_over_all_days(ledger: Ledger, clock: HandClock) -> None:
    accept(ledger, A)
    plan(ledger, B, day=NEXT_DAY)
    claim(ledger, NEXT_DAY)
    assert ledger.submissions.pages_committed_since(clock.now) == 2
    clock.advance(1)
    assert ledger.submissions.pages_committed_since(clock.now) == 0
