"""Drops from the ledger what is old: content that the published files have, and traces of news settled long ago."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from scraper_pipeline.ledger import Ledger, OldDay, Traces
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
    """The days whose content was or would be dropped, with their pages, and those that are kept, by the reason."""

    days: tuple[str, ...]
    pages: int
    unpublished: tuple[str, ...]
    unsettled: tuple[str, ...]
    traces: Traces


_Content = tuple[tuple[str, ...], int, tuple[str, ...], tuple[str, ...]]


def what_is_old(ledger: Ledger, place: Place, retention: Retention, today: date) -> PruneReport:
    """What ``prune`` would drop. Raises PublishingError where the published files can't be read."""

    def count(one: Ledger, day: OldDay) -> int:
        return one.retention.pages_with_content(day.partition_key)

    content = _go_through(ledger, place, retention, today, count)
    return PruneReport(*content, ledger.retention.traces(*_moments(ledger, retention)))


def prune(
    ledger: Ledger,
    place: Place,
    retention: Retention,
    today: date,
    advance: Advance = lambda _what, _more, _total: None,
) -> PruneReport:
    """Drop what is older than it is kept; what is broken off is gone on with by the next call.

    Raises PublishingError where the published files can't be read; the days before are done then.
    """

    def drop(one: Ledger, day: OldDay) -> int:
        total = one.retention.pages_with_content(day.partition_key)
        return one.retention.drop_content(day, lambda more: advance(day.partition_key, more, total))

    content, traces = _go_through(ledger, place, retention, today, drop), Traces()
    for one in ledger.each:
        traces += one.retention.forget(
            *_moments(ledger, retention), lambda more: advance("news and letters", more, None)
        )
    return PruneReport(*content, traces)


def _go_through(
    ledger: Ledger, place: Place, retention: Retention, today: date, take: Callable[[Ledger, OldDay], int]
) -> _Content:
    """Take each old day that may be taken, right after a look at its file: what changes then is not dropped."""
    taken: dict[str, int] = {}
    unpublished, unsettled = [], []
    old: dict[str, list[tuple[Ledger, OldDay]]] = {}  # by day: one file shows the pages of all accounts
    if retention.content_days is not None:
        for one in ledger.each:
            for day in one.retention.old_days((today - timedelta(retention.content_days)).isoformat()):
                old.setdefault(day.partition_key, []).append((one, day))
    for key, days in sorted(old.items()):
        if any(day.is_open for _, day in days):
            unsettled.append(key)
        elif not retention.even_unpublished and not shows_the_day(ledger, place, key):
            unpublished.append(key)
        elif pages := sum(take(one, day) for one, day in days):
            taken[key] = pages
    return tuple(taken), sum(taken.values()), tuple(unpublished), tuple(unsettled)


def _moments(ledger: Ledger, retention: Retention) -> tuple[datetime | None, datetime | None]:
    now = ledger.clock()
    news, letters = (
        None if days is None else now - timedelta(days)
        for days in (retention.news_days, retention.letters_days)
    )
    return news, letters
