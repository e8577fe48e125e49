"""The bodies and queries that the service takes, with its bounds."""

from datetime import UTC, datetime
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

Format = Literal["markdown", "html"]
EventType = Literal["extract_completed", "batch_completed", "crawl_completed"]
Status = Literal["queued", "processing", "completed", "failed", "cancelled"]


def _in_utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


Moment = Annotated[datetime, AfterValidator(_in_utc)]


def _web_address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
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


class ExtractRequest(BaseModel):
    """The body of POST /v1/extract. The service's default format is HTML, its default mode `sync`."""

    model_config = ConfigDict(frozen=True)

    url: str = Field(min_length=1)
    formats: tuple[Format, ...] = ("html",)
    render_js: bool = False
    processing_mode: Literal["sync", "async"] = "sync"
    proxy: Proxy | None = None
    headers: dict[str, str] | None = None
    timeout: int | None = Field(default=None, ge=1000)
    wait_config: WaitConfig | None = None


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
