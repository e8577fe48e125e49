"""The audit finds each broken invariant, names the target, and says nothing of what is sound."""

import pytest

from scraper_pipeline.ledger import Ledger, ServiceJob
from scraper_pipeline_tests.integration.ledger.damages import (
    DEAD,
    LOST,
    RETRIED,
    STORED,
    WAITING,
    Damage,
    populate,
)
from scraper_pipeline_tests.integration.ledger.driving import (
    DAY,
    NEXT_DAY,
    OUT_OF_BALANCE,
    HandClock,
    accept,
    accept_planned,
    execute,
    finish,
    page,
    target,
)


def _target_ids(urls: str) -> set[str]:
    return {target(url).target_id for url in urls.split()}


def test_a_sound_ledger_has_no_violations(ledger: Ledger, clock: HandClock) -> None:
    populate(ledger, clock)
    assert ledger.audit.check() == []
    assert ledger.audit.check(DAY) == []
    assert ledger.audit.check_stored_once(DAY) == []
    assert ledger.audit.check_complete(DAY) == []


def test_each_damage_is_found_and_nothing_else(damage: Damage, damaged_ledger: Ledger) -> None:
    found: dict[str, set[str | None]] = {}
    for violation in damaged_ledger.audit.check():
        found.setdefault(violation.rule, set()).add(violation.target_id)
        assert violation.partition_key == DAY
        assert violation.detail
    assert found == {rule: _target_ids(urls) for rule, urls in damage.broken.items()}
    assert damaged_ledger.audit.check(NEXT_DAY) == [], "another day is not to blame"


def test_the_checks_of_a_day_find_what_belongs_to_them(ledger: Ledger, clock: HandClock) -> None:
    populate(ledger, clock)
    execute(ledger, "UPDATE results SET job_id = 'nobody' WHERE url = :url", url=STORED)
    assert {one.rule for one in ledger.audit.check_stored_once(DAY)} == {"result_has_row"}
    assert {one.rule for one in ledger.audit.check_complete(DAY)} == {"stored_has_result"}
    assert ledger.audit.check_stored_once(NEXT_DAY) == ledger.audit.check_complete(NEXT_DAY) == []


def _books(**changes: tuple[str, str, int]) -> list[ServiceJob]:
    """The service's books for the populated ledger, with some jobs told otherwise or added."""
    jobs = {
        "stored": (STORED, "completed", 1),
        "dead": (DEAD, "failed", 0),
        "retried": (RETRIED, "failed", 0),
        "again": (RETRIED, "completed", 1),
        "waiting": (WAITING, "processing", 0),
        "lost": (LOST, "processing", 0),
    }
    ids = {"again": f"{RETRIED} #2"} | {name: url for name, (url, _, _) in jobs.items() if name != "again"}
    return [
        ServiceJob(ids.get(name, name), url, status, charged)
        for name, (url, status, charged) in (jobs | changes).items()
    ]


def test_books_that_agree_show_no_violations(ledger: Ledger, clock: HandClock) -> None:
    populate(ledger, clock)
    assert ledger.audit.check_against(_books()) == []


def test_a_page_of_another_program_is_not_our_matter(ledger: Ledger, clock: HandClock) -> None:
    populate(ledger, clock)
    foreign = ("https://elsewhere.test/", "completed", 1)
    assert ledger.audit.check_against(_books(foreign=foreign)) == []


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        pytest.param(
            {"twice": (STORED, "completed", 1)},
            {("paid_is_stored", None), ("paid_once", STORED)},
            id="paid twice, the second job unbound",
        ),
        pytest.param(
            {"waiting": (WAITING, "completed", 1)},
            {("paid_is_stored", WAITING)},
            id="paid and not stored yet",
        ),
        pytest.param(
            {"retried": (RETRIED, "completed", 1)},
            {("paid_is_stored", RETRIED), ("paid_once", RETRIED)},
            id="paid, and yet tried again",
        ),
        pytest.param({"dead": (DEAD, "completed", 1)}, {("paid_is_stored", DEAD)}, id="paid, and yet parked"),
        pytest.param(
            {"stored": (STORED, "failed", 0)},
            {("stored_is_completed", STORED)},
            id="stored, and yet the job failed",
        ),
    ],
)
def test_what_the_services_books_contradict_is_found(
    ledger: Ledger,
    clock: HandClock,
    changes: dict[str, tuple[str, str, int]],
    broken: set[tuple[str, str | None]],
) -> None:
    populate(ledger, clock)
    found = {(one.rule, one.target_id) for one in ledger.audit.check_against(_books(**changes))}
    assert found == {(rule, url and target(url).target_id) for rule, url in broken}


def test_a_page_of_a_job_that_the_service_does_not_know_is_found(ledger: Ledger, clock: HandClock) -> None:
    populate(ledger, clock)
    books = [job for job in _books() if job.job_id != STORED]
    assert [one.rule for one in ledger.audit.check_against(books)] == ["stored_is_completed"]


def test_the_same_url_on_two_days_may_be_paid_twice(ledger: Ledger) -> None:
    for day in (DAY, NEXT_DAY):
        [job] = accept(ledger, STORED, day=day, prefix=day)
        finish(ledger, {job: page()}, day)
    books = [ServiceJob(f"{day}{STORED}", STORED, "completed", 1) for day in (DAY, NEXT_DAY)]
    assert ledger.audit.check_against(books) == []
    third = ServiceJob("third", STORED, "completed", 1)
    assert {one.rule for one in ledger.audit.check_against([*books, third])} == {
        "paid_once",
        "paid_is_stored",
    }


def test_a_page_paid_by_a_job_that_said_the_balance_was_used_up_is_found(
    ledger: Ledger, clock: HandClock
) -> None:
    [first] = accept(ledger, STORED, prefix="")
    finish(ledger, {first: OUT_OF_BALANCE})
    clock.advance(600)
    [second] = accept_planned(ledger, prefix="")
    finish(ledger, {second: page()})
    books = [ServiceJob(first, STORED, "completed", 1), ServiceJob(second, STORED, "completed", 1)]
    assert [one.rule for one in ledger.audit.check_against(books)] == ["paid_is_stored"]
