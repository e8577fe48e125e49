"""The dead-letter desk: look at the targets that were parked, have them tried again, or discard them."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from scraper_pipeline.accounts import open_ledger, retry_in_turn
from scraper_pipeline.cli.accounts import account_option, chosen_accounts, ledger_of
from scraper_pipeline.cli.common import (
    IntRange,
    clear_errors,
    confirm,
    counted,
    json_option,
    out,
    print_json,
)
from scraper_pipeline.cli.letter_filters import chosen_letters, filter_options, read_filter, with_known_codes
from scraper_pipeline.ledger import (
    Attempt,
    DeadLetter,
    LetterState,
    SettledTarget,
)
from scraper_pipeline.lifecycle import HELD_LEASE, ResubmissionReport, pages_left
from scraper_pipeline.settings import load_settings

_LONGEST_NOTE = 500
_LISTED = 50
_NOT_SENT = (
    "Nothing is sent by this: job_status_sensor asks for submit_jobs within seconds where Dagster runs, or launch "
    "it for {days}."
)
_ID = IntRange(1, 2**63 - 1)


@click.group("dead-letters")
def dead_letters() -> None:
    """List, show, retry, discard: the targets that were parked, each with its reason."""


@dead_letters.command("list")
@filter_options
@click.option(
    "--state",
    type=click.Choice([str(state) for state in LetterState]),
    default=str(LetterState.OPEN),
    show_default=True,
    help="Letters that wait, that were discarded, whose target was tried again or stored since, or all.",
)
@account_option
@json_option
@clear_errors
def list_letters(limit: int | None, state: str, account: str | None, as_json: bool, **given: Any) -> None:
    """Show dead letters, newest first."""
    which, of_state = read_filter(**given), LetterState(state)
    with ledger_of(load_settings(), account) as ledger:
        are_several = len(ledger.scope.accounts) > 1
        which = with_known_codes(ledger, which)
        by_code = ledger.letters.count(which, of_state)
        letters = ledger.letters.find(which, of_state, limit or _LISTED)
    total = sum(by_code.values())
    if as_json:
        print_json({"total": total, "by_code": by_code, "letters": [_shown(letter) for letter in letters]})
        return
    if not total:
        click.echo("There are none.")
        return
    table = Table("id", *(["account"] if are_several else []), "day", "code", "attempts", "url", "message")
    for letter in letters:
        row = (
            letter.letter_id,
            *([letter.account] if are_several else []),
            letter.partition_key,
            letter.code,
            letter.attempts,
            letter.url,
            letter.message,
        )
        table.add_row(*(escape(str(cell)) for cell in row))
    out.print(table)
    click.echo(
        f"{counted(total, 'letter')}: " + ", ".join(f"{count} {code}" for code, count in by_code.items())
    )
    if total > len(letters):
        click.echo(f"{total - len(letters)} more are not shown; --limit shows them.")


@dead_letters.command()
@click.argument("letter_id", type=_ID, metavar="ID")
@json_option
@clear_errors
def show(letter_id: int, as_json: bool) -> None:
    """Show a letter with all attempts at its target."""
    with open_ledger(load_settings()) as ledger:
        found, are_several = ledger.letters.lineage(letter_id), len(ledger.scope.accounts) > 1
    if found is None:
        raise click.ClickException(
            f"There is no dead letter {letter_id}: see `scraper-pipeline dead-letters list`."
        )
    letter, attempts = found
    if as_json:
        print_json({**_shown(letter), "lineage": [_shown_attempt(attempt) for attempt in attempts]})
        return
    for name, value in _shown(letter).items():
        if value is not None and (are_several or name != "account"):
            click.echo(f"{name.replace('_', ' ')}: {value}")
    table = Table("attempt", "state", "job", "sent at", "settled at", "letter")
    for attempt in attempts:
        table.add_row(
            str(attempt.attempt),
            attempt.state,
            escape(attempt.job_id or ""),
            _second(attempt.sent_at),
            _second(attempt.settled_at),
            escape(_told(attempt.letter)),
        )
    out.print(table)


@dead_letters.command()
@click.argument("letter_ids", nargs=-1, type=_ID, metavar="[ID]...")
@filter_options
@click.option("--max-pages", type=IntRange(min=0), help="The most pages that this may cost.")
@click.option("--yes", is_flag=True, help="Don't ask before what filters have chosen is planned again.")
@account_option
@json_option
@clear_errors
def retry(
    letter_ids: tuple[int, ...],
    limit: int | None,
    max_pages: int | None,
    yes: bool,
    account: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Plan parked targets once more: those of the letters with these IDs, or of the open ones that fit filters.

    Nothing is sent yet: runs of submit_jobs send what is planned. Discarded letters are retried only by ID.
    """
    which = read_filter(**given)
    with chosen_accounts(load_settings(), account) as (accounts, meant):
        ledger = accounts.ledger if account is None else meant[0].ledger
        chosen = chosen_letters(ledger, letter_ids, which, limit)
        targets = ledger.resubmissions.parked_targets(chosen)
        pages = sum(target.most_pages for target in targets)
        if not letter_ids and targets and not yes:
            is_bounded = max_pages is not None and max_pages < pages
            bound = max_pages if is_bounded and max_pages is not None else pages
            confirm(
                f"Plan {'up to ' if is_bounded else ''}{counted(len(targets), 'target')} again, "
                f"for at most {counted(bound, 'page')}?"
            )
        report = asyncio.run(retry_in_turn(meant, chosen, max_pages))
        held = ledger.leases.live(HELD_LEASE)
        used_up = [
            f"{accounts.told(one.name)}{bound_of_account}"
            for one in meant
            if (bound_of_account := pages_left(one.ledger, one.policy()).used_up)
        ]
    _tell_retried(report, targets, held, used_up, as_json)


