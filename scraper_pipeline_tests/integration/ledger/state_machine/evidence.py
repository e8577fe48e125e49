"""What the service has told one actor, and what that allows it to decide (rules 5 and 7)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from scraper_pipeline.ledger import OverdueSubmission, SettledTarget
from scraper_pipeline.scraper_api import JobSummary
from scraper_pipeline_tests.integration.ledger.state_machine.model import Model
from scraper_pipeline_tests.integration.ledger.state_machine.service import MemoryClient, SeenListing


@dataclass
class Evidence:
    """An actor's client, and the overdue rows that it has read."""

    client: MemoryClient
    hard_limit_seconds: float
    grace_seconds: float = 0.0
    overdue: dict[str, OverdueSubmission] = field(default_factory=dict)
    decided: set[str] = field(default_factory=set)

    def read(self, rows: Iterable[OverdueSubmission], grace_seconds: float) -> None:
        self.grace_seconds = grace_seconds
        self.overdue = {row.request_id: row for row in rows}
        self.decided.clear()

    def check_resolution(self, request_id: str, job_id: str, model: Model) -> None:
        """Rule 5: a whole listing decides; of several jobs all must have ended, and a completed one comes first."""
        listing, candidates = self._candidates(self.overdue[request_id], model)
        assert listing.is_whole, "a listing that may lack a line has decided"
        assert len(candidates) < 2 or all(job.is_terminal for job in candidates), (
            "one of several jobs still runs"
        )
        completed = {job.job_id for job in candidates if job.status == "completed"}
        assert job_id in (completed or {job.job_id for job in candidates} or {"none"}), f"not {job_id}"
        self.decided.add(request_id)

    def check_unresolved(self, request_ids: Iterable[str], model: Model, now: datetime) -> None:
        """Only what must wait is given up, and only past the hard limit."""
        for request_id in request_ids:
            row = self.overdue[request_id]
            assert now - row.sent_at > timedelta(seconds=self.hard_limit_seconds), "given up too early"
            self._check_waiting(row, model)
            self.decided.add(request_id)

    def check_all_decided(self, model: Model, now: datetime) -> None:
        """Once a run has come to its end: what it left undecided has to wait, and may."""
        for request_id in self.overdue.keys() - self.decided:
            row = self.overdue[request_id]
            assert now - row.sent_at <= timedelta(seconds=self.hard_limit_seconds), "not given up"
            self._check_waiting(row, model)

    def _check_waiting(self, row: OverdueSubmission, model: Model) -> None:
        listing, candidates = self._candidates(row, model)
        is_unclear = len(candidates) > 1 and not all(job.is_terminal for job in candidates)
        assert is_unclear or not listing.is_whole, f"nothing kept {row.url} from being decided"

    def _candidates(self, row: OverdueSubmission, model: Model) -> tuple[SeenListing, list[JobSummary]]:
        grace_end = row.lease_until + timedelta(seconds=self.grace_seconds)
        listings = [seen for seen in self.client.listings if seen.covers(row.sent_at, grace_end)]
        assert listings, "no listing covers the time in which the job must have been made"
        listing = listings[-1]
        assert listing.asked_at > grace_end, "the listing was asked for before the grace ended"
        return listing, [
            job
            for job in listing.jobs
            if job.url == row.url
            and job.created_at
            and job.created_at >= row.sent_at
            and not model.bound(job.job_id)
        ]

    def check_resubmission(self, targets: Sequence[SettledTarget]) -> None:
        """Rule 7: a job that was given up has been asked first, and neither runs nor has completed."""
        for target in targets:
            if target.given_up:
                answer = self.client.answers.get(target.job_id or "", "never asked")
                assert answer in ("missing", "failed", "cancelled"), f"resubmitted while its job is: {answer}"
