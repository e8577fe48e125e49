"""What the model holds of each kind: attempts at targets, letters, news of jobs, and the jobs themselves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from scraper_pipeline.ledger import Kind, State

PLANNED, SENDING, ACCEPTED, STORED, DEAD, SUPERSEDED = State
RowKey = tuple[str, str]


@dataclass(eq=False)
class Row:
    """One attempt at one target of one day."""

    partition_key: str
    target_id: str
    url: str
    options: Mapping[str, Any]
    kind: Kind = Kind.EXTRACT
    attempt: int = 1
    first_attempt: int = 1
    state: State = PLANNED
    not_before: datetime | None = None
    request_id: str | None = None
    sent_at: datetime | None = None
    lease_until: datetime | None = None
    job_id: str | None = None
    item_key: str | None = None
    given_up: bool = False

    @property
    def key(self) -> RowKey:
        return self.partition_key, self.target_id

    @property
    def is_given_up(self) -> bool:
        return self.state is DEAD and self.given_up

    @property
    def is_waiting(self) -> bool:
        """Whether an outcome of its job would still change it."""
        return self.state is ACCEPTED or self.is_given_up

    @property
    def group(self) -> tuple[bool, str]:
        """What it shares with the rows that may go out together with it."""
        return self.kind is Kind.ALONE, repr(sorted(self.options.items()))


@dataclass
class Letter:
    """A parked target; ``resolution`` is None while it is open."""

    key: RowKey
    code: str
    resolution: str | None = None


@dataclass
class News:
    """What is known of the end of one job, and who works on it."""

    available_at: datetime
    tries: int = 0
    channels: dict[str, datetime] = field(default_factory=dict)
    claimed_by: str | None = None
    given_up: bool = False
    processed: bool = False


@dataclass
class BoundJob:
    """A job that the ledger waits for or watches."""

    partition_key: str
    next_look_at: datetime | None
    kind: str
    pages_read: int = 0
    missing_since: datetime | None = None
