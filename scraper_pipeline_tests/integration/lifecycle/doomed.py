"""A run of the pipeline in a process of its own, which can be told the moment of its death: see ``moments``."""

import asyncio
import multiprocessing
import time
from collections.abc import Sequence
from multiprocessing.process import BaseProcess

from scraper_pipeline.ledger import Ledger, ResubmissionPolicy
from scraper_pipeline.lifecycle import Settlement, submit_jobs
from scraper_pipeline.scraper_api import ScraperClient
from scraper_pipeline_tests.integration.lifecycle.world import IMPATIENT, QUICK, World, WorldClock
from scraper_pipeline_tests.moments import die_at


def start(world: World, ledger_url: str, days: Sequence[str], moment: str = "") -> BaseProcess:
    """Start a run that submits and settles these days; without a moment it lives to its end."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    process = context.Process(
        target=_run, args=(ledger_url, world.service.url, world.clock.added, list(days), moment)
    )
    process.start()
    return process


def await_end(process: BaseProcess) -> int | None:
    """The exit code of a run, negative for a signal."""
    process.join(100)
    if process.is_alive():
        process.kill()
        process.join()
        raise AssertionError("the run did not come to its end")
    code = process.exitcode
    process.close()
    return code


def _run(ledger_url: str, service_url: str, added: float, days: list[str], moment: str) -> None:
    clock = WorldClock(added)

    def client() -> ScraperClient:
        return ScraperClient(host=service_url, api_key="k", policy=IMPATIENT, utc_now=clock.now)

    async def submit(ledger: Ledger, day: str) -> None:
        async with client() as one:
            await submit_jobs(ledger, one, day, QUICK)

    def doze(seconds: float) -> None:
        time.sleep(min(seconds, 0.05))

    policy = ResubmissionPolicy(3, first_delay_seconds=0.0)
    with Ledger.open(ledger_url, clock=clock.now, resubmission=policy) as ledger:
        die_at(moment, ledger.engine)
        for _ in range(20):
            for day in days:
                asyncio.run(submit(ledger, day))
            for chunk in Settlement(ledger, client, days, QUICK, sleep=doze).outcomes():
                ledger.outcomes.commit(chunk)
                if any(ledger.progress.of(day).planned for day in days):
                    break
            if all(ledger.progress.of(day).is_settled for day in days):
                return
    raise SystemExit("not settled")
