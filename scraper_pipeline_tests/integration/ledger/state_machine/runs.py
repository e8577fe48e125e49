"""The rules of submit runs and settle runs: any number of them, at any point, and dropped wherever they stand."""

from datetime import timedelta
from typing import cast

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from scraper_pipeline.ledger import (
    AcceptedSubmission,
    Channel,
    ClaimedJob,
    ClaimedSubmission,
    Ended,
    GivenUp,
    JobOutcome,
    LetterCode,
    NotYet,
    RefusedSubmission,
    State,
    StoredPage,
)
from scraper_pipeline.lifecycle.verdicts import look_at
from scraper_pipeline.scraper_api import ScraperClient
from scraper_pipeline_tests.integration.ledger.driving import LEASE
from scraper_pipeline_tests.integration.ledger.state_machine.service import Ending
from scraper_pipeline_tests.integration.ledger.state_machine.stage import (
    POLICY,
    SettleRun,
    Stage,
    SubmitRun,
    breaks,
    limits,
    picks,
)

FATES = ("accepted", "accepted", "accepted", "answer lost", "never arrived", "refused", "throttled")
lags = st.sampled_from((0.0, 0.0, 5.0, 100.0))
"""How long the listing lacks a new job: always less than the grace."""


class SubmittingRules(Stage):
    """Claim, POST inside the lease, record what the answers prove."""

    @precondition(lambda self: bool(self.claimable_days()))
    @rule(pick=picks, limit=limits, posts=limits, nth=breaks)
    def claim(self, pick: int, limit: int, posts: int, nth: int) -> None:
        day = self.picked(self.claimable_days(), pick)
        claimed = self.transition(nth, lambda: self.ledger.submissions.claim(day, limit, LEASE))
        if claimed:
            run = SubmitRun(claimed[posts - 1 :])
            for one in claimed[: posts - 1]:
                self.send(run, one, "accepted", 0.0)
            self.submit_runs.append(run)

    @precondition(lambda self: any(run.unsent for run in self.submit_runs))
    @rule(pick=picks, fate=st.sampled_from(FATES), lag=lags)
    def post(self, pick: int, fate: str, lag: float) -> None:
        run = self.picked([run for run in self.submit_runs if run.unsent], pick)
        self.send(run, run.unsent.pop(0), fate, lag)

    def send(self, run: SubmitRun, one: ClaimedSubmission, fate: str, lag: float) -> None:
        if self.clock() >= one.lease_until or fate == "throttled":
            run.unmade.append(one.request_id)
        elif fate == "refused":
            run.refused.append(RefusedSubmission(one.request_id, "INVALID_URL", "No."))
        elif fate != "never arrived":
            job = self.service.accept(one.url, one.request_id, lag)
            if fate == "accepted":
                run.accepted.append(AcceptedSubmission(one.request_id, job.job_id))

    @precondition(lambda self: self.submit_runs)
    @rule(pick=picks, repeats=st.booleans(), nth=breaks)
    def record(self, pick: int, repeats: bool, nth: int) -> None:
        """One of the three transactions in which a run records: it may die between them.

        A run that does not learn of its commit repeats it.
        """
        run, submissions = self.picked(self.submit_runs, pick), self.ledger.submissions
        if run.accepted:
            look_at = self.clock() + timedelta(seconds=2)
            moved = self.transition(nth, lambda: submissions.record_accepted(run.accepted, look_at))
            if moved is not None and not repeats:
                run.accepted = []
        elif run.refused:
            if self.transition(nth, lambda: submissions.record_refused(run.refused)) is not None:
                run.refused = []
        elif run.unmade:
            if self.transition(nth, lambda: submissions.release(run.unmade)) is not None:
                run.unmade = []
        elif not run.unsent:
            self.submit_runs.remove(run)

    @precondition(lambda self: self.submit_runs)
    @rule(pick=picks)
    def kill_submit_run(self, pick: int) -> None:
        self.submit_runs.remove(self.picked(self.submit_runs, pick))

    @precondition(lambda self: bool(self.claimable_days()))
    @rule(pick=picks)
    def submit_at_once(self, pick: int) -> None:
        self.submit(self.picked(self.claimable_days(), pick))

    def submit(self, day: str) -> None:
        """A run to which nothing happens."""
        run = SubmitRun(self.ledger.submissions.claim(day, 3, LEASE))
        for one in run.unsent:
            self.send(run, one, "accepted", 0.0)
        if run.accepted:
            moved = self.ledger.submissions.record_accepted(run.accepted, self.clock())
            assert moved == len(run.accepted)


