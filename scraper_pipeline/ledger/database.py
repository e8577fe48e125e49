"""Opens the ledger's database, and brings its schema up to date once, under a lock."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import DatabaseError

from scraper_pipeline.ledger.errors import LedgerTooNew, LedgerUnavailable

BUSY_TIMEOUT_MS = 60_000
SQLITE_DURABILITY, POSTGRES_DURABILITY = "FULL", "on"  # every commit is on the disk when it returns
_MIGRATION_LOCK = 0x6C656467  # any constant: all processes that migrate one database share it
_WAL_RETRY_SECONDS = 0.02
_INSUFFICIENT_PRIVILEGE = "42501"
_WRITES = {"ledger_writes": True}
_AT_ONCE = {"ledger_at_once": True}
_DISCREET: dict[str, Any] = {"hide_parameters": True}  # page content is in no error, and so in no log


def open_engine(url: str) -> Engine:
    """An engine for a SQLAlchemy URL: SQLite in WAL mode with ``synchronous=FULL``, or Postgres through psycopg 3."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _open_sqlite(url, parsed.database)
    engine = create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": 10}, **_DISCREET)

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        # What is acknowledged must be there after a crash of the server, also where its default is to be quicker.
        connection.execute(
            "SELECT set_config('synchronous_commit', %s, false) WHERE current_setting('synchronous_commit') = 'off'",
            (POSTGRES_DURABILITY,),
        )
        connection.commit()

    return engine


def _open_sqlite(url: str, path: str | None) -> Engine:
    if path:
        try:
            Path(path).expanduser().parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LedgerUnavailable(
                f"The ledger's folder can't be made: {error}. Set SCRAPER_LEDGER_URL."
            ) from error
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_MS / 1000}, **_DISCREET)

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # transactions are begun below, in the mode that each one needs
        try:
            connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
            connection.execute("PRAGMA page_size=16384")  # counts only while the file is empty
            _enter_wal_mode(connection)
            for pragma in (
                f"synchronous={SQLITE_DURABILITY}",
                "wal_autocheckpoint=1000",
                "cache_size=-32768",  # KB: a hundred thousand jobs are looked up in it, each once a tick
            ):
                connection.execute(f"PRAGMA {pragma}")
        except BaseException:
            connection.close()  # the pool forgets a connection that it could not set up
            raise

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        options = connection.get_execution_options()
        if not options.get("ledger_at_once", False):
            writes = options.get("ledger_writes", False)
            connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _enter_wal_mode(connection: sqlite3.Connection) -> None:
    """The file's first change of mode fails at once while another process has it open: SQLite does not wait here."""
    until = time.monotonic() + BUSY_TIMEOUT_MS / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(_WAL_RETRY_SECONDS)
        else:
            return


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """One transaction that writes; on SQLite it holds the write lock from its first statement on."""
    with engine.connect().execution_options(**_WRITES) as connection, connection.begin():
        yield connection


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """One transaction that only reads."""
    with engine.connect() as connection, connection.begin():
        yield connection


def connect_at_once(engine: Engine) -> Connection:
    """A connection without transactions but one for each statement: it spares the trips of BEGIN and COMMIT."""
    on_sqlite = (
        engine.dialect.name == "sqlite"
    )  # where a connection has no isolation level beside the BEGINs above
    options: dict[str, Any] = _AT_ONCE if on_sqlite else {"isolation_level": "AUTOCOMMIT"}
    return engine.connect().execution_options(**options)


def migrate(engine: Engine) -> str:
    """Apply what migrations are missing and return the schema's revision.

    Any number of processes may call this at once on a fresh database: one migrates, the others wait for it.
    Raises LedgerUnavailable if the database can't be reached, LedgerTooNew if a newer release has migrated it.
    """
    known = known_revisions()
    if not known:
        raise LedgerUnavailable("This installation has no migrations: install scraper-pipeline again.")
    head = known[0]
    try:
        with reading(engine) as connection:
            revision = current_revision(connection)
        if revision == head:
            return head
        with writing(engine) as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
            revision = current_revision(connection)
            if revision is not None and revision not in known:
                raise LedgerTooNew(
                    f"The ledger's schema is at {revision}, which this release doesn't know: "
                    "a newer release has migrated it. Upgrade scraper-pipeline."
                )
            config = _config()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    except DatabaseError as error:
        where = engine.url.render_as_string(hide_password=True)
        if getattr(error.orig, "sqlstate", None) == _INSUFFICIENT_PRIVILEGE:
            raise LedgerUnavailable(
                f"The ledger at {where} has an older schema, and this role may not change it: {first_line(error)}. Run "
                "`scraper-pipeline migrate` as the schema's owner."
            ) from error
        raise LedgerUnavailable(
            f"The ledger at {where} can't be opened: {first_line(error)}. Check SCRAPER_LEDGER_URL."
        ) from error
    return head


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")))
    config.set_main_option("path_separator", "os")
    return config


@cache
def known_revisions() -> tuple[str, ...]:
    """Every revision of the schema that this release knows, the newest first; read once, since it takes a while."""
    scripts = ScriptDirectory.from_config(_config())
    return tuple(script.revision for script in scripts.walk_revisions())


def current_revision(connection: Connection) -> str | None:
    """The revision of the schema that is there, or None where there is none yet."""
    return MigrationContext.configure(connection).get_current_revision()


def first_line(error: DatabaseError) -> str:
    """What the database itself said of an error."""
    return str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else "no answer"
