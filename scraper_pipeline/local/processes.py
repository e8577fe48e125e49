"""Child processes of the command line: started with their output in a file, and ended together with their children."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

_PATIENCE_SECONDS = 20.0
_PR_SET_PDEATHSIG = 1  # of <linux/prctl.h>
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Have SIGTERM and SIGHUP end what runs in the context as Ctrl-C does, so that no child is left behind."""

    def end(_number: int, _frame: FrameType | None) -> None:
        for number in _ENDING:  # a terminal that closes sends both, and ending takes seconds
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in _ENDING}
    for number, disposition in before.items():
        if disposition is not signal.SIG_IGN:  # as `nohup` has it
            signal.signal(number, end)
    try:
        yield
    finally:
        for number, disposition in before.items():
            signal.signal(number, disposition)


class ChildProcess:
    """A command in a process group of its own, for as long as the context lasts.

    On Linux it is interrupted as well when this process is killed.
    """

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], log: Path) -> None:
        self.command, self.environ, self.log = list(command), dict(environ), log
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            # Started in the background of a shell. Dagster would inherit it, and then heed no signal but SIGKILL.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        # to the system the parent is the thread that started it, and other threads may end before the process does
        lives_with_us = threading.current_thread() is threading.main_thread()
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603 (our own commands)
                self.command,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent if _LIBC and lives_with_us else None,
            )
        return self

    @property
    def pid(self) -> int:
        """Its process id, which is its group's, too; 0 before it was started."""
        return self._process.pid if self._process is not None else 0

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def wait(self) -> int:
        """Block until it ends by itself; returns its exit code."""
        return self._process.wait() if self._process is not None else 0

    def last_lines(self, count: int = 15) -> str:
        """The end of its output."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.terminate()
        self._end_group(process.pid)
        process.wait()

    @staticmethod
    def _end_group(group: int) -> None:
        """What the command itself has started may outlive it: ask it to end, and make certain."""
        for number, seconds in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
            end = time.monotonic() + seconds
            try:
                os.killpg(group, number)
                while time.monotonic() < end:
                    os.killpg(group, 0)
                    time.sleep(0.05)
            except (ProcessLookupError, PermissionError):
                return


def _die_with_parent() -> None:
    if _LIBC:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


def free_port() -> int:
    """A port of loopback that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
