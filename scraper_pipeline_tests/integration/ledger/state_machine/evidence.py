"""What the service has told one actor, and what that allows it to decide (rules 4 to 7)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from scraper_pipeline.ledger import JobOutcome, Kind, OverdueSubmission, SettledTarget
from scraper_pipeline.lifecycle import LifecyclePolicy
from scraper_pipeline.scraper_api import BatchSummary, JobSummary
from scraper_pipeline_tests.integration.ledger.state_machine.actors import (
    MISSING,
    MemoryClient,
    SeenListing,
)
from scraper_pipeline_tests.integration.ledger.state_machine.model import Model
from scraper_pipeline_tests.integration.ledger.state_machine.verdicts import check_reading


@dataclass(frozen=True)
class Choice:
    """What a listing leaves to choose from: how good each job is; ``must_wait`` while that may change."""

    listing: SeenListing
    candidates: dict[str, tuple[int, bool]]
    must_wait: bool

    @property
    def best(self) -> set[str]:
        most = max(self.candidates.values(), default=None)
        return {job_id for job_id, merits in self.candidates.items() if merits == most} or {"none"}


@dataclass
class Evidence:
    """An actor's client, the overdue requests that it has read, and the jobs that it has found bound."""

    client: MemoryClient
    policy: LifecyclePolicy
    grace_seconds: float = 0.0
    overdue: dict[str, OverdueSubmission] = field(default_factory=dict)
    decided: set[str] = field(default_factory=set)
    bound: set[str] = field(default_factory=set)

    def read(self, rows: Iterable[OverdueSubmission], grace_seconds: float) -> None:
        self.grace_seconds = grace_seconds
        self.overdue = {row.request_id: row for row in rows}
        self.decided.clear()
        self.bound.clear()

    def check_resolution(self, request_id: str, job_id: str) -> None:
        """Rule 5: a whole listing decides; of several jobs all must have ended, and the best one is taken."""
        choice = self.choice(self.overdue[request_id])
        assert choice.listing.is_whole, "a listing that may lack a line has decided"
        assert not choice.must_wait, "a job that may be the request's still runs, or can't be read"
        assert job_id in choice.best, f"not {job_id}"
        self.decided.add(request_id)

    def check_unresolved(self, request_ids: Iterable[str], now: datetime) -> None:
        """Only what must wait is given up, and only past the hard limit."""
        for request_id in request_ids:
            assert self._is_hopeless(request_id, now), "given up too early"
            self._check_waiting(self.overdue[request_id])
            self.decided.add(request_id)

    def check_all_decided(self, now: datetime) -> None:
        """Once a run has come to its end: what it left undecided has to wait, and may."""
        for request_id in self.overdue.keys() - self.decided:
            assert not self._is_hopeless(request_id, now), "not given up"
            self._check_waiting(self.overdue[request_id])

    def _is_hopeless(self, request_id: str, now: datetime) -> bool:
        return now - self.overdue[request_id].sent_at > timedelta(seconds=self.policy.unresolved_after)

    def _check_waiting(self, row: OverdueSubmission) -> None:
        if self.client.has_failed:
            return  # nothing that comes behind the failure was asked
        choice = self.choice(row)
        assert choice.must_wait or not choice.listing.is_whole, f"nothing kept {row.url} from being decided"

    def choice(self, row: OverdueSubmission) -> Choice:
        """What this actor may choose from for the request. Fails where it was not told enough to choose."""
        grace_end = row.lease_until + timedelta(seconds=self.grace_seconds)
        listings = [
            seen
            for seen in self.client.listings
            if seen.kind is row.kind and seen.covers(row.sent_at, grace_end)
        ]
        assert listings, "no listing covers the time in which the job must have been made"
        listing = listings[-1]
        assert listing.asked_at > grace_end, "the listing was asked for before the grace ended"
        choose = self._among_batches if row.kind is Kind.BATCH else self._among_singles
        return choose(row, listing)

    def _free(self, row: OverdueSubmission, listing: SeenListing) -> list[JobSummary | BatchSummary]:
        """What was made since the claim, and is bound to no row."""
        return [
            job
            for job in listing.jobs
            if job.created_at and job.created_at >= row.sent_at and job.job_id not in self.bound
        ]

    def _among_singles(self, row: OverdueSubmission, listing: SeenListing) -> Choice:
        """A single job is known by its URL; of several, one that was completed is the better one."""
        found = [
            job for job in self._free(row, listing) if isinstance(job, JobSummary) and job.url == row.url
        ]
        must_wait = len(found) > 1 and not all(job.is_terminal for job in found)
        return Choice(listing, {job.job_id: (1, job.status == "completed") for job in found}, must_wait)

    def _among_batches(self, row: OverdueSubmission, listing: SeenListing) -> Choice:
        """A batch is known by what it holds, once that can be read: URLs of the request, and no others.

        The more of them the better; one that holds more URLs than were sent needs no reading.
        """
        candidates, must_wait = {}, False
        for job in self._free(row, listing):
            assert isinstance(job, BatchSummary)
            if (job.accepted_urls or 0) > len(row.urls):
                continue
            held = self.client.held.get(job.job_id)
            is_hidden = not held and self.client.service.batch(job.job_id).total > 0
            if not job.is_terminal or is_hidden or self.client.answers.get(job.job_id) == MISSING:
                must_wait = True
            elif held and held <= set(row.urls):
                candidates[job.job_id] = (len(held), job.status == "completed")
        return Choice(listing, candidates, must_wait)

    def check_outcomes(self, outcomes: Iterable[JobOutcome], model: Model, now: datetime) -> None:
        """Rule 4: what is about to be committed of a batch is what its items came to."""
        for outcome in outcomes:
            if outcome.job.kind == Kind.BATCH:
                check_reading(outcome, self.client, model, self.policy, now)

    def check_resubmission(self, targets: Sequence[SettledTarget]) -> None:
        """Rule 7: a job that was given up has been asked first, and neither runs nor has completed.

        Of a batch that is there the items decide: nothing of it is submitted again.
        """
        over = {Kind.EXTRACT: ("missing", "failed", "cancelled"), Kind.BATCH: ("missing",)}
        for target in targets:
            if target.given_up:
                answer = self.client.answers.get(target.job_id or "", "never asked")
                assert answer in over[target.kind], f"resubmitted while its job is: {answer}"
