"""Five fields of cron, as far as a list may use them: numbers, names of months and days, ranges, steps, commas."""

import re
from dataclasses import dataclass

_DAYS_IN_MONTH = {month: 31 for month in range(1, 13)} | {2: 29} | dict.fromkeys((4, 6, 9, 11), 30)
_ELEMENT = re.compile(r"(?:\*|(\w+)(?:-(\w+))?)(?:/(\d+))?")


@dataclass(frozen=True)
class _Field:
    name: str
    first: int
    last: int
    names: str = ""


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, "jan feb mar apr may jun jul aug sep oct nov dec"),
    _Field("day of the week", 0, 7, "sun mon tue wed thu fri sat"),
)


def check_cron(text: str) -> str | None:
    """What is wrong with a cron string; None for one that comes true at some time."""
    parts = text.split()
    if len(parts) != len(_FIELDS):
        return f"has {len(parts)} fields, and cron five: minute, hour, day, month, day of the week"
    values = []
    for part, one in zip(parts, _FIELDS, strict=True):
        found = _values(part, one)
        if not found:
            return f"cannot be read in the field for the {one.name} ({one.first} to {one.last})"
        values.append(found)
    _, _, days, months, weekdays = values
    if len(weekdays) >= 7 and all(min(days) > _DAYS_IN_MONTH[month] for month in months):
        return "names a day that no month of it has"
    return None


def _values(part: str, one: _Field) -> set[int]:
    values: set[int] = set()
    for element in part.lower().split(","):
        found = _ELEMENT.fullmatch(element)
        if found is None:
            return set()
        first = one.first if found[1] is None else _number(found[1], one)
        last = (
            one.last
            if found[1] is None or (found[3] and not found[2])
            else _number(found[2] or found[1], one)
        )
        step = int(found[3] or 1)
        if first is None or last is None or first > last or not 1 <= step <= one.last:
            return set()
        values.update(range(first, last + 1, step))
    return values


def _number(text: str, one: _Field) -> int | None:
    if text in one.names.split():
        return one.names.split().index(text) + one.first
    return int(text) if text.isascii() and text.isdigit() and one.first <= int(text) <= one.last else None
