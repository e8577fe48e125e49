"""A small world for the life of a job: a real service on loopback, a real ledger, and a clock that both go by."""

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from scraper_pipeline.ledger import (
    AcceptedSubmission,
    ClaimedSubmission,
    CommitReport,
    Ledger,
    ServiceJob,
    Target,
    Violation,
    hash_url,
)
from scraper_pipeline.lifecycle import (
    LifecyclePolicy,
    PollReport,
    ResolutionReport,
    Settlement,
    SubmissionReport,
    SweepReport,
    poll_jobs,
    reconcile_jobs,
    resolve_lost_answers,
    submit_jobs,
)
from scraper_pipeline.sandbox import SandboxServer
from scraper_pipeline.sandbox.clock import Clock
from scraper_pipeline.scraper_api import AcceptedJob, RetryPolicy, ScraperClient
from scraper_pipeline.scraper_api.pacing import Budget

T = TypeVar("T")

DAY = "2026-03-01"
QUICK = LifecyclePolicy(
    submission_mode="extract",
    first_look=0.05,
    longest_look=0.2,
    status_requests_per_second=1000.0,
    job_timeout=60.0,
    lost_grace=5.0,
    doubt_for=5.0,
    drain=60.0,
    drain_quiet=12.0,
    concurrency=8,
    usage_interval=0.05,
)
IMPATIENT = RetryPolicy(
    throttling=Budget(1, 1.0),
    network=Budget(1, 1.0),
    server=Budget(1, 1.0),
    first_wait=0.01,
    longest_wait=0.02,
    longest_retry_after=0.05,
    request_seconds=60.0,
    least_request_seconds=5.0,
)


@dataclass
class WorldClock:
    """Real time, and what a test adds to it; the service, the client and the ledger all go by it."""

    added: float = 0.0

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.added)

    def monotonic(self) -> float:
        return time.monotonic() + self.added

    def advance(self, seconds: float) -> None:
        self.added += seconds

    @property
    def for_service(self) -> Clock:
        return Clock(now=self.now, monotonic=self.monotonic)


