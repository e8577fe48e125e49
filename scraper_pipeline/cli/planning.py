"""The command ``plan``: what submitting a day would do and cost, before anything is spent."""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import click

from scraper_pipeline.accounts import OpenAccount, lists_of
from scraper_pipeline.cli.accounts import account_option, chosen_accounts
from scraper_pipeline.cli.common import clear_errors, counted, day_key, day_option, json_option, print_json
from scraper_pipeline.cli.list_reading import ListReading
from scraper_pipeline.cli.planning_days import (
    limits_said,
    pages_beyond,
    partitions_within,
    plan_days,
    show_days,
)
from scraper_pipeline.ledger import Kind, PlannedGroup
from scraper_pipeline.lifecycle import PagesLeft, pages_left, requests_needed, stops_account
from scraper_pipeline.scraper_api import ConcurrencyUsage, ScraperError
from scraper_pipeline.settings import load_settings
from scraper_pipeline.target_lists import TargetListError, choose_lists, shown_url

_DAY = click.DateTime(["%Y-%m-%d"])
_PROBLEMS_SHOWN = 50
_LIVE_SECONDS = 10.0
_NAMES = {
    "extract": ("single job", "single jobs"),
    "batch": ("batch", "batches"),
    "crawl": ("crawl", "crawls"),
}


@click.command()
@day_option
@click.option(
    "--since", type=_DAY, help="With --until: what is missing in each day of a range, and its cost."
)
@click.option("--until", type=_DAY, help="The last day of the range; today by default.")
@click.option(
    "--list", "names", multiple=True, help="A list of targets.yaml; all by default. May be repeated."
)
@click.option("--live", is_flag=True, help="Ask the service how many places each account has free, too.")
@account_option
@json_option
@clear_errors
def plan(
    day: date | None,
    since: datetime | None,
    until: datetime | None,
    names: tuple[str, ...],
    live: bool,
    account: str | None,
    as_json: bool,
) -> None:
    """Show what submitting a day would do and cost, and what is wrong with the lists. Changes nothing.

    With --since it shows each day of a range on a line: what is missing, and what that would cost.
    """
    settings = load_settings()
    if since or until:
        if day or live or not since:
            raise click.UsageError("--until goes with --since, and neither --day nor --live goes with them.")
        last = until.date() if until else date.fromisoformat(day_key(settings, None))
        span = plan_days(settings, names, account, since.date(), last)
        if as_json:
            print_json({"list": shown_url(settings.targets), **span.figures})
        else:
            show_days(span)
        if span.unread:
            raise TargetListError("\n".join(f"{one.day}: {one.error}" for one in span.unread))
        return
    key, where = day_key(settings, day), shown_url(settings.targets)
    if left_out := partitions_within(settings, date.fromisoformat(key), date.fromisoformat(key)).left_out:
        raise click.UsageError(left_out[0])
    lists = choose_lists(lists_of(settings), names)
    readings = [ListReading(one, date.fromisoformat(key)) for one in lists]
    with chosen_accounts(settings, account) as (accounts, meant):
        of_accounts = {one.name: [r for r in readings if r.target_list.account == one.name] for one in meant}
        readings = [reading for reading in readings if reading.target_list.account in of_accounts]
        parts = [_plan_account(one, key, of_accounts[one.name]) for one in meant]
        if failed := [reading.error for reading in readings if reading.error]:
            raise TargetListError("; ".join(failed))
        if live:
            asyncio.run(_ask_for_places(meant, parts))
    problems = [problem for one in readings for problem in one.problems]
    targets, new = sum(one.targets for one in readings), sum(one.new for one in parts)
    if as_json:
        told = [part.figures for part in parts]
        report = {"day": key, "list": where, "targets": targets}
        detail = {"lists": [one.figures for one in readings], "problems": problems}
        print_json({**report, **({"accounts": told} if len(parts) > 1 else told[0]), **detail})
        return
    click.echo(f"{where} has {counted(targets, 'target')}; new to {key}: {new}.")
    for one in readings:
        _tell_list(one)
    for part in parts:
        _tell_part(part, accounts.told(part.account))
    _tell_problems(readings)


