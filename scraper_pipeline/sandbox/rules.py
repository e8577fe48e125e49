"""The rules by which a fault is ordered: when it strikes, and what else can be said of each kind."""

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Call = Literal[
    "any",
    "post",
    "get",
    "list",
    "cancel",
    "usage",
    "statistics",
    "webhooks",
    "create_webhook",
    "rotate_secret",
]
OddForm = Literal["nanoseconds", "hundredths", "naive", "doubled_zone", "date", "leap_second", "words"]


class Rule(BaseModel):
    """When a fault strikes: at URLs that contain a text, with a probability, and at most `count` times."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    probability: float = Field(default=1.0, ge=0, le=1)
    count: int | None = Field(default=None, ge=0)
    url_contains: str = ""


class OnCall(Rule):
    on: Call = "any"


class RetryAfter(OnCall):
    """`retry_after` is sent as it is; `"date"` is the HTTP date `seconds` ahead; a list makes several headers."""

    retry_after: int | float | str | list[str] | None = None
    seconds: float = 1.0


class Throttled(RetryAfter):
    retry_after: int | float | str | list[str] | None = 1
    code: Literal["RATE_LIMITED", "WORK_CONCURRENCY_LIMITED"] = "RATE_LIMITED"


class Latency(OnCall):
    seconds: float = Field(default=0.1, ge=0)


class ServerFault(RetryAfter):
    status: int = Field(default=500, ge=500, le=599)


class BadGateway(ServerFault):
    status: int = Field(default=502, ge=500, le=599)


class EmptyPage(Rule):
    page: int | None = Field(default=None, ge=1)


class ResultsFault(ServerFault):
    page: int | None = Field(default=None, ge=1)


class MissingItem(Rule):
    extracted: bool = False
    """The page is extracted and charged all the same."""


class EndsAs(Rule):
    status: Literal["completed", "failed", "cancelled"] = "failed"


class SlowAnswer(Rule):
    seconds: float = Field(default=30.0, ge=0)


class Unreadable(Rule):
    form: Literal["html", "empty", "no_job_id", "array", "cut"] = "html"


class Missing(Rule):
    """The job answers `status` to this GET, and to those of the next `seconds`."""

    seconds: float = Field(default=0.0, ge=0)
    status: Literal[404, 410] = 404


class Bomb(Rule):
    megabytes: int = Field(default=50, ge=1, le=2048)


class OddTimes(OnCall):
    forms: tuple[OddForm, ...] = (
        "nanoseconds",
        "hundredths",
        "naive",
        "doubled_zone",
        "date",
        "leap_second",
        "words",
    )


class EmptyData(Rule):
    form: Literal["null", "object", "blank"] = "null"


class UnknownStatus(Rule):
    status: str = "archived"


class LateJob(Rule):
    seconds: float = Field(default=60.0, ge=0)


class FailedJob(Rule):
    code: str = "INTERNAL_ERROR"
    message: str = "The extraction failed because the sandbox was told so"
    retryable: bool | None = None


class Unhealthy(Rule):
    status: Literal["degraded", "unavailable"] = "unavailable"


class EarlyDelivery(Rule):
    """`again` has the event delivered at the job's end as well, as without the fault."""

    before_answer: bool = True
    """The submission is answered only after the first attempt, or when that takes longer than it may."""
    again: bool = False


class DuplicateDelivery(Rule):
    """`copies` more of a delivery: by themselves after `seconds`, or `identical`, at the same instant."""

    copies: int = Field(default=1, ge=1, le=100)
    seconds: float = Field(default=0.0, ge=0)
    identical: bool = False
    """The same bytes under the same delivery id, logged once, by the answer to the first."""


class LateDelivery(Rule):
    seconds: float = Field(default=5.0, ge=0)


class SlowDelivery(Rule):
    """The body is written in small parts over `seconds`, for which the time-out makes allowance."""

    seconds: float = Field(default=3.0, ge=0)
    chunked: bool = False
    """Without a Content-Length."""


class WrongSignature(Rule):
    """What stands in the place of one attempt's signature; `previous_secret` is the one before the rotation."""

    form: Literal["other_secret", "previous_secret", "garbage", "not_ascii", "empty", "absent"] = (
        "other_secret"
    )


def _as_rules(value: Any) -> Any:
    if value is None or value is False:
        return ()
    if value is True:
        return ({},)
    if isinstance(value, int):
        return ({"count": value},)
    if isinstance(value, float):
        return ({"probability": value},)
    if isinstance(value, list | tuple):
        return tuple(rule for item in value for rule in _as_rules(item))
    return (value,)


R = TypeVar("R", bound=Rule)
Rules = Annotated[tuple[R, ...], BeforeValidator(_as_rules)]
