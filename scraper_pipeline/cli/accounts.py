"""The option ``--account``: what of the ledger it leaves, and which accounts are asked."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, ParamSpec, TypeVar

import click

from scraper_pipeline.accounts import (
    Accounts,
    OpenAccount,
    as_told_of,
    known_account,
    open_accounts,
    open_ledger,
    side_by_side,
)
from scraper_pipeline.cli.common import KNOWN_ERRORS
from scraper_pipeline.ledger import DEFAULT_ACCOUNT, Ledger
from scraper_pipeline.scraper_api import ScraperClient, WebhooksNotOffered
from scraper_pipeline.settings import Settings, load_settings

P = ParamSpec("P")
T = TypeVar("T")


def account_option(command: Callable[P, T]) -> Callable[P, T]:
    return click.option("--account", metavar="NAME", help="This account alone; all of them by default.")(
        command
    )


@contextmanager
def ledger_of(settings: Settings, account: str | None) -> Iterator[Ledger]:
    """The ledger of the named account, or over all of them. Raises SettingsError for a name that there is not."""
    with open_ledger(settings) as ledger:
        yield (
            ledger if account is None else ledger.of_account(known_account(ledger.scope.accounts, account))
        )


@contextmanager
def chosen_accounts(
    settings: Settings, account: str | None
) -> Iterator[tuple[Accounts, tuple[OpenAccount, ...]]]:
    """All accounts, and those of them that are meant. Raises SettingsError for a name that there is not."""
    with open_accounts(settings) as accounts:
        names = [one.name for one in accounts]
        meant = names if account is None else [known_account(names, account)]
        yield accounts, tuple(accounts[name] for name in meant)


@dataclass
class Answers(Generic[T]):
    """What came of an act by account; ``tell`` raises what stopped some of several, once the rest is shown."""

    of: dict[str, T]
    stopped: dict[str, Exception]

    @property
    def are_several(self) -> bool:
        return len(self.of) + len(self.stopped) > 1

    def tell(self) -> None:
        if self.stopped:
            raise click.ClickException(
                " ".join(_said(name, error, not self.are_several) for name, error in self.stopped.items())
            )


def _said(account: str, error: Exception, is_the_only_one: bool) -> str:
    whose = "" if is_the_only_one and account == DEFAULT_ACCOUNT else f"The account {account}: "
    told = whose + as_told_of(account, str(error)).removeprefix(whose)
    if isinstance(error, WebhooksNotOffered):
        return f"{told} Nothing has to be done: polling goes on bringing the news."
    return told


def ask_accounts(
    account: str | None, act: Callable[[Ledger, ScraperClient, Settings], Awaitable[T]]
) -> Answers[T]:
    """Act for the named account, or for each: what stops one of several stops no other."""

    async def for_account(one: OpenAccount) -> T:
        async with one.open_client() as client:
            return await act(one.ledger, client, one.settings)

    with chosen_accounts(load_settings(), account) as (_, meant):
        found = asyncio.run(side_by_side(meant, for_account))
    answers = Answers[T]({}, {})
    for name, answer in found.items():
        if not isinstance(answer, Exception):
            answers.of[name] = answer
        elif isinstance(answer, KNOWN_ERRORS):
            answers.stopped[name] = answer
        else:
            raise answer
    if answers.stopped and not answers.are_several:
        answers.tell()
    return answers
