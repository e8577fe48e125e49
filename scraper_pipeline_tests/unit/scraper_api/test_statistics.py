"""The service's statistics are read for what was charged, in whatever form that comes."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from scraper_pipeline.scraper_api import Statistics

DAY = {"date": "2026-05-01T00:00:00Z", "tokens_used": 3}


@pytest.mark.parametrize(
    ("payload", "charged", "days"),
    [
        ({"period_tokens_used": 7, "tokens_used": [DAY], "success_rate": 0.5}, 7, 1),
        ({"period_tokens_used": 7.0, "tokens_used": None}, 7, 0),
        ({"period_tokens_used": None, "tokens_used": [DAY, {**DAY, "tokens_used": 2.0}]}, 5, 2),
        (
            {"tokens_used": [DAY, {"date": "a while ago", "tokens_used": 2}, "junk", {"date": DAY["date"]}]},
            3,
            1,
        ),
        ({"tokens_used": []}, 0, 0),
    ],
)
def test_what_was_charged_is_read(payload: dict[str, Any], charged: int, days: int) -> None:
    statistics = Statistics.model_validate(payload)
    assert statistics.pages_charged == charged
    assert len(statistics.tokens_used or ()) == days


def test_a_day_is_the_time_when_it_began() -> None:
    [day] = (
        Statistics.model_validate({"tokens_used": [{"date": "2026-05-01", "tokens_used": 3}]}).tokens_used
        or ()
    )
    assert (day.date, day.tokens_used) == (datetime(2026, 5, 1, tzinfo=UTC), 3)


@pytest.mark.parametrize(
    "payload", [{}, {"extraction_count": 3}, {"period_tokens_used": "7", "tokens_used": "7"}, []]
)
def test_an_answer_that_tells_nothing_of_it_is_none(payload: Any) -> None:
    with pytest.raises(ValidationError):
        Statistics.model_validate(payload)
