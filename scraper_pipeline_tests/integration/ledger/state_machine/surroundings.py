"""The rules of everybody else: the service, its webhooks, the clock, lists, resolvers, pollers and operators."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from scraper_pipeline.ledger import Channel, Delivery, State, Which
from scraper_pipeline.lifecycle import resubmit_targets
from scraper_pipeline_tests.integration.ledger.driving import GRACE, LEASE
from scraper_pipeline_tests.integration.ledger.state_machine.jobs import Ending, MemoryJob
from scraper_pipeline_tests.integration.ledger.state_machine.rows import Row
from scraper_pipeline_tests.integration.ledger.state_machine.stage import (
    DAYS,
    POLICY,
    A,
    B,
    Stage,
    breaks,
    picks,
)

endings = st.sampled_from((Ending.COMPLETED, *Ending))
spans = st.sampled_from(
    (1.0, 3.0, 15.0, LEASE + 1, POLICY.lost_grace + 1, POLICY.settle_lease + 1, LEASE + GRACE + 1,
     POLICY.job_timeout + 1, 601.0, POLICY.unresolved_after + 1)
)  # fmt: skip

hidings = st.sampled_from((False, False, True))


class ServiceRules(Stage):
    """What the service does of its own accord, and what others do with it."""

    def jobs(self, *, ended: bool | None = None, gone: bool = False) -> list[MemoryJob]:
        return [
            job
            for job in self.service.jobs.values()
            if job.is_gone == gone and ended in (None, job.is_at_rest)
        ]

    @precondition(lambda self: self.jobs(ended=False))
    @rule(pick=picks, ending=endings)
    def end_job(self, pick: int, ending: Ending) -> None:
        self.picked(self.jobs(ended=False), pick).end(ending)

    @precondition(lambda self: any(self.model.bound(job.job_id) for job in self.jobs()))
    @rule(pick=picks)
    def forget_job(self, pick: int) -> None:
        """It answers 404 about a job that it has named before."""
        self.picked([job for job in self.jobs() if self.model.bound(job.job_id)], pick).is_gone = True

    @precondition(lambda self: self.jobs(gone=True))
    @rule(pick=picks)
    def find_job_again(self, pick: int) -> None:
        self.picked(self.jobs(gone=True), pick).is_gone = False

    @precondition(lambda self: sum(job.made_for is None for job in self.service.jobs.values()) < 3)
    @rule(url=st.sampled_from((A, B)))
    def make_foreign_job(self, url: str) -> None:
        """Another program on the same key asks for a page of ours."""
        self.service.accept(url, None, 0.0)

    @rule(span=spans)
    def let_time_pass(self, span: float) -> None:
        self.clock.advance(span)


class NewsRules(Stage):
    """News of any job, early, late, twice or untrue; polls that are interrupted."""

    @precondition(lambda self: self.service.jobs)
    @rule(pick=picks, other=picks, nth=breaks)
    def deliver_webhooks(self, pick: int, other: int, nth: int) -> None:
        jobs = list(self.service.jobs)
        deliveries = [Delivery(self.picked(jobs, one)) for one in (pick, other)]
        self.transition(nth, lambda: self.ledger.inbox.commit(deliveries))

    @precondition(lambda self: self.service.jobs)
    @rule(pick=picks, channel=st.sampled_from((Channel.SWEEP, Channel.DELIVERY_LOG)), nth=breaks)
    def replay(self, pick: int, channel: Channel, nth: int) -> None:
        job_id = self.picked(list(self.service.jobs), pick)
        self.transition(nth, lambda: self.ledger.news.record([job_id], channel))

    @precondition(lambda self: self.model.due_jobs(self.clock()) and len(self.paused) < 3)
    @rule()
    def begin_poll(self) -> None:
        self.go_on_with(self.begin(self.poll))


class OperationRules(Stage):
    """Lists are planned, lost answers resolved, and targets resubmitted on purpose."""

    @precondition(lambda self: len(self.model.rows) < len(self.targets) * len(DAYS))
    @rule(day=st.sampled_from(DAYS), mask=st.integers(1, 31), nth=breaks)
    def plan(self, day: str, mask: int, nth: int) -> None:
        listed = [one for place, one in enumerate(self.targets) if mask >> place & 1] or [*self.targets]
        self.transition(nth, lambda: self.ledger.submissions.plan(day, listed))

    def overdue(self) -> list[Row]:
        return self.model.overdue(POLICY.send_grace, self.clock())

    @precondition(lambda self: self.overdue() and len(self.paused) < 3)
    @rule(hides_lines=hidings)
    def begin_resolution(self, hides_lines: bool) -> None:
        self.service.hides_lines = hides_lines
        self.go_on_with(self.begin(self.resolution))

    @precondition(lambda self: bool(self.overdue()))
    @rule(hides_lines=hidings)
    def resolve(self, hides_lines: bool) -> None:
        """A resolution to which nothing happens."""
        self.service.hides_lines = hides_lines
        self.run(self.resolution)

    def days_with(self, *states: State) -> list[str]:
        return sorted({row.partition_key for row in self.model.all_rows(*states)})

    @precondition(lambda self: self.days_with(State.DEAD))
    @rule(pick=picks, limit=st.integers(1, 3))
    def begin_resubmission(self, pick: int, limit: int) -> None:
        self._begin_resubmission(self.picked(self.days_with(State.DEAD), pick), "failed", limit)

    @precondition(lambda self: self.days_with(State.STORED))
    @rule(pick=picks)
    def begin_resubmission_of_all(self, pick: int) -> None:
        self._begin_resubmission(self.picked(self.days_with(State.STORED), pick), "all", 1)

    def _begin_resubmission(self, day: str, which: Which, limit: int) -> None:
        self.go_on_with(
            self.begin(lambda ledger, client: resubmit_targets(ledger, client, day, which, limit))
        )

    @precondition(lambda self: self.days_with(State.DEAD))
    @rule(pick=picks, nth=breaks)
    def resubmit_one(self, pick: int, nth: int) -> None:
        """The last step of a resubmission by itself, so that it can be broken off."""
        day = self.picked(self.days_with(State.DEAD), pick)
        read = self.ledger.resubmissions.settled_targets(day, "failed")
        free = [target for target in read if not target.given_up]
        if free:
            target = self.picked(free, pick)
            self.transition(nth, lambda: self.ledger.resubmissions.resubmit([target]))
