"""What bounds a submission: the pages of a run, a day and a month, and the account's places."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from zoneinfo import ZoneInfo

from scraper_pipeline.ledger import Ledger, PageLimit
from scraper_pipeline.lifecycle.policy import LifecyclePolicy
from scraper_pipeline.scraper_api import ScraperError, Throttled


class Bound(StrEnum):
    """What may keep rows planned that are due, by the name under which an operator finds it."""

    RUN = "max_pages"
    DAY = "SCRAPER_DAILY_PAGE_LIMIT"
    MONTH = "SCRAPER_MONTHLY_PAGE_LIMIT"
    PLACES = "the account's limit of work at once"


PAGE_LIMITS = frozenset({Bound.RUN, Bound.DAY, Bound.MONTH})


@dataclass(frozen=True)
class PagesLeft:
    """How many pages the limits of the account leave; None where there is no limit."""

    today: int | None = None
    this_month: int | None = None

    @property
    def least(self) -> int | None:
        return min((left for left in (self.today, self.this_month) if left is not None), default=None)

    @property
    def used_up(self) -> Bound | None:
        """The limit that leaves nothing, if there is one; of two, the one that lasts longer."""
        if self.this_month == 0:
            return Bound.MONTH
        return Bound.DAY if self.today == 0 else None

    def __str__(self) -> str:
        said = [
            f"{left} pages are left {when}"
            for left, when in ((self.today, "today"), (self.this_month, "this month"))
            if left is not None
        ]
        return " and ".join(said) or "no page limit is set"


def page_limits(policy: LifecyclePolicy, now: datetime) -> Iterator[PageLimit]:
    """The limits that hold at this moment; days and months begin and end in the configured time zone."""
    midnight = now.astimezone(ZoneInfo(policy.timezone)).replace(hour=0, minute=0, second=0, microsecond=0)
    if policy.daily_page_limit is not None:
        yield PageLimit(Bound.DAY, midnight, policy.daily_page_limit)
    if policy.monthly_page_limit is not None:
        yield PageLimit(Bound.MONTH, midnight.replace(day=1), policy.monthly_page_limit)


def pages_left(ledger: Ledger, policy: LifecyclePolicy) -> PagesLeft:
    """How many more pages the account's limits allow at this moment."""
    left = ledger.submissions.pages_left(page_limits(policy, ledger.clock()))
    return PagesLeft(left.get(Bound.DAY), left.get(Bound.MONTH))


def stops_account(error: ScraperError) -> bool:
    """Whether the error concerns the whole account, and time alone does not mend it."""
    return error.scope == "account" and not isinstance(error, Throttled)
