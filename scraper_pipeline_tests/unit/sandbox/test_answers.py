"""Odd forms of ordinary answers."""

import json
import math
from datetime import UTC, datetime, timedelta, timezone

import pytest

from scraper_pipeline.sandbox.answers import make_strange, odd_timestamp, strange_json, timestamp
from scraper_pipeline.sandbox.rules import OddForm

MOMENT = datetime(2026, 5, 27, 8, 16, 9, 926869, tzinfo=UTC)


def test_times_are_in_utc_with_a_z():
    assert timestamp(MOMENT.astimezone(timezone(timedelta(hours=2)))) == "2026-05-27T08:16:09.926869Z"
    assert timestamp(MOMENT.replace(microsecond=0)) == "2026-05-27T08:16:09.000000Z"


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("nanoseconds", "2026-05-27T08:16:09.926869123Z"),
        ("hundredths", "2026-05-27T08:16:09.92Z"),
        ("naive", "2026-05-27T08:16:09.926869"),
        ("doubled_zone", "2026-05-27T08:16:09+00:00Z"),
        ("date", "2026-05-27"),
        ("leap_second", "2026-05-27T08:16:60Z"),
        ("words", "a while ago"),
    ],
)
def test_odd_timestamps_have_the_forms_that_were_seen(form: OddForm, expected: str):
    assert odd_timestamp(MOMENT, form) == expected


def test_strange_text_keeps_the_page_and_adds_what_chokes_parsers():
    raw = strange_json(
        make_strange({"job_id": "j", "data": {"markdown": "# Page"}, "metadata": {"http_status": 200}})
    )
    body = json.loads(raw)
    assert body["data"]["markdown"] == "a\0b \ud800 \U0001f378 \\u0000\n# Page"
    metadata = body["metadata"]
    assert metadata["http_status"] == 200
    assert metadata["k\0ey"] == "value\0"
    assert metadata["\ud800"] == "\udc00 alone"
    assert math.isnan(metadata["not_a_number"])
    assert metadata["beyond_64_bits"] == 2**63
    assert b"1e400" in raw
    assert math.isinf(metadata["beyond_doubles"])
