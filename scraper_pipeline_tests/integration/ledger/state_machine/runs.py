"""The rules of submit runs and settle runs: any number of them, at any point, and dropped wherever they stand."""

from datetime import timedelta
from typing import cast

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from scraper_pipeline.ledger import (
    AcceptedSubmission,
    Channel,
    ClaimedJob,
    JobOutcome,
    Kind,
    RefusedSubmission,
    State,
    hash_url,
)
from scraper_pipeline.lifecycle.verdicts import look_at
from scraper_pipeline.scraper_api import ScraperClient
from scraper_pipeline_tests.integration.ledger.driving import LEASE
from scraper_pipeline_tests.integration.ledger.state_machine.jobs import MemoryJob
from scraper_pipeline_tests.integration.ledger.state_machine.reading import read_results
from scraper_pipeline_tests.integration.ledger.state_machine.stage import (
    POLICY,
    Request,
    SettleRun,
    Stage,
    SubmitRun,
    breaks,
    limits,
    picks,
)
from scraper_pipeline_tests.integration.ledger.state_machine.verdicts import check_look

KINDS = (Kind.EXTRACT, Kind.BATCH)
FATES = ("accepted", "accepted", "accepted", "answer lost", "never arrived", "refused", "throttled")
lags = st.sampled_from((0.0, 0.0, 5.0, 100.0))
"""How long the listing lacks a new job: always less than the grace."""
invalids = st.sampled_from((0, 1, 2, 0, 4, 7))


class SubmittingRules(Stage):
    """Claim, POST inside the lease, record what the answers prove."""

    @precondition(lambda self: bool(self.claimable_days()))
    @rule(pick=picks, limit=st.sampled_from((1, 2, 3, 0)), posts=limits, nth=breaks)
    def claim(self, pick: int, limit: int, posts: int, nth: int) -> None:
        """Where batches are offered, no single page may be asked for (a limit of 0)."""
        day, submissions = self.picked(self.claimable_days(), pick), self.ledger.submissions
        most = limit if self.terms else max(1, limit)
        claimed = self.transition(nth, lambda: submissions.claim(day, most, LEASE, self.terms))
        if claimed:
            run = SubmitRun.of(claimed)
            for _ in run.unsent[: posts - 1]:
                self.send(run, run.unsent.pop(0), "accepted", 0.0)
            self.submit_runs.append(run)

    @precondition(lambda self: any(run.unsent for run in self.submit_runs))
    @rule(pick=picks, fate=st.sampled_from(FATES), lag=lags, invalid=invalids)
    def post(self, pick: int, fate: str, lag: float, invalid: int) -> None:
        run = self.picked([run for run in self.submit_runs if run.unsent], pick)
        self.send(run, run.unsent.pop(0), fate, lag, invalid)

    def send(self, run: SubmitRun, request: Request, fate: str, lag: float, invalid: int = 0) -> None:
        """Ask for a page or a batch; of a batch, what ``invalid`` has a bit for is left out."""
        one = request[0]
        if self.clock() >= one.lease_until or fate == "throttled":
            run.unmade.append(one.request_id)
        elif one.kind is Kind.BATCH:
            self._send_batch(run, request, fate, lag, invalid)
        elif fate == "refused":
            run.refused.append(RefusedSubmission(one.request_id, "INVALID_URL", "No."))
        elif fate != "never arrived":
            job = self.service.accept(one.url, one.request_id, lag)
            if fate == "accepted":
                run.accepted.append(AcceptedSubmission(one.request_id, job.job_id))

    def _send_batch(self, run: SubmitRun, request: Request, fate: str, lag: float, invalid: int) -> None:
        """One without any valid URL is refused, and so are others as it happens: it says of none what is wrong."""
        request_id, urls = request[0].request_id, [one.url for one in request]
        left_out = [url for place, url in enumerate(urls) if invalid >> place & 1]
        if fate == "refused" or (fate == "accepted" and len(left_out) == len(urls)):
            run.apart.append(request_id)
        elif fate != "never arrived" and len(left_out) < len(urls):
            job = self.service.accept_batch(urls, request_id, lag, left_out)
            if fate == "accepted":
                keys = frozenset(map(hash_url, left_out))
                run.accepted.append(AcceptedSubmission(request_id, job.job_id, Kind.BATCH, keys))

    @precondition(lambda self: self.submit_runs)
    @rule(pick=picks, repeats=st.booleans(), nth=breaks)
    def record(self, pick: int, repeats: bool, nth: int) -> None:
        """One of the four transactions in which a run records: it may die between them.

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
        elif run.apart:
            if self.transition(nth, lambda: submissions.set_apart(run.apart)) is not None:
                run.apart = []
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
        while self.model.claimable(day, self.clock()):
            claimed = self.ledger.submissions.claim(day, 3, LEASE, self.terms)
            run = SubmitRun.of(claimed)
            for request in run.unsent:
                self.send(run, request, "accepted", 0.0)
            moved = self.ledger.submissions.record_accepted(run.accepted, self.clock())
            assert moved == len(claimed)


class SettlingRules(Stage):
    """Claim jobs with news, look at each, commit what was seen."""

    def awaited_jobs(self, *kinds: Kind) -> list[MemoryJob]:
        jobs = [self.service.jobs[row.job_id or ""] for row in self.model.all_rows(State.ACCEPTED)]
        return [job for job in jobs if not kinds or job.kind in kinds]

    @precondition(lambda self: self.open_days() or self.awaited_jobs(Kind.EXTRACT))
    @rule(pick=picks, limit=limits, looks=limits, nth=breaks)
    def claim_jobs(self, pick: int, limit: int, looks: int, nth: int) -> None:
        if not self.open_days():
            self.ledger.news.record(
                [self.picked(self.awaited_jobs(Kind.EXTRACT), pick).job_id], Channel.SWEEP
            )
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
        check_look(outcome, self.service.jobs[job.job_id], POLICY, self.clock())
        return outcome

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

    @precondition(lambda self: bool(self.open_days(KINDS)))
    @rule(pick=picks)
    def settle_at_once(self, pick: int) -> None:
        self.settle(self.picked(self.open_days(KINDS), pick))

    def settle(self, day: str) -> None:
        """A run to which nothing happens."""
        if day in self.open_days():
            claimed = self.ledger.outcomes.claim(day, 3, POLICY.settle_lease)
            report = self.ledger.outcomes.commit([self.seen(job) for job in claimed])
            assert report.dropped == 0
        while day in self.open_days((Kind.BATCH,)):
            [job] = self.ledger.outcomes.claim(day, 1, POLICY.settle_lease, (Kind.BATCH,))
            self.run(read_results(job, POLICY, self.chance))
