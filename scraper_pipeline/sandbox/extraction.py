"""The life of a job after it was accepted: it waits, its page is fetched and converted, it ends."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Literal
from uuid import uuid4

from scraper_pipeline.sandbox.agenda import Agenda
from scraper_pipeline.sandbox.chance import draw
from scraper_pipeline.sandbox.clock import Clock
from scraper_pipeline.sandbox.config import SandboxConfig
from scraper_pipeline.sandbox.faults import FaultBook
from scraper_pipeline.sandbox.fetching import FetchedPage, Fetcher, FetchFailed
from scraper_pipeline.sandbox.jobs import Content, Job, JobBook, JobError, TerminalStatus
from scraper_pipeline.sandbox.markdown import to_markdown
from scraper_pipeline.sandbox.requests import ExtractRequest

QUEUED_SHARE = 0.3
"""The share of a job's delay in which it is still `queued`."""

_TRANSIENT = frozenset(
    {
        "RATE_LIMITED",
        "WORK_CONCURRENCY_LIMITED",
        "WORK_CONCURRENCY_LEASE_EXPIRED",
        "TEMPORARY_BLOCK",
        "NETWORK_ERROR",
        "TIMEOUT",
        "PROXY_ERROR",
        "INTERNAL_ERROR",
        "CAPTCHA_CHALLENGE",
        "WAIT_FOR_SELECTOR_TIMEOUT",
    }
)


class Extraction:
    """Accepts requests into the job book and brings each job to its end."""

    def __init__(
        self,
        config: SandboxConfig,
        *,
        book: JobBook,
        faults: FaultBook,
        clock: Clock,
        fetcher: Fetcher,
        on_end: Callable[[Job], None] | None = None,
    ) -> None:
        self._config = config
        self._book = book
        self._faults = faults
        self._clock = clock
        self._fetcher = fetcher
        self._on_end = on_end
        self._agenda: Agenda[Job] = Agenda(clock, self._work, workers=config.fetch_concurrency)

    def accept(self, request: ExtractRequest) -> Job:
        """Make a job, which is due after its delay. Must be called on the event loop."""
        faults, config, now = self._faults.faults, self._config, self._clock.monotonic()
        ordinal = len(self._book)
        spread = config.max_delay - config.min_delay
        delay = config.min_delay + spread * draw(config.seed, "delay", ordinal)
        if late := self._faults.strike("late_job", faults.late_job, request.url):
            delay += late.seconds
        unknown = self._faults.strike("unknown_status", faults.unknown_status, request.url)
        job = Job(
            ordinal=ordinal,
            request=request,
            created_at=self._clock.now() + timedelta(seconds=faults.clock_shift),
            created_time=now,
            begin_time=now + delay * QUEUED_SHARE,
            listed_time=now + faults.listing_lag,
            shown_status=unknown.status if unknown else None,
            ended=asyncio.Event() if request.processing_mode == "sync" else None,
        )
        self._book.add(job)
        if not self._faults.strike("never_finish", faults.never_finish, request.url):
            self._agenda.add(job, at=now + delay)
        return job

    async def finish_now(self, job: Job) -> None:
        """Bring a job to its end without further delay, one that never would have included."""
        await self._work(job)

    async def close(self) -> None:
        await self._agenda.close()
        await self._fetcher.close()

    async def _work(self, job: Job) -> None:
        if job.outcome is None:
            await self._extract(job)

    async def _extract(self, job: Job) -> None:
        started = self._clock.monotonic()
        try:
            page = await self._load(job)
            if page.is_cancelled or self._faults.strike(
                "job_cancelled", self._faults.faults.job_cancelled, job.url
            ):
                self._end_badly(
                    job, started, "cancelled", "CANCELLED", "The job was cancelled", retryable=False
                )
                return
            markdown = to_markdown(page.html) if "markdown" in job.request.formats else None
        except FetchFailed as failure:
            job.http_status = failure.http_status
            self._end_badly(
                job, started, "failed", failure.code, failure.message, retryable=failure.retryable
            )
            return
        except Exception as error:  # whatever a page does to the parser ends its own job, never a worker
            message = f"The page could not be converted ({type(error).__name__})"
            self._end_badly(job, started, "failed", "INTERNAL_ERROR", message, retryable=True)
            return
        job.http_status = page.http_status
        job.markdown = None if markdown is None else Content.of(markdown)
        job.html = Content.of(page.html) if "html" in job.request.formats else None
        self._end(job, started, "completed", charged=1)

    async def _load(self, job: Job) -> FetchedPage:
        told = self._faults.strike("job_failed", self._faults.faults.job_failed, job.url)
        if told is not None:
            retryable = told.code in _TRANSIENT if told.retryable is None else told.retryable
            raise FetchFailed(told.code, told.message, retryable=retryable)
        seconds = None if job.request.timeout is None else job.request.timeout / 1000
        return await self._fetcher.fetch(job.url, headers=job.request.headers, seconds=seconds)

    def _end_badly(
        self,
        job: Job,
        started: float,
        outcome: Literal["failed", "cancelled"],
        code: str,
        message: str,
        *,
        retryable: bool,
    ) -> None:
        job.error = JobError(code, message, retryable, correlation_id=str(uuid4()))
        self._end(job, started, outcome)

    def _end(self, job: Job, started: float, outcome: TerminalStatus, *, charged: int = 0) -> None:
        time = self._clock.monotonic()
        job.duration_ms = round((time - started) * 1000)
        at = self._clock.now() + timedelta(seconds=self._faults.faults.clock_shift)
        is_news = self._book.end(job, outcome, at=at, time=time, charged=charged)
        if is_news and self._on_end is not None:
            self._on_end(job)
