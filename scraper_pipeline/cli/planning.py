"""The command ``plan``: what submitting a day would do and cost, before anything is spent."""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime

import click

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
from scraper_pipeline.lifecycle import pages_left, requests_needed, stops_account
from scraper_pipeline.resources import lifecycle_policy, open_client, open_ledger
from scraper_pipeline.scraper_api import ConcurrencyUsage, ScraperError
from scraper_pipeline.settings import Settings, load_settings
from scraper_pipeline.target_lists import TargetListError, choose_lists, load_target_lists, shown_url

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
@click.option("--live", is_flag=True, help="Ask the service how many places the account has free, too.")
@json_option
@clear_errors
def plan(
    day: date | None,
    since: datetime | None,
    until: datetime | None,
    names: tuple[str, ...],
    live: bool,
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
        span = plan_days(settings, names, since.date(), last)
        if as_json:
            print_json({"list": shown_url(settings.targets), **span.figures})
        else:
            show_days(span)
        if span.unread:
            raise TargetListError("\n".join(f"{one.day}: {one.error}" for one in span.unread))
        return
    policy, key, where = lifecycle_policy(settings), day_key(settings, day), shown_url(settings.targets)
    if left_out := partitions_within(settings, date.fromisoformat(key), date.fromisoformat(key)).left_out:
        raise click.UsageError(left_out[0])
    lists, added = choose_lists(load_target_lists(settings.targets), names), set[str]()
    readings = [ListReading(one, date.fromisoformat(key)) for one in lists]
    with open_ledger(settings) as ledger:
        for reading in readings:
            reading.read(ledger, added)
        if failed := [reading.error for reading in readings if reading.error]:
            raise TargetListError("; ".join(failed))
        to_submit = len(added) + ledger.progress.of(key).planned
        most_pages = sum(one.pages for one in readings) + ledger.submissions.pages_planned(key)
        requests = requests_needed(_merged(readings, ledger.submissions.planned_groups(key)), policy)
        left = pages_left(ledger, policy)
    usage, untold = asyncio.run(_ask_for_places(settings)) if live else (None, None)
    targets = sum(one.targets for one in readings)
    report = {
        "day": key, "list": where, "targets": targets, "new": len(added),
        "to_submit": to_submit, "most_pages_paid": most_pages, "requests": requests,
        "pages_left_today": left.today, "pages_left_this_month": left.this_month,
        "pages_beyond_the_limits": pages_beyond(left, most_pages), "lists": [one.figures for one in readings],
        "problems": [problem for one in readings for problem in one.problems],
    }  # fmt: skip
    if live:
        report["places"] = usage and {"limit": usage.limit, "in_use": usage.in_use, "free": _free(usage)}
    if as_json:
        print_json(report)
        return
    click.echo(f"{where} has {counted(targets, 'target')}; new to {key}: {len(added)}.")
    for one in readings:
        _tell_list(one)
    click.echo(f"A run would submit {to_submit}, and pay for at most {counted(most_pages, 'page')}.")
    _tell_requests(requests)
    click.echo(limits_said(left, most_pages))
    if usage:
        click.echo(f"The account has {_free(usage)} of its {usage.limit} places free.")
    elif untold:
        click.echo(f"The service does not tell how many places the account has free: {untold}")
    _tell_problems(readings)


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


async def _ask_for_places(settings: Settings) -> tuple[ConcurrencyUsage | None, str | None]:
    """The account's places, or why the service does not tell them. Raises what stops the account."""
    async with open_client(settings) as client:
        try:
            return await client.get_concurrency(budget=_LIVE_SECONDS), None
        except ScraperError as error:
            if stops_account(error):
                raise
            return None, str(error)
