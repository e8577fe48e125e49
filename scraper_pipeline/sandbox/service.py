"""The service's own endpoints, as the contract has them, each with the faults that concern it."""

import asyncio
import json
import zlib
from collections.abc import Iterator
from datetime import UTC, timedelta
from typing import Any

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from scraper_pipeline.sandbox import answers
from scraper_pipeline.sandbox.connections import CutConnection
from scraper_pipeline.sandbox.context import Sandbox
from scraper_pipeline.sandbox.jobs import Job
from scraper_pipeline.sandbox.requests import ExtractRequest, ListingQuery, StatisticsQuery
from scraper_pipeline.sandbox.rules import OddTimes, Unreadable

VERSION = "sandbox"


class Service:
    """The endpoints under /v1, and /health."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._odd_turn = 0

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
        if refused := self._refuse_extraction(wanted):
            return refused
        job = sandbox.extraction.accept(wanted)
        if wanted.processing_mode == "sync":
            return await self._answer_with_the_page(job)
        await sandbox.deliveries.announce_early(job)
        return await self._answer_accepted(job, str(request.base_url))

    def _refuse_extraction(self, wanted: ExtractRequest) -> Response | None:
        sandbox, faults, strike = self._sandbox, self._sandbox.faults, self._sandbox.fault_book.strike
        if broken := strike("post_500_before", faults.post_500_before, wanted.url):
            headers = sandbox.retry_after(broken)
            return sandbox.error(
                broken.status, "INTERNAL_ERROR", "No job was made", retryable=True, headers=headers
            )
        if strike("payment_required", faults.payment_required, wanted.url) or self._balance_is_used_up():
            return sandbox.error(402, "PAYMENT_REQUIRED", "The balance is used up")
        unfinished, limit = sandbox.book.unfinished, sandbox.config.work_concurrency_limit
        if sandbox.config.refuse_above_concurrency and unfinished >= limit:
            message = f"{limit} jobs are unfinished already"
            return sandbox.error(429, "WORK_CONCURRENCY_LIMITED", message, retryable=True)
        return None

    def _balance_is_used_up(self) -> bool:
        balance, book = self._sandbox.faults.balance, self._sandbox.book
        return balance is not None and book.charged + book.unfinished >= balance

    async def _answer_with_the_page(self, job: Job) -> Response:
        if job.ended is not None:
            await job.ended.wait()
        metadata = answers.metadata_body(job, self._sandbox.echo(job.url))
        if job.error is not None:
            return answers.json_response({"error": answers.error_body(job.error), "tokens_charged": 0}, 422)
        body = {"data": answers.data_body(job), "metadata": metadata, "tokens_charged": job.charged}
        return answers.json_response(body)

    async def _answer_accepted(self, job: Job, base_url: str) -> Response:
        sandbox, faults, strike = self._sandbox, self._sandbox.faults, self._sandbox.fault_book.strike
        if strike("answer_lost", faults.answer_lost, job.url):
            return CutConnection()
        if gateway := strike("post_502_after_accept", faults.post_502_after_accept, job.url):
            headers = sandbox.retry_after(gateway)
            return sandbox.error(
                gateway.status, "BAD_GATEWAY", "The upstream is gone", retryable=True, headers=headers
            )
        if slow := strike("slow_answer", faults.slow_answer, job.url):
            await asyncio.sleep(slow.seconds)
        body = {
            "job_id": job.job_id,
            "status": "queued",
            "status_url": f"{base_url}v1/extract/{job.job_id}",
            "estimated_tokens": 1,
        }
        if unreadable := strike("unreadable_answer", faults.unreadable_answer, job.url):
            return _unreadable(body, unreadable)
        return answers.json_response(body, 202)

    async def get_job(self, request: Request) -> Response:
        sandbox, faults, strike = self._sandbox, self._sandbox.faults, self._sandbox.fault_book.strike
        job = sandbox.book.get(request.path_params["job_id"])
        if job is None:
            return sandbox.error(404, "NOT_FOUND", "There is no such job")
        if broken := strike("get_500", faults.get_500, job.url):
            headers = sandbox.retry_after(broken)
            return sandbox.error(
                broken.status, "INTERNAL_ERROR", "Try again", retryable=True, headers=headers
            )
        if gone := self._absence(job):
            return gone
        return await self._answer_with_the_job(job)

    def _absence(self, job: Job) -> Response | None:
        """Why a job that exists is not shown, if it is not."""
        sandbox, now = self._sandbox, self._sandbox.clock.monotonic()
        expiry = sandbox.faults.expire_results_after
        if expiry is not None and job.completed_time is not None and now >= job.completed_time + expiry:
            return sandbox.error(sandbox.faults.expired_status, "EXPIRED", "The job's result has expired")
        missing = sandbox.fault_book.strike("job_404", sandbox.faults.job_404, job.url)
        if missing is not None:
            job.missing_until = max(job.missing_until, now + missing.seconds)
            return sandbox.error(missing.status, "NOT_FOUND", "There is no such job")
        if now < job.missing_until:
            return sandbox.error(404, "NOT_FOUND", "There is no such job")
        return None

    async def _answer_with_the_job(self, job: Job) -> Response:
        faults, strike = self._sandbox.faults, self._sandbox.fault_book.strike
        body = answers.job_body(job, time=self._sandbox.clock.monotonic(), url=self._sandbox.echo(job.url))
        if odd := strike("odd_timestamps", faults.odd_timestamps, job.url, "get"):
            self._make_times_odd(body, job, odd)
        if job.outcome == "completed" and (empty := strike("empty_data", faults.empty_data, job.url)):
            blank = dict.fromkeys(body["data"], "")
            body["data"] = {"null": None, "object": {}, "blank": blank}[empty.form]
        if job.outcome == "completed" and strike("strange_text", faults.strange_text, job.url):
            return answers.raw_json_response(answers.strange_json(body))
        if bomb := strike("gzip_bomb", faults.gzip_bomb, job.url):
            packed = await asyncio.to_thread(_gzip_bomb, body, bomb.megabytes)
            return answers.raw_json_response(packed, headers=[("Content-Encoding", "gzip")])
        if strike("false_gzip", faults.false_gzip, job.url):
            return answers.raw_json_response(
                json.dumps(body).encode(), headers=[("Content-Encoding", "gzip")]
            )
        if strike("truncated_body", faults.truncated_body, job.url):
            whole = json.dumps(body, ensure_ascii=False).encode()
            return CutConnection(whole, sent=len(whole) // 2)
        return answers.json_response(body)

    def _make_times_odd(self, body: dict[str, Any], job: Job, odd: OddTimes) -> None:
        form = odd.forms[self._odd_turn % len(odd.forms)]
        self._odd_turn += 1
        body["created_at"] = answers.odd_timestamp(job.created_at, form)
        if body.get("completed_at") is not None and job.completed_at is not None:
            body["completed_at"] = answers.odd_timestamp(job.completed_at, form)

    async def list_jobs(self, request: Request) -> Response:
        sandbox, faults, strike = self._sandbox, self._sandbox.faults, self._sandbox.fault_book.strike
        try:
            query = ListingQuery.model_validate(dict(request.query_params))
        except ValidationError as error:
            return answers.validation_response(error, "query")
        if broken := strike("list_500", faults.list_500, query.url or ""):
            headers = sandbox.retry_after(broken)
            return sandbox.error(
                broken.status, "INTERNAL_ERROR", "Try again", retryable=True, headers=headers
            )
        now = sandbox.clock.monotonic()
        listing = sandbox.book.listing(query, time=now, capped_above=faults.listing_capped_above)
        summaries = []
        is_empty = strike("listing_empty_page", faults.listing_empty_page, query.url or "")
        for job in () if is_empty else listing.jobs:
            summary = answers.summary_body(job, time=now, url=sandbox.echo(job.url))
            if odd := strike("odd_timestamps", faults.odd_timestamps, job.url, "list"):
                self._make_times_odd(summary, job, odd)
            summaries.append(summary)
        return answers.json_response(answers.listing_body(listing, summaries, sandbox.config.listing_key))

    async def get_concurrency(self, request: Request) -> Response:
        limit = self._sandbox.config.work_concurrency_limit
        in_use = min(self._sandbox.book.unfinished, limit)
        return answers.json_response({"work_concurrency_in_use": in_use, "work_concurrency_limit": limit})

    async def get_statistics(self, request: Request) -> Response:
        try:
            query = StatisticsQuery.model_validate(dict(request.query_params))
        except ValidationError as error:
            return answers.validation_response(error, "query")
        return answers.json_response(self._statistics(query))

    def _statistics(self, query: StatisticsQuery) -> dict[str, Any]:
        book = self._sandbox.book
        end = query.end_date or self._sandbox.service_now()
        start = query.start_date or end - timedelta(days=30)
        jobs = [job for job in book.between(start, end) if job.outcome is not None]
        days: dict[str, list[Job]] = {}
        for job in jobs:
            days.setdefault(job.created_at.astimezone(UTC).strftime("%Y-%m-%dT00:00:00Z"), []).append(job)
        durations = [job.duration_ms or 0 for job in jobs]
        return {
            "extraction_count": len(jobs),
            "success_rate": _share_completed(jobs),
            "period_tokens_used": sum(job.charged for job in jobs),
            "average_extraction_duration": round(sum(durations) / len(jobs)) if jobs else 0,
            "previous_period_extraction_count": len(book.between(start - (end - start), start)),
            "requests": [
                {
                    "date": day,
                    "success_request_count": sum(job.outcome == "completed" for job in of_day),
                    "failed_request_count": sum(job.outcome != "completed" for job in of_day),
                }
                for day, of_day in days.items()
            ],
            "tokens_used": [
                {"date": day, "tokens_used": sum(job.charged for job in of_day)}
                for day, of_day in days.items()
            ],
        }

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


def _share_completed(jobs: list[Job]) -> float:
    return sum(job.outcome == "completed" for job in jobs) / len(jobs) if jobs else 0.0


def _unreadable(body: dict[str, Any], rule: Unreadable) -> Response:
    if rule.form == "cut":
        whole = json.dumps(body).encode()
        return CutConnection(whole, status=202, sent=len(whole) // 2)
    if rule.form == "html":
        return Response(
            "<html><body><h1>Welcome to the proxy</h1></body></html>", 202, media_type="text/html"
        )
    if rule.form == "empty":
        return Response(b"", 202, media_type="application/json")
    if rule.form == "array":
        return answers.json_response([body], 202)
    return answers.json_response({name: value for name, value in body.items() if name != "job_id"}, 202)


def _gzip_bomb(body: dict[str, Any], megabytes: int) -> bytes:
    """The job's answer with a page of that many megabytes, packed to a thousandth of it."""
    page = {"markdown": "@page@", "html": None}
    head, tail = json.dumps({**body, "status": "completed", "data": page}).split("@page@")
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)

    def parts() -> Iterator[bytes]:
        yield packer.compress(head.encode())
        for _ in range(megabytes):
            yield packer.compress(b"a" * 1024 * 1024)
        yield packer.compress(tail.encode())
        yield packer.flush()

    return b"".join(parts())
