"""Two accounts with services of their own are settled at once: whatever holds one up holds up no other."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

import pytest

from scraper_pipeline.ledger import Channel, JobOutcome, Ledger, Target, hash_url
from scraper_pipeline.lifecycle import SETTLE_LEASE, Drain, LifecyclePolicy, Settlement, submit_jobs
from scraper_pipeline.sandbox import SandboxConfig, SandboxServer
from scraper_pipeline.scraper_api import RetryPolicy, ScraperClient, Unauthorized
from scraper_pipeline_tests.integration.lifecycle.world import DAY, QUICK

POLICY = replace(QUICK, settle_lease=8.0, drain_quiet=10.0)


@dataclass
class Party:
    """An account: its part of the ledger, and a service that takes its key alone."""

    ledger: Ledger
    service: SandboxServer
    key: str

    def client(self) -> ScraperClient:
        return ScraperClient(
            host=self.service.url, api_key=self.key, policy=RetryPolicy(first_wait=0.05, longest_wait=0.2)
        )

    def submit(self, *paths: str) -> None:
        """Submit these pages, and wait until the service has extracted what it ever will."""
        urls = [f"{self.service.url}/site/{path}" for path in paths]
        self.ledger.submissions.plan(DAY, [Target(hash_url(url), url) for url in urls])

        async def send() -> None:
            async with self.client() as client:
                await submit_jobs(self.ledger, client, DAY, POLICY)

        asyncio.run(send())

    def settlement(self, policy: LifecyclePolicy = POLICY) -> Settlement:
        return Settlement(self.ledger, self.client, [DAY], policy)

    @property
    def is_settled(self) -> bool:
        return self.ledger.progress.of(DAY).is_settled


@pytest.fixture(scope="module")
def services() -> Iterator[tuple[SandboxServer, SandboxServer]]:
    with ExitStack() as stack:
        one, other = (
            stack.enter_context(
                SandboxServer(SandboxConfig.model_validate({"api_key": key, "min_delay": 0, "max_delay": 0}))
            )
            for key in ("key-one", "key-two")
        )
        yield one, other


@pytest.fixture
def parties(
    services: tuple[SandboxServer, SandboxServer], fresh_sqlite_url: str
) -> Iterator[tuple[Party, Party]]:
    for service in services:
        service.clear_faults()
    with Ledger.open(fresh_sqlite_url) as ledger:
        yield (
            Party(ledger, services[0], "key-one"),
            Party(ledger.of_account("research"), services[1], "key-two"),
        )


def drain_of(one: Party, other: Party, policy: LifecyclePolicy = POLICY) -> Drain:
    return Drain({"default": one.settlement(policy), "research": other.settlement(policy)})


def commit(ledger: Ledger, chunk: Sequence[JobOutcome]) -> None:
    for outcome in chunk:
        ledger.of_account(outcome.job.account).outcomes.commit([outcome])


def test_an_account_that_is_throttled_keeps_the_other_waiting_for_nothing(
    parties: tuple[Party, Party],
) -> None:
    one, other = parties
    one.submit("pages/1", "pages/2")
    other.submit("pages/1", "pages/2", "pages/3")
    one.service.set_faults(rate_limit_429={"on": "get", "retry_after": 0.1})
    order = []
    for chunk in drain_of(one, other).outcomes():
        commit(one.ledger, chunk)
        order += [outcome.job.account for outcome in chunk]
        if other.is_settled:
            one.service.clear_faults()  # not before: whoever waits for it would wait for ever
    assert one.is_settled
    assert other.is_settled
    assert order[:3] == ["research"] * 3


def test_an_account_that_is_refused_is_told_once_the_other_is_done(parties: tuple[Party, Party]) -> None:
    one, other = parties
    one.submit("pages/1")
    other.submit("pages/1", "pages/2")
    one.ledger.news.record([one.service.truth()["jobs"][-1]["job_id"]], Channel.POLL)
    one.service.set_faults(unauthorized=True)
    drain = drain_of(one, other)
    for chunk in drain.outcomes():
        commit(one.ledger, chunk)
    assert drain.stopped.keys() == {"default"}
    assert isinstance(drain.stopped["default"], Unauthorized)
    assert other.is_settled
    assert one.ledger.leases.live(SETTLE_LEASE) == other.ledger.leases.live(SETTLE_LEASE) == set()

    one.service.clear_faults()
    for chunk in one.settlement().outcomes():
        commit(one.ledger, chunk)
    assert one.is_settled, "what was claimed was given back"


def test_an_account_that_has_been_quiet_is_looked_at_again_while_the_other_is_at_work(
    parties: tuple[Party, Party],
) -> None:
    one, other = parties
    one.submit("pages/1")
    one.service.set_faults(rate_limit_429={"retry_after": 0.1})
    other.service.set_faults(never_finish=True)
    other.submit("pages/9")
    [job] = [job for job in other.service.truth()["jobs"] if job["status"] != "completed"]
    late = threading.Timer(1.0, partial(other.service.finish_job, job["job_id"]))
    late.start()
    for chunk in drain_of(one, other, replace(POLICY, drain_quiet=0.1)).outcomes():
        commit(one.ledger, chunk)
        if other.is_settled:
            one.service.clear_faults()
    late.join()
    assert other.is_settled
    assert one.is_settled


def test_an_account_whose_other_has_news_after_both_were_quiet_is_not_left_behind(
    parties: tuple[Party, Party],
) -> None:
    """No other run settles its days: whoever still drains holds their lease."""
    one, other = parties
    for party in parties:
        party.service.set_faults(never_finish=True)
    one.submit("pages/1", "pages/2")
    other.submit("pages/9")

    def finish(party: Party, path: str) -> None:
        for job in party.service.truth()["jobs"]:
            if job["url"].endswith(path):
                party.service.finish_job(job["job_id"])
                party.ledger.news.record([job["job_id"]], Channel.WEBHOOK)

    hasty, patient = (replace(POLICY, drain_quiet=seconds, polls=False) for seconds in (0.1, 60.0))
    first, second = one.settlement(hasty), other.settlement(patient)

    class Watched(Drain):
        """First the one account is quiet, then the other; after that the one has news at last."""

        def _goes_on(self, name: str) -> bool:
            first.policy, second.policy = patient, hasty
            if name == "research":
                finish(one, "pages/1")
            return super()._goes_on(name)

    chunks = 0
    for chunk in Watched({"default": first, "research": second}).outcomes():
        commit(one.ledger, chunk)
        chunks += 1
        if chunks == 1:
            second.policy = patient
            finish(other, "pages/9")
        if other.is_settled and not one.is_settled:
            finish(one, "pages/2")
    assert chunks == 3
    assert other.is_settled
    assert one.is_settled


def test_a_drain_that_is_broken_off_leaves_nothing_open(parties: tuple[Party, Party]) -> None:
    one, other = parties
    one.submit("pages/1")
    other.submit("pages/1")
    one.service.set_faults(latency={"on": "get", "seconds": 5})
    outcomes = drain_of(one, other).outcomes()
    next(outcomes)
    outcomes.close()  # type: ignore[attr-defined]
    assert one.ledger.leases.live(SETTLE_LEASE) == other.ledger.leases.live(SETTLE_LEASE) == set()
    assert not other.is_settled, "a chunk that nobody has committed"
