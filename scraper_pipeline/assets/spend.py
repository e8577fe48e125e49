"""The asset ``spend``: what each day has cost, beside what the service says, and whether the month's pages last."""

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any

import dagster as dg

from scraper_pipeline.accounts import compare_span
from scraper_pipeline.assets.figures import preview
from scraper_pipeline.assets.targets import OWNERS
from scraper_pipeline.ledger import Ledger
from scraper_pipeline.lifecycle import (
    Comparison,
    MonthForecast,
    altogether,
    explanations,
    forecast_month,
    span_of,
    totals,
)
from scraper_pipeline.partitions import DAYS, ONE_RUN
from scraper_pipeline.resources import ScraperResource, explained_failures
from scraper_pipeline.settings import load_settings

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
def spend(context: dg.AssetExecutionContext, scraper: ScraperResource) -> dg.MaterializeResult:  # type: ignore[type-arg]  # with checks Dagster reads no argument of it
    compared: list[Comparison] = []
    with explained_failures(), scraper.open() as accounts:
        forecasts = [forecast_month(one.ledger, one.policy()) for one in accounts]
        for day in context.partition_keys:
            of_day = date.fromisoformat(day)
            found = compare_span(accounts, of_day, of_day)
            figures = spend_figures(accounts.ledger, of_day, found, forecasts)
            context.add_asset_metadata(figures, asset_key="spend", partition_key=day)
            for one in found:
                if one.untold_because:
                    context.log.warning(
                        f"{accounts.told(one.account)}The service does not tell its statistics: {one.untold_because}"
                    )
            compared += found
    return dg.MaterializeResult(check_results=[check_adds_up(compared), check_lasts(forecasts)])


def spend_figures(
    ledger: Ledger, day: date, compared: Sequence[Comparison], forecasts: Sequence[MonthForecast]
) -> dict[str, Any]:
    """What the asset shows of a day, over all accounts; what the service does not tell is not in it."""
    start, end = span_of(day, day, load_settings().timezone)
    spent, total = ledger.costs.spent(start, end), altogether(compared)
    by_attempt = ledger.costs.spent(start, end, "attempt")
    later = sum(one.pages for one in by_attempt if one.key != "1")
    shown: dict[str, Any] = {
        **totals(spent),
        "pages_paid_later_attempts": later,
        "pages_charged": total.charged,
        "difference": total.difference,
        "unexplained": None if total.charged is None else sum(one.unexplained or 0 for one in compared),
        **_month(forecasts),
        "month_page_limit": forecasts[0].limit,
        **{f"month_page_limit_{one.account}": one.limit for one in forecasts[1:]},
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
        "may_explain": preview([{"what": what, "pages": pages} for what, pages in explanations(total)]),
    }
    if len(compared) > 1:
        shown["by_account"] = preview([_of_account(*both) for both in zip(compared, forecasts, strict=True)])
    return {name: value for name, value in shown.items() if value is not None}


def _month(forecasts: Sequence[MonthForecast]) -> dict[str, float]:
    return {
        "month_pages": sum(one.committed for one in forecasts),
        "month_pages_expected": sum(one.expected for one in forecasts),
        "pages_a_day": round(sum(one.pages_a_day for one in forecasts), 1),
    }


def _of_account(compared: Comparison, forecast: MonthForecast) -> dict[str, Any]:
    return {
        "account": compared.account,
        "pages_paid": compared.paid,
        "pages_charged": compared.charged,
        "unexplained": compared.unexplained,
        "month_pages": forecast.committed,
        "month_page_limit": forecast.limit,
    }


def check_adds_up(compared: Sequence[Comparison]) -> dg.AssetCheckResult:
    """Warns of days on which the service has charged other pages than the ledger has paid for."""
    untold = [one.untold_because for one in compared if one.untold_because]
    off = [one for one in compared if not one.is_explained]
    said = None
    if off:
        pages = sum(one.unexplained or 0 for one in off)
        accounts = dict.fromkeys(one.account for one in off)
        said = (
            _named(accounts, compared)
            + f"{abs(pages)} pages {'more' if pages > 0 else 'less'} were charged than the ledger accounts for. "
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


def _named(accounts: Iterable[str], of: Sequence[Comparison | MonthForecast]) -> str:
    """The accounts that something is said of, if there are others."""
    return f"{', '.join(accounts)}: " if len({one.account for one in of}) > 1 else ""


def check_lasts(forecasts: Sequence[MonthForecast]) -> dg.AssetCheckResult:
    """Warns when the pages that an account has for the month will be used up before the month is over."""
    ending = [one for one in forecasts if one.runs_out_on]
    said = [
        _named([one.account], forecasts)
        + f"SCRAPER_MONTHLY_PAGE_LIMIT ({one.limit} pages) will be used up on {one.runs_out_on}, at "
        f"{one.pages_a_day:.0f} pages a day; {one.committed} are used. What is beyond stays planned."
        for one in ending
    ]
    return dg.AssetCheckResult(
        asset_key="spend",
        check_name=LASTS,
        passed=not ending,
        severity=dg.AssetCheckSeverity.WARN,
        description=" ".join(said) or None,
        metadata={**_month(forecasts)},
    )
