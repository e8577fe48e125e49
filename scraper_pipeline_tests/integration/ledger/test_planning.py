"""Planning a list: what a second reading of it, or an edited one, may change."""

from sqlalchemy import select

from scraper_pipeline.ledger import Ledger, PlanReport
from scraper_pipeline.ledger.schema import submissions
from scraper_pipeline_tests.integration.ledger.driving import (
    DAY,
    NEXT_DAY,
    RETRYABLE,
    HandClock,
    accept,
    attempts,
    finish,
    page,
    plan,
    rows,
    target,
)

A, B, C = (f"https://site.test/{name}" for name in "abc")


def test_the_same_list_again_plans_nothing(ledger: Ledger) -> None:
    targets = [target(A), target(B)]
    assert ledger.submissions.plan(DAY, targets) == PlanReport(planned=2, already_there=0)
    revision = ledger.progress.revision(DAY)
    assert ledger.submissions.plan(DAY, targets) == PlanReport(planned=0, already_there=2)
    assert ledger.progress.revision(DAY) == revision


def test_an_edited_list_adds_targets_and_never_withdraws_one(ledger: Ledger) -> None:
    ledger.submissions.plan(DAY, [target(A), target(B)])
    assert ledger.submissions.plan(DAY, [target(B), target(C)]) == PlanReport(planned=1, already_there=1)
    assert ledger.progress.of(DAY).planned == 3


def test_a_line_that_stands_twice_in_a_list_is_one_target(ledger: Ledger) -> None:
    assert ledger.submissions.plan(DAY, [target(A), target(A)]).planned == 1


def test_a_label_is_kept_and_is_no_part_of_the_identity(ledger: Ledger) -> None:
    ledger.submissions.plan(DAY, [target(A, shop="north")])
    assert ledger.submissions.plan(DAY, [target(A, shop="south")]).planned == 0
    assert rows(ledger, select(submissions))[0].labels == {"shop": "north"}


def test_the_same_target_is_planned_once_for_each_day(ledger: Ledger) -> None:
    plan(ledger, A, day=DAY)
    plan(ledger, A, day=NEXT_DAY)
    assert ledger.progress.of(DAY).planned == ledger.progress.of(NEXT_DAY).planned == 1


def test_a_list_read_again_does_not_plan_what_has_come_to_its_end_or_to_another_attempt(
    ledger: Ledger, clock: HandClock
) -> None:
    done, failed = accept(ledger, A, B)
    finish(ledger, {done: page(), failed: RETRYABLE})
    clock.advance(60)
    assert ledger.submissions.plan(DAY, [target(A), target(B)]).planned == 0
    assert attempts(ledger, A) == ["stored"]
    assert attempts(ledger, B) == ["superseded", "planned"]
