"""What both forms of a run have in common: acts by the number of kills, the calm that follows, and the report."""

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import InterfaceError, OperationalError

from scraper_pipeline.ledger import Ledger
from scraper_pipeline.ledger.schema import dead_letters, jobs, processed_events, submissions
from scraper_pipeline_tests.chaos.databases import Maltreated
from scraper_pipeline_tests.chaos.plan import Act, Plan
from scraper_pipeline_tests.chaos.service import Service
from scraper_pipeline_tests.chaos.storms import STORMS
from scraper_pipeline_tests.chaos.verdict import Verdict, ended_targets

SHOW_SECONDS = 5.0
FINISH_SECONDS = 10.0
POLL_TURN = ("poll", "*")


@dataclass
class Director:
    """Does what the plan has for each number of kills, beside the kills and in order."""

    plan: Plan
    service: Service
    database: Maltreated
    outages: int = 0
    full_disks: int = 0
    other_programs: int = 0
    _next: int = 0
    _stage: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "acts"))
    _begun: list[Future[None]] = field(default_factory=list)

    def direct(self, kills: int) -> None:
        """Begin every act whose time has come; raises what an earlier one raised."""
        while self._next < len(self.plan.acts) and self.plan.acts[self._next].at_kill <= kills:
            self._begun.append(self._stage.submit(self._perform, self.plan.acts[self._next]))
            self._next += 1
        for act in [act for act in self._begun if act.done()]:
            self._begun.remove(act)
            act.result()

    def end(self) -> None:
        """Wait for what was begun, and begin nothing more."""
        self._stage.shutdown(wait=True)
        for act in self._begun:
            act.result()

    def _perform(self, act: Act) -> None:
        if act.kind == "storm":
            self.service.rain(STORMS.get(act.name))
        elif act.kind == "outage":
            self.database.go_away(act.seconds, act.name)
            self.outages += 1
        elif act.kind == "full disk":
            self.full_disks += self.database.run_out_of_room(act.seconds)
        else:
            day = list(self.plan.days.values())[int(float(act.name) * len(self.plan.days))]
            if day:
                self.service.submit_as_another_program(day[int(float(act.name) * 1000) % len(day)])
                self.other_programs += 1


def be_chaotic(
    plan: Plan,
    director: Director,
    ledger: Ledger,
    tend: Callable[[], int | None],
    begin_day: Callable[[str], object],
    deadline: float,
    show: Callable[[str], None],
) -> None:
    """Kill until every kill is made or the deadline has come, with the plan's days and acts on the way.

    ``tend`` makes what kills are due and says how many; None when nothing is left to be killed.
    """
    began = time.monotonic()
    kills, next_show, days = 0, 0.0, dict(plan.day_begins)
    while time.monotonic() < deadline:
        for day in [day for day, begin in days.items() if begin <= kills]:
            begin_day(day)
            del days[day]
        director.direct(kills)
        killed = tend()
        if killed is None:
            break
        kills += killed
        if time.monotonic() >= next_show:
            next_show = time.monotonic() + SHOW_SECONDS
            show(f"{time.monotonic() - began:6.0f} s  {kills:5} kills  {_progress(ledger, plan)}")
        time.sleep(0.01)
    for day in days:  # the time was too short for all kills, or something ended by itself instead
        begin_day(day)
    director.end()


def _progress(ledger: Ledger, plan: Plan) -> str:
    counts: Counter[str] = Counter()
    try:
        for day in plan.days:
            counts.update(vars(ledger.progress.of(day)))
    except (OperationalError, InterfaceError):
        return "the database is away"
    return "  ".join(f"{count} {state}" for state, count in counts.items())


def end_calmly(
    plan: Plan,
    ledger: Ledger,
    service: Service,
    deadline: float,
    tend: Callable[[], object],
    show: Callable[[str], None],
) -> int:
    """With the faults off, wait until every target has ended; returns how many have not by the deadline."""
    service.calm_down()
    free_poll_turn(ledger)
    next_finish = 0.0
    while True:
        tend()
        left = plan.targets - ended_targets(ledger)
        if not left or time.monotonic() > deadline:
            return left
        if time.monotonic() >= next_finish:
            show(f"calm: {left} targets have not ended yet")
            service.finish_jobs()
            next_finish = time.monotonic() + FINISH_SECONDS
        time.sleep(0.2)


def free_poll_turn(ledger: Ledger) -> None:
    """Let the next poller go at once: one that was killed keeps its turn for half a minute."""
    try:
        ledger.leases.take(*POLL_TURN, "chaos", 0.0, force=True)
    except (OperationalError, InterfaceError):
        return  # the database is away, and its pollers with it


def keep_remains(folder: Path, ledger: Ledger, service: Service, keep: Path) -> None:
    """Copy the logs of all processes, the service's books, and the ledger's tables but for the pages."""
    keep.mkdir(parents=True, exist_ok=True)
    for log in folder.glob("*.log"):
        shutil.copy(log, keep)
    (keep / "truth.json").write_text(json.dumps(service.truth()))
    with ledger.engine.connect() as connection:
        for table in (submissions, jobs, processed_events, dead_letters):
            rows = connection.execute(select(table)).mappings()
            lines = (json.dumps(dict(row), default=str) for row in rows)
            (keep / f"{table.name}.jsonl").write_text("\n".join(lines))


@dataclass(frozen=True)
class Report:
    """All that is said about a run in the end; ``unfinished`` are targets, and days that are not green in Dagster."""

    plan: Plan
    director: Director
    kills: Mapping[str, Mapping[str, int]]
    crashes: Mapping[str, list[int]]
    expected_errors: Mapping[str, int]
    seconds: float
    unfinished: int
    verdict: Verdict

    @property
    def total_kills(self) -> int:
        return sum(sum(kinds.values()) for kinds in self.kills.values())

    @property
    def is_good(self) -> bool:
        return not self.verdict.offences and not self.unfinished and not any(self.crashes.values())

    def as_json(self) -> dict[str, Any]:
        verdict, director = self.verdict, self.director
        disk = director.database.disk
        return {
            "good": self.is_good,
            "seed": self.plan.seed,
            "plan": self.plan.digest,
            "database": self.plan.database,
            "form": self.plan.form,
            "targets": self.plan.targets,
            "seconds": round(self.seconds, 1),
            "kills": self.total_kills,
            "kills_by_process": {name: dict(kinds) for name, kinds in self.kills.items()},
            "crashes": {name: codes for name, codes in self.crashes.items() if codes},
            "errors_taken_in_stride": dict(self.expected_errors),
            "slowest_answer_seconds": round(director.service.slowest_answer, 2),
            "storms": director.service.storms,
            "database_outages": director.outages,
            "full_disks": director.full_disks,
            "disk": disk.kind if disk else None,
            "jobs_of_another_program": director.other_programs,
            **verdict.figures,
            "unfinished": self.unfinished,
            "lost": len(verdict.lost),
            "stored_twice": len(verdict.stored_twice),
            "paid_twice": len(verdict.paid_twice),
            "in_windows": len(verdict.in_windows),
            "other_violations": len(verdict.other),
            "offences": [vars(violation) for violation in verdict.offences],
            "windows": [vars(violation) for violation in verdict.in_windows],
        }
