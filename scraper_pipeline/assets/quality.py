"""Whether a day's pages are worth what they cost: checks that warn of junk which was extracted without any error."""

from collections.abc import Iterator, Sequence
from statistics import median

import dagster as dg

from scraper_pipeline.assets.figures import checked_days
from scraper_pipeline.ledger import ContentFigures, Ledger
from scraper_pipeline.resources import LedgerResource, explained_failures

MOST_EMPTY = 0.05
MOST_REPEATED = 0.10
MOST_CHANGE = 2.0
DAYS_COMPARED = 7
FEWEST_PAGES = 20  # of which a mean says something


_SPECS = [
    dg.AssetCheckSpec(
        "share_of_empty_pages",
        asset="stored_results",
        description=f"At most {MOST_EMPTY:.0%} of the pages are empty: more means that junk is paid for.",
    ),
    dg.AssetCheckSpec(
        "share_of_repeated_pages",
        asset="stored_results",
        description=(
            f"At most {MOST_REPEATED:.0%} of a day's pages have the very content of another one: more means that a "
            "site answers with the same page for everything, such as a login or a block."
        ),
    ),
    dg.AssetCheckSpec(
        "size_is_usual",
        asset="stored_results",
        description=(
            f"The mean size of a day's pages is within {MOST_CHANGE:g} times of what it was over the {DAYS_COMPARED} "
            f"days before; days of fewer than {FEWEST_PAGES} pages say nothing, nor those whose content was dropped. "
            "A sample of each day is measured."
        ),
    ),
]


@dg.multi_asset_check(name="pages_are_worth_their_price", specs=_SPECS, can_subset=True)
def pages_are_worth_their_price(
    context: dg.AssetCheckExecutionContext, ledger: LedgerResource
) -> Iterator[dg.AssetCheckResult]:
    with explained_failures(), ledger.open() as book:
        days = checked_days(context, book)
        total = _total([book.quality.content(day) for day in days])
        size = check_size_is_usual(book, days)
    wanted = {key.name for key in context.selected_asset_check_keys}
    results = (_check_empty(total, days), _check_repeated(total, days), size)
    yield from (result for result in results if result.check_name in wanted)


def _check_empty(total: ContentFigures, days: Sequence[str]) -> dg.AssetCheckResult:
    share = total.empty_share
    figures = {"empty_pages": total.empty, "pages": total.pages, "share": share}
    return _warning("share_of_empty_pages", share <= MOST_EMPTY, days, None, **figures)


def _check_repeated(total: ContentFigures, days: Sequence[str]) -> dg.AssetCheckResult:
    share = total.repeated_share
    figures = {"repeated_pages": total.repeated, "pages": total.pages, "share": share}
    return _warning("share_of_repeated_pages", share <= MOST_REPEATED, days, None, **figures)


def check_size_is_usual(ledger: Ledger, days: Sequence[str]) -> dg.AssetCheckResult:
    """Whether the pages of each of these days are about as large as before; shows an unusual day, or the last one."""
    found = {day: sizes for day in days if (sizes := _sizes(ledger, day))}
    unusual = {day: sizes for day, sizes in found.items() if not _is_usual(*sizes)}
    shown, (mean, usual) = list((unusual or found or {"": (0.0, 0.0)}).items())[-1]
    said = f"The pages of {shown} have {mean:.0f} bytes on average, where {usual:.0f} are usual."
    return _warning(
        "size_is_usual",
        not unusual,
        list(unusual or days),
        said if found else "There is too little to compare.",
        mean_bytes=mean,
        usual_bytes=usual,
    )


def _sizes(ledger: Ledger, day: str) -> tuple[float, float] | None:
    """A day's mean size and the median of those before, in bytes; None if there is too little to compare."""
    days = [day, *ledger.quality.days_before(day, DAYS_COMPARED)]
    pruned = ledger.retention.pruned(days)  # whose pages have no size any more
    today, *before = (None if one in pruned else ledger.quality.content(one) for one in days)
    means = [figures.mean_bytes for figures in before if figures and _tells(figures)]
    return (today.mean_bytes, median(means)) if means and today and _tells(today) else None


def _tells(figures: ContentFigures) -> bool:
    return figures.pages - figures.empty >= FEWEST_PAGES


def _is_usual(mean: float, usual: float) -> bool:
    return usual / MOST_CHANGE <= mean <= usual * MOST_CHANGE


def _total(figures: Sequence[ContentFigures]) -> ContentFigures:
    return ContentFigures(
        sum(day.pages for day in figures),
        sum(day.empty for day in figures),
        sum(day.repeated for day in figures),
        0.0,
    )


def _warning(
    check: str, passed: bool, days: Sequence[str], said: str | None, **figures: float
) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key="stored_results",
        check_name=check,
        passed=passed,
        severity=dg.AssetCheckSeverity.WARN,
        description=said,
        metadata={**figures, "days": ", ".join(days[:31])},
    )
