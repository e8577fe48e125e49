"""Locations that hold the date: one list a day."""

import re
from datetime import date

_PLACEHOLDER = re.compile(r"\{date(?::([^{}]+))?\}")


def resolve_date(template: str, day: date) -> str:
    """The text with ``{date}`` as 2026-01-31, and ``{date:%Y/%m/%d}`` in the form of ``strftime``."""
    return _PLACEHOLDER.sub(lambda found: day.strftime(found[1] or "%Y-%m-%d"), template)
