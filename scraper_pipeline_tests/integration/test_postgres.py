"""The tests' own Postgres: what the other tests take for granted about it."""

import signal
import socket
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa

from scraper_pipeline_tests.postgres import EphemeralPostgres

pytestmark = pytest.mark.postgres


def test_each_database_is_empty_and_its_own(postgres_server: EphemeralPostgres) -> None:
    with postgres_server.database() as one, postgres_server.database() as other:
        first, second = (sa.create_engine(postgres_server.url(name)) for name in (one, other))
        with first.begin() as connection:
            connection.execute(sa.text("CREATE TABLE only_here (id int)"))
        assert sa.inspect(first).get_table_names() == ["only_here"]
        assert sa.inspect(second).get_table_names() == []
        first.dispose()
        second.dispose()


def test_a_password_is_asked_for(postgres_server: EphemeralPostgres) -> None:
    url = postgres_server.url().replace(postgres_server.password, "wrong").replace("+psycopg", "")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(url)
    assert postgres_server.password not in repr(postgres_server)


def test_what_was_committed_survives_a_crash_of_the_server_on_the_same_port() -> None:
    with EphemeralPostgres(durable=True) as server:
        engine = sa.create_engine(server.url(), poolclass=sa.NullPool)
        with engine.begin() as connection:
            assert connection.scalar(sa.text("SHOW fsync")) == "on"
            connection.execute(sa.text("CREATE TABLE kept (id int)"))
        port = server.port
        server.stop(how=signal.SIGQUIT)
        with pytest.raises(sa.exc.OperationalError):
            engine.connect()
        server.start()
        assert server.port == port
        assert sa.inspect(engine).get_table_names() == ["kept"]


def test_nothing_is_left_behind() -> None:
    with EphemeralPostgres() as server, psycopg.connect(server.url().replace("+psycopg", "")) as connection:
        row = connection.execute("SHOW data_directory").fetchone()
        assert row is not None
        folder = Path(row[0])
        assert folder.is_dir()
    assert not folder.parent.exists()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", server.port), timeout=5)