@dataclass
class World:
    """One ledger and one service, and what is done between them."""

    ledger: Ledger
    service: SandboxServer
    clock: WorldClock
    policy: LifecyclePolicy = QUICK
    retries: RetryPolicy = IMPATIENT
    max_body_bytes: int = 32 * 1024 * 1024
    chance: random.Random = field(default_factory=lambda: random.Random(7))

    def url(self, path: str) -> str:
        return f"{self.service.url}/site/{path}"

    def urls(self, count: int) -> list[str]:
        return [self.url(f"pages/{number}") for number in range(1, count + 1)]

    def patient(self, **changes: Any) -> None:
        """Change the policy from here on."""
        self.policy = replace(self.policy, **changes)

    def client(self) -> ScraperClient:
        return ScraperClient(
            host=self.service.url,
            api_key="k",
            policy=self.retries,
            monotonic=self.clock.monotonic,
            sleep=self.skip_ahead,
            utc_now=self.clock.now,
            max_body_bytes=self.max_body_bytes,
        )

    def plan(self, *urls: str, day: str = DAY) -> None:
        self.ledger.submissions.plan(day, [Target(hash_url(url), url) for url in urls])

    async def submit(self, *urls: str, day: str = DAY, **options: Any) -> SubmissionReport:
        """Plan these URLs and submit whatever is due."""
        self.plan(*urls, day=day)
        async with self.client() as client:
            return await submit_jobs(
                self.ledger,
                client,
                day,
                self.policy,
                monotonic=self.clock.monotonic,
                chance=self.chance,
                **options,
            )

    async def post(self, url: str) -> AcceptedJob:
        """Make a job without the ledger, as another program would, or a run that is killed after it."""
        async with self.client() as client:
            return await client.submit_extract(url)

    def claim(self, day: str = DAY) -> list[ClaimedSubmission]:
        return self.ledger.submissions.claim(day, 1000, self.policy.send_lease)

    def bind(self, claimed: ClaimedSubmission, job_id: str) -> None:
        answer = AcceptedSubmission(claimed.request_id, job_id)
        assert self.ledger.submissions.record_accepted([answer], self.ledger.clock()) == 1

    def let_grace_pass(self) -> None:
        self.clock.advance(self.policy.send_lease + self.policy.send_grace + 1)

    async def resolve(self) -> ResolutionReport:
        async with self.client() as client:
            return await resolve_lost_answers(self.ledger, client, self.policy, chance=self.chance)

    async def sweep(self, **options: Any) -> SweepReport:
        async with self.client() as client:
            return await reconcile_jobs(
                self.ledger,
                client,
                self.policy,
                monotonic=self.clock.monotonic,
                chance=self.chance,
                **options,
            )

    async def poll(self, **options: Any) -> PollReport:
        async with self.client() as client:
            return await poll_jobs(
                self.ledger,
                client,
                self.policy,
                monotonic=self.clock.monotonic,
                chance=self.chance,
                **options,
            )

    async def skip_ahead(self, seconds: float) -> None:
        """Wait without losing time, as what asks the service does here."""
        self.clock.advance(seconds)

    def settlement(self, *days: str, sleep: Callable[[float], object] | None = None) -> Settlement:
        def skip_ahead(seconds: float) -> None:
            time.sleep(0.01)
            self.clock.advance(seconds)

        return Settlement(
            self.ledger,
            self.client,
            list(days) or [DAY],
            self.policy,
            monotonic=self.clock.monotonic,
            sleep=sleep or skip_ahead,
            chance=self.chance,
        )

    def settle(self, *days: str) -> CommitReport:
        """Settle until nothing is in flight or due, committing each chunk; waiting costs no time.

        In a thread of its own, as a settlement runs an event loop of its own.
        """

        def settle() -> CommitReport:
            report = CommitReport()
            for chunk in self.settlement(*days).outcomes():
                report += self.ledger.outcomes.commit(chunk)
            return report

        return self.in_thread(settle)

    @staticmethod
    def in_thread(work: Callable[[], T]) -> T:
        """Do this where no event loop runs."""
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(work).result()

    async def bring_to_an_end(self, *urls: str, day: str = DAY, rounds: int = 12) -> None:
        """Submit and settle until every target of the day has come to its end."""
        self.plan(*urls, day=day)
        for _ in range(rounds):
            await self.submit(day=day)
            self.settle(day)
            if self.ledger.progress.of(day).is_settled:
                return
            self.clock.advance(15)
        raise AssertionError(f"not settled: {self.ledger.progress.of(day)}")

    def await_ends(self, but: int = 0) -> None:
        """Wait until the service has brought every job to its end, but for so many."""
        while sum(job["status"] not in ("completed", "failed", "cancelled") for job in self.jobs()) > but:
            time.sleep(0.005)

    def await_batches(self) -> None:
        self.await_ends_of("batches")

    def await_ends_of(self, part: str) -> None:
        """Wait until nothing that can end of any batch or crawl is still at work."""
        while any(one["status"] not in ("completed", "failed", "cancelled") for one in self.truth(part)):
            time.sleep(0.005)

    def truth(self, part: str) -> list[dict[str, Any]]:
        """A part of what the service itself knows: ``jobs``, ``batches``, ``crawls`` or their ``items``."""
        known: list[dict[str, Any]] = self.service.truth()[part]
        return known

    def posts(self) -> int:
        return self.service.requests().get("POST /v1/extract", 0)

    def gets(self) -> int:
        return self.service.requests().get("GET /v1/extract/{job_id}", 0)

    def listings(self) -> int:
        return self.service.requests().get("GET /v1/extract/jobs", 0)

    def jobs(self) -> list[dict[str, Any]]:
        jobs: list[dict[str, Any]] = self.service.truth()["jobs"]
        return jobs

    def violations(self) -> Sequence[Violation]:
        """What the audit finds, in the ledger and against the service's own books."""
        pages = [*self.jobs(), *self.truth("items")]
        return [*self.ledger.audit.check(), *self.ledger.audit.check_against(books(pages))]


def books(jobs: Sequence[dict[str, Any]]) -> list[ServiceJob]:
    return [
        ServiceJob(job["job_id"], job["url"], job["status"], job["charged"], job.get("kind", "extract"))
        for job in jobs
    ]
