"""The places of an account: how many jobs go out, and how seldom the service is asked."""

import random
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from scraper_pipeline.lifecycle import LifecyclePolicy, Places
from scraper_pipeline.scraper_api import (
    ConcurrencyUsage,
    PaymentRequired,
    ScraperError,
    ServerError,
    Throttled,
    Unauthorized,
    UnexpectedStatus,
    UnreadableAnswer,
)


@dataclass
class Account:
    """An account on a clock that only waiting moves; a job leaves its place when it ends."""

    limit: int = 100
    now: float = 1000.0
    ends: list[float] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)
    failure: ScraperError | None = None
    others: int = 0

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds

    async def read(self) -> ConcurrencyUsage:
        self.reads.append(self.now)
        if self.failure:
            raise self.failure
        return ConcurrencyUsage(in_use=self.at_work + self.others, limit=self.limit)

    @property
    def at_work(self) -> int:
        self.ends = [end for end in self.ends if end > self.now]
        return len(self.ends)

    def send(self, places: Places, seconds: float) -> None:
        self.ends.append(self.now + seconds)
        places.note_sent(1)

    def places(self, run_lease: float = 60.0) -> Places:
        return Places(
            self.read,
            LifecyclePolicy(run_lease=run_lease),
            monotonic=self.monotonic,
            sleep=self.sleep,
            chance=random.Random(3),
        )


@pytest.fixture
def account() -> Account:
    return Account()


@pytest.mark.parametrize("longest", [2.0, 20.0, 60.0])
async def test_twenty_thousand_jobs_cost_few_looks_and_never_exceed_the_places(
    account: Account, longest: float
) -> None:
    places, chance, sent, busy = account.places(), random.Random(5), 0, 0.0
    began = account.now
    while sent < 20_000:
        assert await places.wait(None)
        free = places.free
        assert free
        for _ in range(min(free, 128)):
            duration = chance.uniform(0, longest)
            account.send(places, duration)
            busy, sent = busy + duration, sent + 1
            assert account.at_work <= account.limit
            account.now += 0.005
    assert len(account.reads) / sent <= 0.02
    assert busy / account.limit / (account.now - began) >= 0.4, "most places are at work most of the time"


async def test_places_that_are_known_to_be_free_cost_no_look(account: Account) -> None:
    places = account.places()
    for _ in range(100):
        assert await places.wait(None)
        account.send(places, 5.0)
    assert len(account.reads) == 1


async def test_a_full_account_is_asked_ever_more_seldom_and_not_more_than_once_a_second(
    account: Account,
) -> None:
    account.others, places = 100, account.places()
    assert not await places.wait(600)
    waits = [later - sooner for sooner, later in pairwise(account.reads)]
    assert min(waits) >= 1.0
    assert 5.0 <= max(waits) <= 30.0
    assert sum(waits[-10:]) > sum(waits[:10])
    assert account.now == pytest.approx(1600), "the run's time is kept"


async def test_progress_makes_the_wait_short_again(account: Account) -> None:
    account.others, places = 100, account.places()
    await places.wait(300)
    account.others = 0
    assert await places.wait(None)
    for _ in range(100):
        account.send(places, 0.5)
    before = account.now
    assert await places.wait(None)
    assert account.now - before <= 2.0


async def test_who_waits_keeps_what_is_held_alive(account: Account) -> None:
    account.others, places = 100, account.places(run_lease=6.0)
    alive = [account.now]
    await places.wait(300, lambda: alive.append(account.now))
    alive.append(account.now)
    looks = sorted([*alive, *account.reads])
    assert max(later - sooner for sooner, later in pairwise(looks)) <= 6.0
    assert len(alive) > 20


@pytest.mark.parametrize(
    "failure",
    [
        UnexpectedStatus("404", status=404),
        ServerError("500", status=500),
        UnreadableAnswer("null"),
        Throttled("429", status=429),
    ],
)
async def test_where_the_figure_is_not_to_be_had_nothing_is_held_back(
    account: Account, failure: ScraperError
) -> None:
    account.failure, places = failure, account.places()
    assert await places.wait(None)
    assert places.free is None
    assert places.unknown_because == str(failure)
    for _ in range(500):
        account.send(places, 20.0)
    assert (places.free, len(account.reads)) == (None, 1)


@pytest.mark.parametrize(("in_use", "limit"), [(0, 0), (-1, 100), (5, -3)])
async def test_figures_that_can_not_be_are_no_bound(account: Account, in_use: int, limit: int) -> None:
    account.others, account.limit, places = in_use, limit, account.places()
    assert await places.wait(None)
    assert places.free is None
    assert places.unknown_because


async def test_more_in_use_than_allowed_leaves_no_place(account: Account) -> None:
    account.others, places = 130, account.places()
    assert not await places.wait(5)
    assert places.free == 0


async def test_a_figure_that_could_not_be_had_is_asked_for_again_later(account: Account) -> None:
    account.failure, places = ServerError("500", status=500), account.places()
    await places.wait(None)
    account.failure = None
    account.now += 31
    assert await places.wait(None)
    assert places.free == 100


@pytest.mark.parametrize("failure", [Unauthorized("401", status=401), PaymentRequired("402", status=402)])
async def test_a_refusal_of_the_account_is_raised(account: Account, failure: ScraperError) -> None:
    account.failure = failure
    with pytest.raises(type(failure)):
        await account.places().wait(None)


async def test_after_a_refusal_for_want_of_places_the_figure_is_read_anew(account: Account) -> None:
    places = account.places()
    await places.wait(None)
    places.note_refusal()
    assert places.free == 0
    assert await places.wait(None)
    assert account.reads == [1000.0, pytest.approx(1001.0)]


async def test_refusals_against_the_figure_are_met_with_ever_longer_waits(account: Account) -> None:
    places = account.places()
    for _ in range(30):
        await places.wait(None)
        places.note_refusal()
    assert account.now - 1000.0 > 100.0


async def test_refusals_are_waited_out_where_there_is_no_figure_either(account: Account) -> None:
    account.failure, places = UnexpectedStatus("404", status=404), account.places()
    await places.wait(None)
    places.note_refusal()
    assert places.free == 0
    assert await places.wait(None)
    assert places.free is None
    assert account.now >= 1001.0
