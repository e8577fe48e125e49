"""The audit finds each broken invariant, names the target, and says nothing of what is sound."""

from dataclasses import dataclass

import pytest

from scraper_pipeline.ledger import GivenUp, Ledger, LetterCode, ServiceJob
from scraper_pipeline_tests.integration.ledger.driving import (
    DAY,
    NEXT_DAY,
    OUT_OF_BALANCE,
    PERMANENT,
    RETRYABLE,
    HandClock,
    accept,
    accept_planned,
    claim,
    execute,
    finish,
    page,
    plan,
    target,
)

STORED, DEAD, RETRIED, WAITING, SENDING, PLANNED, LOST = (
    f"https://site.test/{name}"
    for name in ("stored", "dead", "retried", "waiting", "sending", "planned", "lost")
)


def populate(ledger: Ledger, clock: HandClock) -> None:
    """A day with a target in every state."""
    accept(ledger, STORED, DEAD, RETRIED, WAITING, LOST, prefix="")
    finish(ledger, {STORED: page(), DEAD: PERMANENT, RETRIED: RETRYABLE})
    finish(ledger, {LOST: GivenUp(LetterCode.LOST, "Gone.")})
    clock.advance(60)
    [again] = accept_planned(ledger, prefix="")
    finish(ledger, {again: page()})
    plan(ledger, SENDING)
    claim(ledger)
    plan(ledger, PLANNED)


@dataclass(frozen=True)
class Damage:
    """A change of one row behind the store's back, and the rules that it breaks for a target."""

    statement: str
    broken: dict[str, str]
    first: str = ""


DAMAGES = {
    "a stored row without its result": Damage(
        "DELETE FROM results WHERE url = :stored", {"stored_has_result": STORED}
    ),
    "a result that no row accounts for": Damage(
        "UPDATE results SET job_id = 'nobody' WHERE url = :stored",
        {"stored_has_result": STORED, "result_has_row": STORED},
    ),
    "a result of a row that still waits": Damage(
        "UPDATE submissions SET state = 'accepted' WHERE url = :stored",
        {"result_has_row": STORED, "stamped_is_settled": STORED},
    ),
    "a dead row without its letter": Damage(
        "DELETE FROM dead_letters WHERE url = :dead", {"dead_has_letter": DEAD}
    ),
    "a dead row whose letter is resolved": Damage(
        "UPDATE dead_letters SET resolved_at = parked_at WHERE url = :dead", {"dead_has_letter": DEAD}
    ),
    "an open letter of a stored row": Damage(
        "UPDATE submissions SET state = 'stored', job_id = 'x', item_key = 'x' WHERE url = :dead",
        {"letter_has_dead": DEAD, "stored_has_result": DEAD},
    ),
    "a row that waits for a stamped job": Damage(
        "UPDATE processed_events SET processed_at = received_at WHERE job_id = :lost",
        {"stamped_is_settled": LOST},
    ),
    "a row that waits for an unknown job": Damage(
        "DELETE FROM jobs WHERE job_id = :waiting", {"accepted_is_known": WAITING}
    ),
    "a target without a live row": Damage(
        "UPDATE submissions SET state = 'superseded' WHERE url = :waiting", {"one_state": WAITING}
    ),
    "a target whose live row is not its newest": Damage(
        "UPDATE submissions SET attempt = 7 WHERE url = :retried AND state = 'superseded'",
        {"one_state": RETRIED},
    ),
    "a target with two live rows": Damage(
        "UPDATE submissions SET state = 'planned' WHERE url = :retried AND state = 'superseded'",
        {"one_state": RETRIED},
        first="DROP INDEX uq_submissions_live",
    ),
    "a URL that is sent twice": Damage(
        "UPDATE submissions SET state = 'sending', request_id = 'r', url_hash = "
        "(SELECT url_hash FROM submissions WHERE url = :sending) WHERE url = :planned",
        {"one_sending_per_url": f"{PLANNED} {SENDING}"},
        first="DROP INDEX uq_submissions_sending_url",
    ),
    "a job that two requests are bound to": Damage(
        "UPDATE submissions SET job_id = :lost, item_key = 'x' WHERE url = :waiting",
        {"one_request_per_job": f"{LOST} {WAITING}"},
    ),
}


def _target_ids(urls: str) -> set[str]:
    return {target(url).target_id for url in urls.split()}


def test_a_sound_ledger_has_no_violations(ledger: Ledger, clock: HandClock) -> None:
    populate(ledger, clock)
    assert ledger.audit.check() == []
    assert ledger.audit.check(DAY) == []
    assert ledger.audit.check_stored_once(DAY) == []
    assert ledger.audit.check_complete(DAY) == []


@pytest.fixture(params=sorted(DAMAGES))
def damage(request: pytest.FixtureRequest) -> Damage:
    return DAMAGES[request.param]


def test_each_damage_is_found_and_nothing_else(damage: Damage, fresh_url: str, clock: HandClock) -> None:
    with Ledger.open(fresh_url, clock=clock) as ledger:
        populate(ledger, clock)
        if damage.first:
            execute(ledger, damage.first)
        parameters = {
            "stored": STORED, "dead": DEAD, "retried": RETRIED, "waiting": WAITING,
            "sending": SENDING, "planned": PLANNED, "lost": LOST,
        }  # fmt: skip
        used = {name: url for name, url in parameters.items() if f":{name}" in damage.statement}
        assert execute(ledger, damage.statement, **used) == 1
        found: dict[str, set[str | None]] = {}
        for violation in ledger.audit.check():
            found.setdefault(violation.rule, set()).add(violation.target_id)
            assert violation.partition_key == DAY
            assert violation.detail
        assert found == {rule: _target_ids(urls) for rule, urls in damage.broken.items()}
        assert ledger.audit.check(NEXT_DAY) == [], "another day is not to blame"


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
