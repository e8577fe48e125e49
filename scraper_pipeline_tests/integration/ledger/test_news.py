"""News and looks: whoever brings it, however often, and before or after the submission's own answer."""

import pytest
from sqlalchemy import select

from scraper_pipeline.ledger import Channel, GivenUp, Ledger, LetterCode
from scraper_pipeline.ledger.news import LOOK_LEASE_SECONDS
from scraper_pipeline.ledger.schema import jobs, processed_events
from scraper_pipeline_tests.integration.ledger.driving import (
    DAY,
    LEASE,
    NEXT_DAY,
    HandClock,
    accept,
    bring_news,
    claim_jobs,
    claim_one,
    contents,
    finish,
    is_processed,
    page,
    plan,
    record,
    rows,
    settle,
    state_of,
)

A, B, C = (f"https://site.test/{name}" for name in "abc")
GAVE_UP = GivenUp(LetterCode.TIMED_OUT, "It took too long.")


def test_news_of_a_job_that_no_row_is_bound_to_waits_and_is_settled_once_one_is(ledger: Ledger) -> None:
    bring_news(ledger, "job a", channel=Channel.WEBHOOK)
    assert claim_jobs(ledger) == []
    assert ledger.progress.partitions_to_settle() == []
    plan(ledger, A)
    record(ledger, claim_one(ledger), "job a")
    assert [one.pending for one in ledger.progress.partitions_to_settle()] == [1]
    assert settle(ledger, page()).stored == 1
    assert state_of(ledger, A) == "stored"


def test_a_job_without_news_is_not_settled(ledger: Ledger) -> None:
    accept(ledger, A)
    assert claim_jobs(ledger) == []


def test_news_over_all_channels_is_one_row_with_the_first_time_of_each(
    ledger: Ledger, clock: HandClock
) -> None:
    first = {}
    for channel in Channel:
        first[channel] = clock.advance(1)
        bring_news(ledger, "job a", channel=channel)
    clock.advance(1)
    for channel in Channel:
        bring_news(ledger, "job a", "job a", channel=channel)
    [row] = rows(ledger, select(processed_events))
    assert {channel: getattr(row, f"{channel}_at") for channel in Channel} == first


@pytest.mark.parametrize("channel", Channel)
def test_a_redelivered_event_changes_nothing_once_its_job_is_processed(
    ledger: Ledger, channel: Channel
) -> None:
    [job] = accept(ledger, A)
    bring_news(ledger, job, channel=channel)
    settle(ledger, page())
    assert is_processed(ledger, job)
    before = contents(ledger)
    bring_news(ledger, job, channel=channel)
    ledger.news.request_settlement([job])
    assert contents(ledger) == before
    assert claim_jobs(ledger) == []


def test_news_that_comes_while_a_job_is_being_settled_does_not_give_it_to_a_second_caller(
    ledger: Ledger,
) -> None:
    [job] = accept(ledger, A)
    bring_news(ledger, job)
    assert len(claim_jobs(ledger)) == 1
    bring_news(ledger, job, channel=Channel.WEBHOOK)
    assert claim_jobs(ledger) == []


def test_a_requested_look_is_settled_like_news_and_claims_no_channel(ledger: Ledger) -> None:
    [job] = accept(ledger, A)
    ledger.news.request_settlement([job])
    ledger.news.request_settlement([job])
    [row] = rows(ledger, select(processed_events))
    assert {getattr(row, f"{channel}_at") for channel in Channel} == {None}
    assert settle(ledger, page()).stored == 1


def test_news_of_another_day_is_left_to_that_day(ledger: Ledger) -> None:
    [job] = accept(ledger, A, day=NEXT_DAY)
    bring_news(ledger, job)
    assert claim_jobs(ledger, DAY) == []
    assert [one.job_id for one in claim_jobs(ledger, NEXT_DAY)] == [job]


def test_jobs_are_looked_at_when_due_and_by_one_caller_at_a_time(ledger: Ledger, clock: HandClock) -> None:
    accepted = accept(ledger, A, B, C)
    assert {one.job_id for one in ledger.news.take_due_jobs(2)} < set(accepted)
    assert len(ledger.news.take_due_jobs(10)) == 1, "the third, and none of the first two"
    assert ledger.news.take_due_jobs(10) == []
    clock.advance(LOOK_LEASE_SECONDS)
    assert len(ledger.news.take_due_jobs(10)) == 3, "a caller that was killed holds nobody up for long"


def test_a_look_sets_when_the_next_one_is_due_and_keeps_the_status_verbatim(
    ledger: Ledger, clock: HandClock
) -> None:
    a, b = accept(ledger, A, B)
    ledger.news.take_due_jobs(10)
    ledger.news.schedule_looks({a: clock.advance(5), b: None}, {a: "archived"})
    assert ledger.news.seconds_until_next_look() == 0
    [due] = ledger.news.take_due_jobs(10)
    assert (due.job_id, due.looks) == (a, 1)
    assert {row.job_id: row.status for row in rows(ledger, select(jobs))} == {a: "archived", b: "queued"}


def test_it_is_known_how_long_nothing_is_to_be_looked_at(ledger: Ledger, clock: HandClock) -> None:
    assert ledger.news.seconds_until_next_look() is None
    [job] = accept(ledger, A)
    ledger.news.schedule_looks({job: clock.advance(7)}, {})
    clock.advance(-3)
    assert ledger.news.seconds_until_next_look() == 3
    ledger.news.schedule_looks({job: None}, {})
    assert ledger.news.seconds_until_next_look() is None


def test_a_settled_job_is_not_looked_at_again(ledger: Ledger, clock: HandClock) -> None:
    [job] = accept(ledger, A)
    finish(ledger, {job: page()})
    clock.advance(24 * 3600)
    assert ledger.news.take_due_jobs(10) == []


def test_a_job_that_was_given_up_stays_under_watch(ledger: Ledger, clock: HandClock) -> None:
    [job] = accept(ledger, A)
    finish(ledger, {job: GAVE_UP})
    clock.advance(600)
    [due] = ledger.news.take_due_jobs(10)
    assert (due.job_id, due.given_up) == (job, True)


def test_a_claim_that_was_never_committed_is_open_again_after_its_lease(
    ledger: Ledger, clock: HandClock
) -> None:
    [job] = accept(ledger, A)
    bring_news(ledger, job)
    assert [one.tries for one in claim_jobs(ledger)] == [1]
    clock.advance(LEASE - 1)
    assert claim_jobs(ledger) == []
    clock.advance(1)
    assert [one.tries for one in claim_jobs(ledger)] == [2]


def test_a_released_claim_is_open_at_once(ledger: Ledger) -> None:
    [job] = accept(ledger, A)
    bring_news(ledger, job)
    ledger.outcomes.release(claim_jobs(ledger))
    assert [one.tries for one in claim_jobs(ledger)] == [1], "a try that was broken off is none"


def test_a_claim_that_was_lost_can_not_be_released(ledger: Ledger, clock: HandClock) -> None:
    [job] = accept(ledger, A)
    bring_news(ledger, job)
    lost = claim_jobs(ledger)
    clock.advance(LEASE)
    held = claim_jobs(ledger)
    ledger.outcomes.release(lost)
    assert claim_jobs(ledger) == []
    clock.advance(LEASE)
    assert [one.job_id for one in claim_jobs(ledger)] == [job]
    assert held != lost
