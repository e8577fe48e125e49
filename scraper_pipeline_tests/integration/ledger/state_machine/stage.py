"""What all rules of the machine act on: one ledger, its model, the service, the clock, and the actors under way."""

import asyncio
import random
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from scraper_pipeline.ledger import (
    AcceptedSubmission,
    BatchTerms,
    ClaimedJob,
    ClaimedSubmission,
    JobOutcome,
    Kind,
    Ledger,
    RefusedSubmission,
    Target,
)
from scraper_pipeline.lifecycle import LifecyclePolicy, poll_jobs, resolve_lost_answers
from scraper_pipeline.scraper_api import ScraperClient, ServerError
from scraper_pipeline_tests.integration.ledger.driving import (
    DAY,
    GRACE,
    LEASE,
    NEXT_DAY,
    HandClock,
    Interrupted,
    interrupting,
    target,
)
from scraper_pipeline_tests.integration.ledger.state_machine.actors import MemoryClient, Paused
from scraper_pipeline_tests.integration.ledger.state_machine.comparison import empty
from scraper_pipeline_tests.integration.ledger.state_machine.evidence import Evidence
from scraper_pipeline_tests.integration.ledger.state_machine.mirror import MirroredLedger
from scraper_pipeline_tests.integration.ledger.state_machine.model import Model
from scraper_pipeline_tests.integration.ledger.state_machine.service import MemoryService

T = TypeVar("T")
Work = Callable[[Ledger, ScraperClient], Coroutine[Any, Any, Any]]

DAYS = (DAY, NEXT_DAY)
A, B, C = (f"https://site.test/{name}" for name in "abc")
TWIN = Target("twin", A)  # of the same URL and options as another one
TARGETS = (target(A), target(A, {"timeout": 5000}), target(B), target(C), TWIN)
FEW_TARGETS = TARGETS[:3]
TERMS = BatchTerms(smallest=2, largest=3, fits=lambda options: "timeout" not in options)
POLICY = LifecyclePolicy(
    send_lease=LEASE,
    send_grace=GRACE,
    clock_skew=0.0,  # one clock serves all of them
    unresolved_after=900.0,
    job_timeout=400.0,
    lost_grace=90.0,
    doubt_for=60.0,
    status_requests_per_second=1000.0,
)

picks = st.integers(0, 7)
limits = st.integers(1, 3)
breaks = st.sampled_from((0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 8, 10))
"""At which of its statements a transition is broken off; 0 lets it be."""


Request = list[ClaimedSubmission]


@dataclass
class SubmitRun:
    """A run that sends what it has claimed, and the answers that it has not recorded yet."""

    unsent: list[Request]
    accepted: list[AcceptedSubmission] = field(default_factory=list)
    refused: list[RefusedSubmission] = field(default_factory=list)
    apart: list[str] = field(default_factory=list)
    unmade: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, claimed: Iterable[ClaimedSubmission]) -> "SubmitRun":
        requests: dict[str, Request] = {}
        for one in claimed:
            requests.setdefault(one.request_id, []).append(one)
        return cls([*requests.values()])


@dataclass
class SettleRun:
    """A run that looks at the jobs that it has claimed, and what it has seen and not committed yet."""

    claimed: list[ClaimedJob]
    unseen: list[ClaimedJob]
    outcomes: list[JobOutcome] = field(default_factory=list)


class Stage(RuleBasedStateMachine):
    """One example: an empty ledger, and nobody at work."""

    def __init__(self, ledger: Ledger, clock: HandClock, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        empty(ledger)
        clock.now = HandClock.now.replace(microsecond=1)
        self.clock, self.loop, self.model = clock, loop, Model()
        self.service = MemoryService(clock)
        self.base = ledger
        self.client = MemoryClient(self.service)
        self.ledger = self.mirrored(self.client)
        self.chance = random.Random(7)
        self.targets: Sequence[Target] = FEW_TARGETS
        self.terms: BatchTerms | None = None
        self.submit_runs: list[SubmitRun] = []
        self.settle_runs: list[SettleRun] = []
        self.paused: list[Paused] = []

    def mirrored(self, client: MemoryClient) -> MirroredLedger:
        return MirroredLedger(self.base, self.model, Evidence(client, POLICY))

    def transition(self, nth: int, make: Callable[[], T]) -> T | None:
        """Make a transition, or break it off at its nth statement; None then."""
        if not nth:
            return make()
        try:
            with interrupting(self.base.engine, nth):
                return make()
        except Interrupted:
            return None

    def claimable_days(self) -> list[str]:
        return [day for day in DAYS if self.model.claimable(day, self.clock())]

    def open_days(self, kinds: Collection[str] = (Kind.EXTRACT,)) -> list[str]:
        """Days with a job that a settlement may claim."""
        return [day for day in DAYS if self.model.open_jobs(day, self.clock(), kinds)]

    @staticmethod
    def picked(choices: Sequence[T], pick: int) -> T:
        return choices[pick % len(choices)]

    def begin(self, work: Work) -> Paused:
        """Code of the product as an actor with eyes of its own: it stops after each answer of the service."""
        return Paused(
            self.loop, self.service, lambda client: work(self.mirrored(client), cast(ScraperClient, client))
        )

    def go_on_with(self, actor: Paused, nth: int = 0) -> None:
        """Let an actor run to its next stop, or break it off at its nth statement; it is kept until its end."""
        if actor in self.paused:
            self.paused.remove(actor)
        if self.transition(nth, actor.go_on) is False:
            self.paused.append(actor)

    def run(self, work: Work) -> None:
        """Let code of the product run to its end, with nobody interrupting."""
        client = MemoryClient(self.service)
        ledger = self.mirrored(client)
        self.loop.run_until_complete(work(ledger, cast(ScraperClient, client)))
        ledger.evidence.check_all_decided(self.clock())

    async def resolution(self, ledger: Ledger, client: ScraperClient) -> None:
        with suppress(ServerError):  # of a page of results: what was not decided for it is asked about again
            await resolve_lost_answers(ledger, client, POLICY, seconds=600.0, chance=self.chance)

    def poll(self, ledger: Ledger, client: ScraperClient) -> Coroutine[Any, Any, Any]:
        return poll_jobs(ledger, client, POLICY, seconds=600.0, chance=self.chance)
