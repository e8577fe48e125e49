"""Rule 1: who may send what, and that no URL is ever sent twice at once."""

import pytest
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from scraper_pipeline.ledger import Ledger, Scope
from scraper_pipeline.ledger.schema import submissions
from scraper_pipeline_tests.integration.ledger.driving import (
    DAY,
    GRACE,
    LEASE,
    NEXT_DAY,
    RETRYABLE,
    HandClock,
    accept,
    attempts,
    claim,
    claim_one,
    execute,
    finish,
    plan,
    record,
    rows,
    target,
)

A, B, C = (f"https://site.test/{name}" for name in "abc")


def test_a_claim_takes_rows_once(ledger: Ledger) -> None:
    plan(ledger, A, B, C)
    first, second = claim(ledger, limit=2), claim(ledger, limit=2)
    assert (len(first), len(second)) == (2, 1)
    assert {one.url for one in first + second} == {A, B, C}
    assert claim(ledger) == []
    assert ledger.progress.of(DAY).sending == 3


def test_a_claim_says_what_to_send_and_until_when(ledger: Ledger, clock: HandClock) -> None:
    ledger.submissions.plan(DAY, [target(A, {"render_js": True})])
    claimed = claim_one(ledger)
    assert claimed.options == {"render_js": True}
    assert claimed.sent_at == clock.now
    assert (claimed.lease_until - claimed.sent_at).total_seconds() == LEASE


def test_two_targets_of_one_url_are_not_sent_in_one_batch(ledger: Ledger) -> None:
    ledger.submissions.plan(DAY, [target(A), target(A, {"render_js": True}), target(B)])
    first = claim(ledger)
    assert sorted(one.url for one in first) == [A, B]
    assert claim(ledger) == [], "the other target of the URL waits while the first is sending"
    record(ledger, next(one for one in first if one.url == A), "job a")
    assert [one.url for one in claim(ledger)] == [A]


def test_a_url_is_not_sent_for_two_days_at_once(ledger: Ledger) -> None:
    plan(ledger, A)
    plan(ledger, A, B, day=NEXT_DAY)
    first = claim_one(ledger)
    assert [one.url for one in claim(ledger, NEXT_DAY)] == [B]
    record(ledger, first, "job a")
    assert [one.url for one in claim(ledger, NEXT_DAY)] == [A]


def test_a_url_is_not_sent_for_two_feeds_of_an_account_at_once(ledger: Ledger, clock: HandClock) -> None:
    other_feed = Ledger(ledger.engine, Scope(feed="other"), clock)
    other_account = Ledger(ledger.engine, Scope(account="other"), clock)
    for one in (ledger, other_feed, other_account):
        plan(one, A)
    assert len(claim(ledger)) == 1
    assert claim(other_feed) == []
    assert len(claim(other_account)) == 1, "another account's jobs can't be mistaken for ours"


def test_a_row_that_has_to_wait_does_not_hold_up_those_behind_it(ledger: Ledger) -> None:
    blocked = [f"https://site.test/blocked/{number}" for number in range(700)]
    plan(ledger, *blocked)
    assert len(claim(ledger)) == 700
    plan(ledger, *blocked, A, day=NEXT_DAY)
    assert [one.url for one in claim(ledger, NEXT_DAY, limit=10)] == [A]


def test_each_claim_takes_request_ids_never_used_before(ledger: Ledger, clock: HandClock) -> None:
    plan(ledger, A, B)
    seen = {one.request_id for one in claim(ledger)}
    for _ in range(3):
        ledger.submissions.release(seen)
        seen |= {one.request_id for one in claim(ledger)}
    clock.advance(LEASE + GRACE + 1)
    for overdue in ledger.submissions.overdue(GRACE):
        assert ledger.submissions.resolve(overdue.request_id, "none", clock.now, GRACE)
    seen |= {one.request_id for one in claim(ledger)}
    assert len(seen) == 2 * 5


def test_the_next_attempt_is_not_sent_before_its_time(ledger: Ledger, clock: HandClock) -> None:
    [job] = accept(ledger, A)
    finish(ledger, {job: RETRYABLE})
    assert claim(ledger) == []
    clock.advance(5)
    assert claim_one(ledger).attempt == 2


def test_an_attempt_that_is_not_due_does_not_hold_back_another_target_of_its_url(
    ledger: Ledger,
) -> None:
    [job] = accept(ledger, A)
    finish(ledger, {job: RETRYABLE})
    ledger.submissions.plan(DAY, [target(A, {"render_js": True})])
    assert claim_one(ledger).options == {"render_js": True}


def test_the_database_itself_refuses_a_second_sending_row_of_a_url(ledger: Ledger) -> None:
    plan(ledger, A)
    plan(ledger, A, day=NEXT_DAY)
    claim(ledger)
    with pytest.raises(IntegrityError):
        execute(
            ledger,
            "UPDATE submissions SET state = 'sending', request_id = 'r' WHERE partition_key = :day",
            day=NEXT_DAY,
        )


def test_the_database_itself_refuses_a_second_live_row_of_a_target(ledger: Ledger) -> None:
    plan(ledger, A)
    columns = "account, feed, partition_key, target_id, url, url_hash, options, labels, state, planned_at"
    with pytest.raises(IntegrityError):
        execute(
            ledger,
            f"INSERT INTO submissions ({columns}, attempt) SELECT {columns}, attempt + 1 FROM submissions",  # noqa: S608
        )
    assert attempts(ledger, A) == ["planned"]


def test_a_claimed_row_is_written_before_anything_is_sent(ledger: Ledger, fresh_url: str) -> None:
    plan(ledger, A)
    claimed = claim_one(ledger)
    with Ledger.open(fresh_url) as another_process:
        [row] = rows(another_process, select(submissions))
    assert (row.state, row.request_id, row.sent_at) == ("sending", claimed.request_id, claimed.sent_at)
