"""The service's answers about batches and crawls as JSON."""

import asyncio
from typing import Any

from scraper_pipeline.sandbox.answers import timestamp
from scraper_pipeline.sandbox.bulk.book import BulkJob, Item
from scraper_pipeline.sandbox.markdown import to_markdown
from scraper_pipeline.sandbox.requests import BatchRequest, CrawlRequest, Proxy


def accepted_body(job: BulkJob, base_url: str, *, url: str) -> dict[str, Any]:
    """The answer to the submission; `url` is where a crawl begins, as the service echoes it."""
    body = {
        "job_id": job.job_id,
        "status": "queued",
        "status_url": f"{base_url}v1/{job.kind}/{job.job_id}",
    }
    if isinstance(job.request, BatchRequest):
        invalid = list(job.request.invalid_urls)
        return body | {"accepted_urls": len(job.items), "invalid_urls": invalid}
    return body | {"url": url, "estimated_pages": job.request.limit}


def cancelled_body(job: BulkJob, base_url: str, in_flight: int) -> dict[str, Any]:
    return {
        "job_id": job.job_id,
        "status": "cancelled",
        "status_url": f"{base_url}v1/{job.kind}/{job.job_id}",
        "in_flight_urls" if job.kind == "batch" else "in_flight_pages": in_flight,
    }


def status_body(job: BulkJob, *, time: float, url: str) -> dict[str, Any]:
    """The answer of GET /v1/batch/{job_id} or /v1/crawl/{job_id}, into whose `results` a page of items goes."""
    common: dict[str, Any] = {
        "job_id": job.job_id,
        "status": job.status(time),
        "token_summary": {"tokens_charged_total": job.charged, "tokens_reserved": len(job.pending)},
        "created_at": timestamp(job.created_at),
        "completed_at": None if job.completed_at is None else timestamp(job.completed_at),
        "results": [],
    }
    config, counts = config_body(job), job.counts
    if isinstance(job.request, BatchRequest):
        return common | {
            "batch_config": config,
            "total_urls": len(job.items),
            "completed_urls": counts["completed"],
            "failed_urls": counts["failed"],
            "cancelled_urls": counts["cancelled"],
            "pending_urls": len(job.pending),
            "invalid_urls": list(job.request.invalid_urls),
        }
    return common | {
        "crawl_config": config,
        "url": url,
        "total_pages": len(job.items),
        "completed_pages": counts["completed"],
        "failed_pages": counts["failed"],
        "cancelled_pages": counts["cancelled"],
    }


def summary_body(job: BulkJob, *, time: float, url: str) -> dict[str, Any]:
    """One line of the listing; a batch's has no URL in it."""
    common = {
        "job_id": job.job_id,
        "status": job.status(time),
        "config": config_body(job),
        "created_at": timestamp(job.created_at),
        "completed_at": None if job.completed_at is None else timestamp(job.completed_at),
    }
    completed, failed = job.counts["completed"], job.counts["failed"]
    if job.kind == "batch":
        return common | {
            "accepted_urls": len(job.items),
            "completed_urls": completed,
            "failed_urls": failed,
        }
    return common | {
        "url": url,
        "total_pages": len(job.items),
        "completed_pages": completed,
        "failed_pages": failed,
    }


def event_body(job: BulkJob, *, time: float) -> dict[str, Any]:
    """What a delivery tells: which job it is and how it ended, and nothing of its pages."""
    return {
        "job_id": job.job_id,
        "status": job.status(time),
        "created_at": timestamp(job.created_at),
        "completed_at": None if job.completed_at is None else timestamp(job.completed_at),
    }


def config_body(job: BulkJob) -> dict[str, Any]:
    request = job.request
    config: dict[str, Any] = {
        "formats": list(request.formats),
        "render_js": request.render_js,
        "proxy": (request.proxy or Proxy()).model_dump(),
        "wait_config": None if request.wait_config is None else request.wait_config.model_dump(),
    }
    if isinstance(request, CrawlRequest):
        scope = {
            "same_domain_only": request.same_domain_only,
            "include_subdomains": request.include_subdomains,
        }
        return config | scope
    return config | {"headers": request.headers}


async def item_body(job: BulkJob, item: Item, *, time: float, url: str) -> dict[str, Any]:
    """One page with its content, which is made now; `url` is its own as the service echoes it."""
    body: dict[str, Any] = {
        "url": url,
        "status": item.status(time),
        "error_code": item.error_code,
        "error_message": item.error_message,
        "data": None,
        "metadata": None,
    }
    if item.html is not None and item.outcome == "completed":
        body["data"] = _content(job, item.html())
        await asyncio.sleep(0)  # converting fifty pages at once would hold up everybody else
    if item.outcome is not None:
        body["metadata"] = {
            "http_status": item.http_status,
            "duration_ms": item.duration_ms,
            "retry_count": 0,
            "tokens_charged": item.charged,
        }
    if job.kind == "batch":
        return {"input_index": item.input_index} | body
    return body | {"parent_url": item.parent_url, "depth": item.depth, "links": list(item.links)}


def _content(job: BulkJob, html: str) -> dict[str, str]:
    data = {}
    if "markdown" in job.request.formats:
        data["markdown"] = to_markdown(html)
    if "html" in job.request.formats:
        data["html"] = html
    return data
