"""What is missing in a range of days, a line for each, and what submitting it would cost: ``plan --since``."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from typing import Any

import click
from rich.table import Table

from scraper_pipeline.cli.common import out
from scraper_pipeline.cli.list_reading import ListReading
from scraper_pipeline.ledger import Ledger
from scraper_pipeline.resources import open_ledger
from scraper_pipeline.settings import Settings
from scraper_pipeline.target_lists import TargetList, choose_lists, load_target_lists


@dataclass(frozen=True)
class DayPlan:
    """A day's targets by what is left to do for them, and the most pages that doing it would cost.

    ``missing_pages`` is for what is new and what is planned, ``parked_pages`` for trying the parked again on request.
    ``error`` says why the day's lists could not be read, if so.
    """

    day: str
    new: int
    planned: int
    in_flight: int
    stored: int
    parked: int
    missing_pages: int
    parked_pages: int
    error: str | None = None

    @property
    def figures(self) -> dict[str, Any]:
        return asdict(self)


def plan_days(settings: Settings, names: Sequence[str], since: date, until: date) -> list[DayPlan]:
    """The plan of each day from ``since`` to ``until``, both included. Changes nothing.

    Raises TargetListError where the lists cannot be told at all, and UsageError where the range has no day.
    """
    first = max(since, settings.start_date)
    days = [first + timedelta(days=number) for number in range((until - first).days + 1)]
    if not days:
        raise click.UsageError(
            f"There is no day from {first} to {until}; the first day is SCRAPER_START_DATE."
        )
    lists = choose_lists(load_target_lists(settings.targets), names)
    with open_ledger(settings) as ledger:
        return [_plan_day(ledger, lists, day) for day in days]


def _plan_day(ledger: Ledger, lists: Sequence[TargetList], day: date) -> DayPlan:
    key, new = day.isoformat(), set[str]()
    readings = [ListReading(one, day) for one in lists]
    for reading in readings:
        reading.read(ledger, new)
    progress = ledger.progress.of(key)
    return DayPlan(
        key,
        len(new),
        progress.planned,
        progress.sending + progress.accepted,
        progress.stored,
        progress.dead,
        sum(one.pages for one in readings) + ledger.submissions.pages_planned(key),
        sum(one.most_pages for one in ledger.resubmissions.settled_targets(key, "failed")),
        "; ".join(one.error for one in readings if one.error) or None,
    )


def show_days(days: Sequence[DayPlan]) -> None:
    """Print a table, what the whole range would cost, and which days' lists could not be read."""
    table = Table()
    names = ("day", "new", "planned", "in flight", "stored", "parked", "missing, pages", "parked, pages")
    for name in names:
        table.add_column(name, justify="left" if name == "day" else "right")
    for one in days:
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
    for one in days:
        if one.error:
            click.echo(f"{one.day}: {one.error}")
    missing, parked = sum(one.missing_pages for one in days), sum(one.parked_pages for one in days)
    click.echo(
        f"Submitting what is missing would pay for at most {missing} pages, "
        f"with `resubmit: failed` for {parked} more."
    )
