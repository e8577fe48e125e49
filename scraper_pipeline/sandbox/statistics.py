"""The account's statistics: pages that have ended, alone or in a batch or crawl, by the day their job was made on."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from scraper_pipeline.sandbox.bulk.book import BulkJob
from scraper_pipeline.sandbox.jobs import Job

DEFAULT_SPAN = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class EndedPage:
    """`made_at` is when its job was made, on the service's clock."""

    made_at: datetime
    is_completed: bool
    charged: int
    duration_ms: int


def ended_pages(jobs: Iterable[Job], bulk: Iterable[BulkJob]) -> Iterator[EndedPage]:
    """Every page that has come to its end."""
    for job in jobs:
        if job.outcome is not None:
            yield EndedPage(job.created_at, job.outcome == "completed", job.charged, job.duration_ms or 0)
    for many in bulk:
        for item in many.items:
            if item.outcome is not None:
                is_completed = item.outcome == "completed"
                yield EndedPage(many.created_at, is_completed, item.charged, item.duration_ms or 0)


def statistics_body(
    pages: Iterable[EndedPage], start: datetime | None, end: datetime | None, now: datetime
) -> dict[str, Any]:
    """The answer for a span of time, both ends included; of the last thirty days where none is given."""
    end = end or now
    start = start or end - DEFAULT_SPAN
    of_span: list[EndedPage] = []
    before = 0
    for page in pages:
        if start <= page.made_at <= end:
            of_span.append(page)
        before += start - (end - start) <= page.made_at < start
    days: dict[str, list[EndedPage]] = {}
    for page in sorted(of_span, key=lambda page: page.made_at):
        days.setdefault(page.made_at.astimezone(UTC).strftime("%Y-%m-%dT00:00:00Z"), []).append(page)
    completed = sum(page.is_completed for page in of_span)
    return {
        "extraction_count": len(of_span),
        "success_rate": completed / len(of_span) if of_span else 0.0,
        "period_tokens_used": sum(page.charged for page in of_span),
        "average_extraction_duration": (
            round(sum(page.duration_ms for page in of_span) / len(of_span)) if of_span else 0
        ),
        "previous_period_extraction_count": before,
        "requests": [
            {
                "date": day,
                "success_request_count": sum(page.is_completed for page in of_day),
                "failed_request_count": sum(not page.is_completed for page in of_day),
            }
            for day, of_day in days.items()
        ],
        "tokens_used": [
            {"date": day, "tokens_used": sum(page.charged for page in of_day)} for day, of_day in days.items()
        ],
    }
