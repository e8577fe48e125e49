"""One pace for everybody: none until the service complains, then halved, then slowly given back."""

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

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


def busy_pacer(clock: Clock, per_second: int = 10) -> tuple[Pacer, Turn]:
    """A pacer that has seen two seconds of traffic, and the last turn of it."""
    pacer = Pacer(monotonic=clock)
    for _ in range(2 * per_second):
        turn = take_turn(pacer)
        clock.now += 1 / per_second
    return pacer, turn


def test_there_is_no_limit_until_the_service_throttles() -> None:
    clock = Clock()
    pacer = Pacer(monotonic=clock)

    assert {take_turn(pacer).at for _ in range(10_000)} == {clock.now}
    assert pacer.rate is None


def test_throttling_halves_the_observed_rate_and_spaces_the_turns() -> None:
    clock = Clock()
    pacer, turn = busy_pacer(clock)

    pacer.slow_down(turn, None)

    assert pacer.rate == pytest.approx(5.0)
    waits = [take_turn(pacer).at - clock.now for _ in range(3)]
    assert waits == pytest.approx([0.2, 0.4, 0.6])


def test_everybody_waits_for_the_retry_after_of_one() -> None:
    clock = Clock()
    pacer, turn = busy_pacer(clock)
    waiting = take_turn(pacer)

    pacer.slow_down(turn, 30.0)

    assert not pacer.is_current(waiting)
    assert take_turn(pacer).at == pytest.approx(clock.now + 30.0)
    assert pacer.reserve(latest=clock.now + 29.0) is None


def test_a_refused_turn_takes_no_place_in_the_queue() -> None:
    clock = Clock()
    pacer, turn = busy_pacer(clock)
    pacer.slow_down(turn, 30.0)

    for _ in range(100):
        assert pacer.reserve(latest=clock.now) is None

    assert take_turn(pacer).at == pytest.approx(clock.now + 30.0)


def test_a_crowd_throttled_at_once_halves_the_rate_once() -> None:
    clock = Clock()
    pacer, _ = busy_pacer(clock)
    crowd = [take_turn(pacer) for _ in range(64)]
    clock.now += 0.5

    pacer.slow_down(crowd[0], None)
    halved = pacer.rate
    for turn in crowd[1:]:
        pacer.slow_down(turn, 3.0)

    assert pacer.rate == halved
    assert take_turn(pacer).at == pytest.approx(clock.now + 3.0)


def test_throttling_again_at_the_lower_rate_halves_it_again_down_to_a_floor() -> None:
    clock = Clock()
    pacer, turn = busy_pacer(clock)

    for _ in range(30):
        pacer.slow_down(turn, None)
        turn = take_turn(pacer)
        clock.now = turn.at + 0.1

    assert pacer.rate == pytest.approx(0.1)


def test_successes_raise_the_rate_steadily_and_finally_lift_it() -> None:
    clock = Clock()
    pacer, turn = busy_pacer(clock)
    pacer.slow_down(turn, None)
    began = clock.now
    rates: list[float] = []

    while pacer.rate is not None and clock.now < began + 1000:
        rates.append(pacer.rate)
        clock.now = max(clock.now, take_turn(pacer).at)
        pacer.speed_up()

    assert rates == sorted(rates)
    assert 60 < clock.now - began < 120
    assert pacer.rate is None
    assert take_turn(pacer).at == clock.now


def test_successes_from_before_do_not_end_a_pause() -> None:
    clock = Clock()
    pacer, turn = busy_pacer(clock)
    pacer.slow_down(turn, 30.0)

    for _ in range(10_000):
        pacer.speed_up()

    assert take_turn(pacer).at == pytest.approx(clock.now + 30.0)


def test_turns_are_not_given_twice_to_threads() -> None:
    clock = Clock()
    pacer, turn = busy_pacer(clock)
    pacer.slow_down(turn, None)

    with ThreadPoolExecutor(8) as threads:
        turns = list(threads.map(lambda _: take_turn(pacer).at, range(800)))

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
