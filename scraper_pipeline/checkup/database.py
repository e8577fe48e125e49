"""Whether the ledger's database can be reached and is as this release needs it; nothing is migrated."""

import os
from collections.abc import Sequence
from pathlib import Path

from scraper_pipeline.checkup.accounts import judge_rows
from scraper_pipeline.checkup.disks import existing_parent, free_bytes, network_file_system
from scraper_pipeline.checkup.findings import Finding, Subject
from scraper_pipeline.ledger import DEFAULT_ACCOUNT
from scraper_pipeline.ledger.condition import LedgerCondition, WebhookRows, look_at_ledger, sqlite_file
from scraper_pipeline.ledger.errors import LedgerUnavailable
from scraper_pipeline.settings import Settings

_LEDGER = Subject("ledger")
_MEBIBYTE = 1024 * 1024
_TIGHT, _FULL = 1024 * _MEBIBYTE, 100 * _MEBIBYTE
_USE_LZ4 = " and ".join(
    f"`ALTER TABLE results ALTER COLUMN {column} SET COMPRESSION lz4`" for column in ("markdown", "html")
)


def check_ledger(settings: Settings, accounts: Sequence[str] = (DEFAULT_ACCOUNT,)) -> list[Finding]:
    """What can be said of the ledger that the settings name, and of its rows of other accounts than these."""
    url, where = settings.ledger_url.get_secret_value(), settings.ledger_location
    path = sqlite_file(url)
    found = [] if path is None else check_disk(path)
    if path is not None and not path.exists():
        if not os.access(existing_parent(path), os.W_OK):
            return [_unwritable(existing_parent(path)), *found]
        return [_LEDGER.ok(f"{where} is not there yet; the first command that needs it makes it."), *found]
    if path is not None and not all(os.access(one, os.W_OK) for one in (path, path.parent)):
        found.append(_unwritable(path))
    try:
        condition = look_at_ledger(url)
        return [*judge_condition(condition, where), *judge_rows(condition.accounts, accounts), *found]
    except LedgerUnavailable as error:
        return [_LEDGER.problem(str(error), "Check SCRAPER_LEDGER_URL, and that the database is up."), *found]


def webhook_rows(settings: Settings) -> dict[str, WebhookRows]:
    """What the ledger has of the webhooks of each account; of nobody's where it can't be read, or is to be migrated."""
    path = sqlite_file(url := settings.ledger_url.get_secret_value())
    if path is not None and not path.exists():
        return {}
    try:
        return {one.account: one for one in look_at_ledger(url).webhooks}
    except LedgerUnavailable:
        return {}


def judge_condition(condition: LedgerCondition, where: str) -> list[Finding]:
    """Findings about a database that answered."""
    found = [_judge_schema(condition, where)]
    if not condition.is_durable:
        found.append(
            _LEDGER.warning(
                "The server's fsync or synchronous_commit is off: a power cut loses what was committed last.",
                "Switch both on: a webhook is answered only once its event is durable.",
            )
        )
    if condition.lz4_offered is False:
        found.append(
            _LEDGER.warning(
                f"{condition.server} is built without lz4: storing large pages takes about three times as long.",
                "Use a build with lz4, as the packages of most systems are; or leave it.",
            )
        )
    elif condition.lz4_offered and condition.revision and not condition.lz4_used:
        found.append(
            _LEDGER.warning(
                "Pages are compressed the slow way, though the server has lz4.", f"Run {_USE_LZ4}."
            )
        )
    elif condition.lz4_offered is None and condition.server.startswith("PostgreSQL"):
        found.append(
            _LEDGER.warning(
                f"{condition.server} is older than 14 and compresses pages the slow way.",
                "Upgrade the server.",
            )
        )
    return found


def _judge_schema(condition: LedgerCondition, where: str) -> Finding:
    stands = f"{where} ({condition.server})"
    if condition.revision is None:
        return _LEDGER.ok(f"{stands} has no tables yet; the first command that needs them makes them.")
    if condition.missing_migrations is None:
        return _LEDGER.problem(
            f"{stands} is at revision {condition.revision}, which this release does not know: a newer one has "
            "migrated it.",
            "Upgrade scraper-pipeline here as well.",
        )
    if condition.missing_migrations:
        return _LEDGER.warning(
            f"{stands} lacks {condition.missing_migrations} migrations.",
            "Run `scraper-pipeline migrate`; any other command does so, too. Other processes must be of this release.",
        )
    return _LEDGER.ok(f"{stands} answers, and its schema is up to date.")


def check_disk(path: Path) -> list[Finding]:
    """Whether a SQLite file is on a disk of this machine, with room left."""
    found = []
    if kind := network_file_system(path):
        found.append(
            _LEDGER.warning(
                f"{path} is on a network file system ({kind}), where SQLite's locks are not to be relied upon.",
                "Move it to a local disk, or use Postgres: SCRAPER_LEDGER_URL.",
            )
        )
    free = free_bytes(path)
    if free < _TIGHT:
        told = f"{free // _MEBIBYTE} MiB are left on the ledger's disk."
        advice = "Make room: a full disk stops everything, and loses nothing."
        found.append(_LEDGER.problem(told, advice) if free < _FULL else _LEDGER.warning(told, advice))
    return found


def _unwritable(path: Path) -> Finding:
    return _LEDGER.problem(
        f"{path} cannot be written to.", "Give this user the right, or set SCRAPER_LEDGER_URL."
    )
