"""One pace for everybody: none until the service complains, then turns in a line, and waits within budgets."""

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import pytest

from scraper_pipeline.scraper_api import (
    AnswerTooLarge,
    Budget,
    NetworkError,
    Pacer,
    RetryPolicy,
    ScraperError,
    ServerError,
    Throttled,
    Unauthorized,
    UnreadableAnswer,
)
from scraper_pipeline.scraper_api.pacing import Retries, Turn

NEVER = float("inf")


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def take_turn(pacer: Pacer, latest: float = NEVER) -> Turn:
    turn = pacer.reserve(latest)
    assert turn is not None
    return turn


def go(pacer: Pacer, clock: Clock) -> float:
    """Waits for a turn and begins; returns when."""
    turn = take_turn(pacer)
    clock.now = max(clock.now, pacer.due_at(turn))
    return pacer.begin(turn)


def busy_pacer(clock: Clock, per_second: int = 10) -> tuple[Pacer, float]:
    """A pacer that has seen two seconds of traffic, and when the last of it began."""
    pacer = Pacer(monotonic=clock)
    for _ in range(2 * per_second):
        began = go(pacer, clock)
        clock.now += 1 / per_second
    return pacer, began


def limited_pacer(clock: Clock) -> Pacer:
    """A pacer whose service throttles at ten requests a second: the refused one is not among those."""
    pacer, _ = busy_pacer(clock)
    pacer.slow_down(go(pacer, clock), None)
    return pacer


def test_there_is_no_limit_until_the_service_throttles() -> None:
    clock = Clock()
    pacer = Pacer(monotonic=clock)

    assert {pacer.due_at(take_turn(pacer)) for _ in range(10_000)} == {clock.now}
    assert pacer.rate is None


def test_throttling_spaces_the_turns_a_little_slower_than_what_was_admitted() -> None:
    clock = Clock()
    pacer = limited_pacer(clock)

    assert pacer.rate == pytest.approx(9.5)
    waits = [pacer.due_at(take_turn(pacer)) - clock.now for _ in range(3)]
    assert waits == pytest.approx([1 / 9.5, 2 / 9.5, 3 / 9.5])


def test_everybody_waits_for_the_retry_after_of_one() -> None:
    clock = Clock()
    pacer, began = busy_pacer(clock)
    waiting = take_turn(pacer)

    pacer.slow_down(began, 30.0)

    assert pacer.due_at(waiting) >= clock.now + 30.0
    assert pacer.due_at(take_turn(pacer)) > pacer.due_at(waiting)
    assert pacer.reserve(latest=clock.now + 29.0) is None


def test_the_order_of_the_line_survives_a_pause() -> None:
    clock = Clock()
    pacer = limited_pacer(clock)
    turns = [take_turn(pacer) for _ in range(20)]
    clock.now += 1.0

    pacer.slow_down(clock.now, 30.0)

    due = [pacer.due_at(turn) for turn in turns]
    assert due == sorted(due)
    assert due[0] >= clock.now + 30.0
    assert due[-1] < clock.now + 33.0


def test_whoever_waits_is_served_sooner_once_the_rate_rises() -> None:
    clock = Clock()
    pacer = limited_pacer(clock)
    began = go(pacer, clock)
    last = [take_turn(pacer) for _ in range(500)][-1]
    before = pacer.due_at(last)

    for _ in range(200):
        pacer.speed_up(began)

    assert pacer.due_at(last) < before - 5


def test_a_refused_turn_takes_no_place_in_the_line() -> None:
    clock = Clock()
    pacer, began = busy_pacer(clock)
    pacer.slow_down(began, 30.0)

    for _ in range(100):
        assert pacer.reserve(latest=clock.now) is None

    assert pacer.due_at(take_turn(pacer)) < clock.now + 31.0


def test_turns_that_are_given_back_leave_no_gap() -> None:
    clock = Clock()
    pacer = limited_pacer(clock)
    turns = [take_turn(pacer) for _ in range(100)]

    for turn in turns:
        pacer.give_back(turn)

    assert [take_turn(pacer) for _ in range(100)] == turns
    assert pacer.due_at(take_turn(pacer)) == pytest.approx(clock.now + 101 / 9.5)


def test_turns_that_are_given_back_too_late_let_no_crowd_through() -> None:
    clock = Clock()
    pacer = limited_pacer(clock)
    turns = [take_turn(pacer) for _ in range(100)]
    clock.now += 60

    for turn in turns:
        pacer.give_back(turn)

    due = [pacer.due_at(take_turn(pacer)) - clock.now for _ in range(3)]
    assert due == pytest.approx([0, 1 / 9.5, 2 / 9.5])


def test_an_idle_time_lets_no_crowd_through_afterwards() -> None:
    clock = Clock()
    pacer = limited_pacer(clock)
    clock.now += 60

    due = [pacer.due_at(take_turn(pacer)) - clock.now for _ in range(3)]

    assert due == pytest.approx([0, 1 / 9.5, 2 / 9.5])


def test_of_those_who_were_held_up_together_only_half_go_at_once() -> None:
    clock = Clock()
    pacer = limited_pacer(clock)
    turns = [take_turn(pacer) for _ in range(30)]
    clock.now += 2.0
    resumed_at = clock.now

    began = []
    for turn in turns:
        clock.now = max(clock.now, pacer.due_at(turn))
        began.append(pacer.begin(turn))

    assert began.count(resumed_at) <= 10, "of nineteen"
    assert all(later - sooner > 0.9 / 9.5 for sooner, later in pairwise(began[11:]))


