"""Rule 1 on the model: what a claim may take, what it must, and what that changes.

Which of the rows that were planned together is first is the ledger's own affair: the model asks only for what follows
from the rule in every order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from scraper_pipeline.ledger import BatchTerms, ClaimedSubmission, Kind
from scraper_pipeline_tests.integration.ledger.state_machine.model import Model
from scraper_pipeline_tests.integration.ledger.state_machine.rows import SENDING, Row


@dataclass
class Claim:
    """A claim under way: what it was given, and what was there to be taken."""

    model: Model
    partition_key: str
    limit: int
    terms: BatchTerms | None
    now: datetime

    def __post_init__(self) -> None:
        self.due = {row.target_id: row for row in self.model.due(self.partition_key, self.now)}
        self.free = self.model.claimable(self.partition_key, self.now)

    def make(self, claimed: Sequence[ClaimedSubmission]) -> None:
        rows = [self._check_row(one) for one in claimed]
        assert len({row.url for row in rows}) == len(rows), "a claim takes a URL twice"
        requests = {one.request_id for one in claimed}
        assert not requests & self.model.requests_used, "a request id was used before"
        is_batch = bool(claimed) and claimed[0].kind is Kind.BATCH
        assert len(requests) == (1 if is_batch else len(rows)), "rows share a request, or a batch has several"
        if self.terms is None:
            assert len(rows) == min(self.limit, len(self.free)), f"claimed {len(rows)} of {sorted(self.free)}"
        elif rows:
            self._check_group(self.terms, rows, is_batch)
        else:
            self._check_none(self.terms)
        self.model.requests_used |= requests
        for row, one in zip(rows, claimed, strict=True):
            row.state, row.request_id, row.sent_at, row.lease_until = (
                SENDING, one.request_id, self.now, one.lease_until,
            )  # fmt: skip
            row.kind = one.kind

    def _check_row(self, one: ClaimedSubmission) -> Row:
        row = self.due.get(one.target_id)
        assert row, f"{one.url} was not to be claimed"
        assert (row.url, row.attempt, row.options) == (one.url, one.attempt, one.options)
        assert row.url in self.free, f"{row.url} is being sent already"
        return row

    def _check_group(self, terms: BatchTerms, rows: Sequence[Row], is_batch: bool) -> None:
        """Rows that go out together have equal options; as many as may be, as a batch wherever they make one."""
        first, *others = rows
        assert all(row.group == first.group for row in others), "rows of several groups go out together"
        fits, there = _fits(terms, first), self._certain(first)
        if is_batch:
            assert fits, "a row that goes into no batch is in one"
            assert terms.smallest <= len(rows) <= terms.largest
            assert len(rows) >= min(terms.largest, there), f"a batch of {len(rows)} where there were {there}"
        else:
            assert min(self.limit, there) <= len(rows) <= self.limit
            assert not (fits and there >= terms.smallest), (
                f"{there} rows that make a batch went out one by one"
            )

    def _check_none(self, terms: BatchTerms) -> None:
        assert not (self.limit and self.free), f"nothing was claimed of {sorted(self.free)}"
        for row in self.due.values():
            if _fits(terms, row):
                assert self._certain(row) < terms.smallest, "what makes a batch was passed over"

    def _certain(self, like: Row) -> int:
        """How many free URLs have no other due rows than those of this group."""
        by_url = {url: {row.group for row in self.due.values() if row.url == url} for url in self.free}
        return sum(groups == {like.group} for groups in by_url.values())


def _fits(terms: BatchTerms, row: Row) -> bool:
    return row.kind is not Kind.ALONE and terms.fits(row.options)
