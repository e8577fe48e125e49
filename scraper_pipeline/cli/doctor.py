"""The command ``doctor``: everything that has to be right before a day is, and what to do where it is not."""

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import click
from rich.markup import escape
from rich.table import Table

from scraper_pipeline.checkup import Finding, Grade, check_everything
from scraper_pipeline.cli.common import (
    Address,
    FloatRange,
    clear_errors,
    confirm,
    counted,
    err,
    json_option,
    out,
    print_json,
)
from scraper_pipeline.settings import Settings

T = TypeVar("T")
_COLOURS = {Grade.OK: "green", Grade.WARNING: "yellow", Grade.PROBLEM: "bold red"}
_ONLY_LIVE = ("url", "webhook_url", "listen", "wait")


def _read_address(_context: click.Context, _option: click.Parameter, value: str) -> tuple[str, int]:
    host, _, port = value.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise click.BadParameter("takes HOST:PORT, such as 127.0.0.1:8080")
    return host.strip("[]"), int(port)


@click.command()
@click.option(
    "--live", is_flag=True, help="Extract one page, which is paid, to see how the service spells its answers."
)
@click.option(
    "--url", type=Address(), default="https://example.com/", show_default=True, help="The page of --live."
)
@click.option(
    "--webhook-url",
    type=Address(),
    help="With --live: a public URL that leads to --listen, to see one delivery.",
)
@click.option(
    "--listen",
    default="127.0.0.1:8080",
    show_default=True,
    callback=_read_address,
    metavar="HOST:PORT",
    help="With --webhook-url: where this command listens for it.",
)
@click.option(
    "--wait",
    default=120.0,
    show_default=True,
    type=FloatRange(1, 3600),
    help="Seconds that --live waits.",
)
@click.option("--yes", is_flag=True, help="Do not ask before a page is spent.")
@json_option
@clear_errors
@click.pass_context
def doctor(
    context: click.Context,
    live: bool,
    url: str,
    webhook_url: str | None,
    listen: tuple[str, int],
    wait: float,
    yes: bool,
    as_json: bool,
) -> None:
    """Check settings, lists, ledger, Dagster, key and clocks, and say what to do. Exits 1 when there is a problem.

    Nothing is changed, and nothing is paid without --live.
    """
    given = [
        name
        for name in _ONLY_LIVE
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    ]
    if given and not live:
        raise click.UsageError(f"--{given[0].replace('_', '-')} goes with --live")
    with err.status("Looking ..."):
        settings, found = _run(check_everything(os.environ))
    if live:
        found += _look_live(settings, found, url, webhook_url, listen, wait, yes)
    _show(found, as_json)
    sys.exit(1 if any(one.is_problem for one in found) else 0)


def _look_live(
    settings: Settings | None,
    found: list[Finding],
    url: str,
    webhook_url: str | None,
    listen: tuple[str, int],
    wait: float,
    yes: bool,
) -> list[Finding]:
    from scraper_pipeline.checkup.live import Mailbox, Trial, check_live

    if settings is None or any(one.is_problem and one.subject in ("key", "service") for one in found):
        skipped = "No page was spent: the service can not be asked before the problems above are solved."
        return [Finding("contract", Grade.WARNING, skipped, "Solve them, and run this again.")]
    if not yes:
        and_webhook = f" A webhook to {webhook_url} is registered for that time." if webhook_url else ""
        question = f"This extracts {url} at {settings.host}, which is paid as one page.{and_webhook} Go on?"
        confirm(question)
    mailbox = Mailbox(webhook_url, *listen) if webhook_url else None
    try:
        with err.status(f"Waiting for {url} ..."):
            return _run(check_live(settings, Trial(url, wait), mailbox, lambda text: err.print(escape(text))))
    except OSError as error:
        host, port = listen
        raise click.ClickException(
            f"Cannot listen on {host}:{port} ({error.strerror}): end the receiver for the moment, or choose another "
            "address with --listen"
        ) from None


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Like ``asyncio.run``, and SIGTERM ends it as Ctrl-C does: what was made for the check is removed first."""

    async def until_told_to_end() -> T:
        task = asyncio.ensure_future(work)
        # Outside the main thread there are no signals, and on some systems none for a loop.
        with suppress(NotImplementedError, RuntimeError, ValueError):
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await task

    try:
        return asyncio.run(until_told_to_end())
    except asyncio.CancelledError:
        raise click.Abort from None


def _show(found: list[Finding], as_json: bool) -> None:
    to_set = {name: value for one in found for name, value in one.to_set.items()}
    counts = {str(grade): sum(one.grade is grade for one in found) for grade in Grade}
    if as_json:
        print_json({**counts, "findings": [_as_json(one) for one in found], "set": to_set})
        return
    table = Table("", "of", "what was found", "what to do", show_lines=False)
    for one in found:
        colour = _COLOURS[one.grade]
        table.add_row(f"[{colour}]{one.grade}[/{colour}]", one.subject, escape(one.said), escape(one.advice))
    out.print(table)
    for name, value in to_set.items():
        click.echo(f"export {name}={value}")
    problems, warnings = counted(counts["problem"], "problem"), counted(counts["warning"], "warning")
    click.echo(f"{problems}, {warnings}, {counts['ok']} ok.")


def _as_json(one: Finding) -> dict[str, Any]:
    return {
        "check": one.subject,
        "grade": str(one.grade),
        "found": one.said,
        "to_do": one.advice,
        "set": dict(one.to_set),
    }
