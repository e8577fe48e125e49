"""Lists as the answer to an SQL query, read a few rows at a time, in a transaction that only reads."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

import sqlalchemy as sa
from pydantic import SecretStr

from scraper_pipeline.target_lists.columns import typed_columns, typed_row
from scraper_pipeline.target_lists.entries import Rows, TargetListError

_ROWS_AT_ONCE = 1000
_CONNECT_SECONDS = 10
FROM_ENVIRONMENT = re.compile(r"\$\{(\w+)\}")
_CAST = re.compile(
    r"(?<![:\w\\]):date(?=::)"
)  # as in :date::text, of which SQLAlchemy would read another name


@dataclass(frozen=True)
class Query:
    """A query on a database, which may bind the day as ``:date``.

    ``database`` is a SQLAlchemy URL, or ``${NAME}`` for the environment variable that holds it. The path of a SQLite
    file is one below ``folder``.
    """

    query: str = field(repr=False)
    database: SecretStr
    folder: Path

    def shown(self, day: date) -> str:
        """Where the list comes from, for people: neither the password nor the URL's query is in it."""
        text = self.database.get_secret_value()
        if FROM_ENVIRONMENT.fullmatch(text):
            return f"a query on {text}"
        try:
            url = sa.make_url(text).set(query={})
        except (sa.exc.ArgumentError, ValueError):
            return "a query"
        return f"a query on {url.render_as_string(hide_password=True)}"

    def rows(self, day: date) -> Rows:
        """The rows of the answer, counted from 1. Raises TargetListError."""
        statement, url = self._statement(day), self._url()
        with (
            _explained(self.shown(day), url),
            _connection(url) as connection,
            connection.execution_options(yield_per=_ROWS_AT_ONCE).execute(statement) as answer,
        ):
            columns = typed_columns(self.shown(day), list(answer.keys()))
            for number, values in enumerate(answer, 1):
                yield number, typed_row(columns, values)

    def _statement(self, day: date) -> sa.TextClause:
        text = _CAST.sub("(:date)", self.query.strip().rstrip(";"))
        statement = sa.text(text)
        names = set(statement.compile().params)
        if names - {"date"}:
            raise TargetListError(
                f"{self.shown(day)} binds :{', :'.join(sorted(names - {'date'}))}, and the one parameter that there is "
                "is :date; a colon that binds nothing is written \\:"
            )
        if not names:
            return statement
        return statement.bindparams(sa.bindparam("date", day, sa.Date()))

    def _url(self) -> sa.URL:
        text = self.database.get_secret_value()
        if named := FROM_ENVIRONMENT.fullmatch(text):
            text = os.environ.get(named[1], "").strip()
            if not text:
                raise TargetListError(
                    f"{named[1]} is not set: it holds the database that a list is read from"
                )
        try:
            url = sa.make_url(text)
        except (sa.exc.ArgumentError, ValueError):
            url = None
        if url is None:  # raised out here, so that no traceback leads to the password
            raise TargetListError(
                "`database` takes a SQLAlchemy URL such as postgresql://user:password@host/name, or ${NAME} for the "
                "environment variable that holds one"
            )
        if url.drivername in ("postgres", "postgresql"):
            # Without a driver, different releases of SQLAlchemy read it as different ones.
            url = url.set(drivername="postgresql+psycopg")
        if url.get_backend_name() == "sqlite" and url.database and not url.database.startswith("file:"):
            path = self.folder / url.database
            if not path.is_file():  # which opening it would make
                raise TargetListError(f"there is no SQLite file {path}: check `database`")
            url = url.set(database=str(path))
        return url


@contextmanager
def _connection(url: sa.URL) -> Iterator[sa.Connection]:
    """A connection on which nothing is ever committed, and where the engine can be told, nothing can be written."""
    backend = url.get_backend_name()
    is_psycopg = url.drivername in ("postgresql+psycopg", "postgresql+psycopg2")
    engine = sa.create_engine(
        url,
        poolclass=sa.NullPool,
        hide_parameters=True,
        connect_args={"connect_timeout": _CONNECT_SECONDS} if is_psycopg else {},
    )
    with engine.connect() as connection:
        if backend == "postgresql":
            connection = connection.execution_options(postgresql_readonly=True)
        elif backend == "sqlite":
            connection.exec_driver_sql("PRAGMA query_only = ON")
        yield connection


@contextmanager
def _explained(shown: str, url: sa.URL) -> Iterator[None]:
    """Raise TargetListError with one line that holds no password, instead of what the database's driver raises."""
    try:
        yield
        return
    except sa.exc.DBAPIError as error:
        reason = str(error.orig)
    except sa.exc.NoSuchModuleError:
        reason = f"SQLAlchemy knows no {url.drivername}: install its dialect, or correct the name"
    except ImportError as error:
        reason = f"its driver is not installed: install {error.name or url.drivername}"
    except sa.exc.SQLAlchemyError as error:
        reason = str(error)
    reason = (reason.strip().splitlines() or ["no reason given"])[0]
    if url.password:
        reason = reason.replace(str(url.password), "***")
    raise TargetListError(f"{shown} failed: {reason}")
