"""The rules of batches: items that end each in its own way, readings of their results, and batches of others."""

from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from scraper_pipeline.ledger import Channel, Kind
from scraper_pipeline_tests.integration.ledger.driving import GRACE, LEASE, NEXT_DAY
from scraper_pipeline_tests.integration.ledger.state_machine.jobs import BatchEnd, Ending, MemoryBatch
from scraper_pipeline_tests.integration.ledger.state_machine.reading import read_results
from scraper_pipeline_tests.integration.ledger.state_machine.runs import (
    SettlingRules,
    SubmittingRules,
    invalids,
)
from scraper_pipeline_tests.integration.ledger.state_machine.stage import (
    POLICY,
    TARGETS,
    TERMS,
    A,
    B,
    C,
    SubmitRun,
    breaks,
    picks,
)

BATCH = (Kind.BATCH,)
OTHER = "https://site.test/other"
ends = st.builds(
    BatchEnd,
    endings=st.tuples(*[st.sampled_from((Ending.COMPLETED, Ending.COMPLETED, *Ending, None))] * 3),
    status=st.sampled_from(("completed", "failed", "cancelled")),
    missing=st.sampled_from((0, 0, 0, 1, 2, 4)),
    counts_missing=st.booleans(),
    spoiled=st.sampled_from(((), (), ("empty",), ("fails",))),
)
pages_at_once = st.integers(1, 3)
steps_of_reading = st.sampled_from((1, 2, 0, 3))
readers = st.sampled_from(("overtaken", "paused", "killed"))


class BatchRules(SubmittingRules, SettlingRules):
    """What happens to batches alone; whatever may happen to any job is told elsewhere."""

    def batches(self, *, ended: bool | None = None) -> list[MemoryBatch]:
        return [
            job
            for job in self.service.jobs.values()
            if isinstance(job, MemoryBatch) and ended in (None, job.is_at_rest)
        ]

    def send_batch(self, day: str, fate: str, invalid: int) -> None:
        """A run sends a batch, if the day makes one, and records what it is told."""
        run = SubmitRun.of(self.ledger.submissions.claim(day, 0, LEASE, TERMS))
        for request in run.unsent:
            self.send(run, request, fate, 0.0, invalid)
        self.ledger.submissions.record_accepted(run.accepted, self.clock())
        self.ledger.submissions.set_apart(run.apart)

    @precondition(lambda self: self.terms)
    @rule(
        fate=st.sampled_from(("answer lost", "answer lost", "accepted", "never arrived", "refused")),
        invalid=invalids,
        others=st.sampled_from(((), (), (A, B), (A, B, C), (C,), (A, OTHER))),
        end=ends,
        span=st.sampled_from((0.0, LEASE + GRACE + 1, LEASE + GRACE + 1, POLICY.unresolved_after + 1)),
    )
    def send_and_end_batch(
        self, fate: str, invalid: int, others: tuple[str, ...], end: BatchEnd, span: float
    ) -> None:
        """Another program may ask for pages of ours at the same time, and its batch ends in the same way."""
        self.ledger.submissions.plan(NEXT_DAY, TARGETS)
        day = self.picked(self.claimable_days() or [NEXT_DAY], invalid)
        self.send_batch(day, fate, invalid)
        if others:
            self.service.accept_batch(others, None, 0.0)
        for batch in self.batches(ended=False)[-2:]:
            batch.end_as(end)
        self.clock.advance(span)

    @precondition(lambda self: self.batches())
    @rule(pick=picks, end=ends)
    def end_batch(self, pick: int, end: BatchEnd) -> None:
        """What has ended stays as it is, but for pages that are spoiled once more."""
        self.picked(self.batches(), pick).end_as(end)

    @precondition(lambda self: self.terms and sum(batch.made_for is None for batch in self.batches()) < 2)
    @rule(urls=st.sampled_from(((A, B), (A, B, C), (C,), (B, OTHER))))
    def make_foreign_batch(self, urls: tuple[str, ...]) -> None:
        """Another program on the same key asks for pages of ours, or for some of them and others."""
        self.service.accept_batch(urls, None, 0.0)

    @precondition(lambda self: self.batches(ended=True) and not self.paused)
    @rule(pick=picks)
    def show_in_another_order(self, pick: int) -> None:
        """Between two readings: within one, nothing could be told of what is missing."""
        batch = self.picked(self.batches(ended=True), pick)
        batch.items.append(batch.items.pop(0))

    @precondition(lambda self: self.open_days(BATCH) and len(self.paused) < 3)
    @rule(pick=picks, at_once=pages_at_once, nth=breaks)
    def begin_reading(self, pick: int, at_once: int, nth: int) -> None:
        day = self.picked(self.open_days(BATCH), pick)
        claimed = self.transition(nth, lambda: self.ledger.outcomes.claim(day, 1, POLICY.settle_lease, BATCH))
        for job in claimed or ():
            policy = replace(POLICY, pages_at_once=at_once)
            self.go_on_with(self.begin(read_results(job, policy, self.chance)))

    @precondition(lambda self: self.open_days(BATCH))
    @rule(pick=picks, runs=st.integers(1, 6))
    def claim_in_vain(self, pick: int, runs: int) -> None:
        """One run after another dies before it reads anything."""
        day = self.picked(self.open_days(BATCH), pick)
        for _ in range(runs):
            self.ledger.outcomes.claim(day, 1, POLICY.settle_lease, BATCH)
            self.clock.advance(POLICY.settle_lease + 1)

    @precondition(lambda self: self.awaited_jobs(Kind.BATCH) and len(self.paused) < 3)
    @rule(pick=picks, end=ends, at_once=pages_at_once, steps=steps_of_reading, reader=readers)
    def end_and_read(self, pick: int, end: BatchEnd, at_once: int, steps: int, reader: str) -> None:
        """A run reads what has ended up to some page; it stands there, or is dead, or another one begins meanwhile."""
        batch = self.picked(self.awaited_jobs(Kind.BATCH), pick)
        assert isinstance(batch, MemoryBatch)
        batch.end_as(end)
        self.ledger.news.record([batch.job_id], Channel.SWEEP)
        if not self.open_days(BATCH):
            return  # somebody holds it
        before = len(self.paused)
        self.begin_reading(0, at_once, 0)
        for _ in range(steps):
            if len(self.paused) > before:
                self.go_on_with(self.paused[-1])
        if len(self.paused) == before or reader == "paused":
            return
        first = self.paused[-1]
        if reader == "killed":
            self.paused.remove(first)
            first.drop()
        self.clock.advance(POLICY.settle_lease + 1)
        if reader == "overtaken":
            self.begin_reading(0, at_once, 0)
            self.go_on_with(first)
