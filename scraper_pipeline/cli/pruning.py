"""The command ``prune``: what is old leaves the ledger, on purpose and never by itself unless settings say so."""

from datetime import datetime
from zoneinfo import ZoneInfo

import click
from rich.progress import TaskID

from scraper_pipeline.accounts import open_ledger
from scraper_pipeline.cli.common import (
    IntRange,
    clear_errors,
    confirm,
    counted,
    json_option,
    print_json,
    progress_bars,
)
from scraper_pipeline.publishing import PruneReport, Retention, open_place, prune, what_is_old
from scraper_pipeline.settings import LEAST_DAYS_KEPT, load_settings

_DAYS = IntRange(min=LEAST_DAYS_KEPT)


@click.command("prune")
@click.option(
    "--content-after",
    type=_DAYS,
    metavar="DAYS",
    help="Drop the content of older days; else SCRAPER_KEEP_CONTENT_DAYS.",
)
@click.option(
    "--news-after",
    type=_DAYS,
    metavar="DAYS",
    help="Forget older events and deliveries; else SCRAPER_KEEP_NEWS_DAYS.",
)
@click.option(
    "--letters-after",
    type=_DAYS,
    metavar="DAYS",
    help="Forget letters resolved longer ago, whose target was tried again or stored; never otherwise.",
)
@click.option("--unpublished", is_flag=True, help="Drop content that no published file has, too.")
@click.option("--dry-run", is_flag=True, help="Only say what would be dropped.")
@click.option("--yes", is_flag=True, help="Don't ask before.")
@json_option
@clear_errors
def prune_command(
    content_after: int | None,
    news_after: int | None,
    letters_after: int | None,
    unpublished: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Drop what is old from the ledger: the content of pages, events, deliveries, and letters if told.

    What was asked for, paid and stored stays known for ever, so nothing is paid twice for it. Content of a day is
    dropped once all of its targets are settled and its published file shows all of its pages.
    """
    settings = load_settings()
    retention = Retention(
        settings.keep_content_days if content_after is None else content_after,
        settings.keep_news_days if news_after is None else news_after,
        letters_after,
        unpublished,
    )
    if (retention.content_days, retention.news_days, retention.letters_days) == (None, None, None):
        raise click.UsageError(
            "Say what is old: --content-after, --news-after or --letters-after, or set SCRAPER_KEEP_CONTENT_DAYS or "
            "SCRAPER_KEEP_NEWS_DAYS."
        )
    today = datetime.now(ZoneInfo(settings.timezone)).date()
    with open_ledger(settings) as ledger:
        place = open_place(settings.pages_url)
        report = what_is_old(ledger, place, retention, today)
        is_anything = bool(report.pages or any(report.traces.__dict__.values()))
        if not dry_run and is_anything:
            if not yes:
                confirm(f"Drop {_said(report)}, for good?")
            with progress_bars() as bars:
                tasks: dict[str, TaskID] = {}

                def advance(what: str, more: int, total: int | None) -> None:
                    if what not in tasks:
                        tasks[what] = bars.add_task(what, total=total)
                    bars.advance(tasks[what], more)

                report = prune(ledger, place, retention, today, advance)
    _tell(report, dry_run, as_json)


def _tell(report: PruneReport, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "dry_run": dry_run,
                "days": report.days,
                "pages": report.pages,
                "unpublished": report.unpublished,
                "unsettled": report.unsettled,
                **report.traces.__dict__,
            }
        )
        return
    click.echo(f"{'To be dropped' if dry_run else 'Dropped'}: {_said(report)}.")
    if report.unsettled:
        click.echo(f"Kept, since targets of them are still waited for: {', '.join(report.unsettled)}.")
    if report.unpublished:
        click.echo(
            f"Kept, since no published file shows all of their pages: {', '.join(report.unpublished)}. "
            "Launch publish_pages for them, or give --unpublished."
        )


def _said(report: PruneReport) -> str:
    counts = {
        f"the content of {counted(report.pages, 'page')} of {counted(len(report.days), 'day')}": report.pages,
        counted(report.traces.events, "event"): report.traces.events,
        f"deliveries: {report.traces.deliveries}": report.traces.deliveries,
        f"quarantined: {report.traces.quarantined}": report.traces.quarantined,
        counted(report.traces.letters, "resolved letter"): report.traces.letters,
    }
    return ", ".join(text for text, count in counts.items() if count) or "nothing"
