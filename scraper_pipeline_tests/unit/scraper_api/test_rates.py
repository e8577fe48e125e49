"""The pace settles just under a limit that nobody tells, whatever way it is counted, and follows it."""

from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scraper_pipeline.sandbox.limiter import RateForm
from scraper_pipeline_tests.unit.scraper_api.throttling import Service, Simulation

FORMS: tuple[RateForm, ...] = ("bucket", "fixed", "sliding")
RetryAfter = float | Literal["needed"] | None

each_form = pytest.mark.parametrize("form", FORMS)
each_retry_after = pytest.mark.parametrize("retry_after", [1.0, "needed", None])


def simulation(rate: float, form: RateForm, retry_after: RetryAfter = 1.0, *, seed: int = 1) -> Simulation:
    return Simulation(Service(rate, form, retry_after), seed)


@each_form
@each_retry_after
@pytest.mark.parametrize("answer_seconds", [(0.005, 0.02), (0.1, 0.5)])
def test_a_settled_pace_wastes_less_than_a_tenth_of_the_limit_and_is_hardly_ever_refused(
    form: RateForm, retry_after: RetryAfter, answer_seconds: tuple[float, float]
) -> None:
    simulated = Simulation(Service(20, form, retry_after, answer_seconds))
    simulated.join()
    simulated.run(120)

    assert simulated.answered(20, 120) >= 18
    assert simulated.refused(20, 120) < 0.01


@each_form
def test_a_machine_that_stalls_now_and_then_is_refused_no_more_often_for_it(form: RateForm) -> None:
    simulated = Simulation(Service(20, form), stalls=(3.07, 0.1))
    simulated.join()
    simulated.run(220)

    assert simulated.answered(20, 220) >= 17
    assert simulated.refused(20, 220) < 0.01


@settings(derandomize=True, deadline=None, max_examples=15)
@given(
    rate=st.floats(5, 60),
    form=st.sampled_from(FORMS),
    retry_after=st.sampled_from([1.0, "needed", None]),
    callers=st.integers(16, 100),
    seed=st.integers(0, 1000),
)
def test_it_settles_at_any_limit(
    rate: float, form: RateForm, retry_after: RetryAfter, callers: int, seed: int
) -> None:
    simulated = simulation(rate, form, retry_after, seed=seed)
    simulated.join(callers)
    simulated.run(100)

    admitted = int(rate) if form != "bucket" else rate
    assert simulated.answered(40, 100) >= 0.85 * admitted
    assert simulated.refused(40, 100) < 0.02


@each_form
@each_retry_after
def test_a_limit_that_rises_is_found_within_a_minute_or_so(form: RateForm, retry_after: RetryAfter) -> None:
    simulated = simulation(20, form, retry_after)
    simulated.join(callers=100)
    simulated.run(30)
    simulated.service.rate = 100

    simulated.run(90)

    assert simulated.answered(90, 120) >= 85
    assert simulated.refused(30, 120) < 0.02


@each_form
@each_retry_after
def test_a_limit_that_falls_is_found_within_seconds(form: RateForm, retry_after: RetryAfter) -> None:
    simulated = simulation(20, form, retry_after)
    simulated.join()
    simulated.run(60)
    simulated.service.rate = 5

    simulated.run(70)

    assert simulated.refused(70, 130) < 0.02
    assert simulated.answered(80, 130) >= 4


@each_form
@pytest.mark.parametrize("retry_after", [1.0, None])
def test_two_processes_that_know_nothing_of_each_other_share_the_limit(
    form: RateForm, retry_after: RetryAfter
) -> None:
    simulated = simulation(20, form, retry_after)
    first = simulated.join()
    simulated.run(60)
    second = simulated.join()
    simulated.run(300)

    assert simulated.answered(60, 120, second) >= 0.5, (
        "it does not starve while the first one has not given way"
    )
    for pacer in (first, second):
        assert simulated.answered(180, 360, pacer) >= 6
    assert simulated.answered(180, 360) >= 17
    assert simulated.refused(180, 360) < 0.02


@each_form
def test_a_request_in_two_seconds_is_a_limit_like_any_other(form: RateForm) -> None:
    simulated = simulation(0.5, form)
    simulated.join()
    simulated.run(700)

    assert simulated.answered(100, 700) >= 0.38
    assert simulated.refused(100, 700) < 0.06


@each_form
def test_a_long_retry_after_is_obeyed_by_all(form: RateForm) -> None:
    simulated = simulation(20, form, 60.0)
    simulated.join()
    simulated.run(400)

    refused_at = [one.at for one in simulated.requests if not one.is_admitted]
    for at in refused_at:
        in_flight = simulated.service.refusal_seconds[1] + 0.05
        assert not [one for one in simulated.requests if at + in_flight < one.at < at + 60]
    assert simulated.refused(0.5, 400) < 0.02


def test_where_nothing_is_admitted_all_wait_longer_and_longer_and_the_limit_stays_known() -> None:
    simulated = simulation(20, "sliding", None)
    pacer = simulated.join()
    simulated.run(60)
    known = pacer.rate
    simulated.service.rate = 0
    simulated.run(60)

    assert len([one for one in simulated.requests if 70 < one.at < 120]) < 20
    assert known is not None
    assert pacer.rate is not None
    assert pacer.rate > 0.8 * known
    simulated.service.rate = 20
    simulated.run(40)
    assert simulated.answered(135, 160) > 17


def test_the_limit_is_lifted_when_nothing_has_been_refused_for_long() -> None:
    simulated = simulation(20, "bucket")
    pacer = simulated.join(callers=20)
    simulated.run(60)
    assert pacer.rate is not None
    simulated.service.rate = 100_000

    simulated.run(90)

    assert pacer.rate is None


def test_an_idle_hour_proves_nothing() -> None:
    simulated = simulation(20, "bucket")
    pacer = simulated.join()
    simulated.run(60)
    before = pacer.rate
    simulated.leave()

    simulated.run(3600)

    assert pacer.rate == before


def test_a_first_refusal_out_of_the_blue_does_not_slow_down_for_minutes() -> None:
    simulated = simulation(100_000, "bucket")
    pacer = simulated.join(callers=5)
    turn = pacer.reserve(0)
    assert turn is not None
    pacer.slow_down(pacer.begin(turn), None)
    assert pacer.rate is not None

    simulated.run(60)

    assert pacer.rate is None
