"""All that chance decides about a drill: the targets of each day, and what is struck, in which order and how."""

import random
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from scraper_pipeline_tests.chaos.plan import Mode, draw_paths

RUN = "run"
DATABASE = "postgres"
_ROUND = ("webserver", "daemon", "code-server", "receiver-1", "receiver-2", "metrics", "proxy", RUN)


@dataclass(frozen=True)
class Strike:
    """The end of a process: in order, or not. ``seconds`` is how long the database stays away."""

    name: str
    how: signal.Signals
    seconds: float = 0.0


@dataclass(frozen=True)
class Plan:
    """The same arguments give the same plan."""

    seed: int
    days: Mapping[str, Sequence[str]]
    """The paths of each day's targets on the sandbox's site."""
    strikes: Sequence[Strike] = ()
    mode: Mode = "auto"

    @property
    def targets(self) -> int:
        return sum(len(set(paths)) for paths in self.days.values())

    def urls(self, day: str, service_url: str) -> list[str]:
        """A day's targets, each once."""
        return [f"{service_url}/site/{path}" for path in dict.fromkeys(self.days[day])]

    def day_begins(self, day: str) -> int:
        """The number of strikes after which a day is launched."""
        return list(self.days).index(day) * len(self.strikes) // len(self.days)


def draw_plan(seed: int, today: date, days: int, targets: int, rounds: int, mode: Mode = "auto") -> Plan:
    """A plan with this many days, the last of them today, and rounds of strikes against every process."""
    chance = random.Random(f"{seed} targets")
    drawn: dict[str, Sequence[str]] = {}
    page = 0
    for place in range(days):
        numbers = range(targets * place // days, targets * (place + 1) // days)
        day = (today - timedelta(days=days - 1 - place)).isoformat()
        drawn[day], page = draw_paths(chance, numbers, page)
    return Plan(seed, drawn, tuple(_draw_strikes(random.Random(f"{seed} strikes"), rounds)), mode)


def _draw_strikes(chance: random.Random, rounds: int) -> list[Strike]:
    """Every process once a round, and the database in its middle: in order at first, then as by a crash."""
    strikes: list[Strike] = []
    for number in range(rounds):
        names = list(_ROUND)
        chance.shuffle(names)
        one_round = [
            Strike(name, signal.SIGKILL if name == RUN else chance.choice([signal.SIGTERM, signal.SIGKILL]))
            for name in names
        ]
        away = Strike(DATABASE, (signal.SIGINT, signal.SIGQUIT)[number % 2], round(chance.uniform(2, 6), 1))
        one_round.insert(len(names) // 2, away)
        strikes += one_round
    return strikes
