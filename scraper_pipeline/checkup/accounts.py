"""Whether each account can be worked for: its key file, and whether anything names those that have rows."""

import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress

from scraper_pipeline.accounts import Account
from scraper_pipeline.checkup.findings import Finding, Subject
from scraper_pipeline.ledger.condition import AccountRows
from scraper_pipeline.settings import SettingsError

_ACCOUNTS, _KEY = Subject("accounts"), Subject("key")


def check_named(accounts: Sequence[Account]) -> list[Finding]:
    """What can be said of the accounts without asking the service."""
    found = (
        [] if len(accounts) == 1 else [_ACCOUNTS.ok(f"There are {', '.join(one.name for one in accounts)}.")]
    )
    found += _check_keys_differ(accounts)
    return [*found, *(problem for one in accounts for problem in _check_key_file(one))]


def _check_keys_differ(accounts: Sequence[Account]) -> Iterator[Finding]:
    """To the service two names with one key are one account: each would use its pace and its limits whole."""
    first: dict[tuple[str, str], str] = {}
    for one in accounts:
        with suppress(SettingsError):  # a key that can't be read is told where it is used
            key = one.settings.host, one.key.read().get_secret_value()
            if one.name != first.setdefault(key, one.name):
                yield _ACCOUNTS.problem(
                    f"{first[key]} and {one.name} have the same key: to the service they are one account.",
                    f"Give {one.name} a key of its own, or its lists to {first[key]}; docs/accounts.md tells how an "
                    "account is retired.",
                )


def _check_key_file(account: Account) -> list[Finding]:
    path = account.key.file
    if path is None or not path.exists():  # one that is absent is told where the key is used
        return []
    mode = stat.S_IMODE(path.stat().st_mode)
    told = f"{path}, the key of the account {account.name},"
    if mode & 0o007:
        return [_KEY.problem(f"{told} is open to everybody on this machine.", f"Run `chmod 600 {path}`.")]
    if mode & 0o070:
        advice = f"Unless that is meant so, run `chmod 600 {path}`."
        return [_KEY.warning(f"{told} is open to its group.", advice)]
    return []


def judge_rows(rows: Sequence[AccountRows], named: Sequence[str]) -> list[Finding]:
    """Findings about accounts that have rows in the ledger and that nothing names."""
    return [_judge(one) for one in rows if one.account not in named]


def _judge(one: AccountRows) -> Finding:
    if one.unsettled:
        return _ACCOUNTS.problem(
            f"{one.unsettled} targets of the account {one.account} are not settled, and nothing names it.",
            "Name it in SCRAPER_ACCOUNTS_FILE until they are: docs/accounts.md tells how an account is retired.",
        )
    return _ACCOUNTS.warning(
        f"The ledger has rows of the account {one.account}, which nothing names; all of them are settled.",
        "Keep SCRAPER_ACCOUNTS_FILE set, so that days and published files go on to show them.",
    )
