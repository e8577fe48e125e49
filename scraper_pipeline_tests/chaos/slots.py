"""One place for one process after the other: each is started, dies as its fate says, and is replaced."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.process import BaseProcess

from scraper_pipeline_tests.chaos.plan import Fate

Start = Callable[[Fate | None], BaseProcess]
OVERDUE = "at any time, since its moment did not come"


class Slot:
    """Tended often, it keeps one process alive and sees to its death; without fates left, the last one lives on."""

    def __init__(self, role: str, fates: Sequence[Fate], start: Start) -> None:
        self.role = role
        self.kills: Counter[str] = Counter()
        self.crashes: list[int] = []
        """Exit codes of those that ended by themselves, which none of them should."""
        self._fates: Iterator[Fate] = iter(fates)
        self._start = start
        self._process: BaseProcess | None = None
        self._fate: Fate | None = None
        self._end = float("inf")

    @property
    def is_done(self) -> bool:
        """No fate is left: whatever lives now lives on."""
        return self._process is not None and self._fate is None

    def tend(self) -> bool:
        """Replace a process that has died, and kill one whose time has come; whether one was killed."""
        process, fate = self._process, self._fate
        if process is None:
            self._replace()
            return False
        killed_as = None
        if process.is_alive():
            if time.monotonic() < self._end:
                return False
            assert fate is not None
            process.kill()
            killed_as = OVERDUE if fate.moment else fate.name
        process.join()
        if killed_as is None:
            if process.exitcode == -9 and fate is not None and fate.moment:
                killed_as = fate.name
            else:
                self.crashes.append(process.exitcode or 0)
        if killed_as is not None:
            self.kills[killed_as] += 1
        self._replace()
        return killed_as is not None

    def spare(self) -> None:
        """Kill nothing more, and replace a process that is doomed by one that is not."""
        self._fates = iter(())
        if self._fate is not None and self._process is not None:
            self._process.kill()
            self._process.join()
            self._replace()

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()

    def _replace(self) -> None:
        if self._process is not None:
            self._process.close()
        self._fate = next(self._fates, None)
        self._end = time.monotonic() + self._fate.seconds if self._fate is not None else float("inf")
        self._process = self._start(self._fate)
