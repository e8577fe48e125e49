"""The command ``costs``: what was paid for and what came of it, beside what the service says that it charged."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import click
from rich.markup import escape
from rich.table import Table

from scraper_pipeline.accounts import compare_span
from scraper_pipeline.cli.accounts import account_option, chosen_accounts
from scraper_pipeline.cli.common import clear_errors, json_option, out, print_json
from scraper_pipeline.ledger import Ledger, Spent
from scraper_pipeline.lifecycle import (
    Comparison,
    MonthForecast,
    altogether,
    explanations,
    forecast_month,
    span_of,
    totals,
)
from scraper_pipeline.settings import Settings, load_settings
from scraper_pipeline.target_lists.columns import LIST_LABEL

_MOST_DAYS = 366
_DAY = click.DateTime(["%Y-%m-%d"])
_COLUMNS = ("attempts", "failed", "in_flight", "pages_paid", "pages_paid_empty", "pages_charged")
_BY = ("day", "list", "account", "outcome", "attempt")
_NO_LABEL = "(none)"


@click.command()
@click.option("--since", type=_DAY, help="The first day; the first of this month by default.")
@click.option("--until", type=_DAY, help="The last day; today by default.")
@click.option(
    "--by",
    default="day",
    show_default=True,
    metavar="day|list|account|outcome|attempt|label:NAME",
    help="What the pages are counted by.",
)
@account_option
@json_option
@clear_errors
def costs(
    since: datetime | None, until: datetime | None, by: str, account: str | None, as_json: bool
) -> None:
    """Show the pages that were paid for, by when they were sent, beside the service's own statistics.

    Failed attempts are not charged. `--by outcome` tells what became of every attempt.
    """
    settings = load_settings()
    today = datetime.now(ZoneInfo(settings.timezone)).date()
    last = until.date() if until else today
    first = since.date() if since else last.replace(day=1)
    if by not in _BY and (not by.startswith("label:") or by == "label:" or '"' in by):
        raise click.UsageError(f"--by takes {', '.join(_BY)} or label:NAME, such as label:topic; not {by!r}")
    if not timedelta() <= last - first < timedelta(days=_MOST_DAYS):
        raise click.UsageError(f"--since and --until take days in this order, at most {_MOST_DAYS} of them")
    with chosen_accounts(settings, account) as (accounts, meant):
        ledger = accounts.ledger if account is None else meant[0].ledger
        compared = compare_span(meant, first, last)
        charged = altogether(compared)
        rows = _rows(ledger, settings, first, last, by, charged)
        total = totals(ledger.costs.spent(*span_of(first, last, settings.timezone)))
        forecasts = [forecast_month(one.ledger, one.policy()) for one in meant]
    if as_json:
        print_json(_report(first, last, by, rows, total, compared, forecasts))
        return
    _print_table(by, rows, total if charged.charged is None else {**total, "pages_charged": charged.charged})
    for one, forecast in zip(compared, forecasts, strict=True):
        if len(compared) > 1:
            click.echo(f"The account {one.account}:")
        _tell_difference(one)
        _tell_month(forecast)


def _rows(
    ledger: Ledger, settings: Settings, first: date, last: date, by: str, compared: Comparison
) -> list[dict[str, Any]]:
    start, end = span_of(first, last, settings.timezone)
    if by == "day":
        days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
        shown = [_row_of_day(ledger, settings, day, compared) for day in days]
        return [row for row in shown if any(row[name] for name in row if name != "day")]
    if by == "outcome":
        return [
            {"outcome": str(one.outcome), "attempts": one.attempts, "pages_paid": one.pages}
            for one in ledger.costs.spent(start, end)
        ]
    grouped: dict[str, list[Spent]] = {}
    for one in ledger.costs.spent(start, end, f"label:{LIST_LABEL}" if by == "list" else by):
        grouped.setdefault(one.key, []).append(one)
    name = by.removeprefix("label:")
    return [{name: key or _NO_LABEL, **totals(spent)} for key, spent in sorted(grouped.items())]


def _row_of_day(ledger: Ledger, settings: Settings, day: date, compared: Comparison) -> dict[str, Any]:
    row: dict[str, Any] = {
        "day": str(day),
        **totals(ledger.costs.spent(*span_of(day, day, settings.timezone))),
    }
    if settings.timezone == "UTC" and compared.charged is not None:  # as the service's days are
        row["pages_charged"] = compared.charged_by_day.get(str(day), 0)
    return row


def _report(
    first: date,
    last: date,
    by: str,
    rows: Sequence[Mapping[str, Any]],
    total: Mapping[str, int],
    compared: Sequence[Comparison],
    forecasts: Sequence[MonthForecast],
) -> dict[str, Any]:
    report = {"since": first, "until": last, "by": by, "rows": rows, "total": total}
    told = [
        {"account": one.account, **_compared(one, forecast)}
        for one, forecast in zip(compared, forecasts, strict=True)
    ]
    return {**report, "accounts": told} if len(told) > 1 else {**report, **told[0]}


def _compared(compared: Comparison, forecast: MonthForecast) -> dict[str, Any]:
    service = {
        "pages_charged": compared.charged,
        "untold_because": compared.untold_because,
        "difference": compared.difference,
        "unexplained": compared.unexplained,
        "may_explain": asdict(compared.uncounted),
    }
    month = asdict(forecast)
    del month["account"]
    return {"service": service, "month": month}


def _print_table(by: str, rows: Sequence[Mapping[str, Any]], total: Mapping[str, int]) -> None:
    if not rows:
        click.echo("Nothing was sent in these days.")
        return
    name = by.removeprefix("label:")
    columns = [column for column in _COLUMNS if column in rows[0]]
    table = Table(escape(name), *(column.replace("_", " ") for column in columns))
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        table.add_row(escape(str(row[name])), *(str(row[column]) for column in columns))
    table.add_section()
    table.add_row("all", *(str(total.get(column, "")) for column in columns))
    out.print(table)


def _tell_difference(compared: Comparison) -> None:
    if compared.difference is None:
        click.echo(f"The service does not tell its statistics: {compared.untold_because}")
        return
    more = f"{abs(compared.difference)} {'more' if compared.difference > 0 else 'less'} than"
    click.echo(
        f"The service has charged {compared.charged} pages, {more if compared.difference else 'as many as'} the ledger "
        "has paid for."
    )
    for what, pages in explanations(compared):
        click.echo(f"  {pages} {what}")
    if compared.unexplained:
        click.echo(
            f"{compared.unexplained} are explained by nothing in the ledger. Synchronous extractions, such as those of "
            "`scraper-pipeline extract`, are recorded nowhere; the service's statistics may be late."
        )


def _tell_month(forecast: MonthForecast) -> None:
    limit = f" of {forecast.limit}" if forecast.limit is not None else ""
    click.echo(
        f"This month: {forecast.committed}{limit} pages; at {forecast.pages_a_day:.0f} a day it comes to "
        f"{forecast.expected}."
    )
    if forecast.runs_out_on:
        click.echo(f"SCRAPER_MONTHLY_PAGE_LIMIT is used up on {forecast.runs_out_on}.")
