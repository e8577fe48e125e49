"""What was paid beside what the service says that it charged, and how long the month's pages last at this pace."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from scraper_pipeline.ledger import Ledger, Outcome, Spent, Uncounted
from scraper_pipeline.lifecycle.policy import LifecyclePolicy
from scraper_pipeline.scraper_api import ScraperClient, ScraperError

STATISTICS_SECONDS = 10.0
TOLERATED_SHARE, TOLERATED_PAGES = 0.05, 20  # whichever is more: the edges of a day are cut differently
PACE_DAYS = 7
FAILED = (Outcome.RETRIED, Outcome.PARKED, Outcome.GIVEN_UP)


@dataclass(frozen=True)
class Comparison:
    """An account's pages of a span of time in the ledger, beside the service's; None where that doesn't tell them.

    ``charged_by_day`` has the service's own days, which are UTC's.
    """

    paid: int
    uncounted: Uncounted
    charged: int | None = None
    charged_by_day: Mapping[str, int] = field(default_factory=dict)
    untold_because: str | None = None
    account: str = "default"

    @property
    def difference(self) -> int | None:
        """How many pages more the service has charged than the ledger has paid for."""
        return None if self.charged is None else self.charged - self.paid

    @property
    def unexplained(self) -> int | None:
        """What of the difference nothing in the ledger explains; less than 0 where the service charged too little."""
        if self.difference is None or self.difference <= 0:
            return self.difference
        if self.uncounted.other_programs_bulk:  # of unknown size
            return 0
        return max(0, self.difference - self.uncounted.pages)

    @property
    def is_explained(self) -> bool:
        """Whether what is unexplained is so little that it may be the edges of the span; nothing is, if untold."""
        return abs(self.unexplained or 0) <= max(TOLERATED_PAGES, TOLERATED_SHARE * self.paid)


@dataclass(frozen=True)
class MonthForecast:
    """Pages of this calendar month: committed to until now, and expected at its end; ``runs_out_on`` is within it."""

    limit: int | None
    committed: int
    pages_a_day: float
    expected: int
    runs_out_on: date | None
    account: str = "default"


def altogether(compared: Sequence[Comparison]) -> Comparison:
    """The comparisons of several accounts as one, in which one's surplus makes up for another's lack."""
    if len(compared) == 1:
        return compared[0]
    by_day = Counter[str]()
    for one in compared:
        by_day.update(one.charged_by_day)
    untold = [f"{one.account}: {one.untold_because}" for one in compared if one.untold_because]
    return Comparison(
        sum(one.paid for one in compared),
        sum((one.uncounted for one in compared), Uncounted()),
        None if untold else sum(one.charged or 0 for one in compared),
        by_day,
        "; ".join(untold) or None,
        ", ".join(one.account for one in compared),
    )


def totals(spent: Sequence[Spent]) -> dict[str, int]:
    """What attempts came to, and what was paid for them."""
    return {
        "attempts": sum(one.attempts for one in spent),
        "failed": sum(one.attempts for one in spent if one.outcome in FAILED),
        "in_flight": sum(one.attempts for one in spent if one.outcome is Outcome.IN_FLIGHT),
        "pages_paid": sum(one.pages for one in spent),
        "pages_paid_empty": sum(one.pages for one in spent if one.outcome is Outcome.EMPTY),
    }


def explanations(compared: Comparison) -> list[tuple[str, int]]:
    """What may make the two figures differ, with the pages that it may be, of what there is at all."""
    uncounted = compared.uncounted
    named = [
        ("in flight, and maybe charged already", uncounted.in_flight),
        ("given up, whose jobs may have ended after all", uncounted.given_up),
        ("parked as unresolved, whose jobs may exist", uncounted.unresolved),
        ("extracted, but too large, expired or unreadable", uncounted.not_storable),
        ("single jobs that are not ours: other programs', or synchronous", uncounted.other_programs),
        ("other programs' batches and crawls, of unknown size", uncounted.other_programs_bulk),
        ("paid twice, which both figures have", uncounted.paid_twice),
    ]
    return [(what, pages) for what, pages in named if pages]


def span_of(first: date, last: date, timezone: str) -> tuple[datetime, datetime]:
    """From the first day's midnight to that after the last day, in the zone where days begin and end."""
    zone = ZoneInfo(timezone)
    return (
        datetime.combine(first, time(), zone),
        datetime.combine(last + timedelta(days=1), time(), zone),
    )


async def compare_costs(
    ledger: Ledger, client: ScraperClient | None, start: datetime, end: datetime
) -> Comparison:
    """The ledger's pages of a span beside the service's statistics; without these, if they are not to be had."""
    paid = sum(one.pages for one in ledger.costs.spent(start, end))
    uncounted = ledger.costs.uncounted(start, end)
    account = ledger.scope.account
    if client is None:
        untold = "GEONODE_SCRAPER_API_KEY is not set"
        return Comparison(paid, uncounted, untold_because=untold, account=account)
    try:
        statistics = await client.get_statistics(start, end, budget=STATISTICS_SECONDS)
    except ScraperError as error:
        return Comparison(paid, uncounted, untold_because=str(error), account=account)
    by_day = {f"{day.date:%Y-%m-%d}": day.tokens_used for day in statistics.tokens_used or ()}
    return Comparison(paid, uncounted, statistics.pages_charged, by_day, account=account)


def forecast_month(ledger: Ledger, policy: LifecyclePolicy) -> MonthForecast:
    """What the month comes to if each day that is left costs what a day did lately (whole days; today, if none)."""
    today = ledger.clock().astimezone(ZoneInfo(policy.timezone)).date()
    committed_since = ledger.submissions.pages_committed_since

    def midnight(day: date) -> datetime:
        return span_of(day, day, policy.timezone)[0]

    month_ends = (today.replace(day=1) + timedelta(days=32)).replace(day=1)
    committed = committed_since(midnight(today.replace(day=1)))
    so_far = committed_since(midnight(today))
    pace = float(so_far)
    first = ledger.costs.first_sent_since(midnight(today - timedelta(days=PACE_DAYS)))
    if first is not None and first < midnight(today):
        began = first.astimezone(ZoneInfo(policy.timezone)).date()
        pace = (committed_since(midnight(began)) - so_far) / (today - began).days
    expected, runs_out_on = float(committed), None
    for days in range((month_ends - today).days):
        expected += pace if days else max(0.0, pace - so_far)
        if policy.monthly_page_limit is not None and expected >= policy.monthly_page_limit:
            runs_out_on = runs_out_on or today + timedelta(days=days)
    return MonthForecast(
        policy.monthly_page_limit, committed, pace, round(expected), runs_out_on, ledger.scope.account
    )
