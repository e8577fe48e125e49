"""The settlement of a batch or crawl: its state without content first, then its results, a few pages at a time."""

import asyncio
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil
from urllib.parse import urldefrag

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
from scraper_pipeline.lifecycle.spelling import spelling
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

# Tries at a page that is not what the counts promise, before it is taken as it is. Not before `policy.doubt_for` has
# gone by, either: what lags behind at the service is a matter of time.
DOUBTS = 5
_TOO_LARGE = Failure(LetterCode.TOO_LARGE, "The page is there, and is larger than is read.", retryable=False)
_UNREADABLE = Failure(LetterCode.UNREADABLE, "The page is there, and can't be read.", retryable=False)
_NOT_SHOWN = Failure(
    LetterCode.UNREADABLE, "The service counts the page, and does not show it.", retryable=False
)


@dataclass
class BulkReading:
    """One claimed batch or crawl, read to its end; each outcome is to be committed before the next is asked for.

    Takes up where an earlier reading stopped. Items are matched to rows by their URL: in the spelling that was sent, or
    else in one that means the same. A row is taken to have no item only after one reading has seen every page.
    """

    ledger: Ledger
    client: ScraperClient
    job: ClaimedJob
    policy: LifecyclePolicy
    chance: random.Random
    is_over: bool = False
    _whole: Batch | Crawl | None = None
    _waiting: dict[str, str] = field(default_factory=dict)
    _by_spelling: dict[str, dict[str, str]] = field(default_factory=dict)
    _seen: set[str] = field(default_factory=set)
    _pages_read: int = 0
    _began_at: int = 0
    _too_large: int = 0
    _unreadable: int = 0
    _running: set[str] = field(default_factory=set)
    _shows_fragments: bool = False
    _spare: dict[str, list[BatchItem | CrawlItem]] = field(default_factory=dict)
    _is_in_doubt: bool = False
    _doubted: set[int] = field(default_factory=set)

    async def next(self) -> JobOutcome:
        """The next outcome. Raises ScraperError, with what was read before already handed over."""
        if self._whole is None:
            verdict = await self._look()
            if verdict is not None:
                self.is_over = True
                return JobOutcome(self.job, verdict)
        if self._is_in_doubt:
            self.is_over = True
            return JobOutcome(self.job, later(self.ledger, self.job, self.policy, self.chance))
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
            self._by_spelling.setdefault(spelling(url), {})[key] = urldefrag(url).fragment
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
            if self._pages_read not in self._doubted and self._may_change(answer):
                # Runs may have died in all tries but this one: even past the last doubt the page is read once more.
                self._is_in_doubt = not self._believes_gaps
                self._doubted.add(self._pages_read)
                return self._part(items)
            items += self._count_lost(answer)
            items += self._count_gap(answer)
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
        items += self._spared()
        missing = self._waiting.keys() - self._seen
        invalid = self._invalid()
        items += self._explained(missing - invalid)
        return Ended(tuple(items), self._whole.status, self._whole.completed_at, invalid)

    def _may_change(self, parts: Sequence[Batch | Crawl]) -> bool:
        """Whether this page lacks items that the count promises, or has some that still run: it is read again.

        What stays so is taken for what there is.
        """
        assert self._whole is not None  # noqa: S101 (looked at before)
        return self._gap(parts) > 0 or any(not item.is_terminal for part in parts for item in part.items)

    @property
    def _believes_gaps(self) -> bool:
        since = self.job.reported_at or self.job.accepted_at
        return self.job.tries > DOUBTS and is_past(self.ledger, since, self.policy.doubt_for)

    def _gap(self, parts: Sequence[Batch | Crawl]) -> int:
        """How many items the present page lacks of those that the count promises."""
        assert self._whole is not None  # noqa: S101 (looked at before)
        lines = sum(len(part.items) + part.unreadable + part.too_large for part in parts)
        total = self._whole.total
        promised = (
            0 if total is None else min(LARGEST_RESULTS_PAGE, total - LARGEST_RESULTS_PAGE * self._pages_read)
        )
        return max(0, promised - lines)

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
            for item in part.items:
                key = self._key_of(item)
                if not item.is_terminal:
                    self._running.add(key)
                elif key not in self._seen and (key in self._waiting or self.job.kind == Kind.CRAWL):
                    self._seen.add(key)
                    taken.append(self._outcome(key, item))
                else:
                    self._spare.setdefault(spelling(item.url), []).append(item)
        return taken

    def _count_lost(self, parts: Sequence[Batch | Crawl]) -> list[ItemOutcome]:
        """Count items that are there and can't be had; those of a crawl, without rows of their own, are outcomes."""
        too_large = sum(part.too_large for part in parts)
        unreadable = sum(part.unreadable for part in parts)
        self._too_large += too_large
        self._unreadable += unreadable
        return (
            [ItemOutcome("", _UNREADABLE)] * (too_large + unreadable) if self.job.kind == Kind.CRAWL else []
        )

    def _count_gap(self, parts: Sequence[Batch | Crawl]) -> list[ItemOutcome]:
        """What a crawl's page lacks for good counts as failed; a batch has rows, which tell what is missing."""
        return [ItemOutcome("", _NOT_SHOWN)] * self._gap(parts) if self.job.kind == Kind.CRAWL else []

    def _spared(self) -> list[ItemOutcome]:
        """Items that are no row's go to rows whose URLs differ from theirs by a fragment alone, in turn.

        A service that leaves fragments away gives them so. One that has shown any tells such rows apart.
        """
        if self._shows_fragments or self.job.kind == Kind.CRAWL:
            return []
        found = []
        for same, keys in self._by_spelling.items():
            left = [key for key in keys if key not in self._seen]
            for key, item in zip(left, self._spare.get(same, []), strict=False):
                self._seen.add(key)
                found.append(self._outcome(key, item))
        return found

    def _key_of(self, item: BatchItem | CrawlItem) -> str:
        """The key of the item's row: by its URL as it was sent, or else by the only one that means the same."""
        url = unmark_url(item.url)
        fragment = urldefrag(url).fragment
        self._shows_fragments |= bool(fragment)
        key = hash_url(url)
        if key in self._waiting or self.job.kind == Kind.CRAWL:
            return key
        same = [row for row, its in self._by_spelling.get(spelling(url), {}).items() if its == fragment]
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
        """Outcomes of items that are there and can't be had: they run for ever, are too large, or not readable."""
        found = [ItemOutcome(key, _UNREADABLE) for key in sorted(missing & self._running)]
        missing = missing - self._running
        if missing and len(missing) <= self._too_large + self._unreadable:
            failure = _TOO_LARGE if self._too_large >= len(missing) else _UNREADABLE
            found += [ItemOutcome(key, failure) for key in sorted(missing)]
        return found
