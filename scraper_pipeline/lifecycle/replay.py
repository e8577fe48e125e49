"""The delivery log: what webhooks did not bring, or nobody took, becomes news after all."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from scraper_pipeline.ledger import Channel, DeliveryAttempt, Ledger, RegisteredWebhook, ReplayReport
from scraper_pipeline.scraper_api import Delivery, ScraperClient, WebhookNotFound
from scraper_pipeline.traces import traced

OVERLAP = timedelta(hours=1)  # attempts may turn up late in the log, and be changed after they did
FIRST_READ = timedelta(days=2)
PAGE_SIZE = 100


@dataclass
class DeliveryLogReport:
    """One reading of the log of every webhook of ours; ``gone`` counts those that the service has no more."""

    attempts: int = 0
    new_attempts: int = 0
    replayed: int = 0
    requests: int = 0
    gone: int = 0


@traced("read_delivery_log")
async def read_delivery_log(
    ledger: Ledger,
    client: ScraperClient,
    *,
    since: datetime | None = None,
    on_page: Callable[[DeliveryLogReport], None] = lambda report: None,
) -> DeliveryLogReport:
    """Read what is new in the log, and make news of every job whose delivery was refused, abandoned or never taken.

    A webhook's log is read back to an hour before the newest attempt of its last whole reading, and at least to
    ``since``. Judged by the HTTP status of the attempt that was made last. Raises ScraperError; what was read until
    then is kept, and the next reading goes back as far as this one was to. ``on_page`` is given the report so far.
    """
    report = DeliveryLogReport()
    oldest = ledger.clock()
    for webhook in ledger.webhooks.registered():
        start = _start(ledger, webhook)
        start = min(start, since or start)
        oldest = min(oldest, start)
        try:
            await _read(ledger, client, webhook, start, report, on_page)
        except WebhookNotFound:
            report.gone += 1
    lost = ledger.webhooks.unacknowledged_jobs(oldest)
    ledger.news.record(lost, Channel.DELIVERY_LOG)
    report.replayed = len(lost)
    return report


def _start(ledger: Ledger, webhook: RegisteredWebhook) -> datetime:
    until = ledger.webhooks.log_read_until(webhook.webhook_id)
    return ledger.clock() - FIRST_READ if until is None else until - OVERLAP


async def _read(
    ledger: Ledger,
    client: ScraperClient,
    webhook: RegisteredWebhook,
    start: datetime,
    report: DeliveryLogReport,
    on_page: Callable[[DeliveryLogReport], None],
) -> None:
    page, page_count = 1, 1
    newest: datetime | None = None
    while page <= page_count:
        listing = await client.list_deliveries(webhook.webhook_id, page=page, page_size=PAGE_SIZE)
        report.requests += 1
        attempts = [_attempt(ledger, webhook, item) for item in listing.items]
        report.attempts += len(attempts)
        report.new_attempts += ledger.webhooks.record_attempts(attempts)
        on_page(report)
        times = [attempt.created_at for attempt in attempts]
        newest = max([*times, newest] if newest else times, default=None)
        # No source promises an order: only a page that leads into the past says that what follows is older still.
        if times and max(times) < start and times[0] > times[-1]:
            break
        more = page + 1 if listing.page_count is None and len(listing.items) == PAGE_SIZE else page
        page_count = max(page_count, listing.page_count or more)
        page += 1
    if newest is not None:
        ledger.webhooks.note_log_read(webhook.webhook_id, newest)


def _attempt(ledger: Ledger, webhook: RegisteredWebhook, item: Delivery) -> DeliveryAttempt:
    return DeliveryAttempt(
        webhook_id=webhook.webhook_id,
        delivery_id=item.delivery_id,
        event_type=item.event_type,
        job_id=item.job_id,
        attempt_number=item.attempt_number or 1,
        status=item.status,
        http_status=item.http_status,
        created_at=item.created_at or item.delivered_at or ledger.clock(),
        delivered_at=item.delivered_at,
    )


async def replay_deliveries(
    ledger: Ledger,
    client: ScraperClient | None,
    *,
    since: datetime | None = None,
    job_ids: tuple[str, ...] = (),
    on_page: Callable[[DeliveryLogReport], None] = lambda report: None,
) -> ReplayReport:
    """Have jobs settled once more on purpose: those named, and those that the log has attempts for since a moment.

    May be repeated at will. What is already done says so; what is not is settled by the next settle run.
    """
    wanted = set(job_ids)
    if since is not None:
        if client is not None:
            await read_delivery_log(ledger, client, since=since, on_page=on_page)
        wanted.update(ledger.webhooks.jobs_delivered_since(since))
    return ledger.webhooks.replay(wanted)


def replayed_together(reports: Sequence[ReplayReport], job_ids: Collection[str]) -> ReplayReport:
    """What the replays of several accounts came to, each of which was asked for all of these jobs.

    A job is of one account at most.
    """
    asked_again = len(set(job_ids)) * max(0, len(reports) - 1)
    return ReplayReport(
        sum(one.taken_up for one in reports),
        sum(one.already_done for one in reports),
        sum(one.not_ours for one in reports) - asked_again,
    )
