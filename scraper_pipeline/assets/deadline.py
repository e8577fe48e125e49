"""The time by which a day should be done, if one is set: a check that fails from then on, and Dagster's freshness."""

from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

import dagster as dg

from scraper_pipeline.ledger import Ledger
from scraper_pipeline.resources import LedgerResource, explained_failures
from scraper_pipeline.settings import load_settings

# Dagster wants a materialisation between this long before the deadline and the deadline itself.
_WINDOW = timedelta(hours=23)


def with_deadline(assets: dg.AssetsDefinition, key: str) -> dg.AssetsDefinition:
    """The same assets, of which this one is shown as overdue while no day of it was done in time."""
    settings = load_settings()
    if settings.day_deadline is None:
        return assets
    cron = f"{settings.day_deadline.minute} {settings.day_deadline.hour} * * *"
    policy = dg.FreshnessPolicy.cron(cron, _WINDOW, settings.timezone)
    return assets.map_asset_specs(
        lambda spec: dg.apply_freshness_policy(spec, policy) if spec.key == dg.AssetKey(key) else spec
    )


@dg.asset_check(
    asset="stored_results",
    description=(
        "The last day whose deadline (SCRAPER_DAY_DEADLINE) is over is done: nothing of it is in flight, and it was "
        "not missed altogether. Looked at every ten minutes. Passes where no deadline is set."
    ),
)
def done_in_time(ledger: LedgerResource) -> dg.AssetCheckResult:
    settings = load_settings()
    with explained_failures(), ledger.open() as book:
        if settings.day_deadline is None:
            return dg.AssetCheckResult(passed=True, metadata={"deadline": "not set"})
        local = book.clock().astimezone(ZoneInfo(settings.timezone))
        return check_done_in_time(book, local, settings.day_deadline)


def check_done_in_time(ledger: Ledger, now: datetime, deadline: time) -> dg.AssetCheckResult:
    """Whether the last day that should be done is done; ``now`` is in the zone of the days."""
    due = now.date() if now.time() >= deadline else now.date() - timedelta(days=1)
    day, progress = due.isoformat(), ledger.progress.of(due.isoformat())
    is_missed = not ledger.progress.is_planned(day) and _is_in_use(ledger, due)
    return dg.AssetCheckResult(
        passed=not progress.in_flight and not is_missed,
        metadata={
            "deadline": f"{day} {deadline:%H:%M}",
            "in_flight": progress.in_flight,
            "is_missed": is_missed,
            "what_to_do": _advice(day, progress.in_flight, is_missed),
        },
    )


def _is_in_use(ledger: Ledger, day: date) -> bool:
    """Whether days are planned at all: one of the week before was."""
    before = ledger.quality.days_before(day.isoformat(), 1)
    return bool(before) and before[0] >= (day - timedelta(days=7)).isoformat()


def _advice(day: str, in_flight: int, is_missed: bool) -> str:
    if is_missed:
        return f"{day} was never planned: materialise its partition of submitted_jobs, or launch submit_jobs for it."
    if in_flight:
        return (
            f"`scraper-pipeline status` tells what {day} waits for; docs/troubleshooting.md says what to do."
        )
    return "nothing"