def _tell_retried(
    report: ResubmissionReport,
    targets: Sequence[SettledTarget],
    held: set[str],
    used_up: Sequence[str],
    as_json: bool,
) -> None:
    days = sorted({target.partition_key for target in targets})
    if as_json:
        print_json({**report.__dict__, "days": days})
        return
    click.echo(
        f"Planned again: {counted(report.planned, 'target')}, for at most {counted(report.pages, 'page')}."
    )
    for count, said in (
        (report.beyond, "Left as it is, for --max-pages"),
        (report.running, "Left as it is, since a job that was given up still runs"),
        (report.settled, "Stored instead, since a job that was given up has ended well"),
        (report.resolved, "Resolved before, since the target was tried again or stored"),
    ):
        if count:
            click.echo(f"{said}: {count}.")
    if report.planned:
        for bound in used_up:
            click.echo(f"{bound} is used up: until it has room again, nothing is sent.")
        if not used_up:
            click.echo(_NOT_SENT.format(days=", ".join(days)))
        if waiting := sorted(held.intersection(days)):
            click.echo(
                f"`max_pages` of a run holds {', '.join(waiting)}: only a launch of submit_jobs sends these."
            )


@dead_letters.command()
@click.argument("letter_ids", nargs=-1, type=_ID, metavar="[ID]...")
@filter_options
@click.option("--note", help="Why, to be kept with the letters.")
@click.option("--yes", is_flag=True, help="Don't ask before what filters have chosen is discarded.")
@account_option
@json_option
@clear_errors
def discard(
    letter_ids: tuple[int, ...],
    limit: int | None,
    note: str | None,
    yes: bool,
    account: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Resolve open letters for good: those with these IDs, or those that fit filters.

    Their targets stay parked, and `resubmit` leaves them alone.
    """
    if note and len(note) > _LONGEST_NOTE:
        raise click.UsageError(f"--note takes at most {_LONGEST_NOTE} characters")
    which = read_filter(**given)
    with ledger_of(load_settings(), account) as ledger:
        chosen = chosen_letters(ledger, letter_ids, which, limit)
        if not letter_ids and chosen and not yes:
            confirm(f"Discard {counted(len(chosen), 'letter')}?")
        discarded = sum(one.letters.discard(chosen, note) for one in ledger.each)
    if as_json:
        print_json({"discarded": discarded, "resolved": len(chosen) - discarded})
        return
    click.echo(f"Discarded: {counted(discarded, 'letter')}.")
    if discarded < len(chosen):
        click.echo(f"Open no more, and left as it was: {len(chosen) - discarded}.")


def _told(letter: DeadLetter | None) -> str:
    if letter is None:
        return ""
    return f"{letter.letter_id} {letter.code}" + (f", {letter.resolution}" if letter.resolution else "")


def _second(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}" if moment else ""


def _shown(letter: DeadLetter) -> dict[str, Any]:
    return {
        "id": letter.letter_id,
        "account": letter.account,
        "day": letter.partition_key,
        "url": letter.url,
        "code": letter.code,
        "message": letter.message,
        "attempts": letter.attempts,
        "job_id": letter.job_id,
        "parked_at": letter.parked_at,
        "resolved_at": letter.resolved_at,
        "resolution": letter.resolution,
        "note": letter.note,
    }


def _shown_attempt(attempt: Attempt) -> dict[str, Any]:
    return {
        "attempt": attempt.attempt,
        "state": str(attempt.state),
        "kind": attempt.kind,
        "job_id": attempt.job_id,
        "planned_at": attempt.planned_at,
        "sent_at": attempt.sent_at,
        "settled_at": attempt.settled_at,
        "letter": attempt.letter and _shown(attempt.letter),
    }
