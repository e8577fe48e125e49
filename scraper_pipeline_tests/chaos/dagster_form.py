"""The slow form of a run: Dagster's daemon does the work, and it, its code servers and its runs are killed.

Dagster's own storage is in SQLite files; the ledger alone is where the plan says.
"""

import asyncio
import contextlib
import functools
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import dagster as dg

from scraper_pipeline.ledger import Ledger, Target, hash_url
from scraper_pipeline.local.processes import ChildProcess, free_port
from scraper_pipeline.settings import project_folder
from scraper_pipeline_tests.chaos import workers
from scraper_pipeline_tests.chaos.databases import database
from scraper_pipeline_tests.chaos.parts import CHAOTIC_SHARE, register, show_crashes
from scraper_pipeline_tests.chaos.plan import Fate, Plan
from scraper_pipeline_tests.chaos.service import service
from scraper_pipeline_tests.chaos.slots import Slot
from scraper_pipeline_tests.chaos.stage import Director, Report, be_chaotic, end_calmly, keep_remains
from scraper_pipeline_tests.chaos.verdict import judge
from scraper_pipeline_tests.end_to_end.driving import code_servers, run_workers

_WORKSPACE = project_folder() / "workspace.yaml"
_SETTINGS = {
    "SCRAPER_SEND_LEASE_SECONDS": "8",
    "SCRAPER_SEND_GRACE_SECONDS": "14",
    "SCRAPER_CLOCK_SKEW_SECONDS": "2",
    "SCRAPER_UNRESOLVED_AFTER_SECONDS": "900",
    "SCRAPER_JOB_TIMEOUT_SECONDS": "60",
    "SCRAPER_LOST_GRACE_SECONDS": "10",
    "SCRAPER_DRAIN_SECONDS": "30",
    "SCRAPER_DRAIN_QUIET_SECONDS": "5",
}


def run_dagster(plan: Plan, deadline: float, show: Callable[[str], None], keep: Path | None) -> Report:
    """Carry out a plan until ``deadline`` (a moment of `time.monotonic`) at the latest.

    What it leaves is copied to ``keep``.
    """
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        db = stack.enter_context(database(plan.database, folder, folder / "page-limit", plan.targets))
        site = stack.enter_context(service(folder, plan.seed))
        orders = workers.Orders(db.url, site.url, folder, free_port(), plan.mode)
        ledger = stack.enter_context(orders.open_ledger())
        asyncio.run(register(ledger, orders))
        director = Director(plan, site, db)
        start_receiver = functools.partial(workers.start, orders, "receiver", "receiver")
        receiver = Slot("receiver", plan.fates["receiver"], start_receiver)
        stack.callback(receiver.end)
        daemon = stack.enter_context(Daemon(_environ(orders, folder), folder / "daemon.log"))
        chance = random.Random(f"{plan.seed} victims")
        hunters = {
            "run": Hunter(plan.fates["run"], chance, daemon.runs, _kill),
            "code server": Hunter(plan.fates["code server"], chance, daemon.code_servers, _kill),
            "daemon": Hunter(plan.fates["daemon"], chance, daemon.itself, lambda _: daemon.kill()),
        }

        def kill() -> int | None:
            if receiver.is_done and all(hunter.is_done for hunter in hunters.values()):
                return None
            daemon.keep_running()
            return receiver.tend() + sum(hunter.hunt() for hunter in hunters.values())

        def tend() -> None:
            daemon.keep_running()
            receiver.tend()

        def begin_day(day: str) -> None:
            ledger.submissions.plan(day, [Target(hash_url(url), url) for url in plan.urls(day, site.url)])

        site.rain()
        end = began + (deadline - began) * CHAOTIC_SHARE
        be_chaotic(plan, director, ledger, kill, begin_day, end, show)
        receiver.spare()
        unfinished = end_calmly(plan, ledger, site, deadline, tend, show)
        unfinished += len(_wait_until_green(ledger, folder / "dagster", plan, deadline, tend))
        targets = [(day, url) for day in plan.days for url in plan.urls(day, site.url)]
        report = Report(
            plan=plan,
            director=director,
            kills={**{name: hunter.kills for name, hunter in hunters.items()}, "receiver": receiver.kills},
            crashes={"daemon": daemon.crashes, "receiver": receiver.crashes},
            expected_errors={},
            seconds=time.monotonic() - began,
            unfinished=unfinished,
            verdict=judge(ledger, site, targets),
        )
        show_crashes(report.crashes, folder, show)
        if keep is not None:
            keep_remains(folder, ledger, site, keep)
        return report


