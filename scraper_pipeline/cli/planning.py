"""The command ``plan``: what submitting a day would do and cost, before anything is spent."""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import islice
from typing import Any

import click

from scraper_pipeline.cli.common import clear_errors, day_key, day_option, json_option, print_json
from scraper_pipeline.ledger import CRAWL_LIMIT, Kind, Ledger, PlannedGroup, Target
from scraper_pipeline.lifecycle import PagesLeft, pages_left, requests_needed, stops_account
from scraper_pipeline.resources import lifecycle_policy, open_client, open_ledger
from scraper_pipeline.scraper_api import ConcurrencyUsage, ScraperError
from scraper_pipeline.settings import Settings, load_settings
from scraper_pipeline.target_lists import Duplicate, Rejected, read_target_list

_PROBLEMS_SHOWN = 50
_LIVE_SECONDS = 10.0
_NAMES = {"extract": "single jobs", "batch": "batches", "crawl": "crawls"}


@dataclass
class _Reading:
    """What the list adds to a day; ``groups`` counts its new targets by kind and options."""

    targets: int = 0
    new: int = 0
    pages: int = 0
    groups: Counter[tuple[Kind, str]] = field(default_factory=Counter)
    problems: list[dict[str, Any]] = field(default_factory=list)

    def add(self, ledger: Ledger, day: str, entries: Sequence[Target | Rejected | Duplicate]) -> None:
        targets = [entry for entry in entries if isinstance(entry, Target)]
        known = ledger.submissions.planned_targets(day, [target.target_id for target in targets])
        new = [target for target in targets if target.target_id not in known]
        self.targets, self.new = self.targets + len(targets), self.new + len(new)
        for target in new:
            kind = Kind.CRAWL if target.is_crawl else Kind.EXTRACT
            self.pages += int(target.options.get("limit") or CRAWL_LIMIT) if target.is_crawl else 1
            self.groups[kind, json.dumps(target.options, sort_keys=True)] += 1
        self.problems += [_problem(entry) for entry in entries if not isinstance(entry, Target)]


def _problem(entry: Rejected | Duplicate) -> dict[str, Any]:
    reason = entry.reason if isinstance(entry, Rejected) else f"the same as line {entry.first_line}"
    return {"line": entry.line, "reason": reason}


@click.command()
@day_option
@click.option("--live", is_flag=True, help="Ask the service how many places the account has free, too.")
@json_option
@clear_errors
def plan(day: date | None, live: bool, as_json: bool) -> None:
    """Show what submitting a day would do and cost, and what is wrong with the list. Changes nothing."""
    settings = load_settings()
    policy, key, reading = lifecycle_policy(settings), day_key(settings, day), _Reading()
    with open_ledger(settings) as ledger:
        entries = iter(read_target_list(settings.targets))
        while some := list(islice(entries, 500)):
            reading.add(ledger, key, some)
        to_submit = reading.new + ledger.progress.of(key).planned
        most_pages = reading.pages + ledger.submissions.pages_planned(key)
        requests = requests_needed(_merged(reading, ledger.submissions.planned_groups(key)), policy)
        left = pages_left(ledger, policy)
    beyond = 0 if left.least is None else max(0, most_pages - left.least)
    usage, untold = asyncio.run(_ask_for_places(settings)) if live else (None, None)
    report = {
        "day": key, "list": str(settings.targets), "targets": reading.targets, "new": reading.new,
        "to_submit": to_submit, "most_pages_paid": most_pages, "requests": requests,
        "pages_left_today": left.today, "pages_left_this_month": left.this_month,
        "pages_beyond_the_limits": beyond, "problems": reading.problems,
    }  # fmt: skip
    if live:
        report["places"] = usage and {"limit": usage.limit, "in_use": usage.in_use, "free": _free(usage)}
    if as_json:
        print_json(report)
        return
    click.echo(f"{settings.targets} has {reading.targets} targets; {reading.new} are new to {key}.")
    click.echo(f"A run would submit {to_submit}, and pay for at most {most_pages} pages.")
    _tell_details(requests, left, beyond)
    if usage:
        click.echo(f"The account has {_free(usage)} of its {usage.limit} places free.")
    elif untold:
        click.echo(f"The service does not tell how many places the account has free: {untold}")
    for problem in reading.problems[:_PROBLEMS_SHOWN]:
        click.echo(f"  line {problem['line']}: {problem['reason']}")
    if len(reading.problems) > _PROBLEMS_SHOWN:
        click.echo(f"  ... and {len(reading.problems) - _PROBLEMS_SHOWN} more lines; --json shows all.")


def _merged(reading: _Reading, planned: Sequence[PlannedGroup]) -> list[PlannedGroup]:
    """The day's groups as they would be once the list is planned."""
    groups = Counter(reading.groups)
    for group in planned:
        kind = Kind.EXTRACT if group.kind is Kind.BATCH else group.kind  # of a batch that did not go out
        groups[kind, json.dumps(group.options, sort_keys=True)] += group.targets
    return [PlannedGroup(kind, json.loads(options), count) for (kind, options), count in groups.items()]


def _tell_details(requests: dict[str, int], left: PagesLeft, beyond: int) -> None:
    if parts := [f"{count} {_NAMES[kind]}" for kind, count in requests.items() if count]:
        click.echo(f"That takes {sum(requests.values())} requests: {', '.join(parts)}.")
    click.echo(f"{str(left).capitalize()}" + (f": {beyond} would stay planned." if beyond else "."))


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