class SettlingRules(Stage):
    """Claim jobs with news, look at each, commit what was seen."""

    @precondition(lambda self: self.open_days() or self.model.all_rows(State.ACCEPTED))
    @rule(pick=picks, limit=limits, looks=limits, nth=breaks)
    def claim_jobs(self, pick: int, limit: int, looks: int, nth: int) -> None:
        if not self.open_days():
            awaited = self.picked(self.model.all_rows(State.ACCEPTED), pick)
            self.ledger.news.record([awaited.job_id or ""], Channel.SWEEP)
        if not self.open_days():
            return  # somebody holds it
        day = self.picked(self.open_days(), pick)
        claimed = self.transition(nth, lambda: self.ledger.outcomes.claim(day, limit, POLICY.settle_lease))
        if claimed:
            outcomes = [self.seen(job) for job in claimed[: looks - 1]]
            self.settle_runs.append(SettleRun(claimed, claimed[looks - 1 :], outcomes))

    @precondition(lambda self: any(run.unseen for run in self.settle_runs))
    @rule(pick=picks)
    def look(self, pick: int) -> None:
        run = self.picked([run for run in self.settle_runs if run.unseen], pick)
        run.outcomes.append(self.seen(run.unseen.pop(0)))

    def seen(self, job: ClaimedJob) -> JobOutcome:
        client = cast(ScraperClient, self.client)
        outcome = self.loop.run_until_complete(look_at(self.ledger, client, job, POLICY, self.chance))
        self._check_verdict(outcome)
        return outcome

    def _check_verdict(self, outcome: JobOutcome) -> None:
        """Rules 4 and 6: the job's present state decides, and its age or the length of its absence."""
        verdict, job, there = outcome.verdict, outcome.job, self.service.jobs[outcome.job.job_id]
        now = self.clock()
        if there.is_gone:
            absent = now - (job.missing_since or now)
            if absent > timedelta(seconds=POLICY.lost_grace):
                assert isinstance(verdict, GivenUp)
                timeout = timedelta(seconds=POLICY.job_timeout)
                is_old = job.reported_at is not None and now - job.reported_at > timeout
                assert verdict.code is (LetterCode.EXPIRED if is_old else LetterCode.LOST)
            else:
                assert isinstance(verdict, NotYet)
                assert verdict.is_missing
        elif there.ending:
            assert isinstance(verdict, Ended)
            [item] = verdict.items
            assert item.item_key == job.item_key
            if there.is_paid:
                assert isinstance(item.result, StoredPage)
            else:
                assert not isinstance(item.result, StoredPage)
                can_help = there.ending in (Ending.RETRYABLE, Ending.OUT_OF_BALANCE)
                assert (item.result.retryable, item.result.spends_attempt) == (
                    can_help,
                    there.ending is not Ending.OUT_OF_BALANCE,
                )
        elif now - job.accepted_at > timedelta(seconds=POLICY.job_timeout):
            assert isinstance(verdict, GivenUp)
            assert verdict.code is LetterCode.TIMED_OUT
        else:
            assert isinstance(verdict, NotYet)
            assert not verdict.is_missing

    @precondition(lambda self: any(run.outcomes for run in self.settle_runs))
    @rule(pick=picks, nth=breaks)
    def commit(self, pick: int, nth: int) -> None:
        run = self.picked([run for run in self.settle_runs if run.outcomes], pick)
        if self.transition(nth, lambda: self.ledger.outcomes.commit(run.outcomes)) is not None:
            run.outcomes = []
            if not run.unseen:
                self.settle_runs.remove(run)

    @precondition(lambda self: self.settle_runs)
    @rule(pick=picks, gives_back=st.booleans(), nth=breaks)
    def end_settle_run(self, pick: int, gives_back: bool, nth: int) -> None:
        """It is killed, or fails and gives its jobs back."""
        run = self.picked(self.settle_runs, pick)
        if gives_back:
            self.transition(nth, lambda: self.ledger.outcomes.release(run.claimed))
        self.settle_runs.remove(run)

    @precondition(lambda self: bool(self.open_days()))
    @rule(pick=picks)
    def settle_at_once(self, pick: int) -> None:
        self.settle(self.picked(self.open_days(), pick))

    def settle(self, day: str) -> None:
        """A run to which nothing happens."""
        claimed = self.ledger.outcomes.claim(day, 3, POLICY.settle_lease)
        report = self.ledger.outcomes.commit([self.seen(job) for job in claimed])
        assert report.dropped == 0
