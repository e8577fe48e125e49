"""The bodies and queries that the service takes, with its bounds."""

from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

Format = Literal["markdown", "html"]
EventType = Literal["extract_completed", "batch_completed", "crawl_completed"]
Status = Literal["queued", "processing", "completed", "failed", "cancelled"]


def without_host(url: str) -> str:
    """A URL as far as it is the same wherever the sandbox listens."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    return f"{parts.path}?{parts.query}#{parts.fragment}"


def _in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


Moment = Annotated[datetime, AfterValidator(_in_utc)]


def is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and url == url.strip()
    except ValueError:
        return False


def _web_address(url: str) -> str:
    if not is_web_address(url):
        raise ValueError("must be an http or https URL")
    return url


WebAddress = Annotated[str, Field(min_length=1), AfterValidator(_web_address)]


class Proxy(BaseModel):
    country: str | None = Field(default=None, pattern="^[A-Z]{2}$")
    type: Literal["datacenter", "residential", "mix"] = "residential"


class WaitConfig(BaseModel):
    wait_until: Literal["commit", "domcontentloaded", "load", "networkidle"] | None = None
    wait_for: str | None = Field(default=None, max_length=4096)
    wait_timeout: int | None = Field(default=None, ge=0, le=30000)


class PageOptions(BaseModel):
    """What can be asked for of every page. The service's default format is HTML."""

    model_config = ConfigDict(frozen=True)

    formats: tuple[Format, ...] = ("html",)
    render_js: bool = False
    proxy: Proxy | None = None
    headers: dict[str, str] | None = None
    wait_config: WaitConfig | None = None


class ExtractRequest(PageOptions):
    """The body of POST /v1/extract. The service's default mode is `sync`."""

    url: str = Field(min_length=1)
    processing_mode: Literal["sync", "async"] = "sync"
    timeout: int | None = Field(default=None, ge=1000)


class BatchRequest(PageOptions):
    """The body of POST /v1/batch. Raises for invalid URLs only where they are not to be ignored, or all there is."""

    urls: tuple[str, ...] = Field(min_length=1, max_length=1000)
    ignore_invalid_urls: bool = True

    @model_validator(mode="after")
    def _has_what_it_takes(self) -> Self:
        invalid = self.invalid_urls
        if invalid and not self.ignore_invalid_urls:
            raise ValueError(f"{len(invalid)} of the URLs are invalid")
        if len(invalid) == len(self.urls):
            raise ValueError("none of the URLs is valid")
        return self

    @cached_property
    def invalid_urls(self) -> tuple[str, ...]:
        return tuple(url for url in self.urls if not is_web_address(url))

    @cached_property
    def aim(self) -> str:
        """What faults are aimed at it by: every URL that was sent, as it is wherever the sandbox listens."""
        return " ".join(without_host(url) for url in self.urls)

    @property
    def valid_urls(self) -> list[tuple[int, str]]:
        """With their places among all."""
        invalid = set(self.invalid_urls)
        return [(place, url) for place, url in enumerate(self.urls) if url not in invalid]


class CrawlRequest(PageOptions):
    """The body of POST /v1/crawl. A depth of 1 is the first page alone."""

    url: WebAddress
    depth: int = Field(default=2, ge=1, le=10)
    limit: int = Field(default=50, ge=1, le=10_000)
    same_domain_only: bool = True
    include_subdomains: bool = False

    @property
    def aim(self) -> str:
        return self.url


class ListingQuery(BaseModel):
    """The query of GET /v1/extract/jobs. Both ends of the window belong to it; times without a zone are UTC."""

    job_id: str | None = None
    url: str | None = None
    status: Status | None = None
    output: Format | None = None
    start_date: Moment | None = None
    end_date: Moment | None = None
    page: int = Field(default=1, ge=1)
    page_size: int = Field(default=100, ge=1, le=100)


class BulkListingQuery(BaseModel):
    """The query of GET /v1/batch/jobs and /v1/crawl/jobs."""

    status: Status | None = None
    start_date: Moment | None = None
    end_date: Moment | None = None
    page: int = Field(default=1, ge=1)
    page_size: int = Field(default=100, ge=1, le=100)


class ResultsQuery(BaseModel):
    """The query of GET /v1/batch/{job_id} and /v1/crawl/{job_id}."""

    page: int = Field(default=1, ge=1)
    page_size: int = Field(default=10, ge=1, le=50)


class StatisticsQuery(BaseModel):
    start_date: Moment | None = None
    end_date: Moment | None = None


class WebhookRequest(BaseModel):
    """The body of POST /v1/webhooks."""

    url: WebAddress
    event_type: EventType
    description: str | None = None


class WebhookChanges(BaseModel):
    """The body of PATCH /v1/webhooks/{id}; null leaves a thing as it is, but for the description."""

    url: WebAddress | None = None
    event_type: EventType | None = None
    is_active: bool | None = None
    description: str | None = None


class PageQuery(BaseModel):
    page: int = Field(default=1, ge=1)
    page_size: int = Field(default=20, ge=1, le=100)


class DeliveriesQuery(PageQuery):
    """The query of GET /v1/webhooks/{id}/deliveries. A status that there is not matches nothing."""

    status: str | None = None
