"""The service's endpoints for single jobs and for itself, as the contract has them."""

from itertools import chain

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from scraper_pipeline.sandbox import answers
from scraper_pipeline.sandbox.context import Sandbox
from scraper_pipeline.sandbox.jobs import Job
from scraper_pipeline.sandbox.requests import ExtractRequest, ListingQuery, StatisticsQuery
from scraper_pipeline.sandbox.spoiling import Spoiling
from scraper_pipeline.sandbox.statistics import ended_pages, statistics_body

VERSION = "sandbox"


class Service:
    """The endpoints under /v1/extract, /v1/usage and /v1/statistics, and /health."""

    def __init__(self, sandbox: Sandbox, spoiling: Spoiling) -> None:
        self._sandbox = sandbox
        self._spoiling = spoiling

    def routes(self) -> list[Route]:
        counted = self._sandbox.counted
        jobs = counted("GET /v1/extract/jobs", "list", self.list_jobs)
        job = counted("GET /v1/extract/{job_id}", "get", self.get_job)
        usage = counted("GET /v1/usage/concurrency", "usage", self.get_concurrency)
        statistics = counted("GET /v1/statistics", "statistics", self.get_statistics)
        return [
            Route("/v1/extract", counted("POST /v1/extract", "post", self.extract), methods=["POST"]),
            Route("/v1/extract/jobs", jobs, methods=["GET"]),
            Route("/v1/extract/{job_id}", job, methods=["GET"]),
            Route("/v1/usage/concurrency", usage, methods=["GET"]),
            Route("/v1/statistics", statistics, methods=["GET"]),
            Route("/health", self.get_health, methods=["GET"]),
        ]

    async def extract(self, request: Request) -> Response:
        sandbox = self._sandbox
        try:
            body = await request.json()
        except ValueError:
            return sandbox.error(400, "BAD_REQUEST", "The body is no JSON")
        try:
            wanted = ExtractRequest.model_validate(body)
        except ValidationError as error:
            return answers.validation_response(error, "body")
        if refused := self._spoiling.refuse_submission(wanted.url, 1):
            return refused
        job = sandbox.extraction.accept(wanted)
        if wanted.processing_mode == "sync":
            return await self._answer_with_the_page(job)
        await sandbox.deliveries.announce_early(job)
        accepted = {
            "job_id": job.job_id,
            "status": "queued",
            "status_url": f"{request.base_url}v1/extract/{job.job_id}",
            "estimated_tokens": 1,
        }
        return await self._spoiling.accepted(job.url, accepted)

    async def _answer_with_the_page(self, job: Job) -> Response:
        if job.ended is not None:
            await job.ended.wait()
        metadata = answers.metadata_body(job, self._sandbox.echo(job.url))
        if job.error is not None:
            return answers.json_response({"error": answers.error_body(job.error), "tokens_charged": 0}, 422)
        body = {"data": answers.data_body(job), "metadata": metadata, "tokens_charged": job.charged}
        return answers.json_response(body)

    async def get_job(self, request: Request) -> Response:
        sandbox, spoiling = self._sandbox, self._spoiling
        job = sandbox.book.get(request.path_params["job_id"])
        if job is None:
            return sandbox.error(404, "NOT_FOUND", "There is no such job")
        if refused := spoiling.refuse_look(job):
            return refused
        body = answers.job_body(job, time=sandbox.clock.monotonic(), url=sandbox.echo(job.url))
        spoiling.make_times_odd(body, job, "get")
        is_strange = job.outcome == "completed" and spoiling.spoil_content(body, job.url)
        return await spoiling.answered(body, job.url, is_strange=is_strange)

    async def list_jobs(self, request: Request) -> Response:
        sandbox, faults = self._sandbox, self._sandbox.faults
        try:
            query = ListingQuery.model_validate(dict(request.query_params))
        except ValidationError as error:
            return answers.validation_response(error, "query")
        if refused := self._spoiling.refuse_listing(query.url or ""):
            return refused
        now = sandbox.clock.monotonic()
        listing = sandbox.book.listing(query, time=now, capped_above=faults.listing_capped_above)
        summaries = []
        is_empty = sandbox.fault_book.strike("listing_empty_page", faults.listing_empty_page, query.url or "")
        for job in () if is_empty else listing.jobs:
            summary = answers.summary_body(job, time=now, url=sandbox.echo(job.url))
            self._spoiling.make_times_odd(summary, job, "list")
            summaries.append(summary)
        return answers.json_response(answers.listing_body(listing, summaries, sandbox.config.listing_key))

    async def get_concurrency(self, request: Request) -> Response:
        account = self._sandbox.account
        limit = account.limit
        in_use = min(account.at_work(self._sandbox.clock.monotonic()), limit)
        return answers.json_response({"work_concurrency_in_use": in_use, "work_concurrency_limit": limit})

    async def get_statistics(self, request: Request) -> Response:
        try:
            query = StatisticsQuery.model_validate(dict(request.query_params))
        except ValidationError as error:
            return answers.validation_response(error, "query")
        sandbox = self._sandbox
        pages = ended_pages(sandbox.book, chain(sandbox.batches, sandbox.crawls))
        body = statistics_body(pages, query.start_date, query.end_date, sandbox.service_now())
        return answers.json_response(body)

    async def get_health(self, request: Request) -> Response:
        sandbox = self._sandbox
        sandbox.requests["GET /health"] += 1
        ill = sandbox.fault_book.strike("unhealthy", sandbox.faults.unhealthy)
        body = {
            "service": "scraper-sandbox",
            "status": ill.status if ill else "ok",
            "timestamp": answers.timestamp(sandbox.service_now()),
            "version": VERSION,
        }
        return answers.json_response(body, 503 if body["status"] == "unavailable" else 200)
