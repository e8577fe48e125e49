"""Rule 6: what is given up is dead reversibly, and late evidence is worth more than our patience."""

import pytest
from sqlalchemy import select

from scraper_pipeline.ledger import CommitReport, GivenUp, Ledger, LetterCode, NotYet
from scraper_pipeline.ledger.schema import dead_letters, jobs, processed_events, results
from scraper_pipeline_tests.integration.ledger.driving import (
    DAY,
    LEASE,
    PERMANENT,
    RETRYABLE,
    HandClock,
    accept,
    accept_planned,
    attempts,
    bring_news,
    claim_jobs,
    contents,
    finish,
    is_processed,
    outcome,
    page,
    rows,
    settle,
    state_of,
)

A, B = "https://site.test/a", "https://site.test/b"
TIMED_OUT = GivenUp(LetterCode.TIMED_OUT, "It took too long.")
LOST = GivenUp(LetterCode.LOST, "The service does not know it.")


@pytest.mark.parametrize("verdict", [TIMED_OUT, LOST], ids=lambda verdict: verdict.code)
def test_a_job_that_is_given_up_leaves_a_letter_and_no_stamp(ledger: Ledger, verdict: GivenUp) -> None:
    [job] = accept(ledger, A)
    assert finish(ledger, {job: verdict}) == CommitReport(given_up=1)
    assert attempts(ledger, A) == ["dead"]
    assert not is_processed(ledger, job)
    assert [one.error_code for one in rows(ledger, select(dead_letters))] == [verdict.code]
    assert claim_jobs(ledger) == []
    assert ledger.audit.check() == []


def test_a_page_that_comes_after_all_is_stored_and_resolves_the_letter(
    ledger: Ledger, clock: HandClock
) -> None:
    [job] = accept(ledger, A)
    finish(ledger, {job: LOST})
    clock.advance(3600)
    assert finish(ledger, {job: page()}) == CommitReport(stored=1, processed=1)
    assert attempts(ledger, A) == ["stored"]
    [letter] = rows(ledger, select(dead_letters))
    assert (letter.resolved_at, letter.resolution) == (clock.now, "stored")
    assert is_processed(ledger, job)
    assert ledger.audit.check() == []


def test_a_failure_that_comes_after_all_makes_the_end_final(ledger: Ledger, clock: HandClock) -> None:
    [job] = accept(ledger, A)
    finish(ledger, {job: TIMED_OUT})
    clock.advance(3600)
    assert finish(ledger, {job: PERMANENT}) == CommitReport(processed=1)
    assert attempts(ledger, A) == ["dead"]
    [letter] = rows(ledger, select(dead_letters))
    assert (letter.error_code, letter.resolved_at) == ("PERMANENT_BLOCK", None)
    assert is_processed(ledger, job)
    bring_news(ledger, job)
    assert claim_jobs(ledger) == []
    assert ledger.audit.check() == []


def test_an_older_answer_does_not_undo_a_job_that_was_given_up_meanwhile(
    ledger: Ledger, clock: HandClock
) -> None:
    """What was called lost may have been resubmitted since: an answer from before has to be dropped."""
    [job] = accept(ledger, A)
    bring_news(ledger, job)
    slow = claim_jobs(ledger)
    clock.advance(LEASE)
    settle(ledger, LOST)
    before = contents(ledger)
    assert ledger.outcomes.commit([outcome(one, page()) for one in slow]) == CommitReport(dropped=1)
    assert contents(ledger) == before


def test_asking_for_a_settlement_is_no_evidence_and_reopens_nothing(ledger: Ledger) -> None:
    [job] = accept(ledger, A)
    finish(ledger, {job: TIMED_OUT})
    ledger.news.request_settlement([job])
    assert claim_jobs(ledger) == []


def test_only_rows_that_wait_are_given_up(ledger: Ledger, clock: HandClock) -> None:
    a, b = accept(ledger, A, B)
    finish(ledger, {a: RETRYABLE})
    clock.advance(LEASE)
    assert finish(ledger, {b: TIMED_OUT}).given_up == 1
    assert attempts(ledger, A) == ["superseded", "planned"]


def test_what_can_not_be_decided_yet_is_taken_up_again_in_its_time(ledger: Ledger, clock: HandClock) -> None:
    [job] = accept(ledger, A)
    later = clock.now.replace(minute=5)
    assert finish(ledger, {job: NotYet(later, status="archived")}) == CommitReport(postponed=1)
    assert state_of(ledger, A) == "accepted"
    assert [row.status for row in rows(ledger, select(jobs))] == ["archived"]
    assert claim_jobs(ledger) == []
    clock.now = later
    assert [one.tries for one in claim_jobs(ledger)] == [2]


def test_a_spell_of_absence_is_counted_from_its_first_look_and_ends_with_any_answer(
    ledger: Ledger, clock: HandClock
) -> None:
    [job] = accept(ledger, A)
    began = clock.now
    finish(ledger, {job: NotYet(clock.advance(10), is_missing=True)})
    [claimed] = claim_jobs(ledger)
    assert claimed.missing_since is not None
    first_missed = claimed.missing_since
    assert first_missed > began
    ledger.outcomes.commit([outcome(claimed, NotYet(clock.advance(10), is_missing=True))])
    [claimed] = claim_jobs(ledger)
    assert claimed.missing_since == first_missed
    ledger.outcomes.commit([outcome(claimed, NotYet(clock.advance(10)))])
    assert [one.missing_since for one in claim_jobs(ledger)] == [None]


def test_late_news_of_a_given_up_job_is_settled_at_once(ledger: Ledger, clock: HandClock) -> None:
    [job] = accept(ledger, A)
    bring_news(ledger, job)
    claimed = claim_jobs(ledger, lease=24 * 3600)
    ledger.outcomes.commit([outcome(one, TIMED_OUT) for one in claimed])
    clock.advance(1)
    bring_news(ledger, job)
    [row] = rows(ledger, select(processed_events))
    assert row.given_up_at is None
    assert [one.job_id for one in claim_jobs(ledger)] == [job]


def test_a_late_page_of_an_attempt_that_was_followed_by_another_changes_the_day(ledger: Ledger) -> None:
    [first] = accept(ledger, A)
    finish(ledger, {first: LOST})
    ledger.resubmissions.resubmit(ledger.resubmissions.settled_targets(DAY, "failed"))
    [second] = accept_planned(ledger)
    finish(ledger, {second: PERMANENT})
    before = ledger.progress.revision(DAY)
    finish(ledger, {first: page()})
    assert [one.job_id for one in rows(ledger, select(results))] == [first]
    assert ledger.progress.revision(DAY) > before, "the day is shown and published anew"
    assert ledger.audit.check() == []
