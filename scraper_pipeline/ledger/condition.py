"""How a ledger's database stands, told without changing anything: nothing is made, migrated or set."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Connection, bindparam, create_engine, func, make_url, select, text
from sqlalchemy.exc import DatabaseError

from scraper_pipeline.ledger.base import account_names, in_state, utc_now
from scraper_pipeline.ledger.database import (
    current_revision,
    first_line,
    known_revisions,
    open_engine,
    reading,
)
from scraper_pipeline.ledger.errors import LedgerUnavailable
from scraper_pipeline.ledger.records import OPEN_STATES, Scope
from scraper_pipeline.ledger.schema import submissions, webhooks
from scraper_pipeline.ledger.webhooks import DeliveryFigures, RegisteredWebhook, WebhookStore

LATELY = timedelta(hours=1)
_CONTENT_COLUMNS = ("markdown", "html")
_COMPRESSION = """
    SELECT count(*) FROM pg_attribute
    WHERE attrelid = to_regclass('results') AND attname = ANY (:columns) AND attcompression = 'l'
"""
_OFFERED = "SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'default_toast_compression'"


@dataclass(frozen=True)
class AccountRows:
    """An account that the ledger has rows of, and how many of its targets are not settled."""

    account: str
    unsettled: int


@dataclass(frozen=True)
class WebhookRows:
    """The webhooks of an account, and what became of their deliveries lately."""

    account: str
    webhooks: tuple[RegisteredWebhook, ...]
    deliveries: DeliveryFigures


@dataclass(frozen=True)
class LedgerCondition:
    """``missing_migrations`` is None where a newer release than this one has migrated the database."""

    server: str
    """The database's name and version."""
    revision: str | None
    """Of the schema; None where there is none yet."""
    missing_migrations: int | None
    is_durable: bool = True
    """Whether what is committed survives a power cut, as far as the server's settings tell."""
    lz4_offered: bool | None = None
    lz4_used: bool | None = None
    """Whether pages are compressed with it; both are None where there is no such choice."""
    accounts: tuple[AccountRows, ...] = ()
    """Whoever has rows; nobody where the tables are not as this release needs them."""
    webhooks: tuple[WebhookRows, ...] = ()
    """Of whoever has registered one, the last hour's deliveries; nobody's where the tables are not as they must be."""


def sqlite_file(url: str) -> Path | None:
    """The file of a ledger on SQLite, or None for one on Postgres."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return None
    return Path(parsed.database or "").absolute()


def look_at_ledger(url: str) -> LedgerCondition:
    """The condition of the database at a SQLAlchemy URL. On SQLite the file has to be there.

    Raises LedgerUnavailable if it can't be reached or read.
    """
    try:
        with _reading_only(url) as connection:
            revision = current_revision(connection)
            known = known_revisions()
            missing = len(known) if revision is None else None
            if revision in known:
                missing = known.index(revision)
            facts: dict[str, Any] = {"revision": revision, "missing_migrations": missing}
            if missing == 0:
                facts |= {"accounts": _accounts(connection), "webhooks": _webhooks(connection)}
            if connection.dialect.name == "sqlite":
                return LedgerCondition(f"SQLite {sqlite3.sqlite_version}", **facts)
            return LedgerCondition(**facts, **_postgres(connection))
    except DatabaseError as error:
        where = make_url(url).set(query={}).render_as_string(hide_password=True)
        raise LedgerUnavailable(f"The ledger at {where} can't be read: {first_line(error)}.") from None


@contextmanager
def _reading_only(url: str) -> Iterator[Connection]:
    path = sqlite_file(url)
    if path is None:
        engine = open_engine(url)
    else:
        # The ledger's own way of opening a file makes it, and sets its journal.
        address = f"file:{quote(str(path))}?mode=ro"
        engine = create_engine("sqlite://", creator=lambda: sqlite3.connect(address, uri=True, timeout=10))
    try:
        with reading(engine) as connection:
            yield connection
    finally:
        engine.dispose()


def _accounts(connection: Connection) -> tuple[AccountRows, ...]:
    names = list(connection.scalars(account_names()))
    unsettled = select(func.count()).where(submissions.c.account == bindparam("name"), in_state(*OPEN_STATES))
    return tuple(AccountRows(name, connection.scalar(unsettled, {"name": name}) or 0) for name in names)


def _webhooks(connection: Connection) -> tuple[WebhookRows, ...]:
    now = utc_now()
    names = connection.scalars(select(webhooks.c.account).distinct().order_by(webhooks.c.account)).all()
    stores = {name: WebhookStore(connection.engine, Scope(name), lambda: now) for name in names}
    return tuple(
        WebhookRows(name, tuple(store.registered()), store.figures(now - LATELY))
        for name, store in stores.items()
    )


def _postgres(connection: Connection) -> dict[str, Any]:
    version = connection.scalar(text("SHOW server_version")) or ""
    shown = {name: connection.scalar(text(f"SHOW {name}")) for name in ("fsync", "synchronous_commit")}
    has_choice = (connection.dialect.server_version_info or (0,)) >= (14,)
    facts: dict[str, Any] = {
        "server": f"PostgreSQL {version.split(' ')[0]}",
        "is_durable": "off" not in shown.values(),
    }
    if has_choice:
        compressed = connection.scalar(text(_COMPRESSION), {"columns": list(_CONTENT_COLUMNS)})
        facts["lz4_offered"] = bool(connection.scalar(text(_OFFERED)))
        facts["lz4_used"] = compressed == len(_CONTENT_COLUMNS)
    return facts
