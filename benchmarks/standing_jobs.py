"""A service with so many jobs from the start: the sandbox's own book and answers, with nothing at work behind them.

`python -m benchmarks.standing_jobs FILE ADDRESS_FILE` reads one job a line, oldest first, as JSON with `job_id`,
`kind`, `url`, `created_at` and `status`; it writes where it listens, and serves the listings and the looks at one job.
"""

import json
import socket
import sys
import time
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from scraper_pipeline.sandbox import answers
from scraper_pipeline.sandbox.bulk import bodies
from scraper_pipeline.sandbox.bulk.book import BulkBook, BulkJob
from scraper_pipeline.sandbox.jobs import Job, JobBook
from scraper_pipeline.sandbox.requests import BatchRequest, BulkListingQuery, ExtractRequest, ListingQuery


class StandingJobs:
    """The jobs of single pages and those of batches, each as it stands."""

    def __init__(self, source: Path) -> None:
        self.pages, self.batches = JobBook(), BulkBook()
        self.requests = 0
        with source.open() as lines:
            for ordinal, line in enumerate(lines):
                self._add(ordinal, json.loads(line))

    def _add(self, ordinal: int, told: dict[str, str]) -> None:
        now, created_at = time.monotonic(), datetime.fromisoformat(told["created_at"])
        if told["kind"] == "batch":
            request = BatchRequest(urls=[told["url"]])
            batch = BulkJob(request, ordinal, created_at, now, now, "", job_id=told["job_id"])
            self.batches.add(batch)
            return
        job = Job(ordinal, ExtractRequest(url=told["url"]), created_at, now, now, now, job_id=told["job_id"])
        self.pages.add(job)
        if told["status"] == "completed":
            self.pages.end(job, "completed", at=created_at, time=now, charged=1)

    async def list_pages(self, request: Request) -> Response:
        self.requests += 1
        now = time.monotonic()
        listing = self.pages.listing(ListingQuery.model_validate(dict(request.query_params)), time=now)
        lines = [answers.summary_body(job, time=now, url=job.url) for job in listing.jobs]
        return _dated(answers.listing_body(listing, lines, "jobs"))

    async def list_batches(self, request: Request) -> Response:
        self.requests += 1
        now = time.monotonic()
        listing = self.batches.listing(BulkListingQuery.model_validate(dict(request.query_params)), time=now)
        lines = [bodies.summary_body(job, time=now, url="") for job in listing.jobs]
        return _dated(answers.listing_body(listing, lines, "jobs"))

    async def get_page(self, request: Request) -> Response:
        self.requests += 1
        job = self.pages.get(request.path_params["job_id"])
        if job is None:
            return _dated({"code": "NOT_FOUND", "message": "There is no such job", "retryable": False}, 404)
        return _dated(answers.job_body(job, time=time.monotonic(), url=job.url))

    async def get_batch(self, request: Request) -> Response:
        self.requests += 1
        job = self.batches.get(request.path_params["job_id"])
        if job is None:
            return _dated({"code": "NOT_FOUND", "message": "There is no such job", "retryable": False}, 404)
        return _dated(bodies.status_body(job, time=time.monotonic(), url=""))

    async def count(self, request: Request) -> Response:
        return _dated({"requests": self.requests})

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/extract/jobs", self.list_pages),
                Route("/v1/extract/{job_id}", self.get_page),
                Route("/v1/batch/jobs", self.list_batches),
                Route("/v1/batch/{job_id}", self.get_batch),
                Route("/requests", self.count),
            ]
        )


def _dated(body: dict[str, object], status: int = 200) -> Response:
    now = format_datetime(datetime.now(UTC), usegmt=True)
    return answers.json_response(body, status, [("Date", now)])


def main() -> None:
    source, address = map(Path, sys.argv[1:])
    app = StandingJobs(source).app()
    listener = socket.create_server(("127.0.0.1", 0))
    part = address.with_suffix(".part")
    part.write_text(f"http://127.0.0.1:{listener.getsockname()[1]}")
    part.replace(address)
    options = uvicorn.Config(app, log_level="warning", access_log=False, date_header=False, ws="none")
    uvicorn.Server(options).run([listener])


if __name__ == "__main__":
    main()
