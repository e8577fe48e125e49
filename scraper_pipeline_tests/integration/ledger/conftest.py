"""What the ledger's tests share: a ledger on either database, and a clock that only the test turns."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from scraper_pipeline.ledger import Ledger, ResubmissionPolicy
from scraper_pipeline.ledger.schema import metadata
from scraper_pipeline_tests.integration.ledger.driving import HandClock
from scraper_pipeline_tests.postgres import EphemeralPostgres


@pytest.fixture(scope="session")
def migrated_postgres_url(postgres_server: EphemeralPostgres) -> Iterator[str]:
    with postgres_server.database() as name:
        Ledger.open(postgres_server.url(name)).close()
        yield postgres_server.url(name)


@pytest.fixture(scope="session")
def migrated_sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("migrated") / "ledger.db"
    Ledger.open(f"sqlite:///{path}").close()
    return path


@pytest.fixture
def fresh_sqlite_url(migrated_sqlite_file: Path, tmp_path: Path) -> str:
    return f"sqlite:///{shutil.copy(migrated_sqlite_file, tmp_path / 'ledger.db')}"


@pytest.fixture
def fresh_postgres_url(migrated_postgres_url: str) -> Iterator[str]:
    """Emptied after the test, which is ten times quicker than a database of its own."""
    yield migrated_postgres_url
    engine = create_engine(migrated_postgres_url)
    with engine.begin() as connection:
        connection.execute(
            text(f"TRUNCATE {', '.join(table.name for table in metadata.sorted_tables)} RESTART IDENTITY")
        )
    engine.dispose()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def fresh_url(request: pytest.FixtureRequest) -> str:
    """The URL of a ledger with nothing in it: each test runs once on SQLite and once on Postgres."""
    url: str = request.getfixturevalue(f"fresh_{request.param}_url")
    return url


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def ledger(fresh_url: str, clock: HandClock) -> Iterator[Ledger]:
    policy = ResubmissionPolicy(max_attempts=3, first_delay_seconds=5.0)
    with Ledger.open(fresh_url, clock=clock, resubmission=policy) as ledger:
        yield ledger
