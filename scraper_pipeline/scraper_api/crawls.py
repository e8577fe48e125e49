"""The calls about crawls (contract, "Jobs"): one URL, and the pages that links lead to from there."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime

from scraper_pipeline.scraper_api.addresses import LARGEST_PAGE_SIZE, page_params, path_segment, widened
from scraper_pipeline.scraper_api.bulk_models import AcceptedCrawl, Cancellation, Crawl, CrawlListing
from scraper_pipeline.scraper_api.calls import Call, Caller, Method
from scraper_pipeline.scraper_api.errors import InvalidRequest
from scraper_pipeline.scraper_api.options import CrawlScope, ExtractOptions
from scraper_pipeline.scraper_api.results import LARGEST_RESULTS_PAGE, read_page, read_pages, reader

_LARGEST_CRAWL = 10_000
_COLLECTION = "/v1/crawl"


class CrawlCalls:
    """What a client does about crawls.

    Where the service has no crawls yet, submitting and listing raise CrawlsNotOffered. Calls about one crawl raise
    JobNotFound and JobExpired.
    """

    _caller: Caller
    _max_results_bytes: int

    async def submit_crawl(
        self,
        url: str,
        options: ExtractOptions | None = None,
        scope: CrawlScope | None = None,
        *,
        deadline: float | None = None,
    ) -> AcceptedCrawl:
        """Has the pages extracted that links lead to from a URL, as far as the scope admits.

        Raises InvalidOptions for `headers` and a `timeout`, which no crawl takes. Never repeated after an error whose
        `proves_no_job` is false: the crawl may exist, and the listing has its URL.
        """
        request = (options or ExtractOptions()).to_crawl_request(url, scope or CrawlScope())
        call = Call("submit_crawl", "POST", _COLLECTION, body=json.dumps(request).encode(), subject="crawls")
        return await self._caller.perform(
            call, lambda answer: AcceptedCrawl.model_validate(answer.payload), deadline=deadline
        )

    async def get_crawl(
        self,
        job_id: str,
        *,
        page: int = 1,
        page_size: int = LARGEST_RESULTS_PAGE,
        budget: float | None = None,
    ) -> Crawl:
        """The crawl as it stands, with one page of its items, content included; at most 50 a page."""
        if page_size > LARGEST_RESULTS_PAGE:
            raise ValueError(f"a page of results holds at most {LARGEST_RESULTS_PAGE} items")
        call = self._about_crawl(job_id, "get_crawl", "GET", page, page_size)
        return await self._caller.perform(call, reader(Crawl, job_id), budget=budget)

    async def look_at_crawl(self, job_id: str, *, budget: float | None = None) -> Crawl:
        """The crawl as it stands, without any items, by the same means as `look_at_batch`."""
        read = reader(Crawl, job_id, with_items=False)
        try:
            call = self._about_crawl(job_id, "look_at_crawl", "GET", _LARGEST_CRAWL + 1, 1)
            return await self._caller.perform(call, read, budget=budget)
        except InvalidRequest:
            call = self._about_crawl(job_id, "look_at_crawl", "GET", 1, 1)
            return await self._caller.perform(call, read, budget=budget)

    def read_crawl(self, job_id: str, *, budget: float | None = None) -> AsyncIterator[Crawl]:
        """All pages of the results, in order, as `read_batch` gives them; the end goes by `total_pages`."""
        return read_pages(*self._crawl_reading(job_id, budget))

    async def read_crawl_page(
        self, job_id: str, page: int, *, budget: float | None = None
    ) -> Sequence[Crawl]:
        """One page of 50, as `read_crawl` gives it: whole, or where it passes the cap, in its smaller parts."""
        return await read_page(*self._crawl_reading(job_id, budget), page)

    async def cancel_crawl(self, job_id: str) -> Cancellation:
        """Cancels what of the crawl has not begun; what has is still extracted and charged.

        CannotCancel says that it has ended, or that this call has cancelled it by a request whose answer was lost.
        """
        call = self._about_crawl(job_id, "cancel_crawl", "DELETE")
        return await self._caller.perform(call, lambda answer: Cancellation.model_validate(answer.payload))

    async def list_crawls(
        self,
        *,
        status: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        page: int = 1,
        page_size: int = LARGEST_PAGE_SIZE,
        budget: float | None = None,
    ) -> CrawlListing:
        """One page of the crawls that match, whose window of creation is that of `list_jobs`."""
        params = page_params(page, page_size, status=status, start_date=start, end_date=widened(end))
        call = Call("list_crawls", "GET", f"{_COLLECTION}/jobs", params=params, subject="crawls")
        return await self._caller.perform(
            call, lambda answer: CrawlListing.model_validate(answer.listing), budget=budget
        )

    def _crawl_reading(
        self, job_id: str, budget: float | None
    ) -> tuple[Callable[[int, int], Awaitable[Crawl]], Callable[[], Awaitable[Crawl]]]:
        """How a page of results is had, and a look without any."""

        async def get_page(page: int, page_size: int) -> Crawl:
            return await self.get_crawl(job_id, page=page, page_size=page_size, budget=budget)

        async def look() -> Crawl:
            return await self.look_at_crawl(job_id, budget=budget)

        return get_page, look

    def _about_crawl(
        self, job_id: str, name: str, method: Method, page: int | None = None, page_size: int = 1
    ) -> Call:
        return Call(
            name,
            method,
            f"{_COLLECTION}/{path_segment(job_id, 'crawl')}",
            params=None if page is None else page_params(page, page_size),
            subject="crawl",
            subject_id=job_id,
            most_bytes=None if page_size == 1 else self._max_results_bytes,
        )
