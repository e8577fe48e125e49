"""What the processes of a drill take: the largest resident memory of each kind, and their CPU."""

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import psutil

from scraper_pipeline_tests.drill.services import Service

_INTERVAL = 3.0


@dataclass
class Census:
    """Counted every few seconds: what lives shorter than that is missed."""

    largest_mb: dict[str, float] = field(default_factory=dict)
    _cpu: dict[tuple[int, float], tuple[str, float]] = field(default_factory=dict)
    _next: float = 0.0

    def count(self, services: Mapping[str, Service]) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _INTERVAL
        kinds = {service.pid: kind_of(name) for name, service in services.items() if service.pid}
        for kind, process in _everybody(kinds):
            try:
                with process.oneshot():
                    memory, times = process.memory_info().rss / 2**20, process.cpu_times()
                    born = process.create_time()
            except psutil.Error:
                continue
            self.largest_mb[kind] = max(self.largest_mb.get(kind, 0.0), memory)
            self._cpu[process.pid, born] = (kind, times.user + times.system)

    @property
    def cpu_seconds(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for kind, seconds in self._cpu.values():
            found[kind] = found.get(kind, 0.0) + seconds
        return found


def kind_of(name: str) -> str:
    """The kind of a service: receivers and workers are numbered."""
    return name.rstrip("-0123456789")


def _everybody(kinds: Mapping[int, str]) -> Iterator[tuple[str, psutil.Process]]:
    for process in psutil.Process(os.getpid()).children():
        kind = kinds.get(process.pid) or _by_command(process)
        if kind is None:
            continue
        yield kind, process
        try:
            below = process.children(recursive=True)
        except psutil.Error:
            continue
        for child in below:
            is_run = kind in ("code-server", "worker") and "multiprocessing.spawn" in " ".join(
                _command(child)
            )
            yield "run" if is_run else kind, child


def _by_command(process: psutil.Process) -> str | None:
    words = " ".join(_command(process))
    return "sandbox" if "scraper_pipeline.sandbox" in words else "postgres" if "postgres" in words else None


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []
