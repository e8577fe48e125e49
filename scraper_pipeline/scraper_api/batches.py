"""The calls about batches (contract, "Jobs"): many URLs with the same options, submitted at once."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import datetime

from scraper_pipeline.scraper_api.addresses import LARGEST_PAGE_SIZE, page_params, path_segment, widened
from scraper_pipeline.scraper_api.bulk_models import AcceptedBatch, Batch, BatchListing, Cancellation
from scraper_pipeline.scraper_api.calls import Call, Caller, Method
from scraper_pipeline.scraper_api.errors import InvalidRequest
from scraper_pipeline.scraper_api.options import ExtractOptions
from scraper_pipeline.scraper_api.results import LARGEST_RESULTS_PAGE, read_page, read_pages, reader

LARGEST_BATCH = 1000
_COLLECTION = "/v1/batch"
_BEYOND_THE_END = LARGEST_BATCH + 1


class BatchCalls:
    """What a client does about batches.

    Where the service has no batches yet, submitting and listing raise BatchesNotOffered. Calls about one batch raise
    JobNotFound and JobExpired.
    """

    _caller: Caller
    _max_results_bytes: int

    async def submit_batch(
        self,
        urls: Sequence[str],
        options: ExtractOptions | None = None,
        *,
        ignore_invalid_urls: bool = True,
        deadline: float | None = None,
    ) -> AcceptedBatch:
        """Submits 1 to 1000 URLs for extraction in the background, with the same options for all.

        URLs that the service takes for invalid are left out and named in the answer, or if they are not to be ignored,
        all are refused (InvalidRequest). Raises InvalidOptions for a `timeout`, which no batch takes. Never repeated
        after an error whose `proves_no_job` is false: the batch may exist, and the listing names no URLs.
        """
        if not 1 <= len(urls) <= LARGEST_BATCH:
            raise ValueError(f"a batch takes 1 to {LARGEST_BATCH} URLs, not {len(urls)}")
        request = (options or ExtractOptions()).to_batch_request(urls, ignore_invalid_urls)
        call = Call("submit_batch", "POST", _COLLECTION, body=json.dumps(request).encode(), subject="batches")
        return await self._caller.perform(
            call, lambda answer: AcceptedBatch.model_validate(answer.payload), deadline=deadline
        )

    async def get_batch(
        self,
        job_id: str,
        *,
        page: int = 1,
        page_size: int = LARGEST_RESULTS_PAGE,
        budget: float | None = None,
    ) -> Batch:
        """The batch as it stands, with one page of its items, content included; at most 50 a page."""
        if page_size > LARGEST_RESULTS_PAGE:
            raise ValueError(f"a page of results holds at most {LARGEST_RESULTS_PAGE} items")
        call = self._about_batch(job_id, "get_batch", "GET", page, page_size)
        return await self._caller.perform(call, reader(Batch, job_id), budget=budget)

    async def look_at_batch(self, job_id: str, *, budget: float | None = None) -> Batch:
        """The batch as it stands, without any items.

        The service has no such call. What moves no content is a page beyond the last item; where that is refused, it
        is a page with the first item alone. For many batches at once, one page of `list_batches` is cheaper.
        """
        read = reader(Batch, job_id, with_items=False)
        try:
            call = self._about_batch(job_id, "look_at_batch", "GET", _BEYOND_THE_END, 1)
            return await self._caller.perform(call, read, budget=budget)
        except InvalidRequest:
            call = self._about_batch(job_id, "look_at_batch", "GET", 1, 1)
            return await self._caller.perform(call, read, budget=budget)

    def read_batch(self, job_id: str, *, budget: float | None = None) -> AsyncIterator[Batch]:
        """All pages of the results, in order; `budget` is that of each page.

        Ends when as many items have been seen as `total_urls` says, or behind the last page; the caller compares.
        Where a page passes the cap, smaller ones take its place. An item that passes it alone comes as a page without
        items whose `too_large` is 1: it is the one that is missing in the end.
        """
        return read_pages(*self._batch_reading(job_id, budget))

    async def read_batch_page(
        self, job_id: str, page: int, *, budget: float | None = None
    ) -> Sequence[Batch]:
        """One page of 50, as `read_batch` gives it: whole, or where it passes the cap, in its smaller parts."""
        return await read_page(*self._batch_reading(job_id, budget), page)

    async def cancel_batch(self, job_id: str) -> Cancellation:
        """Cancels what of the batch has not begun; what has is still extracted and charged.

        CannotCancel says that it has ended, or that this call has cancelled it by a request whose answer was lost.
        """
        call = self._about_batch(job_id, "cancel_batch", "DELETE")
        return await self._caller.perform(call, lambda answer: Cancellation.model_validate(answer.payload))

    async def list_batches(
        self,
        *,
        status: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        page: int = 1,
        page_size: int = LARGEST_PAGE_SIZE,
        budget: float | None = None,
    ) -> BatchListing:
        """One page of the batches that match, whose window of creation is that of `list_jobs`."""
        params = page_params(page, page_size, status=status, start_date=start, end_date=widened(end))
        call = Call("list_batches", "GET", f"{_COLLECTION}/jobs", params=params, subject="batches")
        return await self._caller.perform(
            call, lambda answer: BatchListing.model_validate(answer.listing), budget=budget
        )

    def _batch_reading(
        self, job_id: str, budget: float | None
    ) -> tuple[Callable[[int, int], Awaitable[Batch]], Callable[[], Awaitable[Batch]]]:
        """How a page of results is had, and a look without any."""

        async def get_page(page: int, page_size: int) -> Batch:
            return await self.get_batch(job_id, page=page, page_size=page_size, budget=budget)

        async def look() -> Batch:
            return await self.look_at_batch(job_id, budget=budget)

        return get_page, look

    def _about_batch(
        self, job_id: str, name: str, method: Method, page: int | None = None, page_size: int = 1
    ) -> Call:
        return Call(
            name,
            method,
            f"{_COLLECTION}/{path_segment(job_id, 'batch')}",
            params=None if page is None else page_params(page, page_size),
            subject="batch",
            subject_id=job_id,
            most_bytes=None if page_size == 1 else self._max_results_bytes,
        )
