"""What the commands share: how errors are shown, and the options that several of them take."""

import json
import sys
from collections.abc import Callable
from datetime import date, datetime
from functools import wraps
from typing import Any, ParamSpec, TypeVar
from zoneinfo import ZoneInfo

import click
import httpx
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from sqlalchemy.exc import DBAPIError

from scraper_pipeline.ledger import LedgerError
from scraper_pipeline.local.dagster_ui import DagsterError
from scraper_pipeline.publishing import PublishingError
from scraper_pipeline.scraper_api import InvalidOptions, ScraperError
from scraper_pipeline.settings import Settings, SettingsError
from scraper_pipeline.target_lists import InvalidTarget, TargetListError, normalise_url
from scraper_pipeline.traces import TracingError
from scraper_pipeline.webhook_secrets import WebhookSecretsError

P = ParamSpec("P")
T = TypeVar("T")
KNOWN_ERRORS = (
    SettingsError,
    LedgerError,
    TargetListError,
    WebhookSecretsError,
    TracingError,
    PublishingError,
    ScraperError,
    DagsterError,
    InvalidOptions,
)
_WIDTH_IN_A_FILE = 160  # where there is no terminal to be measured, nothing is to be cut
out = Console(width=None if sys.stdout.isatty() else _WIDTH_IN_A_FILE)
err = Console(stderr=True)


class IntRange(click.IntRange):
    """Says "not a valid integer" of a word, where click says "not a valid integer range"."""

    name = "integer"


class FloatRange(click.FloatRange):
    """The same for numbers that need not be whole."""

    name = "float"


class Address(click.types.StringParamType):
    """A URL as a list of targets takes it, so that a mistyped one is refused before anything is asked of anybody."""

    name = "url"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            normalise_url(value)
        except InvalidTarget as error:
            self.fail(f"{error} (such as https://example.com/page)", param, ctx)
        return value


def clear_errors(command: Callable[P, T]) -> Callable[P, T]:
    """Turn the errors that a user can do something about into one message and exit code 1."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return command(*args, **kwargs)
        except KNOWN_ERRORS as error:
            raise click.ClickException(str(error)) from None
        except DBAPIError as error:
            reason = (str(error.orig).strip().splitlines() or ["no reason given"])[0]
            raise click.ClickException(f"The ledger's database failed: {reason}") from None
        except httpx.HTTPError as error:
            raise click.ClickException(
                f"The sandbox does not answer as a sandbox: {type(error).__name__}. Give the address that it printed."
            ) from None

    return run


def day_option(command: Callable[P, T]) -> Callable[P, T]:
    return click.option(
        "--day",
        type=click.DateTime(["%Y-%m-%d"]),
        help="The partition, such as 2026-01-31; today by default.",
    )(command)


def json_option(command: Callable[P, T]) -> Callable[P, T]:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")(command)


def confirm(question: str) -> None:
    """Ask on stderr, and go on only after a yes. Raises Abort after a no, ClickException where nobody can answer."""
    try:
        is_agreed = click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        raise click.ClickException("Nobody is there to answer, so nothing was done: --yes answers.") from None
    if not is_agreed:
        raise click.Abort


def day_key(settings: Settings, day: date | None) -> str:
    return (day or datetime.now(ZoneInfo(settings.timezone))).strftime("%Y-%m-%d")


def counted(count: int, noun: str) -> str:
    """``1 page``, ``2 pages``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def progress_bars() -> Progress:
    """Bars on stderr, gone at their end; nothing is shown where stderr is no terminal."""
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    return Progress(*columns, console=err, disable=not err.is_terminal, transient=True)


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2, default=str))
