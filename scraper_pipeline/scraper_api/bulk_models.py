"""The service's answers about batches and crawls, as frozen values read leniently."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import AliasChoices, BeforeValidator, Field, model_validator

from scraper_pipeline.scraper_api.models import (
    TERMINAL_STATUSES,
    Extraction,
    Identifier,
    JobError,
    Listing,
    ServiceValue,
    Text,
    Time,
    TimedValue,
    WholeNumber,
    mapping_or_none,
    readable,
    text_or_none,
)


def _texts(value: object) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list | tuple) else ()


Status = Annotated[str, BeforeValidator(lambda value: text_or_none(value) or "")]
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts)]
# A configuration repeats the headers of the submission, which may hold credentials.
Config = Annotated[
    Mapping[str, Any], BeforeValidator(lambda value: mapping_or_none(value) or {}), Field(repr=False)
]


class AcceptedBatch(ServiceValue):
    """The answer to a submission: from here on the batch exists. `invalid_urls` are left out of it."""

    job_id: Identifier
    status: Status = ""
    status_url: Text = None
    accepted_urls: WholeNumber = None
    invalid_urls: Texts = ()


class AcceptedCrawl(ServiceValue):
    """The answer to a submission: from here on the crawl exists."""

    job_id: Identifier
    status: Status = ""
    status_url: Text = None
    url: Text = None
    estimated_pages: WholeNumber = None


class Cancellation(ServiceValue):
    """The answer to a cancellation; `in_flight` pages are still at work, and may yet be extracted and charged."""

    job_id: Identifier
    status: Status = ""
    in_flight: Annotated[
        WholeNumber,
        Field(validation_alias=AliasChoices("in_flight", "in_flight_urls", "in_flight_pages")),
    ] = None


class Item(Extraction):
    """One page of a batch or crawl with a status of its own, which decides about it whatever the whole one says."""

    url: Identifier
    status: Identifier
    error: JobError | None = None

    @model_validator(mode="before")
    @classmethod
    def _gather(cls, payload: object) -> object:
        """The error's parts stand beside each other here, and what was charged is part of the metadata."""
        if not isinstance(payload, Mapping):
            return payload
        gathered = dict(payload)
        code, message = payload.get("error_code"), payload.get("error_message")
        if "error" not in payload and (isinstance(code, str) or isinstance(message, str)):
            gathered["error"] = {"code": code, "message": message, "retryable": payload.get("retryable")}
        metadata = payload.get("metadata")
        if "tokens_charged" not in payload and isinstance(metadata, Mapping):
            gathered["tokens_charged"] = metadata.get("tokens_charged")
        return gathered

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL_STATUSES


class BatchItem(Item):
    """One URL of a batch. `input_index` is the service's and does not identify it: the URL does."""

    input_index: WholeNumber = None


class CrawlItem(Item):
    """One page of a crawl, found on `parent_url`; `links` are those that the service found on it."""

    parent_url: Text = None
    depth: WholeNumber = None
    links: Annotated[Texts, Field(repr=False)] = ()


class _Whole(TimedValue):
    """A batch or crawl as it stands, with one page of its items.

    `unreadable` counts the items of this page without a readable URL and status, `too_large` the one that is on it
    and passed the cap by itself. A status that nobody knows is kept as it came, and is not terminal.
    """

    item: ClassVar[type[Item]]

    job_id: Identifier
    status: Identifier
    created_at: Time = None
    completed_at: Time = None
    tokens_charged: WholeNumber = None
    tokens_reserved: WholeNumber = None
    unreadable: int = 0
    too_large: int = 0
    sanitised: Annotated[int, Field(description="How many characters became U+FFFD")] = 0

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL_STATUSES

    @model_validator(mode="before")
    @classmethod
    def _set_unreadable_items_apart(cls, payload: object) -> object:
        if not isinstance(payload, Mapping):
            return payload
        lines = payload.get("results", payload.get("items"))
        if lines is None and payload.get("status") not in TERMINAL_STATUSES:
            lines = []
        if not isinstance(lines, Sequence) or isinstance(lines, str):
            return {**payload, "results": None}
        items = readable(cls.item, lines)
        tokens = payload.get("token_summary")
        summary = tokens if isinstance(tokens, Mapping) else {}
        return {
            "unreadable": len(lines) - len(items),
            "tokens_charged": summary.get("tokens_charged_total"),
            "tokens_reserved": summary.get("tokens_reserved"),
            **payload,
            "results": items,
        }


class Batch(_Whole):
    """A batch as it stands, with one page of its items. Counts that the service did not tell are None."""

    item = BatchItem

    items: Annotated[tuple[BatchItem, ...], Field(validation_alias=AliasChoices("results", "items"))]
    total_urls: WholeNumber = None
    completed_urls: WholeNumber = None
    failed_urls: WholeNumber = None
    cancelled_urls: WholeNumber = None
    pending_urls: WholeNumber = None
    invalid_urls: Texts = ()
    config: Config = Field(validation_alias=AliasChoices("config", "batch_config"), default_factory=dict)

    @property
    def total(self) -> int | None:
        """How many items there are over all pages."""
        return self.total_urls

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing of it will change: a cancelled batch can have pages at work for a while."""
        return self.is_terminal and not self.pending_urls


class Crawl(_Whole):
    """A crawl as it stands, with one page of its items; `total_pages` are those found so far."""

    item = CrawlItem

    url: Text = None
    items: Annotated[tuple[CrawlItem, ...], Field(validation_alias=AliasChoices("results", "items"))]
    total_pages: WholeNumber = None
    completed_pages: WholeNumber = None
    failed_pages: WholeNumber = None
    cancelled_pages: WholeNumber = None
    config: Config = Field(validation_alias=AliasChoices("config", "crawl_config"), default_factory=dict)

    @property
    def total(self) -> int | None:
        """How many items there are over all pages, as far as they have been found."""
        return self.total_pages

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing of it will change: a cancelled crawl can have pages at work for a while."""
        ended = (self.completed_pages or 0) + (self.failed_pages or 0) + (self.cancelled_pages or 0)
        return self.is_terminal and ended >= (self.total_pages or 0)


class BatchSummary(TimedValue):
    """One line of the listing of batches, which names no URLs."""

    job_id: Identifier
    status: Identifier
    accepted_urls: WholeNumber = None
    completed_urls: WholeNumber = None
    failed_urls: WholeNumber = None
    created_at: Time = None
    completed_at: Time = None
    config: Config = Field(default_factory=dict)

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL_STATUSES


class CrawlSummary(TimedValue):
    """One line of the listing of crawls, with the URL that each began at."""

    job_id: Identifier
    status: Identifier
    url: Text = None
    total_pages: WholeNumber = None
    completed_pages: WholeNumber = None
    failed_pages: WholeNumber = None
    created_at: Time = None
    completed_at: Time = None
    config: Config = Field(default_factory=dict)

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL_STATUSES


class BatchListing(Listing):
    """One page of the batches; each line has its id and status."""

    line = BatchSummary
    jobs: Annotated[tuple[BatchSummary, ...], Field(validation_alias=AliasChoices("jobs", "items"))]


class CrawlListing(Listing):
    """One page of the crawls; each line has its id and status."""

    line = CrawlSummary
    jobs: Annotated[tuple[CrawlSummary, ...], Field(validation_alias=AliasChoices("jobs", "items"))]
