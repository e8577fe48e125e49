"""The life of an event after its job's end: it is delivered, again by schedule, until acknowledged or abandoned."""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from scraper_pipeline.sandbox.agenda import Agenda
from scraper_pipeline.sandbox.clock import Clock
from scraper_pipeline.sandbox.config import SandboxConfig
from scraper_pipeline.sandbox.faults import FaultBook
from scraper_pipeline.sandbox.rules import WrongSignature
from scraper_pipeline.sandbox.webhooks.book import (
    Announced,
    Attempt,
    Delivery,
    Webhook,
    WebhookBook,
    make_secret,
)
from scraper_pipeline.sandbox.webhooks.sending import Answer, Sender
from scraper_pipeline.sandbox.webhooks.signatures import Headers, sign, spoil

_LARGE = 16 * 1024
"""Bytes of packed content above which a body is written and signed away from the event loop."""


@dataclass(frozen=True, slots=True)
class Message:
    """What one attempt sends."""

    body: bytes
    headers: Headers


class Deliveries:
    """Tells the webhooks of jobs, in any number, with a fixed number of workers.

    `describe` gives what a delivery tells of its job, as it stands at the time of the attempt.
    """

    def __init__(
        self,
        config: SandboxConfig,
        *,
        book: WebhookBook,
        faults: FaultBook,
        clock: Clock,
        sender: Sender,
        describe: Callable[[Announced], dict[str, Any]],
    ) -> None:
        self._config = config
        self._book = book
        self._faults = faults
        self._clock = clock
        self._sender = sender
        self._describe = describe
        self._agenda: Agenda[Attempt] = Agenda(clock, self._attempt, workers=config.webhook_workers)
        self._writer = ThreadPoolExecutor(1, "webhook-writer")  # more would only contend with the event loop
        self._held: list[Attempt] = []
        self._told_early: set[tuple[str, str]] = set()

    async def announce_early(self, job: Announced) -> None:
        """Where the fault strikes, tell of a job that was only just accepted; its answer waits for this."""
        first_attempts = []
        for webhook in self._book.listening_to(job.event_type):
            early = self._faults.strike("webhook_early", self._faults.faults.webhook_early, job.aim)
            if early is None:
                continue
            if not early.again:
                self._told_early.add((webhook.webhook_id, job.job_id))
            delivery = Delivery(webhook, job)
            if early.before_answer:
                delivery.first_attempt_ended = asyncio.Event()
                first_attempts.append(delivery.first_attempt_ended)
            self._plan(delivery)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._config.webhook_timeout):
                for ended in first_attempts:
                    await ended.wait()

    def announce(self, job: Announced) -> None:
        """Tell the webhooks that a job has ended for which nobody waits. Must be called on the event loop."""
        if not job.is_announced:
            return
        for webhook in self._book.listening_to(job.event_type):
            if (webhook.webhook_id, job.job_id) in self._told_early:
                self._told_early.discard((webhook.webhook_id, job.job_id))
            else:
                self._announce_to(webhook, job)

    async def close(self) -> None:
        await self._agenda.close()
        await self._sender.close()
        self._writer.shutdown(cancel_futures=True)

    def _announce_to(self, webhook: Webhook, job: Announced) -> None:
        faults, strike = self._faults.faults, self._faults.strike
        if strike("webhook_drop", faults.webhook_drop, job.aim):
            self._book.tally(job).dropped += 1
            return
        delivery = Delivery(webhook, job)
        late = strike("webhook_delay", faults.webhook_delay, job.aim)
        held = strike("webhook_out_of_order", faults.webhook_out_of_order, job.aim)
        seconds = (late.seconds if late else 0.0) + (held.seconds if held else 0.0)
        delivery.is_held = held is not None
        if double := strike("webhook_duplicate", faults.webhook_duplicate, job.aim):
            if double.identical:
                delivery.identical_copies = double.copies
            else:
                for _ in range(double.copies):
                    self._plan(Delivery(webhook, job), after=seconds + double.seconds)
        attempt = self._plan(delivery, after=seconds)
        if delivery.is_held:
            self._held.append(attempt)

    def _plan(self, delivery: Delivery, *, number: int = 1, after: float = 0.0) -> Attempt:
        """Enter an attempt in the log, to be made after some seconds."""
        attempt = Attempt(delivery, number, created_at=self._service_now())
        delivery.webhook.log.append(attempt)
        self._agenda.add(attempt, at=self._clock.monotonic() + after if after else None)
        return attempt

    async def _attempt(self, attempt: Attempt) -> None:
        delivery = attempt.delivery
        if attempt.is_begun:  # it was held, and has been released before its time
            return
        attempt.is_begun = True
        if delivery.webhook.is_active and not delivery.webhook.is_deleted:
            await self._make(attempt)
        else:
            attempt.status = "abandoned"
        if delivery.first_attempt_ended is not None:
            delivery.first_attempt_ended.set()
        if not delivery.is_held:
            self._release(delivery.webhook)

    def _release(self, webhook: Webhook) -> None:
        """Let the events follow that were held until another one had overtaken them, the last of them first."""
        due = [attempt for attempt in self._held if attempt.delivery.webhook is webhook]
        if due:
            self._held = [attempt for attempt in self._held if attempt.delivery.webhook is not webhook]
            for attempt in reversed(due):
                self._agenda.add(attempt)

    async def _make(self, attempt: Attempt) -> None:
        faults, delivery = self._faults.faults, attempt.delivery
        url, job_url = delivery.webhook.url, delivery.job.aim
        wrong = self._faults.strike("webhook_wrong_signature", faults.webhook_wrong_signature, job_url)
        slow = self._faults.strike("webhook_slow", faults.webhook_slow, job_url)
        if delivery.job.packed_bytes > _LARGE:
            loop = asyncio.get_running_loop()
            message = await loop.run_in_executor(self._writer, self._write, attempt, wrong)
        else:
            message = self._write(attempt, wrong)
        copies = 1 + (delivery.identical_copies if attempt.number == 1 else 0)
        sent = [self._sender.send(url, message.body, message.headers, slow) for _ in range(copies)]
        answers = await asyncio.gather(*sent)
        self._settle(attempt, answers)

    def _settle(self, attempt: Attempt, answers: list[Answer]) -> None:
        now, first, delivery = self._service_now(), answers[0], attempt.delivery
        tally = self._book.tally(delivery.job)
        tally.attempted += len(answers)
        tally.acknowledged += sum(answer.is_success for answer in answers)
        tally.last_http_status, tally.last_error = first.http_status, first.error
        if tally.acknowledged and tally.first_acknowledged_at is None:
            tally.first_acknowledged_at = now
        attempt.http_status = first.http_status
        schedule = self._config.webhook_retry_schedule
        if first.is_success:
            attempt.status, attempt.delivered_at = "success", now
        elif attempt.number <= len(schedule):
            attempt.status = "failed"
            self._plan(delivery, number=attempt.number + 1, after=schedule[attempt.number - 1])
        else:
            attempt.status = "abandoned"

    def _write(self, attempt: Attempt, wrong: WrongSignature | None) -> Message:
        delivery = attempt.delivery
        body = write_body(
            attempt,
            self._describe(delivery.job),
            at=self._service_now(),
            version=self._config.webhook_payload,
        )
        headers = [
            ("Content-Type", "application/json"),
            ("User-Agent", "scraper-api-webhook/1.0"),
            ("X-Webhook-Delivery-Id", attempt.attempt_id),
            ("X-Webhook-Event", delivery.job.event_type),
        ]
        return Message(body, [*headers, *self._sign(delivery, body, wrong)])

    def _sign(self, delivery: Delivery, body: bytes, wrong: WrongSignature | None) -> Headers:
        secret, previous = delivery.webhook.secret, delivery.webhook.previous_secret
        form = None if wrong is None else wrong.form
        if form in ("other_secret", "previous_secret"):
            secret = (previous if form == "previous_secret" else None) or make_secret()
            previous = None
        signature = sign(
            body,
            scheme=self._config.webhook_signature,
            header=self._config.webhook_signature_header,
            secret=secret,
            previous_secret=previous,
            message_id=delivery.message_id,
            at=self._service_now(),
        )
        return spoil(signature, form)

    def _service_now(self) -> datetime:
        return self._clock.now() + timedelta(seconds=self._faults.faults.clock_shift)


def write_body(attempt: Attempt, answer: dict[str, Any], *, at: datetime, version: str) -> bytes:
    """The body of a delivery: the reference's envelope, the older one that the guide expects, or one like neither."""
    webhook, job = attempt.delivery.webhook, attempt.delivery.job
    moment = at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    body: dict[str, Any] = {
        "event": job.event_type,
        "webhook_id": webhook.webhook_id,
        "delivery_id": attempt.attempt_id,
        "timestamp": moment,
        "data": answer,
    }
    if version == "guide":
        body = {
            "id": attempt.attempt_id,
            "event_type": job.event_type,
            "job_id": job.job_id,
            "status": answer["status"],
            "created_at": moment,
        }
    elif version == "foreign":
        body = {"kind": job.event_type, "uid": attempt.attempt_id, "about": {"job": job.job_id}, "at": moment}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
