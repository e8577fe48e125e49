"""All that chance decides about a run, drawn from its seed before the run begins."""

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from typing import Literal

from scraper_pipeline_tests.chaos.moments_by_role import MOMENTS
from scraper_pipeline_tests.chaos.storms import STORMS, TOO_SLOW_FOR_DAGSTER

Database = Literal["sqlite", "postgres"]
Form = Literal["parts", "dagster"]
Mode = Literal["extract", "batch", "auto"]

FIRST_DAY = date(2026, 3, 1)
TARGETS_A_DAY = 500
LEAST_JOBS_A_KILL = 5.0
"""With more than that, processes live longer, so that the kills last as long as the work."""

# Processes of the parts form, the role of each, and its share of the kills.
PARTS: Mapping[str, tuple[str, float]] = {
    "submit": ("submit", 0.26),
    "settle-1": ("settle", 0.22),
    "settle-2": ("settle", 0.22),
    "sweep": ("sweep", 0.12),
    "log": ("log", 0.06),
    "receiver": ("receiver", 0.12),
}
# Of the Dagster form: the daemon with all that it has started, one of its code servers, one of its runs.
DAGSTER: Mapping[str, tuple[str, float]] = {
    "run": ("run", 0.5),
    "code server": ("code server", 0.15),
    "daemon": ("daemon", 0.15),
    "receiver": ("receiver", 0.2),
}


@dataclass(frozen=True)
class Fate:
    """How one process ends: at a moment of its own, or by the harness once it has lived for so many seconds."""

    name: str
    moment: str
    seconds: float


@dataclass(frozen=True)
class Act:
    """What is done to the world when so many kills have been made; ``seconds`` is how long an outage lasts."""

    at_kill: int
    kind: Literal["storm", "outage", "full disk", "other program"]
    name: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Plan:
    """The same arguments give the same plan."""

    seed: int
    database: Database
    form: Form
    mode: Mode
    days: Mapping[str, Sequence[str]]
    """The paths of each day's targets on the sandbox's site."""
    day_begins: Mapping[str, int]
    """The number of kills at which each day is planned."""
    fates: Mapping[str, Sequence[Fate]]
    acts: Sequence[Act]

    @property
    def kills(self) -> int:
        return sum(map(len, self.fates.values()))

    @property
    def targets(self) -> int:
        return sum(len(set(paths)) for paths in self.days.values())

    def urls(self, day: str, service_url: str) -> list[str]:
        """A day's targets, each once."""
        return [f"{service_url}/site/{path}" for path in dict.fromkeys(self.days[day])]

    @property
    def digest(self) -> str:
        """Twelve hex digits that two plans share only if they are the same."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:12]


def draw_plan(
    seed: int, jobs: int, kills: int, database: Database, form: Form = "parts", mode: Mode = "extract"
) -> Plan:
    """A plan with this many targets and kills."""
    days = _draw_days(random.Random(f"{seed} targets"), jobs, kills)
    return Plan(
        seed=seed,
        database=database,
        form=form,
        mode=mode,
        days=days,
        day_begins={day: place * kills // len(days) for place, day in enumerate(days)},
        fates=_draw_fates(seed, jobs, kills, PARTS if form == "parts" else DAGSTER),
        acts=_draw_acts(random.Random(f"{seed} acts"), jobs, kills, database, form),
    )


def _draw_days(chance: random.Random, jobs: int, kills: int) -> dict[str, list[str]]:
    count = max(1, min(kills, max(3, jobs // TARGETS_A_DAY)))
    days: dict[str, list[str]] = {}
    page = 0
    for place in range(count):
        numbers = range(jobs * place // count, jobs * (place + 1) // count)
        paths, page = draw_paths(chance, numbers, page)
        days[(FIRST_DAY + timedelta(days=place)).isoformat()] = paths
    return days


def draw_paths(chance: random.Random, numbers: Sequence[int], page: int) -> tuple[list[str], int]:
    """Paths on the sandbox's site, one a number, where ``page`` pages were drawn before; and how many are now."""
    paths: list[str] = []
    for number in numbers:
        draw = chance.random()
        if draw < 0.03 and page:
            paths.append(f"pages/{chance.randint(1, page)}")  # one that another day may be sending
        elif draw < 0.05:
            paths.append(f"flaky/{number}")
        elif draw < 0.07:
            paths.append(f"broken/{number}")
        elif draw < 0.08:
            paths.append(f"cancelled/{number}")
        else:
            page += 1
            paths.append(f"pages/{page}")
    return paths, page


def _draw_fates(
    seed: int, jobs: int, kills: int, processes: Mapping[str, tuple[str, float]]
) -> dict[str, tuple[Fate, ...]]:
    longer = min(4.0, max(1.0, jobs / max(1, kills) / LEAST_JOBS_A_KILL))
    fates: dict[str, tuple[Fate, ...]] = {}
    left = kills
    for place, (name, (role, share)) in enumerate(processes.items()):
        count = left if place == len(processes) - 1 else min(left, round(kills * share))
        left -= count
        chance = random.Random(f"{seed} {name}")
        fates[name] = tuple(_draw_fate(chance, role, longer) for _ in range(count))
    return fates


def _draw_fate(chance: random.Random, role: str, longer: float) -> Fate:
    moments = MOMENTS.get(role)
    if moments is None:
        return Fate("at any time", "", round(chance.uniform(2.0, 15.0), 3))
    if chance.random() < 0.4:
        return Fate("at any time", "", round(chance.uniform(0.1, 2.5 * longer), 3))
    name = chance.choice(list(moments))
    nth = 1 + int(chance.expovariate(0.25 / longer))
    return Fate(name, moments[name].format(n=nth), 1.5 + 1.5 * longer)


def _draw_acts(
    chance: random.Random, jobs: int, kills: int, database: Database, form: Form
) -> tuple[Act, ...]:
    acts = [
        Act(chance.randint(kills // 4, max(kills // 4, kills // 2)), "full disk", seconds=1.0),
        *(
            Act(chance.randrange(kills + 1), "other program", name=str(chance.random()))
            for _ in range(jobs // 200)
        ),
    ]
    if database == "postgres":
        for place in range(2 + min(6, kills // 50)):
            how = "SIGQUIT" if place == 0 or chance.random() < 0.7 else "SIGINT"
            acts.append(
                Act(chance.randint(1, max(1, kills - 1)), "outage", how, round(chance.uniform(0.2, 1.5), 2))
            )
    storms = [name for name in STORMS if form == "parts" or name not in TOO_SLOW_FOR_DAGSTER]
    chance.shuffle(storms)
    count = max(4, min(kills // 25, 4 * len(storms)))
    for place in range(count):
        at_kill = 2 + place * kills // count
        acts.append(Act(at_kill, "storm", storms[place % len(storms)]))
        acts.append(Act(at_kill + max(1, kills // count // 2), "storm"))  # nothing but rain again
    return tuple(sorted(acts, key=lambda act: act.at_kill))
