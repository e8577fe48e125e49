"""Rules 3 and 4: one commit decides what a job came to, for the rows that wait for it and for no others."""

from dataclasses import replace

import pytest
from sqlalchemy import event, select, text

from scraper_pipeline.ledger import (
    CommitReport,
    Ended,
    Failure,
    ItemOutcome,
    JobOutcome,
    Ledger,
    LedgerConflict,
    hash_url,
)
from scraper_pipeline.ledger.schema import dead_letters, jobs, results, submissions
from scraper_pipeline_tests.integration.ledger.driving import (
    DAY,
    LEASE,
    OUT_OF_BALANCE,
    PERMANENT,
    RETRYABLE,
    HandClock,
    Result,
    accept,
    accept_planned,
    attempts,
    bring_news,
    claim_jobs,
    claim_one,
    contents,
    execute,
    finish,
    is_processed,
    outcome,
    page,
    plan,
    record,
    rows,
    settle,
    state_of,
    unstamp,
)

A, B = "https://site.test/a", "https://site.test/b"


def _bind_to_one_job(ledger: Ledger, *urls: str) -> str:
    """Rows of several URLs that wait for one job, as a batch has them."""
    first, *others = accept(ledger, *urls)
    execute(ledger, "UPDATE submissions SET job_id = :job, request_id = 'one request'", job=first)
    for other in others:
        execute(ledger, "DELETE FROM jobs WHERE job_id = :job", job=other)
    bring_news(ledger, first)
    return first


def test_a_completed_job_is_stored_and_stamped(ledger: Ledger, clock: HandClock) -> None:
    [job] = accept(ledger, A)
    clock.advance(30)
    report = finish(ledger, {job: page("# Hello", html="<h1>Hello</h1>", metadata={"title": "Hello"})})
    assert report == CommitReport(stored=1, processed=1)
    [row] = rows(ledger, select(results))
    assert (row.job_id, row.url, row.item_key, row.attempt) == (job, A, hash_url(A), 1)
    assert (row.markdown, row.html, row.metadata) == ("# Hello", "<h1>Hello</h1>", {"title": "Hello"})
    assert (row.tokens_charged, row.is_empty, row.stored_at) == (1, False, clock.now)
    assert state_of(ledger, A) == "stored"
    assert is_processed(ledger, job)
    assert ledger.audit.check() == []


def test_a_failure_that_may_pass_is_tried_again_later_in_the_same_commit(
    ledger: Ledger, clock: HandClock
) -> None:
    [job] = accept(ledger, A)
    assert finish(ledger, {job: RETRYABLE}) == CommitReport(resubmitted=1, processed=1)
    assert attempts(ledger, A) == ["superseded", "planned"]
    following = rows(ledger, select(submissions))[-1]
    assert (following.attempt, following.job_id, following.request_id) == (2, None, None)
    assert (following.not_before - clock.now).total_seconds() == 5
    assert ledger.audit.check() == []


def test_each_further_attempt_waits_twice_as_long_and_the_last_one_is_final(
    ledger: Ledger, clock: HandClock
) -> None:
    [job] = accept(ledger, A)
    for wait in (5, 10):
        finish(ledger, {job: RETRYABLE})
        assert (rows(ledger, select(submissions))[-1].not_before - clock.now).total_seconds() == wait
        clock.advance(wait)
        [job] = accept_planned(ledger)
    assert finish(ledger, {job: RETRYABLE}) == CommitReport(dead=1, processed=1)
    assert attempts(ledger, A) == ["superseded", "superseded", "dead"]
    [letter] = rows(ledger, select(dead_letters))
    assert (letter.error_code, letter.error_message, letter.attempts) == (
        "TIMEOUT",
        "The page did not load.",
        3,
    )
    assert (letter.job_id, letter.item_key) == (job, hash_url(A))
    assert ledger.audit.check() == []


def test_a_failure_for_good_is_dead_at_once(ledger: Ledger) -> None:
    [job] = accept(ledger, A)
    assert finish(ledger, {job: PERMANENT}) == CommitReport(dead=1, processed=1)
    assert attempts(ledger, A) == ["dead"]


def test_a_balance_that_is_used_up_spends_no_attempt_and_parks_nothing(
    ledger: Ledger, clock: HandClock
) -> None:
    [job] = accept(ledger, A)
    for _ in range(5):
        assert finish(ledger, {job: OUT_OF_BALANCE}).resubmitted == 1
        clock.advance(600)
        [job] = accept_planned(ledger)
    finish(ledger, {job: RETRYABLE})
    assert attempts(ledger, A)[-1] == "planned", "the target's own three attempts are still to come"
    assert rows(ledger, select(dead_letters)) == []
    assert ledger.audit.check() == []


