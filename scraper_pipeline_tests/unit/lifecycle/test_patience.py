"""How long the pipeline waits, and what it makes of the service's clock."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from scraper_pipeline.lifecycle import LifecyclePolicy
from scraper_pipeline.lifecycle.service_clock import ServiceClock
from scraper_pipeline.scraper_api import JobListing

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def _listing(service_time: datetime | None, latency: float = 0.2) -> JobListing:
    return JobListing(
        jobs=(),
        service_time=service_time,
        requested_at=NOON,
        received_at=NOON + timedelta(seconds=latency),
    )


def test_looks_come_at_growing_random_intervals_up_to_the_longest() -> None:
    policy = LifecyclePolicy(first_look=1.0, longest_look=30.0)
    chance = random.Random(1)
    for looks, longest in ((0, 1), (1, 2), (3, 8), (5, 30), (5000, 30)):
        delays = [policy.look_delay(looks, chance).total_seconds() for _ in range(200)]
        assert min(delays) >= 0
        assert longest / 2 < max(delays) <= longest


def test_a_settlement_that_could_not_be_decided_is_never_retried_at_once() -> None:
    policy = LifecyclePolicy(first_look=1.0, longest_look=30.0)
    chance = random.Random(1)
    assert min(policy.retry_delay(0, chance).total_seconds() for _ in range(200)) >= 0.5


def test_the_default_grace_covers_lease_lag_and_skew() -> None:
    """Rule 5: otherwise a job that exists could be missing from the listing that decides."""
    policy = LifecyclePolicy()
    assert policy.send_grace > policy.send_lease + policy.clock_skew


@pytest.mark.parametrize("ahead", [0.0, 300.0, -300.0])
def test_the_true_difference_of_the_clocks_lies_between_the_bounds(ahead: float) -> None:
    for sent_after in (0.0, 0.1, 0.2):
        for fraction in (0.0, 0.4, 0.999):
            truly = timedelta(seconds=ahead + fraction)
            shown = (NOON + timedelta(seconds=sent_after) + truly).replace(microsecond=0)
            clock = ServiceClock()
            clock.learn(_listing(shown))
            assert clock.earliest(NOON) <= NOON + truly <= clock.latest(NOON)
            assert clock.latest(NOON) - clock.earliest(NOON) <= timedelta(seconds=1.2)


def test_an_answer_without_a_date_teaches_nothing() -> None:
    clock = ServiceClock()
    assert clock.learn(_listing(None)) == 0.0
    assert clock.earliest(NOON) == clock.latest(NOON) == NOON


def test_learning_tells_how_far_off_the_estimate_was() -> None:
    clock = ServiceClock()
    assert clock.learn(_listing(NOON + timedelta(seconds=300))) == pytest.approx(300, abs=1.5)
    assert clock.learn(_listing(NOON + timedelta(seconds=300))) == pytest.approx(0, abs=0.1)
