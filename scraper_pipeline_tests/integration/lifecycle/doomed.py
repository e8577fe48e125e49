"""A run of the pipeline in a process of its own, which can be told the moment of its death.

The process kills itself (SIGKILL: no `finally`, no rollback of its own) by hooks that are set here and nowhere in the
pipeline. A moment is one of

* `call <Class>.<method> <n>`: after the nth call that returned something,
* `statement <text> <n>`: in place of the nth SQL statement that contains the text,
* `commit <text>`: after all statements of the first transaction that contained the text, before its COMMIT.
"""

import asyncio
import functools
import multiprocessing
import os
import signal
import time
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from typing import Any, NoReturn

from sqlalchemy import Engine, event

from scraper_pipeline.ledger import Ledger, ResubmissionPolicy
from scraper_pipeline.ledger.news import NewsStore
from scraper_pipeline.ledger.outcomes import OutcomeStore
from scraper_pipeline.ledger.submissions import SubmissionStore
from scraper_pipeline.lifecycle import Settlement, submit_jobs
from scraper_pipeline.scraper_api import ScraperClient
from scraper_pipeline_tests.integration.lifecycle.world import IMPATIENT, QUICK, World, WorldClock

_CLASSES = {one.__name__: one for one in (SubmissionStore, OutcomeStore, NewsStore, ScraperClient)}


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
    process.join(30)
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
        _set(moment, ledger.engine)
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


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def _set(moment: str, engine: Engine) -> None:
    kind, _, rest = moment.partition(" ")
    if kind == "call":
        name, _, nth = rest.partition(" ")
        _die_after_call(name, int(nth))
    elif kind == "statement":
        text, _, nth = rest.rpartition(" ")
        _die_at_statement(engine, text, int(nth))
    elif kind == "commit":
        _die_at_commit(engine, rest)


def _die_after_call(name: str, nth: int) -> None:
    owner, _, method = name.partition(".")
    original = getattr(_CLASSES[owner], method)
    calls = 0

    def count(returned: Any) -> Any:
        nonlocal calls
        calls += bool(returned)
        if calls >= nth:
            _die()
        return returned

    @functools.wraps(original)
    def call(*arguments: Any, **named: Any) -> Any:
        return count(original(*arguments, **named))

    @functools.wraps(original)
    async def call_async(*arguments: Any, **named: Any) -> Any:
        return count(await original(*arguments, **named))

    setattr(_CLASSES[owner], method, call_async if asyncio.iscoroutinefunction(original) else call)


def _die_at_statement(engine: Engine, text: str, nth: int) -> None:
    seen = 0

    @event.listens_for(engine, "before_cursor_execute")
    def look(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        nonlocal seen
        seen += text in statement
        if seen >= nth:
            _die()


def _die_at_commit(engine: Engine, text: str) -> None:
    seen = False

    @event.listens_for(engine, "before_cursor_execute")
    def look(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        nonlocal seen
        seen = seen or text in statement

    @event.listens_for(engine, "commit")
    def commit(_connection: Any) -> None:
        if seen:
            _die()
