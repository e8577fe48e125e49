"""The options of a sandbox, fixed for its lifetime; what changes while it runs is in `faults`."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from scraper_pipeline.sandbox.faults import Faults
from scraper_pipeline.sandbox.webhooks.signatures import Scheme

UrlEcho = Literal["verbatim", "without_fragment", "normalised"]


class SandboxConfig(BaseModel):
    """How the stand-in behaves. Delays and time-outs are in seconds, sizes in bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = 0
    api_key: SecretStr | None = None
    """The only key that is accepted; without it, any key that is not empty is."""

    min_delay: float = Field(default=0.2, ge=0)
    max_delay: float = Field(default=2.0, ge=0)
    """A job's page is fetched after a delay drawn evenly from these two, by the seed and the job's ordinal."""

    fetch_timeout: float = Field(default=5.0, gt=0)
    """Holds where a request names no `timeout` of its own."""
    fetch_concurrency: int = Field(default=64, ge=1)
    max_page_bytes: int = Field(default=8 * 1024 * 1024, ge=1)
    allow_any_host: bool = False
    """Fetch from hosts other than loopback, and deliver to them, too."""

    work_concurrency_limit: int = Field(default=100, ge=1)
    refuse_above_concurrency: bool = False
    """Answer 429 `WORK_CONCURRENCY_LIMITED` to a POST while that many jobs, or pages of batches, are at work."""

    flaky_failures: int = Field(default=2, ge=0)
    """How often a page under /site/flaky/ fails before it succeeds."""

    listing_key: Literal["jobs", "items"] = "jobs"
    """The reference lists jobs under `jobs`, the guide reads `items`."""
    error_form: Literal["bare", "wrapped"] = "bare"
    """Error bodies as they are, or under the key `error`."""
    echo_urls: UrlEcho = "verbatim"
    """How the URL of a job comes back in the listing and in its metadata."""

    batches_offered: bool = True
    crawls_offered: bool = True
    unoffered_status: Literal[404, 405, 501] = 404
    """What every call about batches or crawls is answered where they are not offered."""
    results_shown: Literal["all", "ended"] = "all"
    """A batch's results hold every item in the order of its URLs, or those that have ended, in that order."""

    webhooks_offered: bool = True
    """Without them, every call under /v1/webhooks is answered 404."""
    webhook_signature: Scheme = "hex"
    webhook_signature_header: str = Field(default="X-Webhook-Signature", pattern=r"^[A-Za-z0-9-]+$")
    webhook_payload: Literal["envelope", "guide", "foreign"] = "envelope"
    """The reference's body; the older one that the guide expects, without the job's answer; or one like neither."""
    webhook_retry_schedule: tuple[Annotated[float, Field(ge=0)], ...] = (1, 2, 5, 10, 30)
    """Seconds before each attempt after the first; when none is left, the delivery is abandoned."""
    webhook_timeout: float = Field(default=5.0, gt=0)
    webhook_workers: int = Field(default=64, ge=1)
    """Deliveries that are on their way at once."""

    faults: Faults = Faults()

    @model_validator(mode="after")
    def _delays_are_in_order(self) -> Self:
        if self.min_delay > self.max_delay:
            raise ValueError("min_delay must not exceed max_delay")
        return self
