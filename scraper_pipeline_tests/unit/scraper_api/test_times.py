"""One parser for the service's times, one for the dates of HTTP, one for `Retry-After`."""

from datetime import UTC, datetime

import pytest

from scraper_pipeline.scraper_api import parse_time
from scraper_pipeline.scraper_api.times import parse_http_date, parse_retry_after

READABLE = {
    "2026-05-27T08:16:09Z": datetime(2026, 5, 27, 8, 16, 9),
    "2026-05-27T08:16:09.926869123Z": datetime(2026, 5, 27, 8, 16, 9, 926869),
    "2026-05-27T08:16:09.9999999Z": datetime(2026, 5, 27, 8, 16, 9, 999999),
    "2026-05-27T08:16:09.92Z": datetime(2026, 5, 27, 8, 16, 9, 920000),
    "2026-05-27T08:16:09,5Z": datetime(2026, 5, 27, 8, 16, 9, 500000),
    "2026-05-27T08:16:09": datetime(2026, 5, 27, 8, 16, 9),
    "2026-05-27 08:16:09": datetime(2026, 5, 27, 8, 16, 9),
    "2026-05-27t08:16:09z": datetime(2026, 5, 27, 8, 16, 9),
    "2026-05-27T08:16:09+00:00Z": datetime(2026, 5, 27, 8, 16, 9),
    "2026-05-27T08:16:09+02:00": datetime(2026, 5, 27, 6, 16, 9),
    "2026-05-27T08:16:09-0330": datetime(2026, 5, 27, 11, 46, 9),
    "2026-05-27T08:16:09+02": datetime(2026, 5, 27, 6, 16, 9),
    "2026-05-27T08:16Z": datetime(2026, 5, 27, 8, 16),
    "2026-05-27": datetime(2026, 5, 27),
    " 2026-05-27T08:16:09Z\n": datetime(2026, 5, 27, 8, 16, 9),
    "2026-12-31T23:59:60Z": datetime(2027, 1, 1),
    "2026-12-31T23:59:60.7Z": datetime(2027, 1, 1),
    "2024-02-29": datetime(2024, 2, 29),
}


@pytest.mark.parametrize(("text", "expected"), READABLE.items())
def test_a_timestamp_is_read_as_utc(text: str, expected: datetime) -> None:
    assert parse_time(text) == expected.replace(tzinfo=UTC)
    assert parse_time(parse_time(text)) == expected.replace(tzinfo=UTC)


def test_a_time_without_a_zone_is_utc() -> None:
    assert parse_time(datetime(2026, 5, 27)) == datetime(2026, 5, 27, tzinfo=UTC)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "yesterday",
        "2025-02-29",
        "2026-13-01T00:00:00Z",
        "2026-05-27T24:00:01Z",
        "2026-05-27T08:16:61Z",
        "2026-05-27T08:16:09+99:00",
        "0001-01-01T00:00:00+05:00",
        "9999-12-31T23:59:60Z",
        "2026-05-27T08:16:09Zjunk",
        "٢٠٢٦-05-27T08:16:09Z",
        "1".ljust(5000, "0"),
        None,
        1_780_000_000,
        True,
        {},
    ],
)
def test_what_is_no_timestamp_stops_nothing(value: object) -> None:
    assert parse_time(value) is None


NOVEMBER_1994 = datetime(1994, 11, 6, 8, 49, 37, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Sun, 06 Nov 1994 08:49:37 GMT", NOVEMBER_1994),
        ("Sunday, 06-Nov-94 08:49:37 GMT", NOVEMBER_1994),
        ("Sun Nov  6 08:49:37 1994", NOVEMBER_1994),
        ("Sun, 06 Nov 1994 08:49:37 -0000", NOVEMBER_1994),
        ("sun, 06 nov 1994 08:49:37 utc", NOVEMBER_1994),
        ("Fri, 31 Dec 9999 23:59:59 GMT", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("Fri, 31 Dec 9999 23:59:60 GMT", None),
        ("Sun, 31 Feb 1994 08:49:37 GMT", None),
        ("Sun, 06 Foo 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 08:49:37 CET", None),
        ("2026-05-27T08:16:09Z", None),
        ("", None),
    ],
)
def test_a_date_of_http_is_read_in_its_three_forms(text: str, expected: datetime | None) -> None:
    assert parse_http_date(text) == expected


SENT_AT = datetime(2026, 5, 27, 8, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["120"], 120.0),
        ([" 120\t"], 120.0),
        (["0"], 0.0),
        (["0007"], 7.0),
        (["9999999999"], 300.0),
        (["9" * 5000], 300.0),
        (["-5"], None),
        (["+3"], None),
        (["1.5"], None),
        (["1_000"], None),
        (["１２０"], None),
        (["٣"], None),
        (["120junk"], None),
        (["nan"], None),
        (["inf"], None),
        (["1e9"], None),
        ([""], None),
        (["Wed, 27 May 2026 08:02:00 GMT"], 120.0),
        (["Wednesday, 27-May-26 08:02:00 GMT"], 120.0),
        (["Wed May 27 08:02:00 2026"], 120.0),
        (["Wed, 27 May 2026 08:02:00 -0000"], 120.0),
        (["Fri, 31 Dec 9999 23:59:59 GMT"], 300.0),
        (["Wed, 21 Oct 2015 07:28:00 GMT"], 0.0),
        (["5", "7"], None),
        (["5", "5"], None),
        ([], None),
    ],
)
def test_retry_after_is_obeyed_as_digits_or_date_and_capped(
    values: list[str], expected: float | None
) -> None:
    assert parse_retry_after(values, sent_at=SENT_AT, longest=300.0) == expected
