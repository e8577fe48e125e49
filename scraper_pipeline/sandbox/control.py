"""The sandbox's own endpoints, which need no key: the truth, the faults, the list of targets."""

from typing import Any

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from scraper_pipeline.sandbox import answers
from scraper_pipeline.sandbox.bulk.book import BulkJob, Item
from scraper_pipeline.sandbox.bulk.work import BulkWork
from scraper_pipeline.sandbox.context import Sandbox
from scraper_pipeline.sandbox.jobs import Job
from scraper_pipeline.sandbox.requests import BatchRequest
from scraper_pipeline.sandbox.site import site_targets


class Control:
    """The endpoints under /sandbox."""

    def __init__(self, sandbox: Sandbox, *, batch_work: BulkWork, crawl_work: BulkWork) -> None:
        self._sandbox = sandbox
        self._batch_work = batch_work
        self._crawl_work = crawl_work

    def routes(self) -> list[Route]:
        return [
            Route("/sandbox/truth", self.get_truth, methods=["GET"]),
            Route("/sandbox/requests", self.get_requests, methods=["GET"]),
            Route("/sandbox/faults", self.get_faults, methods=["GET"]),
            Route("/sandbox/faults", self.order_faults, methods=["POST"]),
            Route("/sandbox/faults", self.clear_faults, methods=["DELETE"]),
            Route("/sandbox/targets", self.get_targets, methods=["GET"]),
            Route("/sandbox/jobs/{job_id}/finish", self.finish_job, methods=["POST"]),
        ]

    async def get_truth(self, request: Request) -> Response:
        return answers.json_response(truth_of(self._sandbox))

    async def get_requests(self, request: Request) -> Response:
        return answers.json_response(dict(self._sandbox.requests))

    async def get_faults(self, request: Request) -> Response:
        book = self._sandbox.fault_book
        body = {
            "faults": book.faults.model_dump(mode="json", exclude_defaults=True),
            "remaining": book.remaining(),
            "struck": dict(book.struck),
        }
        return answers.json_response(body)

    async def order_faults(self, request: Request) -> Response:
        """Orders the faults named in the body anew and leaves the others as they are."""
        try:
            changes = await request.json()
        except ValueError:
            return PlainTextResponse("The body must be a JSON object, fault by name\n", 400)
        if not isinstance(changes, dict):
            return PlainTextResponse("The body must be a JSON object, fault by name\n", 400)
        try:
            self._sandbox.fault_book.order(changes)
        except ValidationError as error:
            return answers.validation_response(error, "body")
        return await self.get_faults(request)

    async def clear_faults(self, request: Request) -> Response:
        self._sandbox.fault_book.clear()
        return await self.get_faults(request)

    async def get_targets(self, request: Request) -> Response:
        """A list of targets on the sandbox's own site, a URL a line."""
        asked = request.query_params.get("pages", "100")
        if not (asked.isascii() and asked.isdigit() and 1 <= len(asked) <= 6):
            return PlainTextResponse("pages must be a whole number up to 999999\n", 400)
        targets = site_targets(str(request.base_url), int(asked))
        return PlainTextResponse("".join(f"{target}\n" for target in targets))

    async def finish_job(self, request: Request) -> Response:
        """Brings one job, or the known pages of a batch or crawl, to the end, and answers after that."""
        sandbox, job_id = self._sandbox, request.path_params["job_id"]
        if job := sandbox.book.get(job_id):
            await sandbox.extraction.finish_now(job)
        elif batch := sandbox.batches.get(job_id):
            await self._batch_work.finish_now(batch)
        elif crawl := sandbox.crawls.get(job_id):
            await self._crawl_work.finish_now(crawl)
        else:
            return PlainTextResponse("There is no such job\n", 404)
        return Response(status_code=204)


def truth_of(sandbox: Sandbox) -> dict[str, Any]:
    """What really happened, for an audit to be held against."""
    now = sandbox.clock.monotonic()
    return {
        "jobs": [_true_job(sandbox, job, now) for job in sandbox.book],
        "batches": [_true_bulk_job(sandbox, job, now) for job in sandbox.batches],
        "crawls": [_true_bulk_job(sandbox, job, now) for job in sandbox.crawls],
        "items": [
            _true_item(job, item, now) for job in (*sandbox.batches, *sandbox.crawls) for item in job.items
        ],
        "charged": sandbox.account.charged,
        "requests": dict(sandbox.requests),
        "answers": dict(sandbox.answers),
        "faults_struck": dict(sandbox.fault_book.struck),
    }


def _true_job(sandbox: Sandbox, job: Job, now: float) -> dict[str, Any]:
    return {
        "job_id": job.job_id,
        "url": job.url,
        "mode": job.request.processing_mode,
        "status": job.status(now),
        "error_code": None if job.error is None else job.error.code,
        "charged": job.charged,
        "created_at": answers.timestamp(job.created_at),
        "completed_at": None if job.completed_at is None else answers.timestamp(job.completed_at),
        "deliveries": _true_deliveries(sandbox, job.job_id),
    }


def _true_bulk_job(sandbox: Sandbox, job: BulkJob, now: float) -> dict[str, Any]:
    return {
        "job_id": job.job_id,
        "kind": job.kind,
        "status": job.status(now),
        "items": len(job.items),
        "pending": len(job.pending),
        "invalid_urls": list(job.request.invalid_urls) if isinstance(job.request, BatchRequest) else [],
        "charged": job.charged,
        "created_at": answers.timestamp(job.created_at),
        "completed_at": None if job.completed_at is None else answers.timestamp(job.completed_at),
        "deliveries": _true_deliveries(sandbox, job.job_id),
    }


def _true_item(job: BulkJob, item: Item, now: float) -> dict[str, Any]:
    has_work = item.outcome is not None or item.position in job.pending
    return {
        "job_id": job.job_id,
        "kind": job.kind,
        "url": item.url,
        "status": item.status(now) if has_work else "missing",
        "error_code": item.error_code,
        "charged": item.charged,
        "is_hidden": item.is_hidden,
    }


def _true_deliveries(sandbox: Sandbox, job_id: str) -> dict[str, Any]:
    tally = sandbox.webhooks.tally_of(job_id)
    acknowledged_at = tally.first_acknowledged_at
    return {
        "attempts": tally.attempted,
        "acknowledged": tally.acknowledged,
        "dropped": tally.dropped,
        "last_http_status": tally.last_http_status,
        "last_error": tally.last_error,
        "acknowledged_at": None if acknowledged_at is None else answers.timestamp(acknowledged_at),
    }
