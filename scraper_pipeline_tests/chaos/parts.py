"""The fast form of a run: the pipeline's functions in worker processes, each killed as its fate says."""

import asyncio
import contextlib
import functools
import json
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from scraper_pipeline.ledger import Ledger
from scraper_pipeline.lifecycle import register_webhooks
from scraper_pipeline.local.processes import free_port
from scraper_pipeline.webhook_secrets import SecretsFile
from scraper_pipeline_tests.chaos import workers
from scraper_pipeline_tests.chaos.databases import database
from scraper_pipeline_tests.chaos.plan import PARTS, Plan
from scraper_pipeline_tests.chaos.service import service
from scraper_pipeline_tests.chaos.slots import Slot
from scraper_pipeline_tests.chaos.stage import (
    Director,
    Report,
    be_chaotic,
    end_calmly,
    free_poll_turn,
    keep_remains,
)
from scraper_pipeline_tests.chaos.verdict import judge

RECEIVER_PATH = "/webhooks/geonode"
CHAOTIC_SHARE = 0.8  # of the time; the rest is for the calm
_POLLERS = frozenset({"settle", "sweep"})


def run_parts(plan: Plan, deadline: float, show: Callable[[str], None], keep: Path | None) -> Report:
    """Carry out a plan until ``deadline`` (a moment of `time.monotonic`) at the latest.

    What it leaves is copied to ``keep``.
    """
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        db = stack.enter_context(database(plan.database, folder, folder / "page-limit", plan.targets))
        site = stack.enter_context(service(folder, plan.seed))
        orders = workers.Orders(db.url, site.url, folder, free_port(), plan.mode)
        orders.lists.mkdir()
        ledger = stack.enter_context(orders.open_ledger())
        asyncio.run(register(ledger, orders))
        director = Director(plan, site, db)
        slots = {
            name: Slot(role, plan.fates[name], functools.partial(workers.start, orders, name, role))
            for name, (role, _) in PARTS.items()
        }
        for slot in slots.values():
            stack.callback(slot.end)

        def begin_day(day: str) -> None:
            part = folder / f"{day}.part"
            part.write_text(json.dumps(plan.urls(day, site.url)))
            part.replace(orders.lists / day)

        def kill() -> int | None:
            if all(slot.is_done for slot in slots.values()):
                return None
            killed = [slot for slot in slots.values() if slot.tend()]
            if any(slot.role in _POLLERS for slot in killed):
                free_poll_turn(ledger)
            return len(killed)

        def tend() -> None:
            for slot in slots.values():
                slot.tend()

        site.rain()
        end = began + (deadline - began) * CHAOTIC_SHARE
        be_chaotic(plan, director, ledger, kill, begin_day, end, show)
        for slot in slots.values():
            slot.spare()
        unfinished = end_calmly(plan, ledger, site, deadline, tend, show)
        targets = [(day, url) for day in plan.days for url in plan.urls(day, site.url)]
        report = Report(
            plan=plan,
            director=director,
            kills={name: slot.kills for name, slot in slots.items()},
            crashes={name: slot.crashes for name, slot in slots.items()},
            expected_errors=_count_expected(folder),
            seconds=time.monotonic() - began,
            unfinished=unfinished,
            verdict=judge(ledger, site, targets),
        )
        show_crashes(report.crashes, folder, show)
        if keep is not None:
            keep_remains(folder, ledger, site, keep)
        return report


async def register(ledger: Ledger, orders: workers.Orders) -> None:
    """Have the service tell our receiver of its jobs."""
    url = f"http://127.0.0.1:{orders.receiver_port}{RECEIVER_PATH}"
    async with orders.open_client() as client:
        await register_webhooks(ledger, client, SecretsFile(orders.secrets), url)


def show_crashes(crashes: Mapping[str, list[int]], folder: Path, show: Callable[[str], None]) -> None:
    """Show the last words of those that ended by themselves, before their logs are gone."""
    for name in [name for name, codes in crashes.items() if codes]:
        lines = (folder / f"{name}.log").read_text(errors="replace").splitlines()
        words = [line for line in lines if not line.startswith(workers.EXPECTED_LINE)][-40:]
        show("\n".join([f"{name} ended by itself ({crashes[name]}):", *words]))


def _count_expected(folder: Path) -> Counter[str]:
    counts: Counter[str] = Counter()
    for log in folder.glob("*.log"):
        for line in log.read_text(errors="replace").splitlines():
            if line.startswith(workers.EXPECTED_LINE):
                counts[line.removeprefix(workers.EXPECTED_LINE)] += 1
    return counts
