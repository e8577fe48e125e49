"""The delivery log: what nobody of ours has taken becomes news, however the service tells of it."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from scraper_pipeline.ledger import Channel, DeliveryAttempt, GivenUp, Ledger, LetterCode, RegisteredWebhook
from scraper_pipeline.ledger.schema import deliveries, processed_events
from scraper_pipeline.lifecycle import DeliveryLogReport, read_delivery_log
from scraper_pipeline.scraper_api import ScraperClient, ServerError
from scraper_pipeline_tests.integration.ledger.driving import (
    HandClock,
    accept,
    bring_news,
    claim_jobs,
    finish,
    is_processed,
    page,
    rows,
    settle,
    state_of,
)
from scraper_pipeline_tests.integration.lifecycle.world import IMPATIENT
from scraper_pipeline_tests.integration.webhooks.log_service import NOON, Line, LogService

HOUR = 3600.0


@pytest.fixture
def job(ledger: Ledger) -> str:
    """A job of ours of which no channel has brought any news."""
    [job_id] = accept(ledger, "https://site.test/a")
    return job_id


@pytest.fixture(autouse=True)
def webhook(ledger: Ledger, log_service: LogService) -> str:
    register(ledger, log_service, "w-1")
    return "w-1"


def register(ledger: Ledger, log_service: LogService, webhook_id: str) -> None:
    ledger.webhooks.remember(
        RegisteredWebhook(webhook_id, f"https://receiver.test/{webhook_id}", "extract_completed", True, NOON)
    )
    log_service.logs[webhook_id] = []


async def read(ledger: Ledger, service: LogService, **options: Any) -> DeliveryLogReport:
    async with ScraperClient(host=service.url, api_key="k", policy=IMPATIENT) as client:
        return await read_delivery_log(ledger, client, **options)


def news(ledger: Ledger) -> set[str]:
    """The jobs of which the log has brought news."""
    found = rows(ledger, select(processed_events).where(processed_events.c.delivery_log_at.is_not(None)))
    return {row.job_id for row in found}


def known(ledger: Ledger) -> int:
    return len(rows(ledger, select(deliveries)))


@pytest.mark.parametrize(
    ("http_status", "status"),
    [
        (401, "failed"),
        (401, "abandoned"),
        (500, "success"),
        (302, "delivered"),
        (None, "failed"),
        (None, "abandoned"),
        (413, ""),
    ],
)
async def test_a_delivery_that_was_not_acknowledged_is_news(
    ledger: Ledger, log_service: LogService, job: str, http_status: int | None, status: str
) -> None:
    log_service.logs["w-1"] = [Line("d-1", job, 1, http_status, status)]
    report = await read(ledger, log_service)
    assert (report.attempts, report.new_attempts, report.replayed) == (1, 1, 1)
    assert [claimed.job_id for claimed in claim_jobs(ledger)] == [job]


@pytest.mark.parametrize(("http_status", "status"), [(200, "success"), (204, "failed"), (202, "anything")])
async def test_a_delivery_that_we_have_acknowledged_is_no_news(
    ledger: Ledger, log_service: LogService, job: str, http_status: int, status: str
) -> None:
    bring_news(ledger, job, channel=Channel.WEBHOOK)
    log_service.logs["w-1"] = [Line("d-1", job, 1, http_status, status)]
    assert (await read(ledger, log_service)).replayed == 0


async def test_a_delivery_that_somebody_else_has_acknowledged_is_news(
    ledger: Ledger, log_service: LogService, job: str
) -> None:
    log_service.logs["w-1"] = [Line("d-1", job, 1, 200)]
    assert (await read(ledger, log_service)).replayed == 1
    assert news(ledger) == {job}


@pytest.mark.parametrize("seconds", [0.0, 30.0])
async def test_a_delivery_that_was_refused_and_then_acknowledged_is_no_news(
    ledger: Ledger, log_service: LogService, job: str, seconds: float
) -> None:
    bring_news(ledger, job, channel=Channel.WEBHOOK)
    refused = Line("d-1", job, 1, 401, "failed")
    log_service.logs["w-1"] = [refused, Line("d-2", job, 1 + seconds, 200, attempt_number=2)]
    assert (await read(ledger, log_service)).replayed == 0
    assert news(ledger) == set()


async def test_an_attempt_that_is_still_to_be_made_says_nothing(
    ledger: Ledger, log_service: LogService, job: str
) -> None:
    log_service.logs["w-1"] = [Line("d-1", job, 1, None, "pending")]
    assert (await read(ledger, log_service)).replayed == 0
    assert ledger.webhooks.figures(NOON).refused == {}


async def test_a_refusal_counts_although_another_attempt_is_planned(
    ledger: Ledger, log_service: LogService, job: str
) -> None:
    planned = Line("d-2", job, 2, None, "pending", attempt_number=2)
    log_service.logs["w-1"] = [Line("d-1", job, 1, 401, "failed"), planned]
    assert (await read(ledger, log_service)).replayed == 1


async def test_an_attempt_that_was_refused_after_it_had_been_seen_is_news(
    ledger: Ledger, log_service: LogService, job: str
) -> None:
    line = Line("d-1", job, 1, None, "pending")
    log_service.logs["w-1"] = [line]
    await read(ledger, log_service)
    line.status, line.http_status = "abandoned", 401
    report = await read(ledger, log_service)
    assert (report.new_attempts, report.replayed) == (0, 1)
    assert ledger.webhooks.figures(NOON).refused == {"401": 1}


async def test_the_same_refusal_is_news_once(ledger: Ledger, log_service: LogService, job: str) -> None:
    log_service.logs["w-1"] = [Line("d-1", job, 1, 401, "abandoned")]
    assert [(await read(ledger, log_service)).replayed for _ in range(3)] == [1, 0, 0]


async def test_the_refusal_of_a_job_that_is_done_is_no_news(
    ledger: Ledger, log_service: LogService, job: str
) -> None:
    finish(ledger, {job: page()})
    log_service.logs["w-1"] = [Line("d-1", job, 1, 401, "abandoned")]
    assert (await read(ledger, log_service)).replayed == 0
    assert is_processed(ledger, job)


async def test_a_refusal_after_the_job_was_given_up_reopens_it(
    ledger: Ledger, log_service: LogService, job: str
) -> None:
    bring_news(ledger, job, channel=Channel.WEBHOOK)
    settle(ledger, GivenUp(LetterCode.TIMED_OUT, "It took too long."))
    assert state_of(ledger, "https://site.test/a") == "dead"
    log_service.logs["w-1"] = [Line("d-1", job, 1, 200), Line("d-2", job, 2, 503, "abandoned")]
    assert (await read(ledger, log_service)).replayed == 1
    settle(ledger, page())
    assert state_of(ledger, "https://site.test/a") == "stored"
    assert ledger.audit.check() == []


async def test_jobs_of_other_programs_do_no_harm(ledger: Ledger, log_service: LogService, job: str) -> None:
    log_service.logs["w-1"] = [Line("d-1", "a stranger", 1, 401), Line("d-2", job, 2, 401)]
    await read(ledger, log_service)
    assert (await read(ledger, log_service)).replayed == 0
    settle(ledger, page())
    assert is_processed(ledger, job)
    assert not is_processed(ledger, "a stranger")
    assert ledger.progress.partitions_to_settle() == []
    assert ledger.audit.check() == []


async def test_the_refusal_of_a_job_that_is_not_recorded_yet_waits_for_it(
    ledger: Ledger, log_service: LogService
) -> None:
    log_service.logs["w-1"] = [Line("d-1", "job of https://site.test/early", 1, 503, "abandoned")]
    await read(ledger, log_service)
    accept(ledger, "https://site.test/early")
    assert settle(ledger, page()).stored == 1


async def test_an_attempt_without_a_job_is_kept_and_is_no_news(
    ledger: Ledger, log_service: LogService
) -> None:
    log_service.logs["w-1"] = [Line("d-1", None, 1, 500)]
    report = await read(ledger, log_service)
    assert (report.new_attempts, report.replayed) == (1, 0)
    assert ledger.webhooks.figures(NOON).refused == {"500": 1}


async def test_an_attempt_whose_job_is_no_longer_told_keeps_it(
    ledger: Ledger, log_service: LogService, job: str
) -> None:
    line = Line("d-1", job, 1, None, "pending")
    log_service.logs["w-1"] = [line]
    await read(ledger, log_service)
    line.job_id, line.http_status, line.status = None, 401, "abandoned"
    assert (await read(ledger, log_service)).replayed == 1


@pytest.mark.parametrize("is_oldest_first", [False, True])
@pytest.mark.parametrize("counts_pages", [True, False])
async def test_every_page_of_a_log_is_read_at_first(
    ledger: Ledger, log_service: LogService, is_oldest_first: bool, counts_pages: bool
) -> None:
    log_service.is_oldest_first, log_service.counts_pages = is_oldest_first, counts_pages
    log_service.logs["w-1"] = [Line(f"d-{n}", f"job-{n}", n, 401) for n in range(250)]
    report = await read(ledger, log_service)
    assert (report.attempts, report.replayed, known(ledger)) == (250, 250, 250)


@pytest.mark.parametrize("is_oldest_first", [False, True])
async def test_what_is_new_is_found_wherever_the_log_has_it(
    ledger: Ledger, log_service: LogService, is_oldest_first: bool
) -> None:
    log_service.is_oldest_first = is_oldest_first
    old = [Line(f"old-{n}", f"job-{n}", 60.0 * n, 200) for n in range(250)]
    log_service.logs["w-1"] = old
    await read(ledger, log_service)
    log_service.logs["w-1"] = [*old, *(Line(f"d-{n}", f"new-{n}", 5 * HOUR + n, 401) for n in range(3))]
    assert (await read(ledger, log_service)).new_attempts == 3
    assert {"new-0", "new-1", "new-2"} <= news(ledger)


async def test_a_reading_goes_back_by_an_hour_and_no_further(ledger: Ledger, log_service: LogService) -> None:
    old = [Line(f"d-{n}", f"job-{n}", 60.0 * n, 200) for n in range(600)]
    log_service.logs["w-1"] = old
    await read(ledger, log_service)
    log_service.pages_read.clear()
    await read(ledger, log_service)
    assert log_service.pages_read == [1, 2]


async def test_an_attempt_that_turns_up_late_is_found_by_the_next_reading(
    ledger: Ledger, log_service: LogService, job: str
) -> None:
    newer = [Line(f"d-{n}", f"job-{n}", 2 * HOUR + n, 200) for n in range(250)]
    log_service.logs["w-1"] = newer
    await read(ledger, log_service)
    log_service.logs["w-1"] = [Line("late", job, 2 * HOUR - 3000, 401), *newer]
    await read(ledger, log_service)
    assert job in news(ledger)


async def test_a_log_that_grows_while_it_is_read_is_read_whole(
    ledger: Ledger, log_service: LogService
) -> None:
    log = [Line(f"d-{n}", f"job-{n}", n, 401) for n in range(250)]
    log_service.logs["w-1"] = log

    def grow(page: int) -> None:
        start = len(log)
        log.extend(Line(f"d-{n}", f"job-{n}", n, 401) for n in range(start, start + 30))

    log_service.before_page = grow
    await read(ledger, log_service)
    assert {f"job-{n}" for n in range(280)} <= news(ledger)
    log_service.before_page = lambda page: None
    await read(ledger, log_service)
    assert len(news(ledger)) == len(log)


async def test_what_a_broken_off_reading_did_not_reach_is_read_by_the_next_one(
    ledger: Ledger, log_service: LogService
) -> None:
    log_service.logs["w-1"] = [Line(f"d-{n}", f"job-{n}", 120.0 * n, 401) for n in range(250)]
    log_service.broken_pages = {2: 500}
    with pytest.raises(ServerError):
        await read(ledger, log_service)
    assert known(ledger) == 100
    log_service.broken_pages = {}
    await read(ledger, log_service)
    assert len(news(ledger)) == 250


async def test_a_webhook_that_is_gone_does_not_keep_the_others_from_being_read(
    ledger: Ledger, log_service: LogService, job: str
) -> None:
    register(ledger, log_service, "w-2")
    del log_service.logs["w-1"]
    log_service.logs["w-2"] = [Line("d-1", job, 1, 401)]
    report = await read(ledger, log_service)
    assert (report.gone, report.replayed) == (1, 1)


async def test_the_same_delivery_id_under_two_webhooks_is_two_attempts(
    ledger: Ledger, log_service: LogService, job: str
) -> None:
    register(ledger, log_service, "w-2")
    for webhook_id in ("w-1", "w-2"):
        log_service.logs[webhook_id] = [Line("d-1", job, 1, 401)]
    assert (await read(ledger, log_service)).new_attempts == 2


async def test_figures_count_attempts_and_take_no_refusal_for_a_delivery(
    ledger: Ledger, log_service: LogService, clock: HandClock
) -> None:
    job_ids = accept(ledger, *(f"https://site.test/{n}" for n in range(3)))
    finish(ledger, dict.fromkeys(job_ids, page()))
    log_service.logs["w-1"] = [
        Line("d-0", job_ids[0], 2, 200, delivered_at=2),
        Line("d-1", job_ids[1], 4, 200, delivered_at=6),
        Line("d-2", job_ids[2], 8, 503, "failed"),
        Line("d-3", job_ids[2], 9, None, "failed", attempt_number=2),
        Line("d-4", job_ids[2], 10, None, "pending", attempt_number=3),
    ]
    await read(ledger, log_service)
    figures = ledger.webhooks.figures(NOON)
    assert (figures.attempts, figures.acknowledged) == (5, 2)
    assert figures.refused == {"503": 1, "failed": 1}
    assert figures.last_delivery_at == NOON + timedelta(seconds=6)
    assert ledger.webhooks.figures(NOON + timedelta(seconds=9)).attempts == 2


def test_thousands_of_attempts_are_kept_in_one_call(ledger: Ledger) -> None:
    attempts = [
        DeliveryAttempt("w-1", f"d-{n}", None, f"job-{n}", 1, "failed", 401, NOON, None) for n in range(3000)
    ]
    assert ledger.webhooks.record_attempts(attempts) == 3000
    assert ledger.webhooks.record_attempts(attempts) == 0
    assert len(ledger.webhooks.unacknowledged_jobs(NOON)) == 3000
