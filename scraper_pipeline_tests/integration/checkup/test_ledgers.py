"""The check of the ledger tells how a database stands, and leaves it as it was."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from scraper_pipeline.checkup.database import check_ledger
from scraper_pipeline.checkup.findings import Finding, Grade
from scraper_pipeline.ledger import Ledger
from scraper_pipeline.ledger.condition import look_at_ledger
from scraper_pipeline.ledger.database import known_revisions
from scraper_pipeline.ledger.errors import LedgerUnavailable
from scraper_pipeline.settings import load_settings


def _check(url: str) -> list[Finding]:
    return check_ledger(load_settings({"SCRAPER_LEDGER_URL": url}))


def test_a_file_that_is_not_there_is_not_made(sqlite_url: str, tmp_path: Path) -> None:
    [found] = _check(f"sqlite:///{tmp_path / 'folder' / 'ledger.db'}")
    assert found.grade is Grade.OK
    assert "not there yet" in found.said
    with pytest.raises(LedgerUnavailable, match="unable to open"):
        look_at_ledger(sqlite_url)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_a_problem_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_text("this is no database, and it is long enough to be read as one" * 20)
    [found] = _check(f"sqlite:///{tmp_path / 'ledger.db'}")
    assert found.grade is Grade.PROBLEM
    assert "file is not a database" in found.said


def test_a_server_that_does_not_answer_is_a_problem_without_its_password() -> None:
    [found] = _check("postgresql://root:hidden@127.0.0.1:1/db")
    assert found.grade is Grade.PROBLEM
    assert "hidden" not in found.said


def test_a_ledger_is_looked_at_as_it_stands_and_not_migrated(ledger_url: str) -> None:
    newest = known_revisions()[0]
    if ledger_url.startswith("postgresql"):
        assert look_at_ledger(ledger_url).revision is None
    Ledger.open(ledger_url).close()
    condition = look_at_ledger(ledger_url)
    assert (condition.revision, condition.missing_migrations) == (newest, 0)
    assert _check(ledger_url)[0].grade is Grade.OK
    for revision, missing, grade in (
        ("0001", len(known_revisions()) - 1, Grade.WARNING),
        ("from ahead", None, Grade.PROBLEM),
    ):
        engine = sa.create_engine(ledger_url)
        with engine.begin() as connection:
            connection.execute(
                sa.text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision}
            )
        engine.dispose()
        condition = look_at_ledger(ledger_url)
        assert (condition.revision, condition.missing_migrations) == (revision, missing)
        assert _check(ledger_url)[0].grade is grade


@pytest.mark.postgres
def test_what_postgres_is_and_how_it_compresses_is_told(postgres_url: str) -> None:
    Ledger.open(postgres_url).close()
    condition = look_at_ledger(postgres_url)
    assert condition.server.startswith("PostgreSQL 1")
    assert condition.is_durable is False  # the tests' own server forgets, to be quick
    assert condition.lz4_used is condition.lz4_offered
    assert any("power cut" in one.said for one in _check(postgres_url))
