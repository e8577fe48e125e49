"""What faults make of a submission and of an answer, whether it concerns a job, a batch or a crawl."""

import asyncio
import json
import zlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Protocol

from starlette.responses import Response

from scraper_pipeline.sandbox import answers
from scraper_pipeline.sandbox.connections import CutConnection
from scraper_pipeline.sandbox.context import Sandbox
from scraper_pipeline.sandbox.rules import Call, OddTimes, ServerFault, Unreadable

_PAGE = "@page@"


class Ageing(Protocol):
    """A job of any kind, as far as its absence and its times go."""

    created_at: datetime
    completed_at: datetime | None
    completed_time: float | None
    missing_until: float

    @property
    def aim(self) -> str: ...


class Spoiling:
    """Applies the faults that are aimed at one call to it, in the order in which a service would fail."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._odd_turn = 0

    def refuse_submission(self, aim: str, pages: int) -> Response | None:
        """What turns a submission of so many pages away that is valid in itself."""
        sandbox, faults, strike = self._sandbox, self._sandbox.faults, self._sandbox.fault_book.strike
        if broken := strike("post_500_before", faults.post_500_before, aim):
            return self._broken(broken, "No job was made")
        if strike("payment_required", faults.payment_required, aim) or not sandbox.account.can_reserve(pages):
            return sandbox.error(402, "PAYMENT_REQUIRED", "The balance is used up")
        if sandbox.account.is_full(sandbox.clock.monotonic()):
            message = f"{sandbox.account.limit} pages are at work already"
            return sandbox.error(429, "WORK_CONCURRENCY_LIMITED", message, retryable=True)
        return None

    async def accepted(self, aim: str, body: dict[str, Any]) -> Response:
        """The 202 to a submission whose job is made, if it comes at all."""
        sandbox, faults, strike = self._sandbox, self._sandbox.faults, self._sandbox.fault_book.strike
        if strike("answer_lost", faults.answer_lost, aim):
            return CutConnection()
        if gateway := strike("post_502_after_accept", faults.post_502_after_accept, aim):
            headers = sandbox.retry_after(gateway)
            return sandbox.error(
                gateway.status, "BAD_GATEWAY", "The upstream is gone", retryable=True, headers=headers
            )
        if slow := strike("slow_answer", faults.slow_answer, aim):
            await asyncio.sleep(slow.seconds)
        if unreadable := strike("unreadable_answer", faults.unreadable_answer, aim):
            return _unreadable(body, unreadable)
        return answers.json_response(body, 202)

    def refuse_look(self, job: Ageing) -> Response | None:
        """Why a job that exists is not shown, if it is not."""
        sandbox, faults, strike = self._sandbox, self._sandbox.faults, self._sandbox.fault_book.strike
        if broken := strike("get_500", faults.get_500, job.aim):
            return self._broken(broken)
        now, expiry = sandbox.clock.monotonic(), faults.expire_results_after
        if expiry is not None and job.completed_time is not None and now >= job.completed_time + expiry:
            return sandbox.error(faults.expired_status, "EXPIRED", "The job's result has expired")
        missing = strike("job_404", faults.job_404, job.aim)
        if missing is not None:
            job.missing_until = max(job.missing_until, now + missing.seconds)
            return sandbox.error(missing.status, "NOT_FOUND", "There is no such job")
        if now < job.missing_until:
            return sandbox.error(404, "NOT_FOUND", "There is no such job")
        return None

    def refuse_results(self, aim: str, page: int) -> Response | None:
        """Why one page of results is not shown, if it is not."""
        faults = self._sandbox.faults
        broken = self._sandbox.fault_book.strike("results_500", faults.results_500, aim, page=page)
        return None if broken is None else self._broken(broken)

    def refuse_listing(self, aim: str) -> Response | None:
        broken = self._sandbox.fault_book.strike("list_500", self._sandbox.faults.list_500, aim)
        return None if broken is None else self._broken(broken)

    def make_times_odd(self, body: dict[str, Any], job: Ageing, call: Call) -> None:
        odd = self._sandbox.fault_book.strike(
            "odd_timestamps", self._sandbox.faults.odd_timestamps, job.aim, call
        )
        if odd is not None:
            self._write_odd_times(body, job, odd)

    def spoil_content(self, body: dict[str, Any], url: str) -> bool:
        """Empty the content of one page, or make it strange; whether it has to be written as `strange_json`."""
        faults, strike = self._sandbox.faults, self._sandbox.fault_book.strike
        if empty := strike("empty_data", faults.empty_data, url):
            blank = dict.fromkeys(body["data"], "")
            body["data"] = {"null": None, "object": {}, "blank": blank}[empty.form]
        if strike("strange_text", faults.strange_text, url):
            body |= answers.make_strange(body)
            return True
        return False

    async def answered(self, body: dict[str, Any], aim: str, *, is_strange: bool = False) -> Response:
        """The 200 with a job, whole or broken."""
        faults, strike = self._sandbox.faults, self._sandbox.fault_book.strike
        if is_strange:
            return answers.raw_json_response(answers.strange_json(body))
        if bomb := strike("gzip_bomb", faults.gzip_bomb, aim):
            packed = await asyncio.to_thread(_gzip_bomb, body, bomb.megabytes)
            return answers.raw_json_response(packed, headers=[("Content-Encoding", "gzip")])
        if strike("false_gzip", faults.false_gzip, aim):
            return answers.raw_json_response(
                json.dumps(body).encode(), headers=[("Content-Encoding", "gzip")]
            )
        if strike("truncated_body", faults.truncated_body, aim):
            whole = json.dumps(body, ensure_ascii=False).encode()
            return CutConnection(whole, sent=len(whole) // 2)
        return answers.json_response(body)

    def _broken(self, fault: ServerFault, message: str = "Try again") -> Response:
        headers = self._sandbox.retry_after(fault)
        return self._sandbox.error(fault.status, "INTERNAL_ERROR", message, retryable=True, headers=headers)

    def _write_odd_times(self, body: dict[str, Any], job: Ageing, odd: OddTimes) -> None:
        form = odd.forms[self._odd_turn % len(odd.forms)]
        self._odd_turn += 1
        body["created_at"] = answers.odd_timestamp(job.created_at, form)
        if body.get("completed_at") is not None and job.completed_at is not None:
            body["completed_at"] = answers.odd_timestamp(job.completed_at, form)


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


def _gzip_bomb(body: Mapping[str, Any], megabytes: int) -> bytes:
    """The answer with a page of that many megabytes, packed to a thousandth of it."""
    page = {"markdown": _PAGE, "html": None}
    if "results" in body:
        item = {"url": "http://bomb/", "status": "completed", "data": page}
        told = json.dumps({**body, "results": [item]})
    else:
        told = json.dumps({**body, "status": "completed", "data": page})
    head, tail = told.split(_PAGE)
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)

    def parts() -> Iterator[bytes]:
        yield packer.compress(head.encode())
        for _ in range(megabytes):
            yield packer.compress(b"a" * 1024 * 1024)
        yield packer.compress(tail.encode())
        yield packer.flush()

    return b"".join(parts())
