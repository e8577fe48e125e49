"""What the ledger knows, as metrics: runs come and go, and all that they have done is in it.

Each scrape asks the ledger anew, by its indexes. URLs and contents are in no metric.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy.exc import DBAPIError

from scraper_pipeline.ledger import DEFAULT_ACCOUNT, Ledger, LetterFilter, Progress

DAYS_SHOWN = 3
DELIVERIES_SINCE = timedelta(hours=1)
_STATES = tuple(field.name for field in fields(Progress))
_Sample = tuple[str, list[str], float]


@dataclass(frozen=True)
class Limits:
    """The most pages of a day and of a month, which begin and end in ``timezone``; None is no limit."""

    daily: int | None = None
    monthly: int | None = None
    timezone: str = "UTC"


class LedgerCollector(Collector):
    """The metrics of one ledger, each by account; ``scraper_ledger_up`` alone is told while it can't be read.

    ``limits`` tells those of each account by name, anew at each scrape. Accounts that it does not name have none, and
    are shown as soon as they have a row.
    """

    def __init__(self, ledger: Ledger, limits: Callable[[], Mapping[str, Limits]] = dict) -> None:
        self._ledger, self._limits = ledger, limits

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
        families = {family.name: family for family in _families()}
        limits = self._limits()
        names = dict.fromkeys([DEFAULT_ACCOUNT, *limits, *self._ledger.progress.accounts()])
        all_of_them = self._ledger.of_account(*names)
        days = [day.partition_key for day in all_of_them.progress.revisions(DAYS_SHOWN)]
        for ledger in all_of_them.each:
            account = ledger.scope.account
            for name, labels, value in _figures(ledger, days, limits.get(account, Limits())):
                families[name].add_metric([account, *labels], value)
        yield from families.values()


def _families() -> Iterator[GaugeMetricFamily]:
    for name, told, *labels in (
        ("scraper_targets", f"Targets of the {DAYS_SHOWN} newest days by day and state.", "day", "state"),
        (
            "scraper_oldest_open_seconds",
            "Age of the oldest target that is not settled, from its planning; 0 if there is none.",
        ),
        (
            "scraper_oldest_unsettled_seconds",
            "Age of the oldest target that was sent and is not settled; 0 if there is none.",
        ),
        ("scraper_events_pending", "News that waits to be settled, by whose job it is.", "of"),
        ("scraper_last_sweep_timestamp_seconds", "When the last sweep that came to its end did so."),
        (
            "scraper_pages_committed",
            "Pages that were paid, or may have been, since the beginning of the day or month.",
            "period",
        ),
        ("scraper_page_limit", "The most pages of a day or month, where there is a limit.", "period"),
        ("scraper_dead_letters", "Open dead letters by reason.", "code"),
        ("scraper_quarantined", "Signed bodies that nobody could use."),
        (
            "scraper_deliveries_last_hour",
            "Deliveries of webhooks in the last hour, as the service's log tells, by outcome.",
            "outcome",
        ),
        ("scraper_webhooks_active", "Webhooks that are registered and active."),
    ):
        yield GaugeMetricFamily(name, told, labels=["account", *labels])


def _figures(ledger: Ledger, days: Sequence[str], limits: Limits) -> Iterator[_Sample]:
    """What the ledger of one account knows: the name of each metric, the labels beside the account, and the value."""
    for day in days:
        progress = ledger.progress.of(day)
        for state in _STATES:
            yield "scraper_targets", [day, state], getattr(progress, state)
    now = ledger.clock()
    yield "scraper_oldest_open_seconds", [], ledger.progress.oldest_open_seconds()
    yield "scraper_oldest_unsettled_seconds", [], ledger.sweeps.oldest_unsettled_seconds()
    bound, foreign = ledger.sweeps.pending_events(now + timedelta(seconds=1))
    yield "scraper_events_pending", ["ours"], bound
    yield "scraper_events_pending", ["unknown"], foreign
    if last := ledger.sweeps.last():
        yield "scraper_last_sweep_timestamp_seconds", [], last[0].timestamp()
    yield from _pages(ledger, limits)
    for code, count in ledger.letters.count(LetterFilter()).items():
        yield "scraper_dead_letters", [code], count
    yield "scraper_quarantined", [], ledger.inbox.quarantined()
    figures = ledger.webhooks.figures(now - DELIVERIES_SINCE)
    yield "scraper_deliveries_last_hour", ["acknowledged"], figures.acknowledged
    for status, count in sorted(figures.refused.items()):
        yield "scraper_deliveries_last_hour", [status], count
    yield "scraper_webhooks_active", [], sum(one.is_active for one in ledger.webhooks.registered())


def _pages(ledger: Ledger, limits: Limits) -> Iterator[_Sample]:
    local = ledger.clock().astimezone(ZoneInfo(limits.timezone))
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
    periods: tuple[tuple[str, datetime, int | None], ...] = (
        ("day", midnight, limits.daily),
        ("month", midnight.replace(day=1), limits.monthly),
    )
    for period, since, most in periods:
        yield "scraper_pages_committed", [period], ledger.submissions.pages_committed_since(since)
        if most is not None:
            yield "scraper_page_limit", [period], most
