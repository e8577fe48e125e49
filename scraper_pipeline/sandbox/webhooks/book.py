"""The webhook book: every webhook with its secrets and its log of attempts, and what each job's deliveries came to."""

import asyncio
import base64
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import ceil
from typing import Generic, Literal, Protocol, TypeVar
from uuid import uuid4

from scraper_pipeline.sandbox.requests import EventType

AttemptStatus = Literal["pending", "success", "failed", "abandoned"]

T = TypeVar("T")


class Announced(Protocol):
    """Whose end is told to webhooks: a job, a batch or a crawl."""

    job_id: str

    @property
    def aim(self) -> str: ...

    @property
    def event_type(self) -> EventType: ...

    @property
    def is_announced(self) -> bool: ...

    @property
    def packed_bytes(self) -> int: ...


def make_secret() -> str:
    """A secret that serves every scheme: taken literally, or without its prefix as the base64 that it is."""
    return f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"


@dataclass(slots=True, eq=False)
class Webhook:
    """One registration. It sees the events of its type that come while it is active."""

    url: str
    event_type: EventType
    description: str | None
    created_at: datetime
    updated_at: datetime
    is_active: bool = True
    webhook_id: str = field(default_factory=lambda: str(uuid4()))
    secret: str = field(default_factory=make_secret, repr=False)
    previous_secret: str | None = field(default=None, repr=False)
    is_deleted: bool = False
    log: "list[Attempt]" = field(default_factory=list, repr=False)

    def rotate(self) -> None:
        """A new secret; no attempt that begins from now on is signed with the one before alone."""
        self.previous_secret, self.secret = self.secret, make_secret()


@dataclass(slots=True, eq=False)
class Delivery:
    """One event on its way to one webhook, over all its attempts."""

    webhook: Webhook
    job: Announced
    message_id: str = field(default_factory=lambda: str(uuid4()))
    is_held: bool = False
    """It waits for a later event to overtake it."""
    identical_copies: int = 0
    first_attempt_ended: asyncio.Event | None = None
    """Set for whoever waits for it."""


@dataclass(slots=True, eq=False)
class Attempt:
    """A row of the delivery log. It is `pending` from its planning to its end."""

    delivery: Delivery
    number: int
    created_at: datetime
    attempt_id: str = field(default_factory=lambda: str(uuid4()))
    status: AttemptStatus = "pending"
    http_status: int | None = None
    delivered_at: datetime | None = None
    is_begun: bool = False


@dataclass(slots=True)
class Tally:
    """What became of one job's events: requests `attempted`, those `acknowledged` with 2xx, events `dropped`."""

    attempted: int = 0
    acknowledged: int = 0
    dropped: int = 0
    last_http_status: int | None = None
    last_error: str | None = None
    first_acknowledged_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Slice(Generic[T]):
    """One page of a list."""

    items: Sequence[T]
    page: int
    page_size: int
    page_count: int


class WebhookBook:
    """All webhooks by id, in the order of their creation, and the tallies by job."""

    def __init__(self) -> None:
        self._by_id: dict[str, Webhook] = {}
        self._tallies: dict[str, Tally] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Webhook]:
        return iter(self._by_id.values())

    def get(self, webhook_id: str) -> Webhook | None:
        return self._by_id.get(webhook_id)

    def add(self, webhook: Webhook) -> None:
        self._by_id[webhook.webhook_id] = webhook

    def delete(self, webhook: Webhook) -> None:
        """Forget a webhook and its log; what was still to be delivered to it is not."""
        webhook.is_deleted = True
        del self._by_id[webhook.webhook_id]

    def listening_to(self, event_type: EventType) -> list[Webhook]:
        return [webhook for webhook in self if webhook.is_active and webhook.event_type == event_type]

    def listing(self, *, page: int, page_size: int) -> Slice[Webhook]:
        return _slice(list(self._by_id.values()), page, page_size)

    def deliveries(
        self, webhook: Webhook, *, page: int, page_size: int, status: str | None = None
    ) -> Slice[Attempt]:
        """One page of a webhook's attempts, the latest planned first."""
        log = webhook.log if status is None else [row for row in webhook.log if row.status == status]
        return _slice(log, page, page_size, latest_first=True)

    def tally(self, job: Announced) -> Tally:
        return self._tallies.setdefault(job.job_id, Tally())

    def tally_of(self, job_id: str) -> Tally:
        """The tally of a job, an empty one if nothing was ever to be delivered."""
        return self._tallies.get(job_id) or Tally()


def _slice(rows: Sequence[T], page: int, page_size: int, *, latest_first: bool = False) -> Slice[T]:
    first = (page - 1) * page_size
    last = min(first + page_size, len(rows))
    items = [rows[-1 - place] if latest_first else rows[place] for place in range(first, last)]
    return Slice(items, page, page_size, ceil(len(rows) / page_size))
