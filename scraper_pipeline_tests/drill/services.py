"""A service of a drill: started as its unit says, and started again as a service manager would."""

import contextlib
import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Self

from scraper_pipeline.local.processes import ChildProcess
from scraper_pipeline_tests.drill.hosts import HERE, Host
from scraper_pipeline_tests.drill.units import Unit


class Service:
    """One process with all that it starts. Tended often, it is brought back after it has failed.

    It ends as under `KillMode=mixed`: the process itself is told, and what it leaves behind is killed.
    """

    def __init__(self, name: str, unit: Unit, log: Path, host: Host = HERE) -> None:
        self.name, self.unit, self.log, self.host = name, unit, log, host
        self.strikes: Counter[str] = Counter()
        self.failures: list[int] = []
        """Exit codes of those that ended by themselves."""
        self.is_wanted = False
        self._stack = contextlib.ExitStack()
        self._process: ChildProcess | None = None
        self._begin_at = float("inf")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """0 while it is not running."""
        return self._process.pid if self._process is not None and self._process.is_running else 0

    def last_lines(self) -> str:
        """The end of what it has written."""
        return self._process.last_lines() if self._process is not None else ""

    def start(self) -> None:
        self.is_wanted, self._begin_at = True, float("inf")
        if self.unit.before:
            with self.log.open("ab") as log, contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(
                    [*self.host.prefix, *self.unit.before],
                    env=self.unit.environ,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    timeout=self.unit.stop_within,
                )
        command = [*self.host.prefix, *self.unit.command]
        self._process = self._stack.enter_context(ChildProcess(command, self.unit.environ, self.log))

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it for good, within the time that its unit gives it."""
        self.is_wanted = False
        process = self._process
        if process is None:
            return
        if process.is_running:
            _send(process.pid, how)
            end = time.monotonic() + self.unit.stop_within
            while process.is_running and time.monotonic() < end:
                time.sleep(0.05)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        self._stack.close()
        self._process = None

    def strike(self, how: signal.Signals) -> None:
        """By SIGTERM, restart it as `systemctl restart` does; by SIGKILL, leave it to be found dead."""
        self.strikes[how.name] += 1
        if how is signal.SIGTERM:
            self.stop(how)
            self.start()
        elif self.pid:
            _send(self.pid, how)
            self._await_end()
            self._fail()

    def tend(self) -> None:
        """Begin it again once it has failed and its pause is over."""
        process = self._process
        if process is not None and self.is_wanted and not process.is_running:
            code = process.wait()
            self.failures.append(code)
            if code == 0:  # `Restart=on-failure` leaves it at that
                self.is_wanted = False
            self._fail()
        if self.is_wanted and self._process is None and time.monotonic() >= self._begin_at:
            self.start()

    def _fail(self) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._stack.close()
        self._process = None
        self._begin_at = time.monotonic() + self.unit.restart_after

    def _await_end(self) -> None:
        while self._process is not None and self._process.is_running:
            time.sleep(0.02)


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
