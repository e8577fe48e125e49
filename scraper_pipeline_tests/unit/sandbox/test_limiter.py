"""The limit on requests a second admits as many as it says, in each of its forms."""

import pytest

from scraper_pipeline.sandbox.limiter import RateForm, RateLimiter


def admitted(form: RateForm, rate: float, *moments: float) -> list[bool]:
    limiter = RateLimiter()
    return [limiter.wait(rate, form, at) == 0 for at in moments]


@pytest.mark.parametrize("form", ["bucket", "fixed", "sliding"])
@pytest.mark.parametrize("rate", [0.5, 1.0, 20.0])
def test_no_form_admits_more_than_its_rate_for_long(form: RateForm, rate: float) -> None:
    limiter = RateLimiter()
    seconds = 200

    count = sum(limiter.wait(rate, form, tick / 100) == 0 for tick in range(seconds * 100))

    assert count == pytest.approx(rate * seconds, abs=max(rate, 2))


@pytest.mark.parametrize("form", ["bucket", "fixed", "sliding"])
def test_the_wait_that_is_named_suffices_and_no_shorter_one(form: RateForm) -> None:
    for share, is_admitted in ((0.99, False), (1.001, True)):
        limiter = RateLimiter()
        for _ in range(3):
            limiter.wait(3, form, 100.2)
        wait = limiter.wait(3, form, 100.5)
        assert (limiter.wait(3, form, 100.5 + share * wait) == 0) is is_admitted


def test_the_forms_differ_at_the_turn_of_a_second() -> None:
    late_and_early = (100.9, 100.9, 101.0, 101.0)

    assert admitted("fixed", 2, *late_and_early) == [True, True, True, True]
    assert admitted("sliding", 2, *late_and_early) == [True, True, False, False]
    assert admitted("bucket", 2, *late_and_early) == [True, True, False, False]


def test_a_limiter_that_forgets_begins_anew() -> None:
    limiter = RateLimiter()
    for form in ("bucket", "sliding"):
        assert limiter.wait(1, form, 100.0) == 0
        assert limiter.wait(1, form, 100.0) > 0
        limiter.forget()
        assert limiter.wait(1, form, 100.0) == 0
