"""The values that cross the ledger's border: what is planned, claimed, reported and committed."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class State(StrEnum):
    """Where a submission stands; see the rules of the state machine in ``docs/design.md``."""

    PLANNED = "planned"
    SENDING = "sending"
    ACCEPTED = "accepted"
    STORED = "stored"
    DEAD = "dead"
    SUPERSEDED = "superseded"


OPEN_STATES = (State.PLANNED, State.SENDING, State.ACCEPTED)


class Channel(StrEnum):
    """The four sides from which news of a job can come."""

    WEBHOOK = "webhook"
    POLL = "poll"
    DELIVERY_LOG = "delivery_log"
    SWEEP = "sweep"


class LetterCode(StrEnum):
    """Why a target was parked, where the reason is ours and not the service's."""

    TIMED_OUT = "timed_out"
    LOST = "lost"
    UNRESOLVED = "unresolved"
    EXPIRED = "expired"
    TOO_LARGE = "too_large"
    UNREADABLE = "unreadable"
    MISSING_ITEM = "missing_item"


class Kind(StrEnum):
    """What a job is to the service; a target's row shows as what it was sent, or is to be sent.

    ``ALONE`` is no kind of job: it marks a planned row that goes into no batch, since one with it did not arrive.
    """

    EXTRACT = "extract"
    BATCH = "batch"
    CRAWL = "crawl"
    ALONE = "alone"


JOB_KINDS = (Kind.EXTRACT, Kind.BATCH, Kind.CRAWL)
CRAWL_LIMIT = 50  # pages: the service's own limit, where a crawl names none


DEFAULT_ACCOUNT = "default"
"""The account of whoever names none."""


@dataclass(frozen=True)
class Scope:
    """Whose rows are meant: an API account and a feed (a named target list).

    With ``beside``, those of further accounts as well: such a scope is for reading alone.
    """

    account: str = DEFAULT_ACCOUNT
    feed: str = "default"
    beside: tuple[str, ...] = ()

    @property
    def accounts(self) -> tuple[str, ...]:
        return (self.account, *self.beside)

    @property
    def each(self) -> "tuple[Scope, ...]":
        """The scope of each account by itself."""
        return tuple(Scope(account, self.feed) for account in self.accounts) if self.beside else (self,)


@dataclass(frozen=True)
class Target:
    """A URL with its options; ``target_id`` is its identity within a partition, labels are not part of it.

    ``is_crawl`` asks for the pages that the URL leads to as well.
    """

    target_id: str
    url: str
    options: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    is_crawl: bool = False

    @property
    def most_pages(self) -> int:
        """What it may cost."""
        return int(self.options.get("limit") or CRAWL_LIMIT) if self.is_crawl else 1


def hash_url(url: str) -> str:
    """32 hex digits that stand for a URL of any length in indexes and keys."""
    return hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()[:32]


_MARKER = "#scraper-pipeline="


def mark_url(url: str, request_id: str) -> str:
    """The URL with a fragment that names its request; one that has a fragment already stays as it is."""
    return url if "#" in url else f"{url}{_MARKER}{request_id}"


def is_marked_url(url: str) -> bool:
    """Whether the URL carries the marker of a request."""
    return _MARKER in url


def unmark_url(url: str) -> str:
    """The URL as it was before it was marked."""
    return url.partition(_MARKER)[0]


@dataclass(frozen=True)
class ClaimedSubmission:
    """A row in ``sending`` that this caller, and no other, may POST until ``lease_until`` (UTC).

    The rows of a batch share one request.
    """

    request_id: str
    target_id: str
    attempt: int
    url: str
    options: Mapping[str, Any]
    sent_at: datetime
    lease_until: datetime
    kind: Kind = Kind.EXTRACT

    @property
    def most_pages(self) -> int:
        """What this row may cost."""
        return int(self.options.get("limit") or CRAWL_LIMIT) if self.kind is Kind.CRAWL else 1


@dataclass(frozen=True)
class BatchTerms:
    """When targets with equal options are claimed as one batch: ``smallest`` to ``largest`` of them, if these fit."""

    smallest: int
    largest: int
    fits: Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True)
class AcceptedSubmission:
    """The service's acceptance of one request: the job that it made, and the items that it left out as invalid."""

    request_id: str
    job_id: str
    kind: str = Kind.EXTRACT
    invalid: frozenset[str] = frozenset()


@dataclass(frozen=True)
class RefusedSubmission:
    """A definitive refusal of one request: no job was made, and none will be."""

    request_id: str
    code: str
    message: str


@dataclass(frozen=True)
class OverdueSubmission:
    """A request still ``sending`` past its lease and grace: nobody knows whether its job exists.

    A batch carries several URLs, any other kind one.
    """

    request_id: str
    urls: tuple[str, ...]
    sent_at: datetime
    lease_until: datetime
    kind: Kind = Kind.EXTRACT

    @property
    def url(self) -> str:
        return self.urls[0]


@dataclass(frozen=True)
class DueJob:
    """A job whose next look is due; ``given_up`` jobs stay under watch for late evidence."""

    job_id: str
    kind: str
    sent_at: datetime
    accepted_at: datetime
    looks: int
    given_up: bool


@dataclass(frozen=True)
class UnsettledJob:
    """A bound job whose end nobody has reported; ``given_up`` ones stay under watch for late evidence."""

    job_id: str
    kind: str
    sent_at: datetime
    accepted_at: datetime
    given_up: bool


@dataclass(frozen=True)
class ForeignJob:
    """A job on the account that no submission is bound to; ``created_at`` is the service's time.

    The service tells no URL of a batch.
    """

    job_id: str
    url: str | None
    status: str
    created_at: datetime | None
    kind: Kind = Kind.EXTRACT


