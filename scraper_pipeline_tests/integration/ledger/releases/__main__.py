"""Fill a ledger by the pipeline itself, against a sandbox with faults, until it holds rows of every kind."""

import asyncio
import tempfile
from importlib.metadata import version
from pathlib import Path

from sqlalchemy import select

from scraper_pipeline.ledger import (
    Channel,
    Delivery,
    Ledger,
    LetterFilter,
    QuarantinedBody,
    ResubmissionPolicy,
    database,
)
from scraper_pipeline.ledger.schema import metadata
from scraper_pipeline.lifecycle import read_delivery_log, register_webhooks, retry_letters
from scraper_pipeline.sandbox import SandboxConfig, SandboxServer
from scraper_pipeline.scraper_api import CrawlScope
from scraper_pipeline.target_lists import make_target
from scraper_pipeline.webhook_secrets import SecretsFile
from scraper_pipeline_tests.integration.ledger.releases import FilledLedger
from scraper_pipeline_tests.integration.lifecycle.world import World, WorldClock
from scraper_pipeline_tests.integration.sandbox.receiver import Receiver

SINGLE, MIXED, OPEN = "2026-01-30", "2026-01-31", "2026-02-01"
FAULTS = {
    "job_failed": [
        {"url_contains": "pages/3"},
        {"url_contains": "pages/4", "code": "PERMANENT_BLOCK", "retryable": False},
    ],
    "never_finish": {"url_contains": "pages/9"},
}


def fill() -> FilledLedger:
    """What the release at hand makes of a few days, one of which is not over."""
    clock = WorldClock()
    config = SandboxConfig(min_delay=0.0, max_delay=0.02, fetch_timeout=1.0)
    with (
        tempfile.TemporaryDirectory() as folder,
        SandboxServer(config, clock=clock.for_service) as service,
        Ledger.open(
            f"sqlite:///{folder}/ledger.db",
            clock=clock.now,
            resubmission=ResubmissionPolicy(max_attempts=2, first_delay_seconds=5.0),
        ) as ledger,
        Receiver() as receiver,
    ):
        service.set_faults(**FAULTS)
        world = World(ledger, service, clock)
        asyncio.run(_live_through(world, receiver.url, SecretsFile(Path(folder) / "secrets.json")))
        assert ledger.audit.check() == []
        with database.reading(ledger.engine) as connection:
            tables = {
                table.name: [dict(row) for row in connection.execute(select(table)).mappings()]
                for table in metadata.sorted_tables
            }
        return FilledLedger(version("scraper-pipeline"), str(ledger.revision), tables)


async def _live_through(world: World, webhook_url: str, secrets: SecretsFile) -> None:
    ledger = world.ledger
    async with world.client() as client:
        await register_webhooks(ledger, client, secrets, webhook_url)
    await world.bring_to_an_end(*world.urls(5), day=SINGLE)
    first, second = ledger.letters.ids(LetterFilter())
    async with world.client() as client:
        await retry_letters(ledger, client, [first])
    await world.bring_to_an_end(day=SINGLE)
    ledger.letters.discard([second], note="A person has looked at it.")

    crawl = make_target(world.url(""), crawl=CrawlScope(depth=1, limit=3))
    ledger.submissions.plan(MIXED, [crawl])
    world.patient(submission_mode="batch")
    await world.bring_to_an_end(*world.urls(6), day=MIXED)

    world.patient(submission_mode="extract")
    await world.submit(world.url("pages/9"), world.url("pages/91"), day=OPEN)
    world.clock.advance(world.policy.job_timeout + 30)
    world.settle(OPEN)  # gives both up
    await world.submit(world.url("pages/92"), world.url("pages/1"), day=OPEN)
    world.plan(world.url("pages/11"), world.url("pages/12"), day=OPEN)
    ledger.submissions.claim(OPEN, 1, world.policy.send_lease)
    await world.post(world.url("pages/13"))  # as another program would
    await world.sweep()
    ledger.news.record(["a job that nobody knows"], Channel.SWEEP)
    ledger.inbox.commit(
        [Delivery("another", "extract_completed", "d-1")], [QuarantinedBody("no_job_id", b"{}")]
    )
    async with world.client() as client:
        await read_delivery_log(ledger, client)
    ledger.leases.take("settle", OPEN, "a run", 60.0)
    ledger.lists.begin(OPEN, "another list")


if __name__ == "__main__":
    print(f"written: {fill().write()}")
