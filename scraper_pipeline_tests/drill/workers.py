"""Runs as tasks of Celery: the same days with one worker and then with two, each on a host of its own."""

import secrets
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scraper_pipeline_tests.drill.ending import Report, report, wait_until_settled
from scraper_pipeline_tests.drill.hosts import NETWORK, Host, network
from scraper_pipeline_tests.drill.installation import Installation, Layout
from scraper_pipeline_tests.drill.plan import Plan
from scraper_pipeline_tests.drill.production import DrillFailed, Production, Show, production
from scraper_pipeline_tests.drill.units import DEPLOY, Unit

RUNS_A_WORKER = 2
_ANSWER_SECONDS = 3.0
_REQUESTS_AT_ONCE = 2


def run(plan: Plan, folder: Path, deadline: float, show: Show) -> Report:
    """Each look at a job takes seconds in which no processor is used: it is the places for runs that count."""
    plan = _plain(plan)
    days = list(plan.days)
    half = len(days) // 2
    with network() as (hosts, front):
        workers = [hosts.add("worker-1"), hosts.add("worker-2")]
        redis = Redis(front, Layout().ports["tls"], secrets.token_hex())
        with production(
            folder,
            plan,
            show,
            layout=Layout(front, front),
            network=NETWORK,
            settings={"SCRAPER_SUBMISSION_MODE": "extract", "SCRAPER_CONCURRENCY": str(_REQUESTS_AT_ONCE)},
            with_webhooks=False,
            prepare=redis.prepare,
            before=lambda found: found.add("redis", redis.unit(found.installation)),
        ) as found:
            order = found.sandbox.http.post(
                "/sandbox/faults", json={"latency": [{"seconds": _ANSWER_SECONDS, "on": "get"}]}
            )
            order.raise_for_status()
            began = time.monotonic()
            _add_worker(found, workers[0])
            one = _carry_out(found, plan, days[:half], deadline)
            _add_worker(found, workers[1])
            two = _carry_out(found, plan, days[half:], deadline)
            wait_until_settled(found, plan, deadline)
            more = {
                "runs_a_worker": RUNS_A_WORKER,
                "days_each": half,
                "seconds_with_one_worker": round(one, 1),
                "seconds_with_two_workers": round(two, 1),
                "ratio": round(one / two, 2),
            }
            return report("celery", found, plan, time.monotonic() - began, more)


def _plain(plan: Plan) -> Plan:
    """As many pages a day, none of which fails: what is tried again waits, and would be measured instead."""
    pages = iter(range(1, plan.targets + len(plan.days)))
    size = plan.targets // len(plan.days)
    return replace(plan, days={day: [f"pages/{next(pages)}" for _ in range(size)] for day in plan.days})


def _carry_out(found: Production, plan: Plan, days: Sequence[str], deadline: float) -> float:
    """Launch days one after the other, and wait until they are green; returns the seconds."""
    began = time.monotonic()
    for day in days:
        found.ui.launch("submit_jobs", day)
    part = replace(plan, days={day: plan.days[day] for day in days})
    found.wait_for(
        lambda: all(found.ui.is_materialized("stored_results", day) for day in part.days),
        max(1.0, deadline - time.monotonic()),
        "all days to be green",
    )
    seconds = time.monotonic() - began
    found.show(f"{len(days)} days took {seconds:.0f} s")
    return seconds


def _add_worker(found: Production, host: Host) -> None:
    unit = found.installation.unit("celery-worker")
    words = [word.replace("%H", host.name) for word in unit.command]
    words[words.index("--concurrency") + 1] = str(RUNS_A_WORKER)
    worker = found.add(host.name, replace(unit, command=tuple(words)), host)
    found.tend_for(10)
    if not worker.pid:
        raise DrillFailed(f"the worker ended: {worker.log.read_text()[-2000:]}")


@dataclass(frozen=True)
class Redis:
    """A server with a password, and the files of deploy/celery that name it."""

    host: Host
    port: int
    password: str

    def prepare(self, installation: Installation) -> None:
        """Put the files of deploy/celery in place of those they supersede, and beside the others."""
        folders = installation.folders
        shutil.copy(DEPLOY / "celery" / "dagster.yaml", folders.var / "dagster" / "dagster.yaml")
        (folders.etc / "celery").mkdir()
        shutil.copy(DEPLOY / "celery" / "dagster_celery_config.py", folders.etc / "celery")
        text = (DEPLOY / "celery" / "celery.env").read_text("utf-8").replace("@PW_REDIS@", self.password)
        text = text.replace("redis.example.internal:6379", f"{self.host.address}:{self.port}")
        (folders.etc / "celery.env").write_text(text)

    def unit(self, installation: Installation) -> Unit:
        program = shutil.which("redis-server")
        if program is None:
            raise DrillFailed("there is no redis-server on this machine")
        file = installation.folders.etc / "redis.conf"
        file.touch(0o600)
        file.write_text(
            f'bind {self.host.address}\nport {self.port}\nrequirepass {self.password}\nsave ""\n'
            f"dir {installation.folders.root}\n"
        )
        return Unit((program, str(file)), {})
