"""The commands that look: how far the days are, and whether all is as it must be."""

import sys
from collections import Counter
from dataclasses import asdict
from typing import Any

import click
from rich.table import Table

from scraper_pipeline.accounts import named_accounts, open_ledger
from scraper_pipeline.cli.accounts import account_option, ledger_of
from scraper_pipeline.cli.common import (
    Address,
    IntRange,
    clear_errors,
    counted,
    err,
    json_option,
    out,
    print_json,
    progress_bars,
)
from scraper_pipeline.ledger import Ledger, Violation
from scraper_pipeline.local import demo as demonstration
from scraper_pipeline.settings import load_settings


@click.command()
@click.option(
    "--days", default=14, show_default=True, type=IntRange(1, 1000), help="How many days, newest first."
)
@account_option
@json_option
@clear_errors
def status(days: int, account: str | None, as_json: bool) -> None:
    """Show how far each day is, over all accounts or for one."""
    settings = load_settings()
    with ledger_of(settings, account) as ledger:
        accounts = ledger.scope.accounts
        rows: list[dict[str, Any]] = [
            {
                "day": changed.partition_key,
                **_progress_of(ledger, changed.partition_key),
                "resubmitted": ledger.progress.resubmissions(changed.partition_key),
                "reasons": ledger.progress.letters_by_code(changed.partition_key),
                "discarded": ledger.letters.discarded(changed.partition_key),
                "channels": {
                    str(channel): asdict(figures)
                    for channel, figures in ledger.channels.of(changed.partition_key).items()
                },
            }
            for changed in ledger.progress.revisions(days)
        ]
        oldest = ledger.progress.oldest_open_seconds()
        last_sweep = ledger.sweeps.last()
        foreign, _ = ledger.foreign_jobs.newest(0)
        quarantined = ledger.inbox.quarantined()
    if as_json:
        sweep = {"ended_at": last_sweep[0], **last_sweep[1]} if last_sweep else None
        print_json(
            {
                "ledger": settings.ledger_location,
                "accounts": accounts,
                "oldest_open_seconds": round(oldest, 1),
                "last_sweep": sweep,
                "foreign_jobs": foreign,
                "quarantined": quarantined,
                "days": rows,
            }
        )
        return
    of_accounts = f", accounts {', '.join(accounts)}" if len(accounts) > 1 or account else ""
    table = Table(title=f"Ledger {settings.ledger_location}{of_accounts}", title_justify="left")
    for name in ("day", "targets", "planned", "sending", "accepted", "stored", "parked", "resubmitted"):
        table.add_column(name, justify="left" if name == "day" else "right")
    for row in rows:
        table.add_row(*(str(row[str(column.header)]) for column in table.columns))
    out.print(table)
    if not rows:
        click.echo("The ledger holds no day yet.")
    for row in rows:
        if row["reasons"]:
            click.echo(
                f"{row['day']} parked: " + ", ".join(f"{n} {code}" for code, n in row["reasons"].items())
            )
        if row["discarded"]:
            click.echo(f"{row['day']} parked and discarded: {row['discarded']}")
    heard = Counter[str]()
    for row in rows:
        heard.update({name: figures["first"] for name, figures in row["channels"].items()})
    if said := ", ".join(f"{name} {count}" for name, count in heard.most_common() if count):
        click.echo(f"News of ended jobs came first by: {said}.")
    if foreign:
        click.echo(
            f"On this key: {counted(foreign, 'job')} of other programs; the asset reconciliation lists them."
        )
    click.echo(
        f"Last sweep: {last_sweep[0]:%Y-%m-%d %H:%M:%S} UTC." if last_sweep else "No sweep has run yet."
    )
    click.echo(f"Oldest open target: {oldest:.0f} s." if oldest else "Nothing is on its way.")


def _progress_of(ledger: Ledger, day: str) -> dict[str, int]:
    progress = ledger.progress.of(day)
    return {"targets": progress.targets, **asdict(progress), "parked": progress.dead}


@click.command()
@click.option(
    "--sandbox",
    "sandbox_urls",
    type=Address(),
    multiple=True,
    help="Compare with this sandbox's books, too; may be given once for each account.",
)
@json_option
@clear_errors
def audit(sandbox_urls: tuple[str, ...], as_json: bool) -> None:
    """Check the invariants: nothing lost, nothing stored twice, nothing paid twice. Exits 1 when one is broken.

    Every account that has rows is checked, be it named or not.
    """
    settings = load_settings()
    named = [account.name for account in named_accounts(settings)]
    sandbox_urls = sandbox_urls or ((settings.sandbox_url,) if settings.sandbox_url else ())
    with open_ledger(settings) as one_or_all:
        ledger = one_or_all.of_account(*dict.fromkeys([*named, *one_or_all.progress.accounts()]))
        with progress_bars() as bars:
            bar = bars.add_task("rules", total=None)
            violations = ledger.audit.check(
                on_rule=lambda done, total: bars.update(bar, completed=done, total=total)
            )
        is_on_its_way = ledger.progress.has_open_targets()  # as it was before both were compared
        if sandbox_urls:
            with err.status("Comparing with the sandbox's books ..."):
                books = [job for url in sandbox_urls for job in demonstration.fetch_truth(url.rstrip("/"))]
                violations += ledger.audit.check_against(books)
        is_empty = not ledger.progress.revisions(1)
        unnamed = [one for one in ledger.each if one.scope.account not in named]
        violations += [_forgotten(one.scope.account) for one in unnamed if one.progress.has_open_targets()]
    against = "the ledger and the sandbox" if sandbox_urls else "the ledger"
    if as_json:
        print_json({"checked": against, "violations": [asdict(violation) for violation in violations]})
    else:
        for one in unnamed:
            click.echo(f"The account {one.scope.account} has rows, and nothing names it any more.")
        print_violations(violations)
        if is_on_its_way and any(found.rule == "paid_is_stored" for found in violations):
            click.echo(
                "Targets are on their way, and the sandbox counts a page as paid before it is stored: ask again after."
            )
        if is_empty:
            click.echo(f"The ledger at {settings.ledger_location} holds no day yet.")
        click.echo(f"Checked {against}: " + (f"{len(violations)} violations." if violations else "clean."))
    sys.exit(1 if violations else 0)


def _forgotten(account: str) -> Violation:
    return Violation(
        "open_is_named",
        None,
        None,
        f"the account {account} has targets that are not settled, and nothing names it: name it in "
        "SCRAPER_ACCOUNTS_FILE until they are",
    )


def print_violations(violations: list[Violation]) -> None:
    for found in violations[:100]:
        click.echo(f"  {found.rule}: {found.partition_key or '-'} {found.target_id or '-'}: {found.detail}")


@click.command()
@json_option
@clear_errors
def migrate(as_json: bool) -> None:
    """Bring the ledger's schema up to date. Every other command does so, too, when it first meets a ledger."""
    settings = load_settings()
    with open_ledger(settings) as ledger:
        revision = ledger.revision
    if as_json:
        print_json({"ledger": settings.ledger_location, "revision": revision})
        return
    click.echo(f"The ledger at {settings.ledger_location} is up to date.")