def test_a_result_that_is_there_already_is_neither_doubled_nor_replaced(ledger: Ledger) -> None:
    [job] = accept(ledger, A)
    finish(ledger, {job: page("as it was first stored")})
    unstamp(ledger)
    execute(ledger, "UPDATE submissions SET state = 'accepted'")
    assert settle(ledger, page("as it came again")).processed == 1
    assert [row.markdown for row in rows(ledger, select(results))] == ["as it was first stored"]
    assert state_of(ledger, A) == "stored"
    assert ledger.audit.check() == []


@pytest.mark.parametrize("result", [RETRYABLE, PERMANENT, OUT_OF_BALANCE], ids=lambda failure: failure.code)
def test_only_a_row_that_waits_is_superseded_or_parked(ledger: Ledger, result: Failure) -> None:
    [job] = accept(ledger, A)
    finish(ledger, {job: page()})
    unstamp(ledger)
    assert settle(ledger, result) == CommitReport(processed=1)
    assert attempts(ledger, A) == ["stored"]
    assert rows(ledger, select(dead_letters)) == []


def test_a_row_that_is_dead_for_good_stays_dead_when_a_page_turns_up(ledger: Ledger) -> None:
    [job] = accept(ledger, A)
    finish(ledger, {job: PERMANENT})
    unstamp(ledger)
    assert settle(ledger, page()).stored == 0
    assert attempts(ledger, A) == ["dead"]


def test_the_page_of_a_superseded_attempt_is_kept_and_moves_nothing(ledger: Ledger) -> None:
    [job] = accept(ledger, A)
    finish(ledger, {job: RETRYABLE})
    unstamp(ledger)
    assert settle(ledger, page()) == CommitReport(processed=1)
    assert attempts(ledger, A) == ["superseded", "planned"]
    assert ledger.audit.check() == []


def test_items_find_their_rows_by_url_and_never_by_their_place(ledger: Ledger) -> None:
    _bind_to_one_job(ledger, A, B)
    [claimed] = claim_jobs(ledger)
    items = (ItemOutcome(hash_url(B), page("page b")), ItemOutcome(hash_url(A), page("page a")))
    for order in (items, items[::-1]):
        report = ledger.outcomes.commit([JobOutcome(claimed, Ended(order, "completed"))])
        assert report.stored in (2, 0)
    assert {row.url: row.markdown for row in rows(ledger, select(results))} == {A: "page a", B: "page b"}


def test_the_item_decides_and_not_its_job(ledger: Ledger) -> None:
    job = _bind_to_one_job(ledger, A, B)
    [claimed] = claim_jobs(ledger)
    items = (ItemOutcome(hash_url(A), page()), ItemOutcome(hash_url(B), PERMANENT))
    report = ledger.outcomes.commit([JobOutcome(claimed, Ended(items, "completed"))])
    assert report == CommitReport(stored=1, dead=1, processed=1)
    assert (state_of(ledger, A), state_of(ledger, B)) == ("stored", "dead")
    assert is_processed(ledger, job)


def test_a_row_without_an_item_is_tried_again_and_not_forgotten(ledger: Ledger) -> None:
    job = _bind_to_one_job(ledger, A, B)
    [claimed] = claim_jobs(ledger)
    ledger.outcomes.commit([JobOutcome(claimed, Ended((ItemOutcome(hash_url(A), page()),), "completed"))])
    assert attempts(ledger, B) == ["superseded", "planned"]
    assert is_processed(ledger, job)


def test_an_item_of_a_url_that_nobody_asked_for_is_not_stored(ledger: Ledger) -> None:
    [job] = accept(ledger, A)
    bring_news(ledger, job)
    [claimed] = claim_jobs(ledger)
    items = (ItemOutcome(hash_url(B), page()), ItemOutcome(hash_url(A), page()))
    assert ledger.outcomes.commit([JobOutcome(claimed, Ended(items, "completed"))]).stored == 1
    assert [row.url for row in rows(ledger, select(results))] == [A]


@pytest.mark.parametrize(("state", "given_up"), [("accepted", False), ("dead", True)])
def test_a_job_is_not_stamped_while_a_row_still_waits_for_it(
    ledger: Ledger, state: str, given_up: bool
) -> None:
    """Another row is bound to the job after its rows were locked, and before the stamp."""
    [job] = accept(ledger, A)
    bring_news(ledger, job)
    plan(ledger, B)
    late = claim_one(ledger)
    claimed = claim_jobs(ledger)

    def bind_another(connection, _cursor, statement, *_rest) -> None:
        if statement.startswith("UPDATE processed_events SET") and "processed_at=" in statement:
            connection.execute(
                text(
                    "UPDATE submissions SET state = :state, given_up = :given_up, job_id = :job, item_key = 'b' "
                    "WHERE request_id = :request"
                ),
                {"job": job, "request": late.request_id, "state": state, "given_up": given_up},
            )

    event.listen(ledger.engine, "before_cursor_execute", bind_another)
    try:
        report = ledger.outcomes.commit([outcome(one, page()) for one in claimed])
    finally:
        event.remove(ledger.engine, "before_cursor_execute", bind_another)
    assert (report.stored, report.processed) == (1, 0)
    assert not is_processed(ledger, job)


