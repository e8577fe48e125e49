"""Rules 4 and 6 on the model: what the commit of some outcomes must change."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from scraper_pipeline.ledger import (
    CommitReport,
    Ended,
    Failure,
    GivenUp,
    JobOutcome,
    NotYet,
    Part,
    ResubmissionPolicy,
    StoredPage,
)
from scraper_pipeline_tests.integration.ledger.state_machine.model import Model
from scraper_pipeline_tests.integration.ledger.state_machine.rows import (
    ACCEPTED,
    DEAD,
    STORED,
    Letter,
    Row,
)

WATCH_INTERVAL = ACCOUNT_WAIT = timedelta(minutes=10)
MISSING = Failure("missing_item", "", retryable=True)
INVALID = Failure("INVALID_URL", "", retryable=False)


@dataclass
class Commit:
    """One commit under way: it changes the model, and counts what the report must say."""

    model: Model
    policy: ResubmissionPolicy
    now: datetime
    report: CommitReport

    def count(self, **changes: int) -> None:
        self.report += CommitReport(**changes)

    def settle(self, outcome: JobOutcome) -> None:
        if not self.model.is_held(outcome.job):
            self.count(dropped=1)
        elif isinstance(outcome.verdict, NotYet):
            self._postpone(outcome, outcome.verdict)
        elif isinstance(outcome.verdict, GivenUp):
            self._give_up(outcome, outcome.verdict)
        elif isinstance(outcome.verdict, Part):
            self._advance(outcome, outcome.verdict)
        else:
            assert isinstance(outcome.verdict, Ended)
            self._end(outcome, outcome.verdict)

    def _postpone(self, outcome: JobOutcome, verdict: NotYet) -> None:
        news, job = self.model.news[outcome.job.job_id], self.model.jobs[outcome.job.job_id]
        news.claimed_by, news.available_at = None, verdict.look_again_at
        job.missing_since = (outcome.job.missing_since or self.now) if verdict.is_missing else None
        self.count(postponed=1)

    def _give_up(self, outcome: JobOutcome, verdict: GivenUp) -> None:
        for row in self.model.bound(outcome.job.job_id):
            if row.state is ACCEPTED:
                row.state, row.given_up = DEAD, True
                self.model.letters.append(Letter(row.key, verdict.code))
                self.count(given_up=1)
        news = self.model.news[outcome.job.job_id]
        news.claimed_by, news.given_up = None, True
        self.model.jobs[outcome.job.job_id].next_look_at = self.now + WATCH_INTERVAL

    def _advance(self, outcome: JobOutcome, verdict: Part) -> None:
        """Rows without an item wait for the pages to come, and the claim is kept for these."""
        items = {item.item_key: item.result for item in verdict.items}
        for row in self.model.bound(outcome.job.job_id):
            if row.item_key in items:
                self._end_row(row, items[row.item_key])
        self.model.jobs[outcome.job.job_id].pages_read = verdict.pages_read
        lease = timedelta(seconds=verdict.lease_seconds)
        self.model.news[outcome.job.job_id].available_at = self.now + lease

    def _end(self, outcome: JobOutcome, verdict: Ended) -> None:
        job_id, items = outcome.job.job_id, {item.item_key: item.result for item in verdict.items}
        for row in self.model.bound(job_id):
            left_out = INVALID if row.item_key in verdict.invalid else MISSING
            self._end_row(row, items.get(row.item_key or "", left_out))
        job = self.model.jobs[job_id]
        job.next_look_at = job.missing_since = None
        if not any(row.is_waiting for row in self.model.bound(job_id)):
            news = self.model.news[job_id]
            news.processed, news.claimed_by = True, None
            self.count(processed=1)

    def _end_row(self, row: Row, result: StoredPage | Failure) -> None:
        is_open = row.state is ACCEPTED
        if isinstance(result, StoredPage):
            key = (row.job_id or "", row.item_key or "")
            self.model.results.setdefault(key, (*row.key, row.attempt))
            if is_open or row.is_given_up:
                self.model.resolve_letter(row, "stored")
                row.state, row.given_up = STORED, False
                self.count(stored=1, empty=int(result.is_empty))
        elif is_open:
            self._fail(row, result)
        elif row.is_given_up:
            row.given_up = False
            letter = self.model.open_letter(row)
            assert letter
            letter.code = result.code

    def _fail(self, row: Row, failure: Failure) -> None:
        tried = row.attempt - row.first_attempt + 1
        if not failure.spends_attempt:
            self.model.supersede(row, row.first_attempt + 1, self.now + ACCOUNT_WAIT)
            self.count(resubmitted=1)
        elif failure.retryable and tried < self.policy.max_attempts:
            self.model.supersede(row, row.first_attempt, self.now + self.policy.delay_after(tried))
            self.count(resubmitted=1)
        else:
            row.state = DEAD
            self.model.letters.append(Letter(row.key, failure.code))
            self.count(dead=1)


def commit(
    model: Model, policy: ResubmissionPolicy, outcomes: Sequence[JobOutcome], now: datetime
) -> CommitReport:
    """Commit these outcomes to the model; returns what the ledger must report."""
    under_way = Commit(model, policy, now, CommitReport())
    for outcome in outcomes:
        under_way.settle(outcome)
    return under_way.report