def test_a_crowd_throttled_at_once_lowers_the_rate_once() -> None:
    clock = Clock()
    pacer, _ = busy_pacer(clock)
    crowd = [go(pacer, clock) for _ in range(64)]
    clock.now += 0.5

    for began in crowd:
        pacer.slow_down(began, None)
    assert pacer.rate == pytest.approx(9.5, abs=1)
    pacer.slow_down(crowd[0], 3.0)

    assert pacer.rate == pytest.approx(9.5, abs=1)
    assert pacer.due_at(take_turn(pacer)) >= clock.now + 3.0


def test_throttling_at_ever_lower_rates_ends_at_a_floor() -> None:
    clock = Clock()
    pacer = limited_pacer(clock)

    for _ in range(30):
        clock.now += 2.0
        began = go(pacer, clock)
        pacer.speed_up(began)
        clock.now += 0.1
        pacer.slow_down(go(pacer, clock), None)

    assert pacer.rate == pytest.approx(0.1)


def test_successes_hold_the_rate_then_raise_it_and_finally_lift_it() -> None:
    clock = Clock()
    pacer = limited_pacer(clock)
    began = clock.now
    rates: list[float] = []

    while (rate := pacer.rate) is not None and clock.now < began + 1000:
        rates.append(rate)
        pacer.speed_up(go(pacer, clock))

    assert rates == sorted(rates)
    assert 10 < clock.now - began < 60
    assert pacer.rate is None
    assert pacer.due_at(take_turn(pacer)) == clock.now


def test_successes_from_before_neither_end_a_pause_nor_raise_the_rate() -> None:
    clock = Clock()
    pacer, began = busy_pacer(clock)
    pacer.slow_down(began, 30.0)
    lowered = pacer.rate

    for _ in range(10_000):
        pacer.speed_up(began)

    assert pacer.rate == lowered
    assert pacer.due_at(take_turn(pacer)) >= clock.now + 30.0


def test_turns_are_not_given_twice_to_threads() -> None:
    clock = Clock()
    pacer = limited_pacer(clock)

    with ThreadPoolExecutor(8) as threads:
        turns = list(threads.map(lambda _: take_turn(pacer).place, range(800)))

    assert len(set(turns)) == 800


def test_one_account_has_one_pacer() -> None:
    assert Pacer.shared("a") is Pacer.shared("a")
    assert Pacer.shared("a") is not Pacer.shared("b")


class Longest(random.Random):
    def uniform(self, a: float, b: float) -> float:
        return b


THROTTLED = Throttled("", status=429)


def waits(error: ScraperError, policy: RetryPolicy, *, jitter: random.Random | None = None) -> list[float]:
    retries = Retries(policy, jitter or Longest())
    found: list[float] = []
    while (wait := retries.wait_after(error, NEVER)) is not None:
        found.append(wait)
    return found


def test_the_back_off_doubles_from_a_second_to_half_a_minute() -> None:
    policy = RetryPolicy(throttling=Budget(8, 1000))

    assert waits(THROTTLED, policy) == [1, 2, 4, 8, 16, 30, 30, 30]


def test_the_jitter_is_full() -> None:
    found = waits(THROTTLED, RetryPolicy(throttling=Budget(2000, 1e9)), jitter=random.Random(1))[5:]

    assert min(found) < 1
    assert max(found) > 29
    assert 14 < sum(found) / len(found) < 16


def test_retry_after_is_a_lower_bound_so_that_zero_does_not_spin() -> None:
    policy = RetryPolicy(throttling=Budget(2, 1000))

    assert waits(Throttled("", status=429, retry_after=20.0), policy) == [20.0, 20.0]
    assert waits(Throttled("", status=429, retry_after=0.0), policy) == [1.0, 2.0]


def test_a_class_ends_with_its_retries_or_with_its_seconds() -> None:
    assert len(waits(ServerError("", status=503, retry_after=50.0), RetryPolicy(server=Budget(9, 120)))) == 2
    assert len(waits(ServerError("", status=503), RetryPolicy(server=Budget(3, 1e9)))) == 3


def test_no_wait_reaches_the_end_of_the_call() -> None:
    retries = Retries(RetryPolicy(), Longest())

    assert retries.wait_after(THROTTLED, 1.0) is None
    assert retries.wait_after(THROTTLED, 1.01) == 1.0
    assert retries.wait_after(THROTTLED, -5.0) is None


def test_classes_do_not_use_each_others_budgets() -> None:
    retries = Retries(
        RetryPolicy(throttling=Budget(1, 9), network=Budget(1, 9), server=Budget(1, 9)), Longest()
    )
    network = NetworkError("", request_sent=True)

    for error in (THROTTLED, network, ServerError("", status=500)):
        assert retries.wait_after(error, NEVER) == 1.0
        assert retries.wait_after(error, NEVER) is None
    assert retries.wait_after(UnreadableAnswer(""), NEVER) is None  # shares the network's


@pytest.mark.parametrize(
    "error",
    [
        Unauthorized("", status=401),
        AnswerTooLarge("", status=200),
        NetworkError("", request_sent=False, is_final=True),
        Throttled("our own pacer has no turn"),
    ],
)
def test_what_no_repetition_cures_is_not_waited_for(error: ScraperError) -> None:
    assert waits(error, RetryPolicy()) == []
