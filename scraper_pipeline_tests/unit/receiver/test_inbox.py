"""Group commit: what waits is committed together, bounded in number and in time, and one bad entry harms no other."""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence

import pytest
from sqlalchemy.exc import DataError, OperationalError

from scraper_pipeline.ledger import Delivery, LedgerUnavailable, QuarantinedBody
from scraper_pipeline.receiver.inbox import Fate, Inbox


class Store:
    """Keeps batches in memory, one at a time and only when it is let, and refuses what it is told to."""

    def __init__(self, is_open: bool = True) -> None:
        self.batches: list[list[str]] = []
        self.bodies: list[QuarantinedBody] = []
        self.kept: set[str] = set()
        self.refuse: Callable[[Sequence[Delivery]], None] = lambda deliveries: None
        self.entered = threading.Event()
        self.gate = threading.Event()
        if is_open:
            self.gate.set()

    def commit(self, deliveries: Sequence[Delivery], quarantined: Sequence[QuarantinedBody]) -> list[bool]:
        self.entered.set()
        assert self.gate.wait(60)
        self.refuse(deliveries)
        self.batches.append([one.job_id for one in deliveries])
        self.bodies += quarantined
        news = [one.job_id not in self.kept for one in deliveries]
        self.kept.update(one.job_id for one in deliveries)
        return news

    def check(self) -> None:
        self.commit([], [])


def start(open_store: Callable[[], Store], **changes) -> Inbox:
    inbox = Inbox(open_store, **{"timeout_seconds": 60.0, "max_waiting": 1000, **changes})
    inbox.start()
    return inbox


def put(inbox: Inbox, *job_ids: str) -> "asyncio.Future[list[Fate]]":
    return asyncio.gather(*(inbox.put(Delivery(job_id)) for job_id in job_ids))


async def test_what_arrives_during_a_commit_is_committed_together_by_the_next():
    store = Store(is_open=False)
    inbox = start(lambda: store)
    first = put(inbox, "a")
    await asyncio.to_thread(store.entered.wait, 60)
    others = [put(inbox, "b", "c"), put(inbox, "d")]
    await asyncio.sleep(0)
    store.gate.set()
    assert await first == [Fate.ACCEPTED]
    assert await asyncio.gather(*others) == [[Fate.ACCEPTED, Fate.ACCEPTED], [Fate.ACCEPTED]]
    assert store.batches == [["a"], ["b", "c", "d"]]
    await inbox.stop(60)


async def test_nothing_is_acknowledged_before_its_commit_has_returned():
    store = Store(is_open=False)
    inbox = start(lambda: store)
    waiting = put(inbox, "a")
    await asyncio.to_thread(store.entered.wait, 60)
    await asyncio.sleep(0.05)
    assert not waiting.done()
    store.gate.set()
    assert await waiting == [Fate.ACCEPTED]
    await inbox.stop(60)


async def test_each_learns_its_own_fate():
    store = Store()
    inbox = start(lambda: store)
    await put(inbox, "a")
    body = QuarantinedBody("not JSON", b"x")
    fates = await asyncio.gather(
        inbox.put(Delivery("b")), inbox.put(body), inbox.put(Delivery("a")), inbox.is_reachable()
    )
    assert list(fates) == [Fate.ACCEPTED, Fate.QUARANTINED, Fate.DUPLICATE, True]
    assert store.bodies == [body]
    await inbox.stop(60)


async def test_beyond_its_bound_it_takes_nothing():
    store = Store(is_open=False)
    inbox = start(lambda: store, max_waiting=2)
    waiting = put(inbox, "a", "b")
    await asyncio.sleep(0)
    assert await inbox.put(Delivery("c")) is Fate.UNAVAILABLE
    assert inbox.waiting == 2
    store.gate.set()
    assert await waiting == [Fate.ACCEPTED] * 2
    assert await inbox.put(Delivery("c")) is Fate.ACCEPTED
    await inbox.stop(60)


async def test_a_commit_that_hangs_is_given_up_in_time_for_all_that_wait():
    store = Store(is_open=False)
    inbox = start(lambda: store, timeout_seconds=0.1)
    assert await put(inbox, "a", "b") == [Fate.UNAVAILABLE] * 2
    assert inbox.waiting == 0
    store.gate.set()
    while Fate.UNAVAILABLE in (fates := set(await put(inbox, "a", "b"))):
        pass
    assert fates <= {Fate.ACCEPTED, Fate.DUPLICATE}
    await inbox.stop(60)


async def test_one_that_the_database_refuses_harms_no_other(caplog: pytest.LogCaptureFixture):
    store = Store()

    def refuse_one(deliveries: Sequence[Delivery]) -> None:
        if any(one.job_id == "bad" for one in deliveries):
            raise DataError("INSERT", {}, Exception("out of range"), hide_parameters=True)

    store.refuse = refuse_one
    inbox = start(lambda: store)
    job_ids = ["a", "b", "bad", "c", "d", "e"]
    fates = await put(inbox, *job_ids)
    assert [job_id for job_id, fate in zip(job_ids, fates, strict=True) if fate is Fate.UNAVAILABLE] == [
        "bad"
    ]
    assert store.kept == {"a", "b", "c", "d", "e"}
    await inbox.stop(60)


async def test_a_deadlock_or_a_lost_connection_is_tried_again():
    store = Store()
    failures = [OperationalError("INSERT", {}, Exception("deadlock detected"), hide_parameters=True)]

    def fail_once(_: Sequence[Delivery]) -> None:
        if failures:
            raise failures.pop()

    store.refuse = fail_once
    inbox = start(lambda: store)
    assert await put(inbox, "a", "b") == [Fate.ACCEPTED] * 2
    await inbox.stop(60)


async def test_a_database_that_can_not_be_opened_is_tried_again_by_the_next(caplog: pytest.LogCaptureFixture):
    store = Store()
    failures = [LedgerUnavailable("It is down.")]

    def open_store() -> Store:
        if failures:
            raise failures.pop()
        return store

    with caplog.at_level(logging.WARNING):
        inbox = start(open_store)
        assert await put(inbox, "a") == [Fate.UNAVAILABLE]
    assert "It is down." in caplog.text
    assert await put(inbox, "a") == [Fate.ACCEPTED]
    await inbox.stop(60)


async def test_no_mistake_in_a_commit_ends_the_writer():
    store = Store()
    mistakes: list[Exception] = [ZeroDivisionError()]

    def err_once(_: Sequence[Delivery]) -> None:
        if mistakes:
            raise mistakes.pop()

    store.refuse = err_once
    inbox = start(lambda: store)
    assert await put(inbox, "a") == [Fate.UNAVAILABLE]
    assert await put(inbox, "a") == [Fate.ACCEPTED]
    await inbox.stop(60)


async def test_stopping_commits_what_was_taken_and_takes_no_more():
    store = Store(is_open=False)
    inbox = start(lambda: store)
    waiting = put(inbox, "a", "b")
    await asyncio.sleep(0)
    stopping = asyncio.create_task(inbox.stop(60))
    await asyncio.sleep(0.05)
    assert await inbox.put(Delivery("c")) is Fate.UNAVAILABLE
    store.gate.set()
    await stopping
    assert await waiting == [Fate.ACCEPTED] * 2
    assert store.kept == {"a", "b"}


async def test_stopping_while_a_commit_hangs_ends_in_time():
    store = Store(is_open=False)
    inbox = start(lambda: store)
    waiting = put(inbox, "a")
    await asyncio.to_thread(store.entered.wait, 60)
    await inbox.stop(0.1)
    assert await waiting == [Fate.UNAVAILABLE]
    store.gate.set()
