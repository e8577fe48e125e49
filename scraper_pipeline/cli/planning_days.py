"""What is missing in a range of days, a line for each, and what submitting it would cost: ``plan --since``."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from typing import Any

import click
from rich.table import Table

from scraper_pipeline.accounts import OpenAccount, lists_of
from scraper_pipeline.cli.accounts import chosen_accounts
from scraper_pipeline.cli.common import counted, day_key, out
from scraper_pipeline.cli.list_reading import ListReading
from scraper_pipeline.ledger import Ledger
from scraper_pipeline.lifecycle import PagesLeft, pages_left
from scraper_pipeline.settings import Settings
from scraper_pipeline.target_lists import TargetList, choose_lists


@dataclass(frozen=True)
class Span:
    """The days of a range that are partitions, and in words which of the range are none, and why."""

    days: tuple[date, ...]
    left_out: tuple[str, ...]


def partitions_within(settings: Settings, since: date, until: date) -> Span:
    """The partitions from ``since`` to ``until``, both included: none is before the start, and none still to come."""
    today = date.fromisoformat(day_key(settings, None))
    first, last = max(since, settings.start_date), min(until, today)
    left_out = []
    if since <= until and since < settings.start_date:
        before = min(until, settings.start_date - timedelta(1))
        left_out.append(f"{_no_partitions(since, before)}: SCRAPER_START_DATE is {settings.start_date}.")
    if since <= until and until > today:
        left_out.append(f"{_no_partitions(max(since, today + timedelta(1)), until)} yet: today is {today}.")
    days = (first + timedelta(number) for number in range((last - first).days + 1))
    return Span(tuple(days), tuple(left_out))


def _no_partitions(first: date, last: date) -> str:
    return f"{first} is no partition" if first == last else f"{first} to {last} are no partitions"


@dataclass(frozen=True)
class DayPlan:
    """A day's targets by what is left to do for them, and the most pages that doing it would cost.

    ``missing_pages`` is for what is new and what is planned, ``parked_pages`` for trying the parked again on request,
    both over all accounts that are meant; ``missing_by_account`` tells the first by account. ``error`` says why the
    day's lists could not be read, if so.
    """

    day: str
    new: int
    planned: int
    in_flight: int
    stored: int
    parked: int
    missing_pages: int
    parked_pages: int
    missing_by_account: Mapping[str, int]
    error: str | None = None

    @property
    def figures(self) -> dict[str, Any]:
        told = asdict(self)
        if len(self.missing_by_account) == 1:
            del told["missing_by_account"]
        return told


@dataclass(frozen=True)
class RangePlan:
    """The plan of each day of a range that is a partition, and what each account's page limits leave."""

    days: tuple[DayPlan, ...]
    left_out: tuple[str, ...]
    left: Mapping[str, PagesLeft]

    @property
    def unread(self) -> tuple[DayPlan, ...]:
        """The days whose lists could not be read."""
        return tuple(one for one in self.days if one.error)

    @property
    def missing_pages(self) -> int:
        return sum(one.missing_pages for one in self.days)

    def missing_on(self, account: str) -> int:
        """The most pages that what is missing of an account would cost."""
        return sum(one.missing_by_account[account] for one in self.days)

    @property
    def figures(self) -> dict[str, Any]:
        told = [
            {
                "account": account,
                "pages_left_today": left.today,
                "pages_left_this_month": left.this_month,
                "pages_beyond_the_limits": pages_beyond(left, self.missing_on(account)),
            }
            for account, left in self.left.items()
        ]
        days = {"days": [one.figures for one in self.days], "left_out": self.left_out}
        return {**days, "accounts": told} if len(told) > 1 else {**days, **told[0]}


def plan_days(
    settings: Settings, names: Sequence[str], account: str | None, since: date, until: date
) -> RangePlan:
    """The plan of each day from ``since`` to ``until``, both included, on one account or all. Changes nothing.

    Raises TargetListError where the lists cannot be told at all, and UsageError where the range has no partition.
    """
    span = partitions_within(settings, since, until)
    if not span.days:
        raise click.UsageError(" ".join(span.left_out) or f"There is no day from {since} to {until}.")
    lists = choose_lists(lists_of(settings), names)
    with chosen_accounts(settings, account) as (accounts, meant):
        ledger = accounts.ledger if account is None else meant[0].ledger
        days = tuple(_plan_day(ledger, meant, lists, day) for day in span.days)
        left = {one.name: pages_left(one.ledger, one.policy()) for one in meant}
        return RangePlan(days, span.left_out, left)


def _plan_day(
    ledger: Ledger, accounts: Sequence[OpenAccount], lists: Sequence[TargetList], day: date
) -> DayPlan:
    key, new, missing, errors = day.isoformat(), 0, {}, list[str]()
    for account in accounts:
        added, readings = set[str](), [ListReading(one, day) for one in lists if one.account == account.name]
        for reading in readings:
            reading.read(account.ledger, added)
        new += len(added)
        pages = sum(one.pages for one in readings)
        missing[account.name] = pages + account.ledger.submissions.pages_planned(key)
        errors += [one.error for one in readings if one.error]
    progress = ledger.progress.of(key)
    return DayPlan(
        key,
        new,
        progress.planned,
        progress.sending + progress.accepted,
        progress.stored,
        progress.dead,
        sum(missing.values()),
        sum(one.most_pages for one in ledger.resubmissions.settled_targets(key, "failed")),
        missing,
        "; ".join(errors) or None,
    )


def pages_beyond(left: PagesLeft, pages: int) -> int:
    """How many of these pages the limits have no room for at the moment."""
    return 0 if left.least is None else max(0, pages - left.least)


def limits_said(left: PagesLeft, pages: int) -> str:
    """What the limits leave, in a sentence, and how many of these pages that holds up."""
    beyond = pages_beyond(left, pages)
    return f"{str(left).capitalize()}" + (f": {beyond} would stay planned." if beyond else ".")


def show_days(plan: RangePlan) -> None:
    """Print a table, what is left out of it, what the whole range would cost, and what the limits leave of that."""
    table = Table()
    names = ("day", "new", "planned", "in flight", "stored", "parked", "missing, pages", "parked, pages")
    for name in names:
        table.add_column(name, justify="left" if name == "day" else "right")
    for one in plan.days:
        cells = (
            one.new,
            one.planned,
            one.in_flight,
            one.stored,
            one.parked,
            one.missing_pages,
            one.parked_pages,
        )
        table.add_row(one.day, *(str(cell) if cell else "-" for cell in cells))
    out.print(table)
    for said in plan.left_out:
        click.echo(said)
    unread = ""
    if plan.unread:
        unread = f", without the {'day' if len(plan.unread) == 1 else 'days'} whose lists could not be read"
    click.echo(
        f"Submitting what is missing would pay for at most {counted(plan.missing_pages, 'page')}, "
        f"with `resubmit: failed` for {sum(one.parked_pages for one in plan.days)} more{unread}."
    )
    for account, left in plan.left.items():
        named = f"{account}: " if len(plan.left) > 1 else ""
        click.echo(f"{named}{limits_said(left, plan.missing_on(account))}")
