"""The life of deliveries by a clock that stands still, over a sender without a network."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from pydantic import ValidationError

from scraper_pipeline.sandbox.answers import job_body
from scraper_pipeline.sandbox.clock import Clock
from scraper_pipeline.sandbox.config import SandboxConfig
from scraper_pipeline.sandbox.faults import FaultBook, Faults
from scraper_pipeline.sandbox.jobs import Job
from scraper_pipeline.sandbox.requests import ExtractRequest
from scraper_pipeline.sandbox.rules import SlowDelivery
from scraper_pipeline.sandbox.webhooks.book import Webhook, WebhookBook
from scraper_pipeline.sandbox.webhooks.deliveries import Deliveries
from scraper_pipeline.sandbox.webhooks.sending import Answer, Sender

NOON = datetime(2026, 5, 27, 12, tzinfo=UTC)


class Postbox(Sender):
    """Keeps what it is given; every delivery is answered with `status`, once `is_open`."""

    def __init__(self) -> None:
        super().__init__(allow_any_host=False, timeout=1, connections=1)
        self.bodies: list[bytes] = []
        self.status = 200
        self.in_flight = self.most_in_flight = 0
        self.is_open = asyncio.Event()
        self.is_open.set()

    async def send(
        self, url: str, body: bytes, headers: Sequence[tuple[str, str]], slow: SlowDelivery | None = None
    ) -> Answer:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await self.is_open.wait()
        self.in_flight -= 1
        self.bodies.append(body)
        return Answer(self.status)


class Works:
    """Deliveries to one webhook; retries follow at once unless the options say otherwise."""

    def __init__(self, faults: dict[str, Any] | None = None, **options: Any) -> None:
        self.config = SandboxConfig.model_validate({"webhook_retry_schedule": (0, 0), **options})
        self.book, self.postbox = WebhookBook(), Postbox()
        self.faults = FaultBook(3, Faults.model_validate(faults or {}))
        self.webhook = Webhook("http://127.0.0.1:1/", "extract_completed", None, NOON, NOON)
        self.book.add(self.webhook)
        self.deliveries = Deliveries(
            self.config,
            book=self.book,
            faults=self.faults,
            clock=Clock(now=lambda: NOON, monotonic=lambda: 0.0),
            sender=self.postbox,
            describe=lambda job: job_body(cast(Job, job), time=0.0, url=job.aim),
        )

    def job(self, url: str = "http://x/", mode: str = "async") -> Job:
        request = ExtractRequest.model_validate({"url": url, "processing_mode": mode})
        return Job(0, request, created_at=NOON, created_time=0, begin_time=1, listed_time=0)

    def log(self) -> list[tuple[int, str, int | None]]:
        return [(row.number, row.status, row.http_status) for row in self.webhook.log]


async def settle() -> None:
    for _ in range(100):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, [(1, "success", 200)]),
        (204, [(1, "success", 204)]),
        (301, [(1, "failed", 301), (2, "failed", 301), (3, "abandoned", 301)]),
        (410, [(1, "failed", 410), (2, "failed", 410), (3, "abandoned", 410)]),
    ],
)
async def test_whatever_is_not_2xx_is_repeated_by_the_schedule(
    status: int, expected: list[tuple[int, str, int]]
):
    works = Works()
    works.postbox.status = status
    works.deliveries.announce(works.job())
    await settle()
    assert works.log() == expected
    await works.deliveries.close()


async def test_the_next_attempt_is_in_the_log_as_pending_while_it_waits():
    works = Works(webhook_retry_schedule=(60,))
    works.postbox.status = 500
    works.deliveries.announce(works.job())
    await settle()
    assert works.log() == [(1, "failed", 500), (2, "pending", None)]
    await works.deliveries.close()


async def test_what_waits_costs_no_task_and_no_more_is_sent_at_once_than_there_are_workers():
    works = Works(webhook_workers=4)
    works.postbox.is_open.clear()
    before = len(asyncio.all_tasks())
    for _ in range(5000):
        works.deliveries.announce(works.job())
    await settle()
    assert len(asyncio.all_tasks()) - before <= 10
    assert works.postbox.most_in_flight == 4
    await works.deliveries.close()


async def test_an_event_reaches_only_webhooks_that_were_there_and_active():
    works = Works()
    works.webhook.is_active = False
    works.deliveries.announce(works.job())
    works.webhook.is_active = True
    works.deliveries.announce(works.job(mode="sync"))
    await settle()
    assert works.log() == []
    await works.deliveries.close()


@pytest.mark.parametrize("is_deleted", [True, False])
async def test_a_webhook_that_is_deleted_or_off_gets_no_attempt_that_was_planned(is_deleted: bool):
    works = Works()
    works.deliveries.announce(works.job())
    if is_deleted:
        works.book.delete(works.webhook)
    else:
        works.webhook.is_active = False
    await settle()
    assert works.log() == [(1, "abandoned", None)]
    assert works.postbox.bodies == []
    await works.deliveries.close()


async def test_held_events_follow_in_reverse():
    works = Works({"webhook_out_of_order": {"count": 3, "seconds": 60}}, webhook_workers=1)
    jobs = [works.job() for _ in range(4)]
    for job in jobs:
        works.deliveries.announce(job)
    await settle()
    sent = [job.job_id for body in works.postbox.bodies for job in jobs if job.job_id.encode() in body]
    assert sent == [jobs[number].job_id for number in (3, 2, 1, 0)]
    await works.deliveries.close()


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:99999/",
        "http://a b/",
        "http://..../",
        "http://[v1.x]/",
        "http://127.0.0.1:1/%zz",
        f"http://{'x' * 300}.invalid/",
        "no address",
    ],
)
async def test_a_url_that_cannot_be_called_is_an_answer_and_no_exception(url: str):
    sender = Sender(allow_any_host=False, timeout=1, connections=1)
    answer = await sender.send(url, b"{}", [])
    assert answer.http_status is None
    assert answer.error
    await sender.close()


async def test_the_same_jobs_are_struck_whatever_the_order_in_which_they_end():
    fates = []
    for step in (1, -1):
        works = Works({"webhook_drop": 0.5})
        jobs = [works.job(f"http://x/{number}") for number in range(50)]
        for job in jobs[::step]:
            works.deliveries.announce(job)
        fates.append([works.book.tally(job).dropped for job in jobs])
        await works.deliveries.close()
    assert fates[0] == fates[1]
    assert 10 < sum(fates[0]) < 40


def test_no_secret_shows_in_a_representation():
    works = Works()
    works.webhook.rotate()
    assert works.webhook.previous_secret
    for secret in (works.webhook.secret, works.webhook.previous_secret):
        assert secret not in repr(works.webhook)


@pytest.mark.parametrize(
    "options",
    [
        {"webhook_retry_schedule": (-1,)},
        {"webhook_timeout": 0},
        {"webhook_workers": 0},
        {"webhook_signature": "md5"},
        {"webhook_signature_header": "X Signature"},
        {"webhook_payload": "newest"},
    ],
)
def test_options_out_of_bounds_are_refused(options: dict[str, Any]):
    with pytest.raises(ValidationError):
        SandboxConfig.model_validate(options)
