"""The inbox: a batch of deliveries has the same effect as news of any other channel, and says what was new in it."""

import threading

import pytest
from sqlalchemy import select

from scraper_pipeline.ledger import Channel, Delivery, GivenUp, Ledger, LetterCode, QuarantinedBody
from scraper_pipeline.ledger.schema import processed_events, quarantine
from scraper_pipeline_tests.integration.ledger.driving import (
    HandClock,
    accept,
    bring_news,
    claim_jobs,
    is_processed,
    page,
    settle,
    state_of,
)

URL = "https://site.test/a"


def row(ledger: Ledger, job_id: str) -> dict[str, object]:
    with ledger.engine.connect() as connection:
        found = connection.execute(select(processed_events).where(processed_events.c.job_id == job_id))
        return dict(found.mappings().one())


def test_deliveries_are_news_and_each_says_whether_it_was_the_first(ledger: Ledger) -> None:
    batch = [Delivery("job b", "t", "d-1"), Delivery("job a"), Delivery("job b", "u", "d-2")]
    assert ledger.inbox.commit(batch) == [True, True, False]
    assert ledger.inbox.commit([Delivery("job a"), Delivery("job c")]) == [False, True]
    assert (row(ledger, "job b")["event_type"], row(ledger, "job b")["delivery_id"]) == ("t", "d-1")


def test_two_equal_deliveries_in_a_batch_are_one_piece_of_news(ledger: Ledger) -> None:
    assert ledger.inbox.commit([Delivery("job a", "t", "d"), Delivery("job a", "t", "d")]) == [True, False]


def test_it_leaves_the_same_row_as_news_of_the_webhook_channel(ledger: Ledger) -> None:
    ledger.inbox.commit([Delivery("job a")])
    bring_news(ledger, "job b", channel=Channel.WEBHOOK)
    assert {**row(ledger, "job a"), "job_id": "job b"} == row(ledger, "job b")


def test_the_first_delivery_is_kept(ledger: Ledger, clock: HandClock) -> None:
    ledger.inbox.commit([Delivery("job a", "t", "d-1")])
    before = row(ledger, "job a")
    clock.advance(10)
    ledger.inbox.commit([Delivery("job a", "u", "d-2")])
    assert row(ledger, "job a") == before


def test_news_that_another_channel_brought_first_is_completed(ledger: Ledger, clock: HandClock) -> None:
    bring_news(ledger, "job a", channel=Channel.POLL)
    polled = row(ledger, "job a")
    arrived = clock.advance(10)
    assert ledger.inbox.commit([Delivery("job a", "t", "d-1")]) == [True]
    assert row(ledger, "job a") == {**polled, "event_type": "t", "delivery_id": "d-1", "webhook_at": arrived}


def test_a_delivery_leads_to_settlement(ledger: Ledger) -> None:
    [job_id] = accept(ledger, URL)
    ledger.inbox.commit([Delivery(job_id)])
    assert settle(ledger, page()).stored == 1
    assert state_of(ledger, URL) == "stored"


def test_a_late_delivery_never_clears_processed_at(ledger: Ledger) -> None:
    [job_id] = accept(ledger, URL)
    bring_news(ledger, job_id)
    settle(ledger, page())
    ledger.inbox.commit([Delivery(job_id)])
    assert is_processed(ledger, job_id)
    assert claim_jobs(ledger) == []


def test_a_given_up_job_is_reopened_even_by_a_duplicate(ledger: Ledger, clock: HandClock) -> None:
    [job_id] = accept(ledger, URL)
    ledger.inbox.commit([Delivery(job_id)])
    settle(ledger, GivenUp(LetterCode.TIMED_OUT, "It took too long."))
    assert row(ledger, job_id)["given_up_at"] is not None
    now = clock.advance(100)
    assert ledger.inbox.commit([Delivery(job_id)]) == [False]
    assert (row(ledger, job_id)["given_up_at"], row(ledger, job_id)["available_at"]) == (None, now)


def test_a_quarantined_body_is_kept_with_its_reason(ledger: Ledger) -> None:
    assert ledger.inbox.commit([], [QuarantinedBody("not JSON", b"\x00\xff raw")]) == []
    with ledger.engine.connect() as connection:
        [kept] = connection.execute(select(quarantine)).all()
    assert (kept.source, kept.reason, kept.body, kept.resolved_at) == (
        "webhook",
        "not JSON",
        b"\x00\xff raw",
        None,
    )
    assert "raw" not in repr(QuarantinedBody("not JSON", b"raw"))


@pytest.mark.parametrize(
    "text", ["'; DROP TABLE jobs; --", '"', "$[0]", "\\", "{a,b}", "NULL", "日本 🍸 é", "a" * 500]
)
def test_awkward_texts_come_back_as_they_were(ledger: Ledger, text: str) -> None:
    assert ledger.inbox.commit([Delivery(text, text, text)]) == [True]
    kept = row(ledger, text)
    assert (kept["event_type"], kept["delivery_id"]) == (text, text)


def test_batches_that_overlap_in_several_threads_neither_deadlock_nor_agree_twice(ledger: Ledger) -> None:
    job_ids = [f"job {n}" for n in range(200)]
    firsts: list[str] = []

    def deliver(order: list[str]) -> None:
        for start in range(0, len(order), 50):
            batch = [Delivery(job_id) for job_id in order[start : start + 50]]
            news = ledger.inbox.commit(batch)
            firsts.extend(one.job_id for one, is_news in zip(batch, news, strict=True) if is_news)

    orders = [job_ids, job_ids[::-1], job_ids[::2] + job_ids[1::2], job_ids[100:] + job_ids[:100]]
    threads = [threading.Thread(target=deliver, args=(order,)) for order in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(firsts) == sorted(job_ids)
    with ledger.engine.connect() as connection:
        assert len(connection.execute(select(processed_events)).all()) == len(job_ids)


def test_a_check_tells_whether_the_database_answers(ledger: Ledger) -> None:
    ledger.inbox.check()
