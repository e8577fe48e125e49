"""Rules that take several steps at once, to where chance alone seldom comes: lost answers, jobs given up, dead rows."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from scraper_pipeline.ledger import Channel, Kind
from scraper_pipeline_tests.integration.ledger.driving import GRACE, LEASE
from scraper_pipeline_tests.integration.ledger.state_machine.jobs import Ending, MemoryJob
from scraper_pipeline_tests.integration.ledger.state_machine.runs import SettlingRules, SubmittingRules
from scraper_pipeline_tests.integration.ledger.state_machine.stage import (
    POLICY,
    A,
    B,
    SettleRun,
    SubmitRun,
    picks,
)


class Shortcuts(SubmittingRules, SettlingRules):
    """Each is a sequence of steps that other rules take, too."""

    @precondition(lambda self: bool(self.claimable_days()))
    @rule(
        pick=picks,
        fate=st.sampled_from(("answer lost", "never arrived", "accepted")),
        others=st.sampled_from(("none", "none", "before", "after")),
        span=st.sampled_from((LEASE + GRACE + 1, LEASE + GRACE + 1, POLICY.unresolved_after + 1)),
    )
    def lose_answer(self, pick: int, fate: str, others: str, span: float) -> None:
        """Where it was accepted, the run still has the answer; another program may ask for the same page."""
        day = self.picked(self.claimable_days(), pick)
        if others == "before":
            self.service.accept(self.picked((A, B), pick), None, 0.0)
            self.clock.advance(2)
        run = SubmitRun.of(self.ledger.submissions.claim(day, 1, LEASE))
        [request] = run.unsent
        self.send(run, run.unsent.pop(), fate, 0.0)
        if others == "after":
            self.service.accept(request[0].url, None, 0.0)
        if run.accepted:
            self.submit_runs.append(run)
        self.clock.advance(span)

    @precondition(lambda self: bool(self.awaited_jobs()))
    @rule(pick=picks, is_lost=st.booleans())
    def give_job_up(self, pick: int, is_lost: bool) -> None:
        job = self.picked(self.awaited_jobs(), pick)
        job.is_gone = job.is_gone or is_lost
        if not is_lost:
            self.clock.advance(POLICY.job_timeout + 1)
        self.settle_now(job)
        if is_lost:
            self.clock.advance(POLICY.lost_grace + POLICY.longest_look + 1)
            self.settle_now(job)

    @precondition(lambda self: bool(self.awaited_jobs()))
    @rule(pick=picks, ending=st.sampled_from(Ending))
    def end_and_settle(self, pick: int, ending: Ending) -> None:
        job = self.picked(self.awaited_jobs(), pick)
        job.end(ending)
        self.settle_now(job)

    @precondition(lambda self: any(row.is_given_up for row in self.model.newest()))
    @rule(pick=picks, ending=st.sampled_from((Ending.COMPLETED, Ending.FINAL)))
    def end_after_all(self, pick: int, ending: Ending) -> None:
        """A job that was given up is there again, and has ended."""
        row = self.picked([row for row in self.model.newest() if row.is_given_up], pick)
        job = self.service.jobs[row.job_id or ""]
        job.is_gone = False
        job.end(ending)

    @precondition(lambda self: bool(self.awaited_jobs(Kind.EXTRACT)))
    @rule(pick=picks, first_commits=st.booleans())
    def overtake_settlement(self, pick: int, first_commits: bool) -> None:
        """A second run claims what the first has looked at for too long; both are under way from then on."""
        job = self.picked(self.awaited_jobs(Kind.EXTRACT), pick)
        day = self.model.jobs[job.job_id].partition_key
        self.ledger.news.record([job.job_id], Channel.SWEEP)
        slow = self.ledger.outcomes.claim(day, 3, POLICY.settle_lease)
        outcomes = [self.seen(one) for one in slow]
        self.clock.advance(POLICY.settle_lease + 1)
        quick = self.ledger.outcomes.claim(day, 3, POLICY.settle_lease)
        self.settle_runs.append(SettleRun(quick, list(quick)))
        if first_commits:
            self.ledger.outcomes.commit(outcomes)
        else:
            self.settle_runs.append(SettleRun(slow, [], outcomes))

    def settle_now(self, job: MemoryJob) -> None:
        self.ledger.news.record([job.job_id], Channel.SWEEP)
        self.settle(self.model.jobs[job.job_id].partition_key)
