"""Fixtures that every test may use: a database of either kind, empty, and gone afterwards."""

import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from sqlalchemy import Engine, create_engine, text

from scraper_pipeline.ledger import Ledger, database
from scraper_pipeline.ledger.schema import metadata
from scraper_pipeline_tests.postgres import EphemeralPostgres


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--durable",
        action="store_true",
        help="let the databases sync every commit to the disk, as in production (slower)",
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
    settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("patient")
    if not config.getoption("durable"):  # no machine is switched off here
        patch.setattr(database, "SQLITE_DURABILITY", "OFF")
        patch.setattr(database, "POSTGRES_DURABILITY", "off")


def pytest_collection_finish() -> None:
    """Dagster alone is a million objects: to look through them again and again takes a tenth of the tests' time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


@pytest.fixture(scope="session")
def postgres_server(pytestconfig: pytest.Config) -> Iterator[EphemeralPostgres]:
    """One Postgres server for the whole test run."""
    with EphemeralPostgres(durable=pytestconfig.getoption("durable")) as server:
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


@pytest.fixture(scope="session")
def migrated_postgres(postgres_server: EphemeralPostgres) -> Iterator[Engine]:
    """One database for all tests that leave its schema alone."""
    with postgres_server.database() as name:
        Ledger.open(postgres_server.url(name)).close()
        engine = create_engine(postgres_server.url(name))
        yield engine
        engine.dispose()


@pytest.fixture(scope="session")
def migrated_sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("migrated") / "ledger.db"
    Ledger.open(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def fresh_sqlite_url(migrated_sqlite_file: Path, tmp_path: Path) -> str:
    return f"sqlite:///{shutil.copy(migrated_sqlite_file, tmp_path / 'ledger.db')}"


@pytest.fixture
def fresh_postgres_url(migrated_postgres: Engine) -> Iterator[str]:
    """Emptied after the test, which is ten times quicker than a database of its own.

    A test that changes the schema asks for `ledger_url`: what it changed here would be gone for all that follow.
    """
    before = _relations(migrated_postgres)
    yield migrated_postgres.url.render_as_string(hide_password=False)
    with migrated_postgres.begin() as connection:
        connection.execute(
            text(f"TRUNCATE {', '.join(table.name for table in metadata.sorted_tables)} RESTART IDENTITY")
        )
    assert _relations(migrated_postgres) == before, "the test changed the schema that it shares with others"


def _relations(engine: Engine) -> set[str]:
    """The names of all tables, indexes, sequences and views."""
    with engine.connect() as connection:
        return set(
            connection.scalars(
                text("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace")
            )
        )


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def fresh_url(request: pytest.FixtureRequest) -> str:
    """The URL of a ledger with nothing in it: each test runs once on SQLite and once on Postgres."""
    url: str = request.getfixturevalue(f"fresh_{request.param}_url")
    return url
