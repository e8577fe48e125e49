"""The service's answers as frozen values, read leniently: only what a caller can't do without is demanded."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)

from scraper_pipeline.scraper_api.errors import PAYMENT_REQUIRED, is_retryable_code
from scraper_pipeline.scraper_api.times import parse_time

JSON = JsonValue
TERMINAL_STATUSES = frozenset({"completed", "failed", "cancelled"})
UNKNOWN_CODE = "UNKNOWN"

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_LONGEST_MESSAGE = 500
_LONGEST_CODE = 100
_TIMES = ("created_at", "updated_at", "completed_at", "delivered_at")

V = TypeVar("V", bound=BaseModel)


def one_line(text: object, longest: int = _LONGEST_MESSAGE) -> str:
    """`text` fit for a log: one line, capped, without control characters; empty if it is no text."""
    return (
        _CONTROL_CHARACTERS.sub(" ", text[: 2 * longest]).strip()[:longest] if isinstance(text, str) else ""
    )


def text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def whole_number(value: object) -> int | None:
    """`value` if it is a whole number; JSON knows no other difference between 2 and 2.0."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _http_status(value: object) -> int | None:
    status = whole_number(value)
    return status if status is not None and 100 <= status <= 599 else None


def mapping_or_none(value: object) -> object:
    return value if isinstance(value, Mapping | BaseModel) else None


def _error_object(value: object) -> object:
    return {"message": value} if isinstance(value, str) and value else mapping_or_none(value)


Text = Annotated[str | None, BeforeValidator(text_or_none)]
WholeNumber = Annotated[int | None, BeforeValidator(whole_number)]
HttpStatus = Annotated[int | None, BeforeValidator(_http_status)]
Flag = Annotated[bool | None, BeforeValidator(_flag)]
Time = Annotated[datetime | None, BeforeValidator(parse_time)]
Identifier = Annotated[str, Field(min_length=1)]


class ServiceValue(BaseModel):
    """What all of them have in common."""

    # The input is hidden in errors because it is a page's content.
    model_config = ConfigDict(frozen=True, strict=True, hide_input_in_errors=True, validate_by_name=True)


class TimedValue(ServiceValue):
    """A value with times of the service."""

    unread_times: Annotated[
        Mapping[str, str], Field(description="Times that nobody could read, as they came", repr=False)
    ] = {}

    @model_validator(mode="before")
    @classmethod
    def _keep_unread_times(cls, payload: object) -> object:
        if not isinstance(payload, Mapping):
            return payload
        unread = {
            name: str(payload[name])
            for name in _TIMES
            if payload.get(name) is not None and parse_time(payload[name]) is None
        }
        return {**payload, "unread_times": unread}


def readable(kind: type[V], lines: Sequence[object]) -> tuple[V, ...]:
    """The lines of a listing that can be read as values of this kind."""
    values = []
    for line in lines:
        with suppress(ValidationError):
            values.append(kind.model_validate(line))
    return tuple(values)


class AcceptedJob(ServiceValue):
    """The answer to a submission: from here on the job exists."""

    job_id: Identifier
    status: Annotated[str, BeforeValidator(lambda value: text_or_none(value) or "")] = ""
    status_url: Text = None
    estimated_tokens: WholeNumber = None


class Page(ServiceValue):
    """The content of one page, in the formats that were asked for."""

    markdown: Annotated[Text, Field(repr=False)] = None
    html: Annotated[Text, Field(repr=False)] = None


class JobError(ServiceValue):
    """Why a job failed. `message` is one line, capped."""

    code: Annotated[str, BeforeValidator(lambda value: one_line(value, _LONGEST_CODE) or UNKNOWN_CODE)] = (
        UNKNOWN_CODE
    )
    message: Annotated[str, BeforeValidator(one_line)] = ""
    retryable: Flag = None
    correlation_id: Annotated[
        str | None, BeforeValidator(lambda value: one_line(value, _LONGEST_CODE) or None)
    ] = None

    @property
    def is_retryable(self) -> bool:
        return is_retryable_code(self.code, self.retryable)

    @property
    def stops_account(self) -> bool:
        """Whether the account is out of balance: no fault of the target, whatever `is_retryable` says."""
        return self.code == PAYMENT_REQUIRED


class Extraction(ServiceValue):
    """What came of one page."""

    page: Annotated[
        Page | None, BeforeValidator(mapping_or_none), Field(validation_alias=AliasChoices("page", "data"))
    ] = None
    metadata: Annotated[
        Mapping[str, Any], BeforeValidator(lambda value: mapping_or_none(value) or {}), Field(repr=False)
    ] = {}
    tokens_charged: WholeNumber = None
    sanitised: Annotated[int, Field(description="How many characters became U+FFFD")] = 0

    @property
    def http_status(self) -> int | None:
        """The scraped site's status, if it is one."""
        return _http_status(self.metadata.get("http_status"))


class ExtractedPage(Extraction):
    """The answer to a synchronous extraction."""


class Job(TimedValue, Extraction):
    """One job as it stands. A status that nobody knows is kept as it came, and is not terminal."""

    job_id: Identifier
    status: Identifier
    created_at: Time = None
    completed_at: Time = None
    error: Annotated[JobError | None, BeforeValidator(_error_object)] = None

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL_STATUSES


class JobSummary(TimedValue):
    """One line of a listing."""

    job_id: Identifier
    status: Identifier
    url: Identifier
    created_at: Time = None

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL_STATUSES


class Listing(ServiceValue):
    """One page of a listing, newest first.

    `requested_at` and `received_at` are this machine's clock, `service_time` is the service's (its `Date` header).
    `unreadable` counts the lines that lack what identifies them: a listing that has some proves no absence.
    """

    line: ClassVar[type[BaseModel]]

    page: WholeNumber = None
    page_size: WholeNumber = None
    page_count: WholeNumber = None
    # Anything but a plain "no" is taken as a yes: a listing that may be cut short proves no absence.
    is_capped: Annotated[bool, BeforeValidator(lambda value: value is not None and value is not False)] = (
        False
    )
    unreadable: int = 0
    service_time: datetime | None = None
    requested_at: datetime
    received_at: datetime

    @model_validator(mode="before")
    @classmethod
    def _set_unreadable_lines_apart(cls, payload: object) -> object:
        if not isinstance(payload, Mapping):
            return payload
        lines = payload.get("jobs", payload.get("items"))
        if not isinstance(lines, list):
            return payload
        jobs = readable(cls.line, lines)
        return {**payload, "jobs": jobs, "unreadable": len(lines) - len(jobs)}


class JobListing(Listing):
    """One page of the single jobs; each line has its id, status and URL."""

    line = JobSummary
    jobs: Annotated[tuple[JobSummary, ...], Field(validation_alias=AliasChoices("jobs", "items"))]


class ConcurrencyUsage(ServiceValue):
    """How many jobs run at once, and how many may."""

    in_use: Annotated[int, Field(validation_alias=AliasChoices("in_use", "work_concurrency_in_use"))]
    limit: Annotated[int, Field(validation_alias=AliasChoices("limit", "work_concurrency_limit"))]


class Health(ServiceValue):
    """The service's word on itself: `ok`, `degraded` or `unavailable`."""

    status: Identifier
    service: Text = None
    version: Text = None
    timestamp: Time = None

    @property
    def is_ok(self) -> bool:
        return self.status == "ok"
