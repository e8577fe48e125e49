"""Reads the service's times: timestamps in bodies, dates in headers, and `Retry-After`."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone

_TIMESTAMP = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"
    r"(?:[Tt ](?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d+))?)?"
    r" ?(?:(?P<sign>[+-])(?P<zone_hours>\d\d):?(?P<zone_minutes>\d\d)?)?[Zz]?)?",
    re.ASCII,
)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
_UTC_NAMES = r" (?:GMT|UTC?|[+-]0000)"
_HTTP_DATES = tuple(
    re.compile(pattern, re.ASCII | re.IGNORECASE)
    for pattern in (
        rf"[a-z]{{3}}, (?P<day>\d\d?) (?P<month>[a-z]{{3}}) (?P<year>\d{{4}}) {_CLOCK}{_UTC_NAMES}",
        rf"[a-z]{{6,9}}, (?P<day>\d\d)-(?P<month>[a-z]{{3}})-(?P<year>\d\d) {_CLOCK}{_UTC_NAMES}",
        rf"[a-z]{{3}} (?P<month>[a-z]{{3}}) (?P<day>[ \d]\d) {_CLOCK} (?P<year>\d{{4}})",
    )
)
_MORE_DIGITS_THAN_ANY_WAIT = 12


def parse_time(value: object) -> datetime | None:
    """A timestamp of the service as an aware datetime in UTC, or None if it can't be read as one.

    Digits beyond microseconds are cut off, a time without a zone is UTC, a date alone is its midnight, and a leap
    second is the first second after it. `Z` behind an offset adds nothing.
    """
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    match = _TIMESTAMP.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return None
    offset = timedelta(hours=int(match["zone_hours"] or 0), minutes=int(match["zone_minutes"] or 0))
    microsecond = int((match["fraction"] or "").ljust(6, "0")[:6])
    try:
        zone = timezone(-offset if match["sign"] == "-" else offset)
        return _moment(match, int(match["month"]), int(match["year"]), microsecond, zone).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def parse_http_date(value: str) -> datetime | None:
    """A date in one of the three forms of RFC 9110 section 5.6.7, in UTC; None if it is in none of them."""
    for form in _HTTP_DATES:
        if match := form.fullmatch(value.strip(" \t")):
            year = int(match["year"])
            if len(match["year"]) == 2:
                year += 1900 if year >= 70 else 2000
            try:
                return _moment(match, _MONTHS.index(match["month"].lower()) + 1, year, 0, UTC)
            except (ValueError, OverflowError):
                return None
    return None


def parse_retry_after(values: Sequence[str], *, sent_at: datetime, longest: float) -> float | None:
    """The seconds that the service asks for, from 0 to `longest`; None if it asks for nothing that can be read.

    `values` are all `Retry-After` headers of one answer: several contradict the one form that the header has, so
    that none of them is believed. `sent_at` is the moment that a date counts from: the answer's own `Date`, so that
    the two clocks needn't agree.
    """
    if len(values) != 1:
        return None
    value = values[0].strip(" \t")
    if re.fullmatch("[0-9]+", value):
        return longest if len(value) > _MORE_DIGITS_THAN_ANY_WAIT else min(float(value), longest)
    date = parse_http_date(value)
    return None if date is None else min(max((date - sent_at).total_seconds(), 0.0), longest)


def _moment(match: re.Match[str], month: int, year: int, microsecond: int, zone: timezone) -> datetime:
    second = int(match["second"] or 0)
    leap = timedelta(seconds=1 if second == 60 else 0)
    minute = datetime(
        year,
        month,
        int(match["day"]),
        int(match["hour"] or 0),
        int(match["minute"] or 0),
        min(second, 59) if second <= 60 else second,
        0 if leap else microsecond,
        tzinfo=zone,
    )
    return minute + leap