@dataclass(frozen=True)
class ClaimedJob:
    """A job with news whose settlement this caller holds until the claim's lease ends.

    ``reported_at`` is when the first channel told of its end; ``account`` is whose ledger its outcome belongs to.
    """

    job_id: str
    kind: str
    claim: str
    url: str
    item_key: str
    accepted_at: datetime
    missing_since: datetime | None
    tries: int
    pages_read: int = 0
    reported_at: datetime | None = None
    account: str = DEFAULT_ACCOUNT


@dataclass(frozen=True)
class StoredPage:
    """One extracted page as it is kept; ``content_sha256`` is over the Markdown, or else the HTML.

    A page of a crawl knows the page that led to it, and how many steps it is from the first one.
    """

    markdown: str | None
    html: str | None
    metadata: Mapping[str, Any]
    http_status: int | None
    tokens_charged: int | None
    completed_at: datetime | None
    parent_url: str | None = None
    depth: int | None = None

    @property
    def content_sha256(self) -> str:
        content = self.markdown if self.markdown is not None else self.html or ""
        return hashlib.sha256(content.encode("utf-8")).hexdigest()

    @property
    def size(self) -> int:
        """How many characters of content it holds."""
        return len(self.markdown or "") + len(self.html or "")

    @property
    def is_empty(self) -> bool:
        return not (self.markdown or "").strip() and not (self.html or "").strip()


@dataclass(frozen=True)
class Failure:
    """Why an item has no page, in the service's words, and whether another attempt may help.

    A failure of the account (its balance is used up) spends no attempt: the target waits and is tried again.
    """

    code: str
    message: str
    retryable: bool
    spends_attempt: bool = True


@dataclass(frozen=True)
class ItemOutcome:
    """What became of one item of a job, matched to its row by ``item_key`` (the hash of its URL).

    ``url`` is needed where the item may have no row of its own, as in a crawl.
    """

    item_key: str
    result: StoredPage | Failure
    url: str | None = None


@dataclass(frozen=True)
class Ended:
    """The job is terminal; the items are all that it returned, or all that were not committed as a part before.

    Rows without an item are tried again, or parked if their key is in ``invalid``.
    """

    items: tuple[ItemOutcome, ...]
    status: str
    completed_at: datetime | None = None
    invalid: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Part:
    """Some of the items of a terminal job, up to its page ``pages_read``; more are read under the same claim."""

    items: tuple[ItemOutcome, ...]
    pages_read: int
    lease_seconds: float


@dataclass(frozen=True)
class GivenUp:
    """The job is past its limit or unknown to the service; reversible by later evidence."""

    code: LetterCode
    message: str


@dataclass(frozen=True)
class NotYet:
    """Nothing can be decided now; the job is taken up again at ``look_again_at`` (UTC)."""

    look_again_at: datetime
    is_missing: bool = False
    status: str | None = None


@dataclass(frozen=True)
class JobOutcome:
    """What one look at a claimed job found: the only input of a settlement's commit."""

    job: ClaimedJob
    verdict: Ended | Part | GivenUp | NotYet

    @property
    def size(self) -> int:
        """How many characters of content it carries."""
        items = self.verdict.items if isinstance(self.verdict, Ended | Part) else ()
        return sum(item.result.size for item in items if isinstance(item.result, StoredPage))


@dataclass(frozen=True)
class PlanReport:
    """How many targets of a list were new to their partition, were there already, or had no room in its budget."""

    planned: int
    already_there: int
    beyond_budget: int = 0

    @property
    def targets(self) -> int:
        return self.planned + self.already_there + self.beyond_budget

    def __add__(self, other: "PlanReport") -> "PlanReport":
        return PlanReport(
            self.planned + other.planned,
            self.already_there + other.already_there,
            self.beyond_budget + other.beyond_budget,
        )


@dataclass(frozen=True)
class CommitReport:
    """What one or more commits of outcomes changed, in rows."""

    stored: int = 0
    empty: int = 0
    dead: int = 0
    resubmitted: int = 0
    given_up: int = 0
    processed: int = 0
    postponed: int = 0
    dropped: int = 0

    def __add__(self, other: "CommitReport") -> "CommitReport":
        return CommitReport(
            *(mine + theirs for mine, theirs in zip(self._counts(), other._counts(), strict=True))
        )

    def _counts(self) -> tuple[int, ...]:
        return (self.stored, self.empty, self.dead, self.resubmitted,
                self.given_up, self.processed, self.postponed, self.dropped)  # fmt: skip


@dataclass(frozen=True)
class Progress:
    """How many targets of a partition are in each state by their newest submission."""

    planned: int = 0
    sending: int = 0
    accepted: int = 0
    stored: int = 0
    dead: int = 0

    @property
    def targets(self) -> int:
        return self.in_flight + self.stored + self.dead

    @property
    def in_flight(self) -> int:
        return self.planned + self.sending + self.accepted

    @property
    def is_accepted(self) -> bool:
        """Every target has been taken by the service, or refused for good."""
        return self.planned == 0 and self.sending == 0

    @property
    def is_settled(self) -> bool:
        return self.in_flight == 0


@dataclass(frozen=True)
class PendingPartition:
    """A partition with work that a run can do now; ``watermark`` changes when more arrives."""

    partition_key: str
    pending: int
    watermark: str


@dataclass(frozen=True)
class PartitionRevision:
    """How often a partition's rows have changed: what a materialisation was made of."""

    partition_key: str
    revision: int
