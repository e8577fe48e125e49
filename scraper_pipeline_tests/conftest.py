"""Fixtures that every test may use: a database of either kind, empty, and gone afterwards."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from scraper_pipeline_tests.postgres import EphemeralPostgres


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--durable-postgres",
        action="store_true",
        help="let Postgres sync every commit to the disk, as in production (slower)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Whatever the developer has set, no test may meet a real account, ledger or Dagster home.

    Before anything is collected: the days are read from the settings when their module is imported.
    """
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    for name in list(os.environ):
        if name.startswith(("SCRAPER_", "GEONODE_", "DAGSTER_")):
            patch.delenv(name)


@pytest.fixture(scope="session")
def postgres_server(pytestconfig: pytest.Config) -> Iterator[EphemeralPostgres]:
    """One Postgres server for the whole test run."""
    with EphemeralPostgres(durable=pytestconfig.getoption("durable_postgres")) as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: EphemeralPostgres) -> Iterator[str]:
    """The SQLAlchemy URL (psycopg 3) of an empty Postgres database."""
    with postgres_server.database() as name:
        yield postgres_server.url(name)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The SQLAlchemy URL of a SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def ledger_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty database: each test that asks for it runs once on SQLite and once on Postgres."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url
