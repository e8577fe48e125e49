"""The asset ``spend``: what each day has cost, beside what the service says, and whether the month's pages last."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

import dagster as dg

from scraper_pipeline.assets.figures import preview
from scraper_pipeline.assets.targets import OWNERS
from scraper_pipeline.ledger import Ledger, Outcome, Spent
from scraper_pipeline.lifecycle import (
    Comparison,
    MonthForecast,
    altogether,
    compare_costs,
    forecast_month,
    span_of,
)
from scraper_pipeline.partitions import DAYS, ONE_RUN
from scraper_pipeline.resources import OpenAccount, ScraperResource, explained_failures
from scraper_pipeline.settings import SettingsError, load_settings

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


def compare_span(accounts: Iterable[OpenAccount], first: date, last: date) -> list[Comparison]:
    """Each account's costs of the days beside its own statistics at the service; without these where it has no key."""

    async def compare(account: OpenAccount) -> Comparison:
        start, end = span_of(first, last, account.settings.timezone)
        if not account.key.is_told:
            return await compare_costs(account.ledger, None, start, end)
        try:
            client = account.open_client()
        except SettingsError as error:
            untold = await compare_costs(account.ledger, None, start, end)
            return replace(untold, untold_because=str(error))
        async with client:
            return await compare_costs(account.ledger, client, start, end)

    async def compare_all() -> list[Comparison]:
        return list(await asyncio.gather(*map(compare, accounts)))

    return asyncio.run(compare_all())


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
