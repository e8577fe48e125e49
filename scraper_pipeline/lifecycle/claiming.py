"""What a submit run may send next: due rows, within the pages of its limits and the places of the account."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from scraper_pipeline.ledger import Allowance, BatchTerms, ClaimedSubmission, Kind, Ledger, PlannedGroup
from scraper_pipeline.lifecycle.places import Places
from scraper_pipeline.lifecycle.policy import LifecyclePolicy
from scraper_pipeline.lifecycle.spending import Bound, page_limits
from scraper_pipeline.scraper_api import ExtractOptions, InvalidOptions


class Claiming:
    """Claims a partition's due rows for one run, pages first; a crawl only when all of them are out.

    Batches need no place, for the service queues their URLs by itself, unless it has refused one for want of places.
    """

    def __init__(
        self,
        ledger: Ledger,
        partition_key: str,
        policy: LifecyclePolicy,
        places: Places,
        max_pages: int | None = None,
    ) -> None:
        self._submissions = ledger.submissions
        self._partition_key = partition_key
        self._policy = policy
        self._places = places
        self._max_pages = max_pages
        self._allowance = Allowance(page_limits(policy, ledger.clock()))
        self.batches_are_offered = True
        self.batches_need_places = False

    def claim(self, pages_sent: int) -> list[ClaimedSubmission]:
        """Rows that can be sent at once, of a run that has committed to so many pages; nothing if there are none."""
        room = None if self._max_pages is None else self._max_pages - pages_sent
        if room is not None and room <= 0:
            return []
        free = self._places.free
        most = min(n for n in (self._policy.submit_chunk, room, free) if n is not None)
        claimed = self._submissions.claim(
            self._partition_key, most, self._policy.send_lease, self._terms(room, free), self._allowance
        )
        if claimed or free == 0:
            return claimed
        return self._submissions.claim_crawl(
            self._partition_key, room, self._policy.send_lease, self._allowance
        )

    def held_by(self, pages_sent: int) -> set[Bound]:
        """What kept due rows from being claimed just now; nothing if none are due."""
        if not self._submissions.has_due(self._partition_key):
            return set()
        room = {Bound(name): left for name, left in self._allowance.left.items()}
        if self._max_pages is not None:
            room[Bound.RUN] = self._max_pages - pages_sent
        used_up = {bound for bound, left in room.items() if left <= 0}
        if used_up or self._places.free == 0:
            return used_up or {Bound.PLACES}
        least = min(room.values(), default=0)  # which a crawl that is due would exceed
        return {bound for bound, left in room.items() if left == least}

    def _terms(self, room: int | None, free: int | None) -> BatchTerms | None:
        if self._policy.submission_mode == "extract" or not self.batches_are_offered:
            return None
        if self.batches_need_places and free == 0:
            return None
        largest = self._policy.largest_batch if room is None else min(self._policy.largest_batch, room)
        return BatchTerms(_smallest_batch(self._policy), largest, _fit_a_batch)


def requests_needed(groups: Iterable[PlannedGroup], policy: LifecyclePolicy) -> dict[str, int]:
    """How many requests submitting these targets takes where the service offers all kinds, by kind of job."""
    needed = Counter[str]({Kind.EXTRACT: 0, Kind.BATCH: 0, Kind.CRAWL: 0})
    for group in groups:
        single = Kind.CRAWL if group.kind is Kind.CRAWL else Kind.EXTRACT
        may_be_batch = single is Kind.EXTRACT and group.kind is not Kind.ALONE and _fit_a_batch(group.options)
        rest = group.targets
        if may_be_batch and policy.submission_mode != "extract":
            batches, rest = divmod(rest, policy.largest_batch)
            if rest >= _smallest_batch(policy):
                batches, rest = batches + 1, 0
            needed[Kind.BATCH] += batches
        needed[single] += rest
    return {str(kind): requests for kind, requests in needed.items()}


def _smallest_batch(policy: LifecyclePolicy) -> int:
    return 1 if policy.submission_mode == "batch" else policy.smallest_batch


def _fit_a_batch(options: Mapping[str, Any]) -> bool:
    try:
        return ExtractOptions.from_mapping(options).fit_a_batch
    except InvalidOptions:
        return False
