"""The service's answers as JSON: jobs, listings and errors, in ordinary and in odd forms."""

import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

from pydantic import ValidationError
from starlette.responses import Response

from scraper_pipeline.sandbox.config import UrlEcho
from scraper_pipeline.sandbox.jobs import Job, JobError, Listing
from scraper_pipeline.sandbox.rules import OddForm

Headers = Sequence[tuple[str, str]]


def json_response(body: object, status: int = 200, headers: Headers = ()) -> Response:
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return raw_json_response(text.encode(), status, headers)


def raw_json_response(body: bytes, status: int = 200, headers: Headers = ()) -> Response:
    response = Response(body, status, media_type="application/json")
    # Written as bytes: a fault may order a header beyond Latin-1, or the same header twice.
    response.raw_headers += [(name.lower().encode(), value.encode()) for name, value in headers]
    return response


def error_response(
    status: int,
    code: str,
    message: str,
    *,
    retryable: bool,
    wrapped: bool = False,
    headers: Headers = (),
    details: Mapping[str, Any] | None = None,
) -> Response:
    """An error in the contract's form, bare or under `error`."""
    body: dict[str, Any] = {
        "code": code,
        "message": message,
        "retryable": retryable,
        "correlation_id": str(uuid4()),
    }
    if details is not None:
        body["details"] = details
    return json_response({"error": body} if wrapped else body, status, headers)


def validation_response(error: ValidationError, where: str) -> Response:
    """FastAPI's 422: what is wrong, and where, without echoing the input."""
    detail = [
        {"type": one["type"], "loc": [where, *one["loc"]], "msg": one["msg"]}
        for one in error.errors(include_url=False)
    ]
    return json_response({"detail": detail}, 422)


def timestamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def echoed(url: str, form: UrlEcho) -> str:
    """A job's URL as the service gives it back."""
    if form == "verbatim":
        return url
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    if form == "normalised":
        parts = parts._replace(
            scheme=parts.scheme.lower(), netloc=parts.netloc.lower(), path=parts.path or "/"
        )
    return urlunsplit(parts._replace(fragment=""))


def odd_timestamp(moment: datetime, form: OddForm) -> str:
    """A moment in a form that a careless parser stumbles over; `words` is none at all."""
    moment = moment.astimezone(UTC)
    seconds = moment.strftime("%Y-%m-%dT%H:%M:%S")
    return {
        "nanoseconds": f"{seconds}.{moment.microsecond:06d}123Z",
        "hundredths": f"{seconds}.{moment.microsecond // 10_000:02d}Z",
        "naive": f"{seconds}.{moment.microsecond:06d}",
        "doubled_zone": f"{seconds}+00:00Z",
        "date": moment.strftime("%Y-%m-%d"),
        "leap_second": moment.strftime("%Y-%m-%dT%H:%M:60Z"),
        "words": "a while ago",
    }[form]


def error_body(error: JobError) -> dict[str, Any]:
    return {
        "code": error.code,
        "message": error.message,
        "retryable": error.retryable,
        "correlation_id": error.correlation_id,
    }


def data_body(job: Job) -> dict[str, str]:
    data = {}
    if job.markdown is not None:
        data["markdown"] = job.markdown.text
    if job.html is not None:
        data["html"] = job.html.text
    return data


def metadata_body(job: Job, url: str) -> dict[str, Any]:
    """What was asked for and how it went; `url` is the job's as the service echoes it."""
    request = job.request
    return {
        "url": url,
        "formats": list(request.formats),
        "processing_mode": request.processing_mode,
        "render_js": request.render_js,
        "http_status": job.http_status,
        "duration_ms": job.duration_ms,
        "headers": request.headers,
        "proxy": None if request.proxy is None else request.proxy.model_dump(),
        "wait_config": None if request.wait_config is None else request.wait_config.model_dump(),
    }


def job_body(job: Job, *, time: float, url: str) -> dict[str, Any]:
    """The answer of GET /v1/extract/{job_id}: all that follows `created_at` is null until the job is terminal."""
    body: dict[str, Any] = {
        "job_id": job.job_id,
        "status": job.status(time),
        "created_at": timestamp(job.created_at),
        "completed_at": None,
        "data": None,
        "metadata": None,
        "error": None,
        "tokens_charged": None,
    }
    if job.outcome is not None and job.completed_at is not None:
        body |= {
            "completed_at": timestamp(job.completed_at),
            "data": data_body(job) if job.outcome == "completed" else None,
            "metadata": metadata_body(job, url),
            "error": None if job.error is None else error_body(job.error),
            "tokens_charged": job.charged,
        }
    return body


def summary_body(job: Job, *, time: float, url: str) -> dict[str, Any]:
    return {
        "job_id": job.job_id,
        "status": job.status(time),
        "url": url,
        "created_at": timestamp(job.created_at),
        "execution_time": job.duration_ms,
        "output": list(job.request.formats),
    }


def listing_body(listing: Listing[Any], summaries: list[dict[str, Any]], key: str) -> dict[str, Any]:
    return {
        key: summaries,
        "page": listing.page,
        "page_size": listing.page_size,
        "page_count": listing.page_count,
        "is_capped": listing.is_capped,
    }


def make_strange(body: Mapping[str, Any]) -> dict[str, Any]:
    """What came of a page with text and numbers that databases and parsers choke on, for `strange_json`."""
    data = dict(body.get("data") or {})
    for name in data:
        data[name] = f"a\0b \ud800 \U0001f378 \\u0000\n{data[name]}"
    metadata = dict(body.get("metadata") or {}) | {
        "title": "a\0b",
        "k\0ey": "value\0",
        "\ud800": "\udc00 alone",
        "glass": "\U0001f378",
        "not_a_number": math.nan,
        "beyond_64_bits": 2**63,
        "beyond_doubles": "@1e400@",
    }
    return {**body, "data": data or None, "metadata": metadata}


def strange_json(body: Mapping[str, Any]) -> bytes:
    """An answer with strange things in it, written as a service might."""
    text = json.dumps(body)
    return text.replace('"@1e400@"', "1e400").encode("ascii")
