"""The accounts that the pipeline works for, each with its key, its limits and its part of the ledger."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

from pydantic import SecretStr

from scraper_pipeline.accounts.client import lifecycle_policy, make_client
from scraper_pipeline.accounts.file import AccountEntry, read_accounts_file
from scraper_pipeline.ledger import DEFAULT_ACCOUNT, Ledger
from scraper_pipeline.lifecycle import LifecyclePolicy
from scraper_pipeline.scraper_api import ScraperClient
from scraper_pipeline.settings import Settings, SettingsError, as_api_key

T = TypeVar("T")


@dataclass(frozen=True)
class KeySource:
    """Where the key of an account is: given, in a file, or in an environment variable.

    What is not there is not named in an error: it may be the key, written where its place should stand.
    """

    given: SecretStr | None = None
    file: Path | None = None
    variable: str | None = None

    @property
    def is_told(self) -> bool:
        return self != KeySource()

    def read(self) -> SecretStr:
        """The key as it is now. Raises SettingsError, which says what to do and never shows it."""
        if self.given is not None:
            return self.given
        if self.file is not None:
            where, text = str(self.file), _read(self.file)
        elif self.variable is not None:
            where, text = "the variable that api_key_env names", os.environ.get(self.variable, "").strip()
        else:
            raise SettingsError(
                "GEONODE_SCRAPER_API_KEY is not set; it takes the key that the Geonode dashboard shows. "
                "To try everything without a key, run: make demo"
            )
        if not text:
            raise SettingsError(f"{where} holds no API key; put the key there that the dashboard shows")
        try:
            return as_api_key(SecretStr(text))
        except ValueError as error:
            raise SettingsError(f"{where} {error}") from None


def _read(path: Path) -> str:
    try:
        return path.expanduser().read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        raise SettingsError(
            f"the API key can't be read: the file that is named for it is not in {path.parent}; write the key into it"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8"
        raise SettingsError(
            f"the API key at {path} can't be read ({reason}): write the key into that file"
        ) from None


@dataclass(frozen=True)
class Account:
    """One account with the service: ``settings`` are as they are for it, but for the key."""

    name: str
    settings: Settings
    key: KeySource

    def open_client(self) -> ScraperClient:
        """A client to be closed by the caller, with the key as it is now. Raises SettingsError without one."""
        try:
            return make_client(self.settings, self.key.read(), self.name)
        except SettingsError as error:
            if self.name == DEFAULT_ACCOUNT:
                raise
            raise SettingsError(f"The account {self.name}: {error}") from None

    def policy(self) -> LifecyclePolicy:
        """The account's settings as the life of a job knows them."""
        return lifecycle_policy(self.settings)


@dataclass(frozen=True)
class OpenAccount(Account):
    """An account with its part of the ledger."""

    ledger: Ledger


def default_account(settings: Settings) -> Account:
    """The account that the environment tells of."""
    return Account(DEFAULT_ACCOUNT, settings, KeySource(settings.api_key, settings.api_key_file))


def open_client(settings: Settings) -> ScraperClient:
    """A client for the default account, to be closed by the caller. Raises SettingsError where no key is set."""
    return default_account(settings).open_client()


def named_accounts(settings: Settings) -> tuple[Account, ...]:
    """The default account and those of SCRAPER_ACCOUNTS_FILE, in its order. Raises SettingsError."""
    default = default_account(settings)
    if settings.accounts_file is None:
        return (default,)
    folder = settings.accounts_file.expanduser().parent
    entries = read_accounts_file(settings.accounts_file)
    return (default, *(_make_account(settings, name, entry, folder) for name, entry in entries.items()))


def _make_account(settings: Settings, name: str, entry: AccountEntry, folder: Path) -> Account:
    own = {"host", "daily_page_limit", "monthly_page_limit", "concurrency"}
    said = entry.model_dump(include=own, exclude_none=True)
    key = KeySource(
        file=None if entry.api_key_file is None else folder / Path(entry.api_key_file).expanduser(),
        variable=entry.api_key_env,
    )
    settings = settings.model_copy(update={**said, "api_key": None, "api_key_file": None})
    return Account(name, settings, key)


def known_account(names: Sequence[str], name: str) -> str:
    """The name, if it is one of these. Raises SettingsError, which says what may be meant."""
    if name not in names:
        close = get_close_matches(name, names, n=1)
        there_are = f"there are {', '.join(names)}" if len(names) > 1 else f"the only one is {names[0]}"
        raise SettingsError(
            f"there is no account {name!r}; " + (f"did you mean {close[0]}?" if close else there_are)
        )
    return name


class Accounts:
    """All accounts by name, in a stable order; close it, or use it as a context manager.

    ``ledger`` reads over all of them, and over those that have rows and are named no more.
    """

    def __init__(self, named: Sequence[Account], ledger: Ledger) -> None:
        self.ledger = ledger
        self._all = tuple(
            OpenAccount(one.name, one.settings, one.key, ledger.of_account(one.name)) for one in named
        )

    def __iter__(self) -> Iterator[OpenAccount]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, name: str) -> OpenAccount:
        return next(one for one in self._all if one.name == name)

    @property
    def first(self) -> OpenAccount:
        """The one that is always there; leases of runs, which work for all, are kept in its scope."""
        return self._all[0]

    @property
    def are_several(self) -> bool:
        return len(self._all) > 1

    def told(self, name: str) -> str:
        """The account as the beginning of what is said of it; nothing where there is no other."""
        return f"{name}: " if self.are_several else ""

    def close(self) -> None:
        self.ledger.close()

    def __enter__(self) -> "Accounts":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def side_by_side(
    accounts: Iterable[OpenAccount], act: Callable[[OpenAccount], Awaitable[T]]
) -> dict[str, T | Exception]:
    """Do something for each account at the same time; what stops one is its answer, and stops no other."""
    chosen = list(accounts)
    answers = await asyncio.gather(*(act(one) for one in chosen), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException) and not isinstance(answer, Exception):
            raise answer
    return dict(zip((one.name for one in chosen), answers, strict=True))  # type: ignore[arg-type]
