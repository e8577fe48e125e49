"""A day with a target in every state, and each way to damage it that the audit must find."""

from dataclasses import dataclass

from scraper_pipeline.ledger import GivenUp, Ledger, LetterCode
from scraper_pipeline_tests.integration.ledger.driving import (
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
)

STORED, DEAD, RETRIED, WAITING, SENDING, PLANNED, LOST = (
    f"https://site.test/{name}"
    for name in ("stored", "dead", "retried", "waiting", "sending", "planned", "lost")
)

URLS = {
    "stored": STORED, "dead": DEAD, "retried": RETRIED, "waiting": WAITING,
    "sending": SENDING, "planned": PLANNED, "lost": LOST,
}  # fmt: skip


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
    unlocked_by: str = ""

    def inflict(self, ledger: Ledger) -> None:
        """Do it, in a ledger that `populate` has filled; a key that forbids it is dropped first."""
        if self.unlocked_by:
            execute(ledger, self.unlocked_by)
        used = {name: url for name, url in URLS.items() if f":{name}" in self.statement}
        assert execute(ledger, self.statement, **used) == 1


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
        unlocked_by="DROP INDEX uq_submissions_live",
    ),
    "a URL that is sent twice": Damage(
        "UPDATE submissions SET state = 'sending', request_id = 'r', url_hash = "
        "(SELECT url_hash FROM submissions WHERE url = :sending) WHERE url = :planned",
        {"one_sending_per_url": f"{PLANNED} {SENDING}"},
        unlocked_by="DROP INDEX uq_submissions_sending_url",
    ),
    "a job that two requests are bound to": Damage(
        "UPDATE submissions SET job_id = :lost, item_key = 'x' WHERE url = :waiting",
        {"one_request_per_job": f"{LOST} {WAITING}"},
    ),
}
