"""What the ledger knows, as metrics: runs come and go, and all that they have done is in it.

Each scrape asks the ledger anew, by its indexes. URLs and contents are in no metric.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy.exc import DBAPIError

from scraper_pipeline.ledger import Ledger, LetterFilter, Progress

DAYS_SHOWN = 3
DELIVERIES_SINCE = timedelta(hours=1)
_STATES = tuple(field.name for field in fields(Progress))


@dataclass(frozen=True)
class Limits:
    """The most pages of a day and of a month, which begin and end in ``timezone``; None is no limit."""

    daily: int | None = None
    monthly: int | None = None
    timezone: str = "UTC"


class LedgerCollector(Collector):
    """The metrics of one ledger; ``scraper_ledger_up`` alone is told while it can't be read."""

    def __init__(self, ledger: Ledger, limits: Limits | None = None) -> None:
        self._ledger, self._limits = ledger, limits or Limits()

    def describe(self) -> Iterator[Metric]:
        """What is collected, without a look at the ledger when the collector is registered."""
        yield GaugeMetricFamily("scraper_ledger_up", "Whether the ledger can be read.")

    def collect(self) -> Iterator[Metric]:
        try:
            read = list(self._read())
        except DBAPIError:
            read = []
        yield GaugeMetricFamily("scraper_ledger_up", "Whether the ledger can be read.", value=bool(read))
        yield from read

    def _read(self) -> Iterator[Metric]:
        yield self._targets()
        yield from self._ages()
        yield from self._pages()
        yield from self._letters()
        yield from self._deliveries()

    def _targets(self) -> Metric:
        family = GaugeMetricFamily(
            "scraper_targets",
            f"Targets of the {DAYS_SHOWN} newest days by day and state.",
            labels=["day", "state"],
        )
        for day in self._ledger.progress.revisions(DAYS_SHOWN):
            progress = self._ledger.progress.of(day.partition_key)
            for state in _STATES:
                family.add_metric([day.partition_key, state], getattr(progress, state))
        return family

    def _ages(self) -> Iterator[Metric]:
        ledger, now = self._ledger, self._ledger.clock()
        yield GaugeMetricFamily(
            "scraper_oldest_open_seconds",
            "Age of the oldest target that is not settled, from its planning; 0 if there is none.",
            value=ledger.progress.oldest_open_seconds(),
        )
        yield GaugeMetricFamily(
            "scraper_oldest_unsettled_seconds",
            "Age of the oldest target that was sent and is not settled; 0 if there is none.",
            value=ledger.sweeps.oldest_unsettled_seconds(),
        )
        bound, foreign = ledger.sweeps.pending_events(now + timedelta(seconds=1))
        events = GaugeMetricFamily(
            "scraper_events_pending", "News that waits to be settled, by whose job it is.", labels=["job"]
        )
        events.add_metric(["ours"], bound)
        events.add_metric(["unknown"], foreign)
        yield events
        if last := ledger.sweeps.last():
            yield GaugeMetricFamily(
                "scraper_last_sweep_timestamp_seconds",
                "When the last sweep that came to its end did so.",
                value=last[0].timestamp(),
            )

    def _pages(self) -> Iterator[Metric]:
        local = self._ledger.clock().astimezone(ZoneInfo(self._limits.timezone))
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
        paid = GaugeMetricFamily(
            "scraper_pages_committed",
            "Pages that were paid, or may have been, since the beginning of the day or month.",
            labels=["period"],
        )
        limit = GaugeMetricFamily(
            "scraper_page_limit",
            "The most pages of a day or month, where there is a limit.",
            labels=["period"],
        )
        periods: tuple[tuple[str, datetime, int | None], ...] = (
            ("day", midnight, self._limits.daily),
            ("month", midnight.replace(day=1), self._limits.monthly),
        )
        for period, since, most in periods:
            paid.add_metric([period], self._ledger.submissions.pages_committed_since(since))
            if most is not None:
                limit.add_metric([period], most)
        yield paid
        yield limit

    def _letters(self) -> Iterator[Metric]:
        letters = GaugeMetricFamily("scraper_dead_letters", "Open dead letters by reason.", labels=["code"])
        for code, count in self._ledger.letters.count(LetterFilter()).items():
            letters.add_metric([code], count)
        yield letters
        yield GaugeMetricFamily(
            "scraper_quarantined",
            "Signed bodies that nobody could use.",
            value=self._ledger.inbox.quarantined(),
        )

    def _deliveries(self) -> Iterator[Metric]:
        figures = self._ledger.webhooks.figures(self._ledger.clock() - DELIVERIES_SINCE)
        deliveries = GaugeMetricFamily(
            "scraper_deliveries_last_hour",
            "Deliveries of webhooks in the last hour, as the service's log tells, by outcome.",
            labels=["outcome"],
        )
        deliveries.add_metric(["acknowledged"], figures.acknowledged)
        for status, count in sorted(figures.refused.items()):
            deliveries.add_metric([status], count)
        yield deliveries
        yield GaugeMetricFamily(
            "scraper_webhooks_active",
            "Webhooks that are registered and active.",
            value=sum(webhook.is_active for webhook in self._ledger.webhooks.registered()),
        )