@dataclass
class _Part:
    """What submitting the day would do and cost on one account; ``usage`` and ``untold`` are the service's word."""

    account: str
    new: int
    to_submit: int
    most_pages: int
    requests: dict[str, int]
    left: PagesLeft
    usage: ConcurrencyUsage | None = None
    untold: str | None = None

    @property
    def figures(self) -> dict[str, Any]:
        places = self.usage and {
            "limit": self.usage.limit,
            "in_use": self.usage.in_use,
            "free": _free(self.usage),
        }
        return {
            "account": self.account, "new": self.new, "to_submit": self.to_submit,
            "most_pages_paid": self.most_pages, "requests": self.requests,
            "pages_left_today": self.left.today, "pages_left_this_month": self.left.this_month,
            "pages_beyond_the_limits": pages_beyond(self.left, self.most_pages),
            **({"places": places} if self.usage or self.untold else {}),
        }  # fmt: skip


def _plan_account(account: OpenAccount, day: str, readings: Sequence[ListReading]) -> _Part:
    added, ledger, policy = set[str](), account.ledger, account.policy()
    for reading in readings:
        reading.read(ledger, added)
    groups = _merged(readings, ledger.submissions.planned_groups(day))
    return _Part(
        account.name,
        len(added),
        len(added) + ledger.progress.of(day).planned,
        sum(one.pages for one in readings) + ledger.submissions.pages_planned(day),
        requests_needed(groups, policy),
        pages_left(ledger, policy),
    )


def _tell_part(part: _Part, named: str) -> None:
    click.echo(
        f"{named}A run would submit {part.to_submit}, and pay for at most {counted(part.most_pages, 'page')}."
    )
    _tell_requests(part.requests)
    click.echo(limits_said(part.left, part.most_pages))
    if part.usage:
        click.echo(f"The account has {_free(part.usage)} of its {part.usage.limit} places free.")
    elif part.untold:
        click.echo(f"The service does not tell how many places the account has free: {part.untold}")


def _tell_list(reading: ListReading) -> None:
    if not reading.target_list.is_named:
        return
    parts = [
        counted(reading.targets, "target"),
        f"{reading.new} new, for at most {counted(reading.pages, 'page')}",
    ]
    if reading.beyond_budget:
        parts.append(f"{reading.beyond_budget} beyond its budget")
    if reading.problems:
        parts.append(f"{counted(len(reading.problems), 'line')} with problems")
    click.echo(f"  {reading.target_list.name}: {'; '.join(parts)}.")


def _tell_problems(readings: Sequence[ListReading]) -> None:
    problems = [(one.target_list, problem) for one in readings for problem in one.problems]
    for target_list, problem in problems[:_PROBLEMS_SHOWN]:
        where = f"{target_list.name}, " if target_list.is_named else ""
        click.echo(f"  {where}line {problem['line']}: {problem['reason']}")
    if len(problems) > _PROBLEMS_SHOWN:
        click.echo(f"  ... and {len(problems) - _PROBLEMS_SHOWN} more lines; --json shows all.")


def _merged(readings: Sequence[ListReading], planned: Sequence[PlannedGroup]) -> list[PlannedGroup]:
    """The day's groups as they would be once the lists are planned."""
    groups = Counter[tuple[Kind, str]]()
    for reading in readings:
        groups.update(reading.groups)
    for group in planned:
        kind = Kind.EXTRACT if group.kind is Kind.BATCH else group.kind  # of a batch that did not go out
        groups[kind, json.dumps(group.options, sort_keys=True)] += group.targets
    return [PlannedGroup(kind, json.loads(options), count) for (kind, options), count in groups.items()]


def _tell_requests(requests: dict[str, int]) -> None:
    if parts := [f"{count} {_NAMES[kind][count != 1]}" for kind, count in requests.items() if count]:
        click.echo(f"That takes {counted(sum(requests.values()), 'request')}: {', '.join(parts)}.")


def _free(usage: ConcurrencyUsage) -> int:
    return max(0, usage.limit - usage.in_use)


async def _ask_for_places(accounts: Sequence[OpenAccount], parts: Sequence[_Part]) -> None:
    """Note each account's places, or why the service does not tell them. Raises what stops an account."""
    for account, part in zip(accounts, parts, strict=True):
        async with account.open_client() as client:
            try:
                part.usage = await client.get_concurrency(budget=_LIVE_SECONDS)
            except ScraperError as error:
                if stops_account(error):
                    raise
                part.untold = str(error)
