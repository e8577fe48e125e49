"""The service's jobs in memory: single pages, and batches of which every item comes to an end of its own."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

from scraper_pipeline.ledger import Kind
from scraper_pipeline.scraper_api import Batch, BatchSummary, Job, JobSummary

RESULTS_PAGE = 1  # items on a page of a batch's results: the smallest that can be


class Ending(Enum):
    """How a page may end: its status, and the error that it tells."""

    COMPLETED = ("completed", None)
    RETRYABLE = ("failed", {"code": "TIMEOUT", "message": "The page did not load.", "retryable": True})
    FINAL = ("failed", {"code": "PERMANENT_BLOCK", "message": "The site refuses.", "retryable": False})
    OUT_OF_BALANCE = ("failed", {"code": "PAYMENT_REQUIRED", "message": "No balance.", "retryable": True})
    CANCELLED = ("cancelled", None)

    @property
    def status(self) -> str:
        return str(self.value[0])

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] | None = self.value[1]
        return error or {}

    @property
    def is_paid(self) -> bool:
        return self is Ending.COMPLETED


@dataclass
class MemoryItem:
    """One page of a job; a missing one never existed for the service, whatever was sent."""

    url: str
    ending: Ending | None = None
    is_missing: bool = False

    @property
    def status(self) -> str:
        return self.ending.status if self.ending else "processing"

    @property
    def is_paid(self) -> bool:
        return self.ending is not None and self.ending.is_paid


@dataclass(kw_only=True)
class MemoryJob:
    """A job as the service knows it; ``made_for`` is the request that it was paid for, None another program's."""

    kind = Kind.EXTRACT

    job_id: str
    items: list[MemoryItem]
    created_at: datetime
    listed_from: datetime
    made_for: str | None
    is_gone: bool = False

    @property
    def url(self) -> str:
        return self.items[0].url

    @property
    def is_at_rest(self) -> bool:
        return all(item.ending or item.is_missing for item in self.items)

    @property
    def status(self) -> str:
        return self.items[0].status

    def end(self, *endings: Ending | None) -> None:
        """Bring what still runs to its end, item by item; the last ending serves all that are left."""
        for number, item in enumerate(self.items):
            if not item.is_missing:
                item.ending = item.ending or endings[min(number, len(endings) - 1)]

    def to_summary(self) -> JobSummary:
        return JobSummary(job_id=self.job_id, status=self.status, url=self.url, created_at=self.created_at)

    def to_answer(self) -> Job:
        [item] = self.items
        answer: dict[str, Any] = {"job_id": self.job_id, "status": self.status}
        if item.ending:
            answer["error"] = item.ending.error or None
        if item.is_paid:
            answer |= {"data": {"markdown": f"The page of {self.job_id}"}, "tokens_charged": 1}
        return Job.model_validate(answer)


@dataclass(frozen=True)
class BatchEnd:
    """How a batch may end: items that have no ending are still at work, ``missing`` has a bit for each never shown.

    ``spoiled`` is what becomes of the pages of results that are asked for first: each ``fails`` or comes ``empty``.
    """

    endings: Sequence[Ending | None]
    status: str
    missing: int = 0
    counts_missing: bool = False
    spoiled: Sequence[str] = ()


@dataclass(kw_only=True)
class MemoryBatch(MemoryJob):
    """Its status is told apart from those of its items, and may be at odds with them.

    ``invalid`` URLs were left out. Items that are missing may be counted all the same.
    """

    kind = Kind.BATCH

    invalid: Sequence[str] = ()
    counts_missing: bool = False
    ended_as: str | None = None
    spoiled: list[str] = field(default_factory=list)

    @property
    def is_at_rest(self) -> bool:
        return self.ended_as is not None and super().is_at_rest

    @property
    def status(self) -> str:
        return self.ended_as or "processing"

    @property
    def shown(self) -> list[MemoryItem]:
        return [item for item in self.items if not item.is_missing]

    @property
    def total(self) -> int:
        return len(self.items if self.counts_missing else self.shown)

    def end(self, *endings: Ending | None) -> None:
        self.end_as(BatchEnd(endings, "completed"))

    def end_as(self, end: BatchEnd) -> None:
        """Its status says nothing of its items. It may be told while some are still at work."""
        self.counts_missing = end.counts_missing if self.ended_as is None else self.counts_missing
        for place, item in enumerate(self.items):
            item.is_missing = item.is_missing or (item.ending is None and bool(end.missing >> place & 1))
        super().end(*end.endings)
        self.ended_as = self.ended_as or end.status
        self.spoiled = [*end.spoiled]

    def to_summary(self) -> BatchSummary:  # type: ignore[override]
        return BatchSummary(
            job_id=self.job_id,
            status=self.status,
            accepted_urls=len(self.items),
            created_at=self.created_at,
        )

    def to_page(self, page: int | None) -> Batch:
        """The batch with one page of its items, or without any."""
        here = [] if page is None else self.shown[(page - 1) * RESULTS_PAGE : page * RESULTS_PAGE]
        return Batch.model_validate(
            {
                "job_id": self.job_id,
                "status": self.status,
                "total_urls": self.total,
                "pending_urls": sum(item.ending is None for item in self.shown),
                "invalid_urls": list(self.invalid),
                "results": [self._line(item) for item in here],
            }
        )

    def _line(self, item: MemoryItem) -> dict[str, Any]:
        error = item.ending.error if item.ending else {}
        return {
            "input_index": 0,  # the service's own, and no help
            "url": item.url,
            "status": item.status,
            "error_code": error.get("code"),
            "error_message": error.get("message"),
            "data": {"markdown": f"The page {item.url} of {self.job_id}"} if item.is_paid else None,
            "metadata": {"tokens_charged": int(item.is_paid)},
        }
