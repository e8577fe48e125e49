"""Drops from the ledger what is old: content that the published files have, and traces of news settled long ago."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from scraper_pipeline.ledger import Ledger, Traces
from scraper_pipeline.publishing.days import shows_the_day
from scraper_pipeline.publishing.places import Place

Advance = Callable[[str, int, int | None], None]
"""Told what is being dropped, how many rows more are, and of how many in all, where that is known."""


@dataclass(frozen=True)
class Retention:
    """For how many days each kind is kept; None keeps it for ever.

    Content is dropped only of days whose published file shows all of their pages, unless ``even_unpublished``.
    """

    content_days: int | None = None
    news_days: int | None = None
    letters_days: int | None = None
    even_unpublished: bool = False


@dataclass(frozen=True)
class PruneReport:
    """The days whose content was or would be dropped, with their pages, and those that are kept: not published yet."""

    days: tuple[str, ...]
    pages: int
    unpublished: tuple[str, ...]
    traces: Traces


def what_is_old(ledger: Ledger, place: Place, retention: Retention, today: date) -> PruneReport:
    """What ``prune`` would drop. Raises PublishingError where the published files can't be read."""
    days, unpublished = _old_days(ledger, place, retention, today)
    pages = {day: ledger.retention.pages_with_content(day) for day in days}
    traces = ledger.retention.traces(*_moments(ledger, retention))
    return PruneReport(tuple(day for day in days if pages[day]), sum(pages.values()), unpublished, traces)


def prune(
    ledger: Ledger,
    place: Place,
    retention: Retention,
    today: date,
    advance: Advance = lambda _what, _more, _total: None,
) -> PruneReport:
    """Drop what is older than it is kept; what is broken off is gone on with by the next call.

    Raises PublishingError where the published files can't be read; nothing is dropped then.
    """
    days, unpublished = _old_days(ledger, place, retention, today)
    dropped = {day: _drop_content(ledger, day, advance) for day in days}
    traces = ledger.retention.forget(
        *_moments(ledger, retention), lambda more: advance("news and letters", more, None)
    )
    return PruneReport(tuple(day for day in days if dropped[day]), sum(dropped.values()), unpublished, traces)


def _drop_content(ledger: Ledger, day: str, advance: Advance) -> int:
    total = ledger.retention.pages_with_content(day)
    return ledger.retention.drop_content(day, lambda more: advance(day, more, total))


def _old_days(
    ledger: Ledger, place: Place, retention: Retention, today: date
) -> tuple[list[str], tuple[str, ...]]:
    """The days whose content may be dropped, and those that it may not be dropped of since they aren't published."""
    if retention.content_days is None:
        return [], ()
    days = ledger.retention.settled_days((today - timedelta(retention.content_days)).isoformat())
    if retention.even_unpublished:
        return days, ()
    unpublished = tuple(day for day in days if not shows_the_day(ledger, place, day))
    return [day for day in days if day not in unpublished], unpublished


def _moments(ledger: Ledger, retention: Retention) -> tuple[datetime | None, datetime | None]:
    now = ledger.clock()
    news, letters = (
        None if days is None else now - timedelta(days)
        for days in (retention.news_days, retention.letters_days)
    )
    return news, letters
