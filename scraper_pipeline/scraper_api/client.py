"""The client of the Scraper API: single jobs and the state of the service; batches, crawls and webhooks join in."""

import asyncio
import json
import random as random_source
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType, TracebackType
from typing import Self

import httpx
from pydantic import SecretStr

from scraper_pipeline.scraper_api.addresses import (
    LARGEST_PAGE_SIZE,
    page_params,
    path_segment,
    span_params,
    widened,
)
from scraper_pipeline.scraper_api.batches import BatchCalls
from scraper_pipeline.scraper_api.calls import Answer, Call, Caller
from scraper_pipeline.scraper_api.crawls import CrawlCalls
from scraper_pipeline.scraper_api.models import (
    JSON,
    AcceptedJob,
    ConcurrencyUsage,
    ExtractedPage,
    Health,
    Job,
    JobListing,
)
from scraper_pipeline.scraper_api.options import ExtractOptions, ProcessingMode
from scraper_pipeline.scraper_api.pacing import Pacer, RetryPolicy
from scraper_pipeline.scraper_api.statistics import Statistics
from scraper_pipeline.scraper_api.webhooks import WebhookCalls

DEFAULT_MAX_BODY_BYTES = 32 * 1024 * 1024
_RESULTS_TO_BODIES = 4


class ScraperClient(BatchCalls, CrawlCalls, WebhookCalls):
    """An async client for one account and one event loop; use it as a context manager.

    Reads are repeated within the policy's budgets. A POST that may have made a job is never repeated: there is no
    idempotency key. `budget` arguments are seconds for the whole call, `deadline` is a moment of `monotonic`; a budget
    of 0 still makes one attempt, unless the service has asked everybody to wait. All calls raise ScraperError.
    `max_body_bytes` caps what one answer may unpack to, `max_results_bytes` one with several results of a batch or
    crawl; without it, four times as much.
    """

    def __init__(
        self,
        *,
        host: str,
        api_key: SecretStr | str,
        policy: RetryPolicy | None = None,
        pacer: Pacer | None = None,
        max_body_bytes: int = DEFAULT_MAX_BODY_BYTES,
        max_results_bytes: int | None = None,
        connections: int = 64,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        random: random_source.Random | None = None,
        utc_now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._host = _checked_host(host)
        self._policy = policy or RetryPolicy()
        self._max_results_bytes = max_results_bytes or _RESULTS_TO_BODIES * max_body_bytes
        self._caller = Caller(
            host=self._host,
            api_key=_checked_key(api_key),
            policy=self._policy,
            pacer=pacer or Pacer(monotonic=monotonic),
            max_body_bytes=max_body_bytes,
            connections=connections,
            monotonic=monotonic,
            sleep=sleep,
            random=random or random_source.Random(),  # noqa: S311 (jitter, not cryptography)
            utc_now=utc_now,
        )

    def __repr__(self) -> str:
        return f"ScraperClient(host={str(self._host)!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._caller.aclose()

    @property
    def requests_made(self) -> Mapping[str, int]:
        """HTTP attempts by call, those that failed included."""
        return MappingProxyType(self._caller.requests_made)

    async def submit_extract(
        self, url: str, options: ExtractOptions | None = None, *, deadline: float | None = None
    ) -> AcceptedJob:
        """Submits a URL for extraction in the background.

        After an error whose `proves_no_job` is false the job may exist: look it up before submitting again.
        """
        call = _post_extract("submit_extract", url, options, "async", None)
        return await self._caller.perform(
            call, lambda answer: AcceptedJob.model_validate(answer.payload), deadline=deadline
        )

    async def extract(
        self, url: str, options: ExtractOptions | None = None, *, deadline: float | None = None
    ) -> ExtractedPage:
        """Extracts a URL while the caller waits. Raises ExtractionFailed when the page could not be had."""
        call = _post_extract("extract", url, options, "sync", self._policy.sync_request_seconds)
        return await self._caller.perform(call, _read_extracted_page, deadline=deadline)

    async def get_job(self, job_id: str, *, budget: float | None = None) -> Job:
        """The job as it stands, content included once it is terminal. Raises JobNotFound and JobExpired."""
        path = f"/v1/extract/{path_segment(job_id, 'job')}"

        def read(answer: Answer) -> Job:
            job = Job.model_validate({**answer.fields, "sanitised": answer.sanitised})
            if job.job_id.lower() != job_id.lower():
                raise ValueError("it tells of another job")
            return job

        call = Call("get_job", "GET", path, subject="job", subject_id=job_id)
        return await self._caller.perform(call, read, budget=budget)

    async def list_jobs(
        self,
        *,
        job_id: str | None = None,
        url: str | None = None,
        status: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        page: int = 1,
        page_size: int = LARGEST_PAGE_SIZE,
        budget: float | None = None,
    ) -> JobListing:
        """One page of the jobs that match. `start` and `end` are aware times of creation, widened to whole seconds."""
        params = page_params(
            page, page_size, job_id=job_id, url=url, status=status, start_date=start, end_date=widened(end)
        )
        return await self._caller.perform(
            Call("list_jobs", "GET", "/v1/extract/jobs", params=params),
            lambda answer: JobListing.model_validate(answer.listing),
            budget=budget,
        )

    async def get_raw_job(self, job_id: str, *, budget: float | None = None) -> Mapping[str, JSON]:
        """The job's fields as the service spells them, for whoever checks that they are those that are read."""
        path = f"/v1/extract/{path_segment(job_id, 'job')}"
        call = Call("get_raw_job", "GET", path, subject="job", subject_id=job_id)
        return await self._caller.perform(call, lambda answer: answer.fields, budget=budget)

    async def get_raw_listing(self, job_id: str, *, budget: float | None = None) -> Mapping[str, JSON]:
        """The same of the listing that shows one job."""
        params = page_params(1, LARGEST_PAGE_SIZE, job_id=job_id)
        call = Call("get_raw_listing", "GET", "/v1/extract/jobs", params=params)
        return await self._caller.perform(call, lambda answer: answer.fields, budget=budget)

    async def get_concurrency(self, *, budget: float | None = None) -> ConcurrencyUsage:
        """How many jobs of the account run at this moment."""
        call = Call("get_concurrency", "GET", "/v1/usage/concurrency")
        return await self._caller.perform(
            call, lambda answer: ConcurrencyUsage.model_validate(answer.payload), budget=budget
        )

    async def get_statistics(
        self, start: datetime, end: datetime, *, budget: float | None = None
    ) -> Statistics:
        """What the service counted of the account between two aware times, widened to whole seconds."""
        call = Call("get_statistics", "GET", "/v1/statistics", params=span_params(start, end))
        return await self._caller.perform(
            call, lambda answer: Statistics.model_validate(answer.fields), budget=budget
        )

    async def get_health(self, *, budget: float | None = None) -> Health:
        """The service's word on itself; an `unavailable` service is an answer, not an error."""
        call = Call("get_health", "GET", "/health", needs_key=False, also_answers=frozenset({503}))
        return await self._caller.perform(
            call, lambda answer: Health.model_validate(answer.payload), budget=budget
        )


def _post_extract(
    name: str, url: str, options: ExtractOptions | None, mode: ProcessingMode, seconds: float | None
) -> Call:
    body = json.dumps((options or ExtractOptions()).to_request(url, mode)).encode()
    return Call(name, "POST", "/v1/extract", body=body, request_seconds=seconds)


def _read_extracted_page(answer: Answer) -> ExtractedPage:
    if not isinstance(answer.fields.get("data"), dict):
        raise ValueError("there is no page in it")
    return ExtractedPage.model_validate({**answer.fields, "sanitised": answer.sanitised})


def _checked_host(host: str) -> httpx.URL:
    try:
        url = httpx.URL(host.strip())
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment or url.userinfo:
        raise ValueError("the service's host takes a form like https://scraper.geonode.io")
    return url


def _checked_key(api_key: SecretStr | str) -> str:
    key = api_key.get_secret_value() if isinstance(api_key, SecretStr) else api_key
    if not key or not key.isascii() or not key.isprintable() or key != key.strip():
        raise ValueError("the API key is empty or holds characters that no header can carry")
    return key
