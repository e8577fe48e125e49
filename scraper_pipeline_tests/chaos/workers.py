"""The pipeline in parts: each role is a process that repeats the real function of its task until it is killed."""

import asyncio
import importlib
import json
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from multiprocessing.connection import wait as wait_for_any
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.exc import InterfaceError, OperationalError

from scraper_pipeline.ledger import Ledger, LedgerUnavailable, ResubmissionPolicy, Target, hash_url
from scraper_pipeline.lifecycle import (
    LifecyclePolicy,
    Settlement,
    poll_jobs,
    read_delivery_log,
    reconcile_jobs,
    submit_jobs,
)
from scraper_pipeline.receiver.command import run_receiver
from scraper_pipeline.scraper_api import RetryPolicy, ScraperClient, ScraperError
from scraper_pipeline.scraper_api.pacing import Budget
from scraper_pipeline_tests.chaos.disks import heed_page_limit
from scraper_pipeline_tests.chaos.plan import Fate, Mode
from scraper_pipeline_tests.moments import die_at

POLICY = LifecyclePolicy(
    send_lease=2.5,
    send_grace=9.0,
    clock_skew=1.5,
    unresolved_after=600.0,
    job_timeout=20.0,
    lost_grace=4.0,
    sweep_after=6.0,
    sweep_overlap=20.0,
    first_look=0.2,
    longest_look=2.0,
    status_requests_per_second=50.0,
    concurrency=8,
    submit_chunk=32,
    smallest_batch=4,
    largest_batch=16,
    settle_chunk=16,
    settle_lease=5.0,
    drain=4.0,
    drain_quiet=0.5,
)
RESUBMISSION = ResubmissionPolicy(max_attempts=3, first_delay_seconds=0.5)
_REQUESTS = RetryPolicy(
    throttling=Budget(3, 3.0),
    network=Budget(1, 1.0),
    server=Budget(1, 1.0),
    first_wait=0.05,
    longest_wait=0.2,
    longest_retry_after=1.0,
    request_seconds=4.0,
    least_request_seconds=0.3,
)
# Waits that are no settings, and that would make every kill cost half a minute.
_SHORTER: Mapping[tuple[str, str], object] = {
    ("scraper_pipeline.ledger.outcomes", "WATCH_INTERVAL"): timedelta(seconds=4),
    ("scraper_pipeline.ledger.outcomes", "ACCOUNT_WAIT"): timedelta(seconds=2),
    ("scraper_pipeline.ledger.news", "LOOK_LEASE_SECONDS"): 3.0,
    ("scraper_pipeline.lifecycle.replay", "OVERLAP"): timedelta(seconds=20),
}
# What an outage or the service itself is allowed to cause; anything else ends the process, and the run is no success.
_EXPECTED = (ScraperError, OperationalError, InterfaceError, LedgerUnavailable)
EXPECTED_LINE = "expected: "


@dataclass(frozen=True)
class Orders:
    """What every process of a run is told."""

    ledger_url: str
    service_url: str
    folder: Path
    receiver_port: int
    mode: Mode = "extract"

    @property
    def policy(self) -> LifecyclePolicy:
        return replace(POLICY, submission_mode=self.mode)

    @property
    def lists(self) -> Path:
        """Where there is a file for each day, named for it, with the URLs of its targets."""
        return self.folder / "lists"

    @property
    def secrets(self) -> Path:
        return self.folder / "webhook-secrets.json"

    @property
    def page_limit(self) -> Path:
        """While this file is there, databases must not grow."""
        return self.folder / "page-limit"

    def open_ledger(self) -> Ledger:
        return Ledger.open(self.ledger_url, resubmission=RESUBMISSION)

    def open_client(self) -> ScraperClient:
        return ScraperClient(host=self.service_url, api_key="chaos", policy=_REQUESTS)


Turn = Callable[[Ledger, Orders], None]


def start(orders: Orders, name: str, role: str, fate: Fate | None) -> BaseProcess:
    """Start a process of a role; without a fate it lives until it is told to end."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    moment = fate.moment if fate is not None else ""
    process = context.Process(target=_run, args=(orders, name, role, moment), daemon=True)
    process.start()
    return process


def _run(orders: Orders, name: str, role: str, moment: str) -> None:
    log = os.open(orders.folder / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(log, stream.fileno())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    for (module, constant), value in _SHORTER.items():
        owner = importlib.import_module(module)
        assert hasattr(owner, constant), f"{module} has no {constant} any more"
        setattr(owner, constant, value)
    heed_page_limit(orders.page_limit)
    die_at(moment, Engine)
    if role == "receiver":
        run_receiver(orders.ledger_url, secrets_file=orders.secrets, port=orders.receiver_port)
    else:
        _repeat(_TURNS[role], orders)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait_for_any([parent.sentinel])
    os._exit(0)


def _repeat(turn: Turn, orders: Orders) -> None:
    while True:
        try:
            with orders.open_ledger() as ledger:
                while True:
                    turn(ledger, orders)
        except Exception as error:  # any kind, since it may be a group: what was not expected is raised again
            reasons = list(_leaves(error))
            if not all(isinstance(reason, _EXPECTED) for reason in reasons):
                raise
            print(EXPECTED_LINE + type(reasons[0]).__name__, flush=True)
            time.sleep(0.1)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from _leaves(part)
    else:
        yield error


def _with_client(orders: Orders, task: Callable[[ScraperClient], Awaitable[Any]]) -> None:
    async def run() -> None:
        async with orders.open_client() as client:
            await task(client)

    asyncio.run(run())


def submit(ledger: Ledger, orders: Orders) -> None:
    """Plan the days that have a list by now, and submit what is due of any."""
    for file in sorted(orders.lists.iterdir()):
        if not ledger.progress.is_planned(file.name):
            urls: list[str] = json.loads(file.read_text())
            ledger.submissions.plan(file.name, [Target(hash_url(url), url) for url in urls])
    pending = ledger.progress.partitions_to_submit()
    if not pending:
        time.sleep(0.1)

    async def submit_pending(client: ScraperClient) -> None:
        for partition in pending:
            await submit_jobs(ledger, client, partition.partition_key, orders.policy, seconds=2.0)

    _with_client(orders, submit_pending)


def settle(ledger: Ledger, orders: Orders) -> None:
    """Settle what there is news of, as a run of all days does, and commit each chunk as the IO manager does."""
    days = [partition.partition_key for partition in ledger.progress.partitions_to_settle()]
    days = days or [revision.partition_key for revision in ledger.progress.revisions(limit=3)]
    if not days:
        time.sleep(0.1)
        return
    settlement = Settlement(ledger, orders.open_client, days, orders.policy, sleep=_doze)
    for chunk in settlement.outcomes():
        ledger.outcomes.commit(chunk)
    time.sleep(0.05)


def _doze(seconds: float) -> None:
    time.sleep(min(seconds, 0.2))


def sweep(ledger: Ledger, orders: Orders) -> None:
    """Ask the service about everything that no webhook has told of."""
    _with_client(orders, lambda client: sweep_once(ledger, client, orders.policy))
    time.sleep(0.3)


async def sweep_once(ledger: Ledger, client: ScraperClient, policy: LifecyclePolicy) -> None:
    await poll_jobs(ledger, client, policy, seconds=2.0)
    await reconcile_jobs(ledger, client, policy, seconds=10.0)


def read_log(ledger: Ledger, orders: Orders) -> None:
    _with_client(orders, lambda client: read_delivery_log(ledger, client))
    time.sleep(0.5)


_TURNS: Mapping[str, Turn] = {"submit": submit, "settle": settle, "sweep": sweep, "log": read_log}
