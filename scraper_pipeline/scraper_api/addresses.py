"""What of a call stands in its address: identifiers in the path, pages and filters in the query."""

from datetime import UTC, datetime, timedelta
from urllib.parse import quote

LARGEST_PAGE_SIZE = 100
_ALMOST_A_SECOND = timedelta(seconds=1, microseconds=-1)


def page_params(page: int, page_size: int, **filters: str | datetime | None) -> dict[str, str]:
    """The query of a listing, without what is None. Times must be aware and become whole seconds in UTC."""
    if page < 1 or page_size < 1:
        raise ValueError("pages are counted from 1, and hold at least one line")
    texts = {
        name: _whole_second(value) if isinstance(value, datetime) else value
        for name, value in filters.items()
        if value is not None
    }
    return texts | {"page": str(page), "page_size": str(page_size)}


def span_params(start: datetime, end: datetime) -> dict[str, str]:
    """The query that names a span of time, in whole seconds in UTC that have all of it between them."""
    return {"start_date": _whole_second(start), "end_date": _whole_second(end + _ALMOST_A_SECOND)}


def widened(end: datetime | None) -> datetime | None:
    """The next whole second, since the end of a window is sent as one."""
    return None if end is None else end + _ALMOST_A_SECOND


def _whole_second(moment: datetime) -> str:
    if moment.tzinfo is None:
        raise ValueError("a time without a zone does not say which jobs are meant")
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def path_segment(identifier: str, kind: str) -> str:
    """An identifier as one segment of a path. Raises ValueError for what no segment can be."""
    if identifier in ("", ".", ".."):
        raise ValueError(f"{identifier!r} is no {kind} id")
    return quote(identifier, safe="")