def _environ(orders: workers.Orders, folder: Path) -> Mapping[str, str]:
    home = folder / "dagster"
    home.mkdir()
    shutil.copy(project_folder() / "scraper_pipeline" / "local" / "dagster.yaml", home / "dagster.yaml")
    return {
        **{
            name: value for name, value in os.environ.items() if not name.startswith(("SCRAPER_", "GEONODE_"))
        },
        **_SETTINGS,
        "DAGSTER_HOME": str(home),
        "SCRAPER_LEDGER_URL": orders.ledger_url,
        "SCRAPER_PAGES_URL": str(folder / "pages"),
        "SCRAPER_SUBMISSION_MODE": orders.mode,
        "SCRAPER_TARGETS": str(folder / "targets.txt"),
        "GEONODE_SCRAPER_HOST": orders.service_url,
        "GEONODE_SCRAPER_API_KEY": "chaos",
        "GEONODE_WEBHOOK_SECRETS_FILE": str(orders.secrets),
    }


def _wait_until_green(
    ledger: Ledger, home: Path, plan: Plan, deadline: float, tend: Callable[[], object]
) -> list[str]:
    """Wait for Dagster to show every day as done; the days that it does not by the deadline."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        while True:
            tend()
            waiting = [day for day in plan.days if not _is_green(instance, day)]
            if not waiting or time.monotonic() > deadline:
                return waiting
            time.sleep(1.0)


def _is_green(instance: dg.DagsterInstance, day: str) -> bool:
    wanted = dg.AssetRecordsFilter(asset_key=dg.AssetKey("stored_results"), asset_partitions=[day])
    return bool(instance.fetch_materializations(wanted, limit=1).records)


class Daemon:
    """Dagster's daemon, started again whenever it has ended, as a service manager would do."""

    def __init__(self, environ: Mapping[str, str], log: Path) -> None:
        self._environ, self._log = environ, log
        self._stack = contextlib.ExitStack()
        self._process: ChildProcess | None = None
        self.crashes: list[int] = []

    def __enter__(self) -> "Daemon":
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self) -> None:
        command = [sys.executable, "-m", "dagster._daemon", "run", "-w", str(_WORKSPACE)]
        self._process = self._stack.enter_context(ChildProcess(command, self._environ, self._log))

    def keep_running(self) -> None:
        if self._process is not None and not self._process.is_running:
            self.crashes.append(self._process.wait())
            self._start()

    def kill(self) -> None:
        """Kill it alone: what it has started goes on for a while beside what the next one starts."""
        assert self._process is not None
        _kill(self._process.pid)
        self._process.wait()
        self._start()

    def itself(self) -> list[int]:
        return [self._process.pid] if self._process is not None and self.code_servers() else []

    def code_servers(self) -> list[int]:
        return [server.pid for server in code_servers(self._process.pid)] if self._process is not None else []

    def runs(self) -> list[int]:
        servers = code_servers(self._process.pid) if self._process is not None else []
        return [run.pid for server in servers for run in run_workers(server)]


class Hunter:
    """Kills one of some processes after the other, each as soon as there is one once its time has come."""

    def __init__(
        self,
        fates: Sequence[Fate],
        chance: random.Random,
        find: Callable[[], list[int]],
        kill: Callable[[int], object],
    ) -> None:
        self.kills: Counter[str] = Counter()
        self._fates, self._chance, self._find, self._kill = iter(fates), chance, find, kill
        self._fate = next(self._fates, None)
        self._since = time.monotonic()

    @property
    def is_done(self) -> bool:
        return self._fate is None

    def hunt(self) -> bool:
        """Whether one was killed."""
        fate = self._fate
        if fate is None or time.monotonic() < self._since + fate.seconds:
            return False
        victims = self._find()
        if not victims:
            self._since = time.monotonic() - fate.seconds + 0.5  # looking costs time, too
            return False
        self._kill(self._chance.choice(sorted(victims)))
        self.kills[fate.name] += 1
        self._fate, self._since = next(self._fates, None), time.monotonic()
        return True


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
