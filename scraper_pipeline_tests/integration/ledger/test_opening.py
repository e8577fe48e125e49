"""Opening a ledger: a fresh database, one that many open at once, a newer one, and one that can't be reached."""

import multiprocessing
import sqlite3
import subprocess
import sys
import threading
from multiprocessing.synchronize import Barrier
from pathlib import Path
from textwrap import dedent

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from scraper_pipeline.ledger import Ledger, LedgerError, LedgerTooNew, LedgerUnavailable, database
from scraper_pipeline.ledger.schema import metadata
from scraper_pipeline_tests.integration.ledger.driving import DAY, contents, execute, plan
from scraper_pipeline_tests.integration.lifecycle import doomed


def _open_and_plan(url: str, number: int, start: Barrier) -> None:
    start.wait(90)
    with Ledger.open(url) as ledger:
        plan(ledger, f"https://site.test/{number}")


def test_many_processes_open_a_fresh_database_at_once(ledger_url: str) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([doomed.__name__])
    start = context.Barrier(6)
    processes = [
        context.Process(target=_open_and_plan, args=(ledger_url, number, start)) for number in range(6)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(100)
    assert [process.exitcode for process in processes] == [0] * 6
    for process in processes:
        process.close()
    with Ledger.open(ledger_url) as ledger:
        assert ledger.progress.of(DAY).planned == 6


def test_the_migrations_make_the_schema_that_the_code_is_written_for(ledger_url: str) -> None:
    with Ledger.open(ledger_url) as ledger, ledger.engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": False}
        )
        assert compare_metadata(context, metadata) == []


def test_a_second_opening_changes_nothing(ledger_url: str) -> None:
    with Ledger.open(ledger_url) as ledger:
        plan(ledger, "https://site.test/a")
        before = contents(ledger)
    with Ledger.open(ledger_url) as ledger:
        assert contents(ledger) == before


def test_a_ledger_of_a_newer_release_is_not_touched(ledger_url: str) -> None:
    with Ledger.open(ledger_url) as ledger:
        execute(ledger, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(LedgerTooNew, match="Upgrade scraper-pipeline"):
        Ledger.open(ledger_url)


@pytest.mark.postgres
def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    with pytest.raises(LedgerUnavailable) as raised:
        Ledger.open("postgresql+psycopg://someone:hunter2@127.0.0.1:9/ledger")
    assert "127.0.0.1" in str(raised.value)
    assert "SCRAPER_LEDGER_URL" in str(raised.value)
    assert "hunter2" not in repr(raised.value) + str(raised.value.__cause__)


@pytest.mark.postgres
def test_a_database_that_is_not_there_is_named_without_its_password(postgres_url: str) -> None:
    with pytest.raises(LedgerUnavailable, match="nowhere") as raised:
        Ledger.open(postgres_url.rsplit("/", 1)[0] + "/nowhere")
    assert postgres_url.split(":")[2].split("@")[0] not in str(raised.value)


@pytest.mark.postgres
def test_a_wrong_password_is_told_and_not_shown(postgres_url: str) -> None:
    password = postgres_url.split(":")[2].split("@")[0]
    with pytest.raises(LedgerUnavailable, match="password authentication failed") as raised:
        Ledger.open(postgres_url.replace(password, "not-the-password"))
    assert "not-the-password" not in str(raised.value)


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_text("This is a text, and long enough not to be taken for an empty file.\n" * 20)
    with pytest.raises(LedgerUnavailable, match=r"ledger\.db"):
        Ledger.open(f"sqlite:///{path}")


def test_a_folder_where_the_file_should_be_is_told(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailable):
        Ledger.open(f"sqlite:///{tmp_path}")


def test_the_folder_of_a_new_file_is_made(tmp_path: Path) -> None:
    path = tmp_path / "var" / "deeper" / "ledger.db"
    Ledger.open(f"sqlite:///{path}").close()
    assert path.exists()


def test_a_folder_that_can_not_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "var").write_text("a file")
    with pytest.raises(LedgerUnavailable, match="SCRAPER_LEDGER_URL"):
        Ledger.open(f"sqlite:///{tmp_path / 'var' / 'ledger.db'}")


def test_all_of_the_ledgers_errors_have_one_base() -> None:
    assert issubclass(LedgerUnavailable, LedgerError)
    assert issubclass(LedgerTooNew, LedgerError)


def test_a_new_file_that_another_process_writes_to_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    other = sqlite3.connect(path, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    end = threading.Timer(0.3, other.close)
    end.start()
    Ledger.open(f"sqlite:///{path}").close()
    end.join()


@pytest.mark.postgres
def test_postgres_is_durable_also_where_its_default_is_not(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "POSTGRES_DURABILITY", "on")
    with Ledger.open(postgres_url) as ledger, ledger.engine.connect() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
    with psycopg.connect(postgres_url.replace("+psycopg", "")) as plain:
        assert plain.execute("SHOW synchronous_commit").fetchone() == ("off",), "as this server has it"


def test_sqlite_is_durable_and_does_not_block_readers(sqlite_url: str) -> None:
    """As it is outside of the tests, which don't wait for the disk."""
    code = """
        import sys
        from scraper_pipeline.ledger import Ledger

        with Ledger.open(sys.argv[1]) as ledger, ledger.engine.connect() as connection:
            print(*(connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")))
    """
    said = subprocess.check_output([sys.executable, "-c", dedent(code), sqlite_url], text=True)
    assert said.split() == ["wal", "2"]
