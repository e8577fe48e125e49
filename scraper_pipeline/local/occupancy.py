"""Where a local stack runs: neither its port nor its Dagster home is anybody else's."""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scraper_pipeline.local.dagster_ui import DagsterError

_LOCK = "local-stack.lock"


def require_free_port(port: int) -> None:
    """Raises DagsterError if somebody listens on this port of loopback."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise DagsterError(
                f"Port {port} cannot be used ({error.strerror}): end what listens there, or choose another with --port."
            ) from None


@contextmanager
def occupying(home: Path, url: str) -> Iterator[None]:
    """Keep a Dagster home for a stack with this address, as long as the context and the process last.

    Raises DagsterError with the words of whoever has it: a second daemon would submit and settle beside the first.
    """
    home.mkdir(parents=True, exist_ok=True)
    with (home / _LOCK).open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise DagsterError(
                f"{home} is in use by {lock.read().strip() or 'another process'}. End that first."
            ) from None
        lock.truncate(0)
        lock.write(f"process {os.getpid()}, whose UI is at {url}\n")
        lock.flush()
        yield
