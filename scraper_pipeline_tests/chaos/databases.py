"""The ledger's database as a run maltreats it: stopped, killed, and without room."""

import contextlib
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg

from scraper_pipeline_tests.chaos.disks import Disk, PageLimit, small_file_system
from scraper_pipeline_tests.chaos.plan import Database
from scraper_pipeline_tests.postgres import EphemeralPostgres


@dataclass
class Maltreated:
    """A database, the server behind it if there is one, and the disk that it is on if that can be filled."""

    url: str
    disk: Disk | None
    server: EphemeralPostgres | None = None

    def go_away(self, seconds: float, how: str) -> None:
        """Stop the server by a signal, and start it again after some seconds."""
        if self.server is None:
            return
        self.server.stop(how=signal.Signals[how])
        time.sleep(seconds)
        self.server.start()

    def run_out_of_room(self, seconds: float) -> bool:
        """Fill the disk for some seconds; False where that is not possible."""
        if self.disk is None:
            return False
        self.disk.fill()
        time.sleep(seconds)
        self.disk.free()
        if self.server is not None:  # it may have given up
            self.server.stop(how=signal.SIGQUIT)
            self.server.start()
        return True


@contextlib.contextmanager
def database(kind: Database, folder: Path, page_limit: Path, jobs: int) -> Iterator[Maltreated]:
    """An empty database below a folder, on a file system of its own where that is possible."""
    mebibytes = (128 if kind == "sqlite" else 384) + jobs // 12
    with small_file_system(folder / "disk", mebibytes) as disk:
        if kind == "sqlite":
            url = f"sqlite:///{folder / 'disk' / 'ledger.db'}"
            yield Maltreated(url, disk or PageLimit(page_limit))
            return
        folder.chmod(0o755)  # the server belongs to another user
        with contextlib.ExitStack() as stack:
            with _temporary_files_in(folder / "disk" if disk else None):
                server = stack.enter_context(EphemeralPostgres(durable=True))
            _keep_little_wal(server)
            name = stack.enter_context(server.database())
            yield Maltreated(server.url(name), disk, server)


def _keep_little_wal(server: EphemeralPostgres) -> None:
    """By default a gigabyte is written before the log is used again."""
    with psycopg.connect(server.url().replace("+psycopg", ""), autocommit=True) as connection:
        for setting in ("max_wal_size = '128MB'", "min_wal_size = '32MB'"):
            connection.execute(f"ALTER SYSTEM SET {setting}")
        connection.execute("SELECT pg_reload_conf()")


@contextlib.contextmanager
def _temporary_files_in(folder: Path | None) -> Iterator[None]:
    before = tempfile.tempdir
    tempfile.tempdir = str(folder) if folder else before
    try:
        yield
    finally:
        tempfile.tempdir = before
