"""Which channel brought the news first, and how long after the job's end: counted once a job."""

from datetime import datetime, timedelta

import pytest

from scraper_pipeline.ledger import Channel, ChannelFigures, Delivery, Ended, ItemOutcome, JobOutcome, Ledger
from scraper_pipeline.lifecycle import read_delivery_log, register_webhooks
from scraper_pipeline.webhook_secrets import SecretsFile
from scraper_pipeline_tests.integration.dagster.driving import wait_for
from scraper_pipeline_tests.integration.ledger.driving import (
    DAY,
    NEXT_DAY,
    HandClock,
    accept,
    bring_news,
    claim_jobs,
    page,
)
from scraper_pipeline_tests.integration.lifecycle.world import World
from scraper_pipeline_tests.integration.sandbox.receiver import Receiver

NOTHING = ChannelFigures()


def _complete(ledger: Ledger, at: datetime | None) -> None:
    """Settle what has news: the service says that it was completed at this time."""
    ledger.outcomes.commit(
        [
            JobOutcome(job, Ended((ItemOutcome(job.item_key, page()),), "completed", at))
            for job in claim_jobs(ledger)
        ]
    )


def test_the_first_channel_counts_and_the_others_are_heard(ledger: Ledger, clock: HandClock) -> None:
    completed_at = clock.now
    [job] = accept(ledger, "https://site.test/a")
    clock.advance(2)
    ledger.inbox.commit([Delivery(job)])
    clock.advance(3)
    bring_news(ledger, job, channel=Channel.POLL)
    clock.advance(5)
    bring_news(ledger, job, channel=Channel.DELIVERY_LOG)
    _complete(ledger, completed_at)
    figures = ledger.channels.of(DAY)
    assert figures[Channel.WEBHOOK] == ChannelFigures(heard=1, first=1, latency_p50=2.0, latency_p95=2.0)
    assert figures[Channel.POLL] == ChannelFigures(heard=1)
    assert figures[Channel.DELIVERY_LOG] == ChannelFigures(heard=1)
    assert figures[Channel.SWEEP] == NOTHING


def test_latencies_are_of_the_jobs_that_the_channel_brought_first(ledger: Ledger, clock: HandClock) -> None:
    completed_at = clock.now
    jobs = accept(ledger, *(f"https://site.test/{number}" for number in range(20)))
    for job in jobs:
        clock.advance(1)
        bring_news(ledger, job, channel=Channel.SWEEP)
    _complete(ledger, completed_at)
    sweep = ledger.channels.of(DAY)[Channel.SWEEP]
    assert (sweep.first, sweep.latency_p50, sweep.latency_p95) == (20, 11.0, 20.0)


@pytest.mark.parametrize("seconds", [None, 5.0])
def test_a_job_whose_end_is_unknown_or_in_the_future_is_counted_all_the_same(
    ledger: Ledger, clock: HandClock, seconds: float | None
) -> None:
    [job] = accept(ledger, "https://site.test/a")
    bring_news(ledger, job, channel=Channel.WEBHOOK)
    _complete(ledger, None if seconds is None else clock.now + timedelta(seconds=seconds))
    webhook = ledger.channels.of(DAY)[Channel.WEBHOOK]
    assert (webhook.first, webhook.latency_p50) == (1, 0.0 if seconds is None else -5.0)


def test_each_day_has_figures_of_its_own(ledger: Ledger) -> None:
    bring_news(ledger, *accept(ledger, "https://site.test/a"), channel=Channel.WEBHOOK)
    bring_news(ledger, *accept(ledger, "https://site.test/b", day=NEXT_DAY), "a stranger")
    assert ledger.channels.of(DAY)[Channel.WEBHOOK].first == 1
    assert ledger.channels.of(DAY)[Channel.POLL] == NOTHING
    assert ledger.channels.of(NEXT_DAY)[Channel.POLL].first == 1
    assert set(ledger.channels.of("2026-12-31").values()) == {NOTHING}


async def test_the_log_tells_how_long_acknowledgements_took(
    world: World, secrets: SecretsFile, receiver: Receiver
) -> None:
    """Against the real clock of a service: neither negative nor absurd."""
    began = world.clock.now()
    async with world.client() as client:
        await register_webhooks(world.ledger, client, secrets, receiver.url)
        await world.bring_to_an_end(*world.urls(3))
        receiver.wait(3)
        wait_for(lambda: all(job["deliveries"]["acknowledged"] for job in world.jobs()))
        report = await read_delivery_log(world.ledger, client)
    assert report.attempts == 3
    figures = world.ledger.webhooks.figures(began - timedelta(seconds=1))
    assert figures.acknowledged == 3
    assert 0 <= figures.latency_p50 <= figures.latency_p95 < 60
