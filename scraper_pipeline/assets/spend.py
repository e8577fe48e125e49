"""The asset ``spend``: what each day has cost, beside what the service says, and whether the month's pages last."""

import asyncio
from collections.abc import Sequence
from datetime import date
from typing import Any

import dagster as dg

from scraper_pipeline.assets.figures import preview
from scraper_pipeline.assets.targets import OWNERS
from scraper_pipeline.ledger import Ledger, Outcome, Spent
from scraper_pipeline.lifecycle import (
    Comparison,
    MonthForecast,
    compare_costs,
    forecast_month,
    span_of,
)
from scraper_pipeline.partitions import DAYS, ONE_RUN
from scraper_pipeline.resources import LedgerResource, ScraperResource, explained_failures, open_client
from scraper_pipeline.settings import Settings, load_settings

FAILED = (Outcome.RETRIED, Outcome.PARKED, Outcome.GIVEN_UP)
ADDS_UP, LASTS = "agrees_with_the_service", "month_lasts"


@dg.asset(
    partitions_def=DAYS,
    backfill_policy=ONE_RUN,
    group_name="operations",
    owners=OWNERS,
    kinds={"geonode", "sql"},
    check_specs=[
        dg.AssetCheckSpec(
            ADDS_UP,
            asset="spend",
            description="The service has charged what the ledger has paid for, but for what can be explained.",
        ),
        dg.AssetCheckSpec(
            LASTS,
            asset="spend",
            description="At the present pace SCRAPER_MONTHLY_PAGE_LIMIT lasts until the month's end; passes if unset.",
        ),
    ],
    description=(
        "The pages that were paid for on each day, by when they were sent, as the page limits count them, beside the "
        "service's own statistics. Plot `pages_paid` and `pages_paid_empty` by partition. `unexplained` is what the "
        "service charged and nothing in the ledger accounts for: other programs' pages and synchronous extractions "
        "above all. Run by spend_schedule four times a day; it changes nothing. `scraper-pipeline costs` tells more."
    ),
)
def spend(
    context: dg.AssetExecutionContext, ledger: LedgerResource, scraper: ScraperResource
) -> dg.MaterializeResult:  # type: ignore[type-arg]  # with checks Dagster reads no argument of it
    settings, compared = load_settings(), []
    with explained_failures(), ledger.open() as book:
        forecast = forecast_month(book, scraper.policy())
        for day in context.partition_keys:
            of_day = date.fromisoformat(day)
            compared.append(compare_span(book, settings, of_day, of_day))
            figures = spend_figures(book, settings, of_day, compared[-1], forecast)
            context.add_asset_metadata(figures, asset_key="spend", partition_key=day)
            if compared[-1].untold_because:
                context.log.warning(
                    f"The service does not tell its statistics: {compared[-1].untold_because}"
                )
    return dg.MaterializeResult(check_results=[check_adds_up(compared), check_lasts(forecast)])


def compare_span(ledger: Ledger, settings: Settings, first: date, last: date) -> Comparison:
    """The days' costs beside the service's statistics, which are left out where no key is set."""
    start, end = span_of(first, last, settings.timezone)

    async def compare() -> Comparison:
        if settings.api_key is None:
            return await compare_costs(ledger, None, start, end)
        async with open_client(settings) as client:
            return await compare_costs(ledger, client, start, end)

    return asyncio.run(compare())


def totals(spent: Sequence[Spent]) -> dict[str, int]:
    """What attempts came to, and what was paid for them."""
    return {
        "attempts": sum(one.attempts for one in spent),
        "failed": sum(one.attempts for one in spent if one.outcome in FAILED),
        "in_flight": sum(one.attempts for one in spent if one.outcome is Outcome.IN_FLIGHT),
        "pages_paid": sum(one.pages for one in spent),
        "pages_paid_empty": sum(one.pages for one in spent if one.outcome is Outcome.EMPTY),
    }


def spend_figures(
    ledger: Ledger, settings: Settings, day: date, compared: Comparison, forecast: MonthForecast
) -> dict[str, Any]:
    """What the asset shows of a day; what the service does not tell is not in it."""
    start, end = span_of(day, day, settings.timezone)
    spent = ledger.costs.spent(start, end)
    by_attempt = ledger.costs.spent(start, end, "attempt")
    later = sum(one.pages for one in by_attempt if one.key != "1")
    shown: dict[str, Any] = {
        **totals(spent),
        "pages_paid_later_attempts": later,
        "pages_charged": compared.charged,
        "difference": compared.difference,
        "unexplained": compared.unexplained,
        "month_pages": forecast.committed,
        "month_pages_expected": forecast.expected,
        "pages_a_day": round(forecast.pages_a_day, 1),
        "month_page_limit": forecast.limit,
        "by_outcome": preview(
            [{"outcome": one.outcome, "attempts": one.attempts, "pages_paid": one.pages} for one in spent]
        ),
        "by_attempt": preview(
            [
                {
                    "attempt": one.key,
                    "outcome": one.outcome,
                    "attempts": one.attempts,
                    "pages_paid": one.pages,
                }
                for one in by_attempt
            ]
        ),
        "may_explain": preview([{"what": what, "pages": pages} for what, pages in explanations(compared)]),
    }
    return {name: value for name, value in shown.items() if value is not None}


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


def check_adds_up(compared: Sequence[Comparison]) -> dg.AssetCheckResult:
    """Warns of days on which the service has charged other pages than the ledger has paid for."""
    untold = [one.untold_because for one in compared if one.untold_because]
    off = [one for one in compared if not one.is_explained]
    said = None
    if off:
        pages = sum(one.unexplained or 0 for one in off)
        said = (
            f"{abs(pages)} pages {'more' if pages > 0 else 'less'} were charged than the ledger accounts for. "
            + (
                "Synchronous extractions and other programs' jobs are in no ledger: is the key used elsewhere?"
                if pages > 0
                else "The service's statistics may be late; run this again later."
            )
        )
    elif untold:
        said = f"Not compared, for the service does not tell its statistics: {untold[0]}"
    return dg.AssetCheckResult(
        asset_key="spend",
        check_name=ADDS_UP,
        passed=not off,
        severity=dg.AssetCheckSeverity.WARN,
        description=said,
        metadata={
            "pages_paid": sum(one.paid for one in compared),
            "compared": len(compared) - len(untold),
            "unexplained": sum(one.unexplained or 0 for one in compared),
        },
    )


def check_lasts(forecast: MonthForecast) -> dg.AssetCheckResult:
    """Warns when the month's pages will be used up before the month is over."""
    ends = forecast.runs_out_on
    return dg.AssetCheckResult(
        asset_key="spend",
        check_name=LASTS,
        passed=ends is None,
        severity=dg.AssetCheckSeverity.WARN,
        description=None
        if ends is None
        else f"SCRAPER_MONTHLY_PAGE_LIMIT ({forecast.limit} pages) will be used up on {ends}, at "
        f"{forecast.pages_a_day:.0f} pages a day; {forecast.committed} are used. What is beyond stays planned.",
        metadata={
            "month_pages": forecast.committed,
            "month_pages_expected": forecast.expected,
            "pages_a_day": round(forecast.pages_a_day, 1),
        },
    )
