"""Replay on purpose: what is left to do is done, what is done says so, and every replay is counted."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from scraper_pipeline.ledger import Channel, GivenUp, Ledger, LetterCode, NotYet, RegisteredWebhook
from scraper_pipeline.ledger.schema import processed_events
from scraper_pipeline.lifecycle import replay_deliveries
from scraper_pipeline.scraper_api import ScraperClient
from scraper_pipeline_tests.integration.ledger.driving import (
    DAY,
    HandClock,
    accept,
    bring_news,
    claim_jobs,
    contents,
    finish,
    page,
    rows,
    settle,
    state_of,
)
from scraper_pipeline_tests.integration.lifecycle.world import IMPATIENT
from scraper_pipeline_tests.integration.webhooks.log_service import NOON, Line, LogService


@pytest.fixture
def job(ledger: Ledger) -> str:
    [job_id] = accept(ledger, "https://site.test/a")
    return job_id


def _replays(ledger: Ledger, job_id: str) -> int:
    [row] = rows(ledger, select(processed_events).where(processed_events.c.job_id == job_id))
    return int(row.replays)


def test_r16_a_replay_after_a_fix_runs_to_its_end_and_the_next_one_says_that_nothing_is_left(
    ledger: Ledger, job: str
) -> None:
    assert ledger.webhooks.replay([job]).taken_up == 1
    assert settle(ledger, page()).stored == 1
    before = contents(ledger)
    second = ledger.webhooks.replay([job])
    assert (second.taken_up, second.already_done) == (0, 1)
    assert claim_jobs(ledger) == []
    assert _replays(ledger, job) == 2
    after = contents(ledger)
    assert {table for table in before if before[table] != after[table]} == {"processed_events"}
    assert ledger.progress.of(DAY).stored == 1
    assert ledger.audit.check() == []


def test_two_replays_before_any_settlement_settle_the_job_once(ledger: Ledger, job: str) -> None:
    assert [ledger.webhooks.replay([job]).taken_up for _ in range(2)] == [1, 1]
    assert settle(ledger, page()).stored == 1
    assert claim_jobs(ledger) == []
    assert _replays(ledger, job) == 2


def test_jobs_of_others_are_counted_and_left_alone(ledger: Ledger, job: str) -> None:
    report = ledger.webhooks.replay([job, job, "a stranger"])
    assert (report.taken_up, report.already_done, report.not_ours) == (1, 0, 1)
    assert [row.job_id for row in rows(ledger, select(processed_events))] == [job]


def test_a_job_that_waits_to_be_looked_at_again_is_taken_up_at_once(ledger: Ledger, job: str) -> None:
    bring_news(ledger, job)
    settle(ledger, NotYet(NOON + timedelta(hours=1)))
    assert claim_jobs(ledger) == []
    ledger.webhooks.replay([job])
    assert [claimed.job_id for claimed in claim_jobs(ledger)] == [job]


def test_a_job_that_is_just_being_settled_is_not_taken_out_of_its_hands(ledger: Ledger, job: str) -> None:
    bring_news(ledger, job)
    [claimed] = claim_jobs(ledger)
    ledger.webhooks.replay([job])
    assert claim_jobs(ledger) == []
    assert claimed.job_id == job


def test_a_job_that_was_given_up_is_looked_at_again(ledger: Ledger, job: str) -> None:
    bring_news(ledger, job)
    settle(ledger, GivenUp(LetterCode.LOST, "The service did not know it."))
    assert ledger.webhooks.replay([job]).taken_up == 1
    settle(ledger, page())
    assert state_of(ledger, "https://site.test/a") == "stored"


def test_a_replay_does_not_claim_to_have_brought_the_first_news(
    ledger: Ledger, job: str, clock: HandClock
) -> None:
    finish(ledger, {job: page()})
    clock.advance(60)
    ledger.webhooks.replay([job])
    figures = ledger.channels.of(DAY)
    assert (figures[Channel.POLL].first, figures[Channel.DELIVERY_LOG].first) == (1, 0)


def test_more_jobs_than_a_statement_takes_are_replayed_in_one_call(ledger: Ledger) -> None:
    job_ids = accept(ledger, *(f"https://site.test/{number}" for number in range(20)))
    finish(ledger, dict.fromkeys(job_ids[:5], page()))
    report = ledger.webhooks.replay([*job_ids, *(f"stranger {n}" for n in range(1200))])
    assert (report.taken_up, report.already_done, report.not_ours) == (15, 5, 1200)


async def test_everything_that_was_attempted_since_a_time_is_replayed_acknowledged_or_not(
    ledger: Ledger, log_service: LogService, clock: HandClock
) -> None:
    job_ids = accept(ledger, *(f"https://site.test/{number}" for number in range(4)))
    ledger.webhooks.remember(
        RegisteredWebhook("w-1", "https://receiver.test", "extract_completed", True, NOON)
    )
    log_service.logs["w-1"] = [
        Line("d-0", job_ids[0], -7200, 200),
        Line("d-1", job_ids[1], 10, 200),
        Line("d-2", job_ids[2], 20, 401, "failed"),
        Line("d-3", job_ids[2], 30, 200, attempt_number=2),
    ]
    finish(ledger, {job_ids[2]: page()})
    async with ScraperClient(host=log_service.url, api_key="k", policy=IMPATIENT) as client:
        report = await replay_deliveries(ledger, client, since=NOON, job_ids=(job_ids[3],))
    assert (report.taken_up, report.already_done, report.not_ours) == (2, 1, 0)


async def test_jobs_by_name_are_replayed_without_asking_the_service(ledger: Ledger, job: str) -> None:
    assert (await replay_deliveries(ledger, None, job_ids=(job,))).taken_up == 1
