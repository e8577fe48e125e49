"""Reading the results of a batch or crawl page by page: what both have in common."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from scraper_pipeline.scraper_api.bulk_models import Batch, Crawl
from scraper_pipeline.scraper_api.calls import Answer
from scraper_pipeline.scraper_api.errors import AnswerTooLarge

W = TypeVar("W", Batch, Crawl)

LARGEST_RESULTS_PAGE = 50
# Each divides the one before, so that smaller pages begin where a larger one did.
_PAGE_SIZES = (50, 10, 1)


def reader(kind: type[W], job_id: str, *, with_items: bool = True) -> Callable[[Answer], W]:
    """Reads an answer about one batch or crawl, with the page of items in it or without."""

    def read(answer: Answer) -> W:
        fields = {**answer.fields, "sanitised": answer.sanitised}
        whole = kind.model_validate(fields if with_items else fields | {"results": []})
        if whole.job_id.lower() != job_id.lower():
            raise ValueError("it tells of another job")
        return whole

    return read


async def read_pages(
    get_page: Callable[[int, int], Awaitable[W]], look: Callable[[], Awaitable[W]]
) -> AsyncIterator[W]:
    """Every page of the results, until as many items have been seen as there are.

    There is no count of pages. The number of items says how many there must be: an empty page among them does not
    end the reading, one behind them does.
    """
    page, seen = 1, 0
    while True:
        found = 0
        total: int | None = None
        for part in await read_page(get_page, look, page):
            found += len(part.items) + part.unreadable + part.too_large
            total = part.total
            yield part
        seen += found
        if total is not None and seen >= total:
            return
        if not found and (total is None or page * LARGEST_RESULTS_PAGE >= total):
            return
        page += 1


async def read_page(
    get_page: Callable[[int, int], Awaitable[W]],
    look: Callable[[], Awaitable[W]],
    page: int,
    page_size: int = LARGEST_RESULTS_PAGE,
) -> list[W]:
    """One page, or where that is more than the cap admits, the smaller pages in its place."""
    try:
        return [await get_page(page, page_size)]
    except AnswerTooLarge:
        if page_size == 1:
            return [(await look()).model_copy(update={"too_large": 1})]
    smaller = _PAGE_SIZES[_PAGE_SIZES.index(page_size) + 1]
    parts = page_size // smaller
    found: list[W] = []
    for number in range((page - 1) * parts + 1, page * parts + 1):
        found += await read_page(get_page, look, number, smaller)
        total = found[-1].total
        if total is not None and number * smaller >= total:
            break
    return found
