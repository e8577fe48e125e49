"""A transition that is broken off at any of its statements leaves the old state, never half of the new one."""

from collections.abc import Callable

import pytest

from scraper_pipeline.ledger import (
    AcceptedSubmission,
    BatchTerms,
    GivenUp,
    Kind,
    Ledger,
    LetterCode,
    RefusedSubmission,
    hash_url,
)
from scraper_pipeline_tests.integration.ledger.driving import (
    DAY,
    GRACE,
    LEASE,
    NEXT_DAY,
    PERMANENT,
    RETRYABLE,
    HandClock,
    Interrupted,
    Result,
    accept,
    bring_news,
    claim,
    claim_jobs,
    contents,
    finish,
    interrupting,
    outcome,
    page,
    plan,
    target,
)

Transition = Callable[[], object]
Preparation = Callable[[Ledger, HandClock], Transition]
URLS = [f"https://site.test/{number}" for number in range(6)]
LOST = GivenUp(LetterCode.LOST, "The service does not know it.")


def claiming(ledger: Ledger, clock: HandClock) -> Transition:
    plan(ledger, *URLS)
    return lambda: claim(ledger)


def recording(ledger: Ledger, clock: HandClock) -> Transition:
    plan(ledger, *URLS[:3])
    plan(ledger, *URLS[3:], day=NEXT_DAY)
    answers = [
        AcceptedSubmission(one.request_id, f"job of {one.url}")
        for one in claim(ledger) + claim(ledger, NEXT_DAY)
    ]
    return lambda: ledger.submissions.record_accepted(answers, clock.now)


def recording_a_batch(ledger: Ledger, clock: HandClock) -> Transition:
    plan(ledger, *URLS)
    request_id = ledger.submissions.claim(DAY, 0, LEASE, BatchTerms(2, 10, lambda options: True))[
        0
    ].request_id
    answer = AcceptedSubmission(request_id, "one job", Kind.BATCH, frozenset({hash_url(URLS[0])}))
    return lambda: ledger.submissions.record_accepted([answer], clock.now)


def refusing(ledger: Ledger, clock: HandClock) -> Transition:
    plan(ledger, *URLS)
    refusals = [RefusedSubmission(one.request_id, "INVALID_URL", "No.") for one in claim(ledger)]
    return lambda: ledger.submissions.record_refused(refusals)


def releasing(ledger: Ledger, clock: HandClock) -> Transition:
    plan(ledger, *URLS)
    request_ids = [one.request_id for one in claim(ledger)]
    return lambda: ledger.submissions.release(request_ids)


def resolving(ledger: Ledger, clock: HandClock) -> Transition:
    plan(ledger, URLS[0])
    [claimed] = claim(ledger)
    clock.advance(LEASE + GRACE + 1)
    return lambda: ledger.submissions.resolve(claimed.request_id, "job a", clock.now, GRACE)


def parking_unresolved(ledger: Ledger, clock: HandClock) -> Transition:
    plan(ledger, *URLS)
    request_ids = [one.request_id for one in claim(ledger)]
    return lambda: ledger.submissions.give_up_unresolved(request_ids, "Nobody knows.")


def settling(ledger: Ledger, clock: HandClock) -> Transition:
    """A chunk with every kind of outcome in it: two of the jobs were given up before."""
    job_ids = accept(ledger, *URLS)
    finish(ledger, {job_ids[0]: LOST, job_ids[1]: LOST})
    bring_news(ledger, *job_ids)
    kinds: list[Result] = [page(), PERMANENT, page(), RETRYABLE, PERMANENT, LOST]
    results = dict(zip(job_ids, kinds, strict=True))
    outcomes = [outcome(job, results[job.job_id]) for job in claim_jobs(ledger)]
    return lambda: ledger.outcomes.commit(outcomes)


@pytest.mark.parametrize(
    "prepare",
    [
        claiming,
        recording,
        recording_a_batch,
        refusing,
        releasing,
        resolving,
        parking_unresolved,
        settling,
    ],
)
def test_a_transition_happens_whole_or_not_at_all(
    ledger: Ledger, clock: HandClock, prepare: Preparation
) -> None:
    transition = prepare(ledger, clock)
    before = contents(ledger)
    nth = 0
    while True:
        nth += 1
        try:
            with interrupting(ledger.engine, nth):
                transition()
            break
        except Interrupted:
            assert contents(ledger) == before, f"half a transition after statement {nth - 1}"
    assert nth > 1
    assert contents(ledger) != before
    assert ledger.audit.check() == []


def test_planning_that_is_broken_off_anywhere_counts_as_unfinished_and_is_made_good_by_the_next(
    ledger: Ledger,
) -> None:
    """Its beginning, each of its chunks and its end are transitions of their own."""
    targets = [target(url) for url in URLS]
    nth, is_whole = 0, False
    while not is_whole:
        nth += 1
        day = f"2026-03-{nth:02}"
        try:
            with interrupting(ledger.engine, nth):
                ledger.submissions.plan(day, targets)
            is_whole = True
        except Interrupted:
            assert ledger.progress.of(day).targets in (0, len(URLS)), "half a chunk"
            assert ledger.lists.planned(day) == []
            ledger.submissions.plan(day, targets)
        assert ledger.progress.of(day).targets == len(URLS)
        assert ledger.lists.unfinished(day) == []
        assert [one.pages for one in ledger.lists.planned(day)] == [len(URLS)]
        assert ledger.audit.check() == []
    assert nth > 4


def test_a_commit_of_every_outcome_has_many_places_to_be_broken_off_at(
    ledger: Ledger, clock: HandClock
) -> None:
    transition = settling(ledger, clock)
    with interrupting(ledger.engine, None) as statements:
        transition()
    assert len(statements.seen) > 10
    assert ledger.progress.of(DAY).targets == len(URLS)