def test_an_answer_whose_claim_was_lost_is_dropped(ledger: Ledger, clock: HandClock) -> None:
    [job] = accept(ledger, A)
    bring_news(ledger, job)
    slow = claim_jobs(ledger)
    clock.advance(LEASE)
    quick = claim_jobs(ledger)
    before = contents(ledger)
    assert ledger.outcomes.commit([outcome(one, PERMANENT) for one in slow]) == CommitReport(dropped=1)
    assert contents(ledger) == before
    assert ledger.outcomes.commit([outcome(one, page()) for one in quick]).stored == 1
    assert ledger.outcomes.commit([outcome(one, RETRYABLE) for one in quick]) == CommitReport(dropped=1)
    assert state_of(ledger, A) == "stored"


def test_an_answer_that_nobody_claimed_is_dropped(ledger: Ledger) -> None:
    [job] = accept(ledger, A)
    bring_news(ledger, job)
    [claimed] = claim_jobs(ledger)
    forged = replace(claimed, claim="somebody else's")
    assert ledger.outcomes.commit([outcome(forged, page())]).dropped == 1
    assert state_of(ledger, A) == "accepted"


def test_outcomes_of_a_chunk_are_independent_of_each_other(ledger: Ledger) -> None:
    urls = [f"https://site.test/{number}" for number in range(9)]
    accepted = accept(ledger, *urls)
    kinds: list[Result] = [page(), page(None), RETRYABLE, PERMANENT]
    report = finish(ledger, {job: kinds[number % 4] for number, job in enumerate(accepted)})
    assert report == CommitReport(stored=5, empty=2, dead=2, resubmitted=2, processed=9)
    assert ledger.audit.check() == []


def test_a_transition_that_would_touch_other_rows_than_were_locked_commits_nothing(ledger: Ledger) -> None:
    a, b = accept(ledger, A, B)
    bring_news(ledger, a, b)
    claimed = claim_jobs(ledger)

    def move_behind_its_back(connection, _cursor, statement, *_rest) -> None:
        if statement.startswith("INSERT INTO results"):
            connection.execute(
                text("UPDATE submissions SET state = 'superseded' WHERE job_id = :job"), {"job": a}
            )

    before = contents(ledger)
    event.listen(ledger.engine, "before_cursor_execute", move_behind_its_back)
    try:
        with pytest.raises(LedgerConflict):
            ledger.outcomes.commit([outcome(one, page()) for one in claimed])
    finally:
        event.remove(ledger.engine, "before_cursor_execute", move_behind_its_back)
    assert contents(ledger) == before


@pytest.mark.parametrize("nothing", [None, "", " \n\t"], ids=["null", "empty", "blank"])
def test_an_empty_page_is_stored_as_empty_and_done(ledger: Ledger, nothing: str | None) -> None:
    [job] = accept(ledger, A)
    assert finish(ledger, {job: page(nothing)}) == CommitReport(stored=1, empty=1, processed=1)
    [row] = rows(ledger, select(results))
    assert row.is_empty
    assert ledger.progress.figures(DAY).empty == 1
    assert ledger.audit.check() == []


def test_the_status_that_ended_a_job_is_kept(ledger: Ledger) -> None:
    [job] = accept(ledger, A)
    finish(ledger, {job: page()})
    assert [row.status for row in rows(ledger, select(jobs))] == ["completed"]


def test_the_newest_result_of_a_target_is_the_current_one(ledger: Ledger, clock: HandClock) -> None:
    [first] = accept(ledger, A)
    finish(ledger, {first: page("first")})
    execute(ledger, "UPDATE submissions SET state = 'superseded'")
    columns = "account, feed, partition_key, target_id, url, url_hash, options, labels, planned_at"
    execute(
        ledger,
        f"INSERT INTO submissions ({columns}, state, attempt) SELECT {columns}, 'planned', 2 FROM submissions",  # noqa: S608
    )
    [second] = accept_planned(ledger)
    clock.advance(1)
    finish(ledger, {second: page("second")})
    assert [dict(row) for row in ledger.progress.read_results([DAY], ["url", "markdown"])] == [
        {"url": A, "markdown": "second"}
    ]


def test_a_row_that_another_job_holds_is_not_moved(ledger: Ledger) -> None:
    a, _ = accept(ledger, A, B)
    finish(ledger, {a: page()})
    assert (state_of(ledger, A), state_of(ledger, B)) == ("stored", "accepted")


def test_a_late_record_finds_its_news_waiting_whatever_was_settled_meanwhile(ledger: Ledger) -> None:
    [a] = accept(ledger, A)
    bring_news(ledger, a, "job b")
    settle(ledger, page())
    plan(ledger, B)
    record(ledger, claim_one(ledger), "job b")
    assert settle(ledger, page()).stored == 1
