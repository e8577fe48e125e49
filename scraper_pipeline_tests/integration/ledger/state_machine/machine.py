"""The whole machine: every actor's rules, what must hold after each of them, and the fair end of each example."""

import sys

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from scraper_pipeline.ledger import State
from scraper_pipeline_tests.integration.ledger.driving import DAY
from scraper_pipeline_tests.integration.ledger.state_machine.batching import (
    BatchRules,
    ends,
    readers,
    steps_of_reading,
)
from scraper_pipeline_tests.integration.ledger.state_machine.comparison import assert_same, violations
from scraper_pipeline_tests.integration.ledger.state_machine.jobs import BatchEnd, Ending
from scraper_pipeline_tests.integration.ledger.state_machine.rows import Row
from scraper_pipeline_tests.integration.ledger.state_machine.runs import invalids
from scraper_pipeline_tests.integration.ledger.state_machine.shortcuts import Shortcuts
from scraper_pipeline_tests.integration.ledger.state_machine.stage import (
    DAYS,
    POLICY,
    TARGETS,
    TERMS,
    breaks,
    picks,
)
from scraper_pipeline_tests.integration.ledger.state_machine.surroundings import (
    NewsRules,
    OperationRules,
    ServiceRules,
)

FIRST_FATES = (*["accepted"] * 3, "answer lost", "answer lost", "refused", "never arrived", "unsent")
FAIR_ROUNDS = 40
ROUND_SECONDS = POLICY.send_lease + POLICY.send_grace + 20.0


class LedgerMachine(Shortcuts, BatchRules, ServiceRules, NewsRules, OperationRules):
    """Everything that may happen to a ledger, in any order."""

    @initialize(
        first=st.sampled_from((3, 1, 2)),
        in_batches=st.sampled_from((True, False, True)),
        fate=st.sampled_from(FIRST_FATES),
        invalid=invalids,
        end=ends,
        is_read=st.sampled_from((True, True, False)),
        steps=steps_of_reading,
        reader=readers,
    )
    def plan_first_list(
        self,
        first: int,
        in_batches: bool,
        fate: str,
        invalid: int,
        end: BatchEnd,
        is_read: bool,
        steps: int,
        reader: str,
    ) -> None:
        """Batches are offered to all runs of an example, or to none; one may be under way, or half read."""
        if in_batches:
            self.targets, self.terms = TARGETS, TERMS
        self.ledger.submissions.plan(DAY, self.targets[: first + 2 * in_batches])
        if in_batches and fate != "unsent":
            self.send_batch(DAY, fate, invalid)
        if is_read and self.awaited_jobs():
            self.end_and_read(0, end, 1, steps, reader)

    @precondition(lambda self: self.paused)
    @rule(pick=picks, nth=breaks)
    def go_on(self, pick: int, nth: int) -> None:
        self.go_on_with(self.picked(self.paused, pick), nth)

    @precondition(lambda self: self.paused)
    @rule(pick=picks)
    def kill_paused(self, pick: int) -> None:
        actor = self.picked(self.paused, pick)
        self.paused.remove(actor)
        actor.drop()

    _audited: object = None

    @invariant()
    def the_ledger_is_what_the_rules_make_it(self) -> None:
        assert_same(self.base, self.model)
        present = (self.model.contents(), repr(self.service.jobs))
        if present != self._audited:  # the same ledger and the same books have the same audit
            assert violations(self.base, self.model, self.service, at_rest=False) == []
            self._audited = present
        self.clock.advance(0.001)  # no two steps are at the same time

    def teardown(self) -> None:
        failing = sys.exception() is not None
        for actor in self.paused:
            actor.drop()
        if not failing:
            self.come_to_an_end()

    def come_to_an_end(self) -> None:
        """Fair steps alone bring every target to its end: no fault, no operator, no other program, no webhook."""
        for _ in range(FAIR_ROUNDS):
            self.clock.advance(ROUND_SECONDS)
            self.run(self.resolution)
            for day in DAYS:
                self.submit(day)
            for job in self.jobs(ended=False):
                job.end(Ending.COMPLETED)
            for batch in self.batches():
                batch.spoiled.clear()
            self.clock.advance(POLICY.longest_look)
            self.run(self.poll)
            for day in DAYS:
                self.settle(day)
            assert_same(self.base, self.model)
            if self.is_at_rest:
                break
        unsettled = [f"{row.url} of {row.partition_key}: {row.state}" for row in self.model.newest()]
        assert self.is_at_rest, f"no end after {FAIR_ROUNDS} rounds: {unsettled}"
        assert violations(self.base, self.model, self.service, at_rest=True) == []

    @property
    def is_at_rest(self) -> bool:
        return all(map(self._is_settled, self.model.newest())) and not any(
            job_id in self.model.jobs and not (news.processed or news.given_up)
            for job_id, news in self.model.news.items()
        )

    def _is_settled(self, row: Row) -> bool:
        """Stored, or dead with nothing to be had any more."""
        job = self.service.jobs.get(row.job_id or "")
        can_be_had = row.is_given_up and job is not None and not job.is_gone
        return row.state is State.STORED or (row.state is State.DEAD and not can_be_had)
