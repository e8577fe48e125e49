"""The settlement of a batch or crawl: its state without content first, then its results, a few pages at a time."""

import asyncio
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil
from urllib.parse import urlsplit, urlunsplit

from scraper_pipeline.ledger import (
    ClaimedJob,
    Ended,
    Failure,
    GivenUp,
    ItemOutcome,
    JobOutcome,
    Kind,
    Ledger,
    LetterCode,
    NotYet,
    Part,
    hash_url,
    unmark_url,
)
from scraper_pipeline.lifecycle.policy import LifecyclePolicy, is_past
from scraper_pipeline.lifecycle.verdicts import EXPIRED, failure_of, later, stored_page, unknown_job
from scraper_pipeline.scraper_api import (
    LARGEST_RESULTS_PAGE,
    Batch,
    BatchItem,
    Crawl,
    CrawlItem,
    JobExpired,
    JobNotFound,
    ScraperClient,
)


@dataclass
class BulkReading:
    """One claimed batch or crawl, read to its end; each outcome is to be committed before the next is asked for.

    Takes up where an earlier reading stopped. Items are matched to rows by their URL. A row is taken to have no item
    only after one reading has seen every page.
    """

    ledger: Ledger
    client: ScraperClient
    job: ClaimedJob
    policy: LifecyclePolicy
    chance: random.Random
    is_over: bool = False
    _whole: Batch | Crawl | None = None
    _waiting: dict[str, str] = field(default_factory=dict)
    _by_spelling: dict[str, list[str]] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)
    _pages_read: int = 0
    _began_at: int = 0
    _too_large: int = 0
    _unreadable: int = 0

    async def next(self) -> JobOutcome:
        """The next outcome. Raises ScraperError, with what was read before already handed over."""
        if self._whole is None:
            verdict = await self._look()
            if verdict is not None:
                self.is_over = True
                return JobOutcome(self.job, verdict)
        try:
            return JobOutcome(self.job, await self._read())
        except JobExpired:
            return JobOutcome(self.job, self._expired())

    async def _look(self) -> Ended | GivenUp | NotYet | None:
        """What can be said without the results, or None if they are to be read."""
        look = self.client.look_at_batch if self.job.kind == Kind.BATCH else self.client.look_at_crawl
        try:
            whole: Batch | Crawl = await look(self.job.job_id, budget=self.policy.settle_lease / 2)
        except JobNotFound:
            return unknown_job(self.ledger, self.job, self.policy, self.chance)
        except JobExpired:
            self._waiting = self.ledger.outcomes.waiting_items(self.job.job_id)
            return self._expired()
        if not whole.is_at_rest:
            if is_past(self.ledger, self.job.accepted_at, self.policy.job_timeout):
                message = f"The job was still {whole.status} after {self.policy.job_timeout:g} seconds."
                return GivenUp(LetterCode.TIMED_OUT, message)
            return later(self.ledger, self.job, self.policy, self.chance, status=whole.status)
        self._whole = whole
        self._waiting = self.ledger.outcomes.waiting_items(self.job.job_id)
        for key, url in self._waiting.items():
            self._by_spelling.setdefault(_spelling(url), []).append(key)
        self._pages_read = self._began_at = self.job.pages_read
        return None

    def _expired(self) -> Ended:
        self.is_over = True
        left = self._waiting.keys() - self._seen
        return Ended(tuple(ItemOutcome(key, EXPIRED) for key in sorted(left)), "expired")

    async def _read(self) -> Ended | Part:
        """Read some pages at once; those before the first that failed count."""
        assert self._whole is not None  # noqa: S101 (looked at before)
        numbers = range(self._pages_read + 1, self._pages_read + 1 + self._pages_to_read())
        answers = await asyncio.gather(*map(self._read_page, numbers), return_exceptions=True)
        items: list[ItemOutcome] = []
        is_last = not answers
        for answer in answers:
            if isinstance(answer, BaseException):
                if not items and not is_last:
                    raise answer
                break
            items += self._take(answer)
            self._pages_read += 1
            is_last = self._is_last(answer)
            if is_last:
                break
        if not is_last:
            return self._part(items)
        missing = self._waiting.keys() - self._seen
        if missing and self._began_at and self.job.kind == Kind.BATCH:
            # An earlier reading may have seen another order: only one that has seen every page tells what is not there.
            self._pages_read = self._began_at = 0
            return self._part(items)
        self.is_over = True
        invalid = self._invalid()
        items += self._explained(missing - invalid)
        return Ended(tuple(items), self._whole.status, self._whole.completed_at, invalid)

    def _pages_to_read(self) -> int:
        assert self._whole is not None  # noqa: S101 (looked at before)
        if self._whole.total is None:
            return 1  # until one is empty
        return min(
            self.policy.pages_at_once, ceil(self._whole.total / LARGEST_RESULTS_PAGE) - self._pages_read
        )

    async def _read_page(self, number: int) -> Sequence[Batch | Crawl]:
        read = self.client.read_batch_page if self.job.kind == Kind.BATCH else self.client.read_crawl_page
        return await read(self.job.job_id, number, budget=self.policy.settle_lease / 2)

    def _is_last(self, parts: Sequence[Batch | Crawl]) -> bool:
        assert self._whole is not None  # noqa: S101 (looked at before)
        if self._whole.total is None:
            return not any(part.items or part.unreadable or part.too_large for part in parts)
        return self._pages_read * LARGEST_RESULTS_PAGE >= self._whole.total

    def _part(self, items: Sequence[ItemOutcome]) -> Part:
        return Part(tuple(items), self._pages_read, self.policy.settle_lease)

    def _take(self, parts: Iterable[Batch | Crawl]) -> list[ItemOutcome]:
        taken = []
        for part in parts:
            self._too_large += part.too_large
            self._unreadable += part.unreadable
            for item in part.items:
                key = self._key_of(item)
                if item.is_terminal and key not in self._seen:
                    self._seen.add(key)
                    taken.append(self._outcome(key, item))
        return taken

    def _key_of(self, item: BatchItem | CrawlItem) -> str:
        """The key of the item's row: by its URL as it was sent, or else by the only one that means the same."""
        url = unmark_url(item.url)
        key = hash_url(url)
        if key in self._waiting or self.job.kind == Kind.CRAWL:
            return key
        same = self._by_spelling.get(_spelling(url), [])
        return same[0] if len(same) == 1 else key

    def _outcome(self, key: str, item: BatchItem | CrawlItem) -> ItemOutcome:
        assert self._whole is not None  # noqa: S101 (looked at before)
        url = unmark_url(item.url)
        if item.status != "completed":
            return ItemOutcome(key, failure_of(item.status, item.error), url)
        found_on, depth = (item.parent_url, item.depth) if isinstance(item, CrawlItem) else (None, None)
        return ItemOutcome(
            key, stored_page(item, self._whole.completed_at, parent_url=found_on, depth=depth), url
        )

    def _invalid(self) -> frozenset[str]:
        if not isinstance(self._whole, Batch):
            return frozenset()
        return frozenset(hash_url(unmark_url(url)) for url in self._whole.invalid_urls)

    def _explained(self, missing: set[str]) -> list[ItemOutcome]:
        """Items that can't be told apart but are known to be there: too large to be read, or not readable."""
        if missing and len(missing) <= self._too_large + self._unreadable:
            code = LetterCode.TOO_LARGE if self._too_large >= len(missing) else LetterCode.UNREADABLE
            failure = Failure(code, "The item is there, and can't be read.", retryable=False)
            return [ItemOutcome(key, failure) for key in sorted(missing)]
        return []


def _spelling(url: str) -> str:
    """The URL in the spelling that services normalise to: host in lower case, a path, and no fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    return urlunsplit(
        parts._replace(
            scheme=parts.scheme.lower(), netloc=parts.netloc.lower(), path=parts.path or "/", fragment=""
        )
    )
