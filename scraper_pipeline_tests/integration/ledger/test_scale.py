"""Forty thousand ids at once: in chunks, so that no engine's limit on variables is met."""

import pytest

from scraper_pipeline.ledger import Channel, ClaimedJob, Ledger, RefusedSubmission, chunked
from scraper_pipeline_tests.integration.ledger.driving import (
    HandClock,
    accept,
    bring_news,
    claim_jobs,
    outcome,
    page,
    target,
)

MANY = [f"00000000-0000-4000-8000-{number:012d}" for number in range(40_000)]
DAY = "2026-03-01"


def test_forty_thousand_ids_are_asked_about_at_once(ledger: Ledger) -> None:
    [job] = accept(ledger, "https://site.test/a")
    assert ledger.submissions.bound_jobs([*MANY, job]) == {job}
    assert ledger.submissions.release(MANY) == 0
    assert ledger.submissions.give_up_unresolved(MANY, "Nobody knows.") == 0


def test_news_of_forty_thousand_jobs_comes_at_once(ledger: Ledger) -> None:
    [job] = accept(ledger, "https://site.test/a")
    ledger.news.record([*MANY, job], Channel.SWEEP)
    ledger.news.record([*MANY, job], Channel.POLL)
    assert [one.job_id for one in claim_jobs(ledger)] == [job], (
        "and the news of unbound jobs is in nobody's way"
    )


def test_claims_and_outcomes_of_forty_thousand_jobs_are_dropped_in_chunks(
    ledger: Ledger, clock: HandClock
) -> None:
    claims = [
        ClaimedJob(job_id, "extract", "a claim", "https://site.test/a", "key", clock.now, None, 1)
        for job_id in MANY
    ]
    ledger.outcomes.release(claims)
    report = ledger.outcomes.commit([outcome(one, page()) for one in claims])
    assert (report.dropped, report.stored) == (40_000, 0)


def test_a_long_list_is_planned_and_read_in_chunks(ledger: Ledger) -> None:
    read = 0

    def targets():
        nonlocal read
        for number in range(1201):
            read += 1
            yield target(f"https://site.test/{number}")

    assert ledger.submissions.plan(DAY, targets()).planned == 1201
    assert read == 1201
    claimed = ledger.submissions.claim(DAY, 2000, 60)
    assert len(claimed) == 1201
    refusals = [RefusedSubmission(one.request_id, "INVALID_URL", "No.") for one in claimed[:5]]
    assert ledger.submissions.record_refused(refusals) == 5
    assert ledger.submissions.release([one.request_id for one in claimed]) == 1196


@pytest.mark.parametrize(("size", "lengths"), [(2, [2, 2, 1]), (5, [5]), (9, [5])])
def test_a_source_is_read_no_further_than_the_chunk_that_is_asked_for(size: int, lengths: list[int]) -> None:
    source = iter(range(5))
    first = next(chunked(source, size))
    assert next(source, None) == (size if size < 5 else None)
    assert len(first) == lengths[0]
    assert [len(chunk) for chunk in chunked(range(5), size)] == lengths


def test_rows_that_can_not_proceed_do_not_keep_settlement_from_the_rest(
    ledger: Ledger, clock: HandClock
) -> None:
    urls = [f"https://site.test/{number}" for number in range(150)]
    stuck = accept(ledger, *urls[:100])
    bring_news(ledger, *stuck)
    clock.advance(1)
    good = accept(ledger, *urls[100:])
    bring_news(ledger, *good)
    reached: set[str] = set()
    for _ in range(4):
        claimed = claim_jobs(ledger, limit=50)
        reached |= {one.job_id for one in claimed}
        clock.advance(1)
        ledger.outcomes.release(claimed)  # whatever was in the way, they go to the end of the queue
    assert reached >= set(good)
