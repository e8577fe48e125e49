"""The faults that can be ordered: what each is called, what it takes, and whether it strikes now.

What is said of a job holds for batches and crawls alike. A batch is aimed at by any of its URLs, a crawl by the one
that it begins at, and what befalls single pages, by the page's own.

A fault is ordered as a rule or a list of rules. A rule is `true` (always), a whole number (exactly the next n
times), a decimal (a probability), or an object with `probability`, `count`, `url_contains` and the fault's own
fields. `false` and `null` order nothing. In JSON `1` is a count and `1.0` a probability.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from scraper_pipeline.sandbox.chance import draw
from scraper_pipeline.sandbox.limiter import RateForm
from scraper_pipeline.sandbox.requests import without_host
from scraper_pipeline.sandbox.rules import (
    BadGateway,
    Bomb,
    Call,
    DuplicateDelivery,
    EarlyDelivery,
    EmptyData,
    EmptyPage,
    EndsAs,
    FailedJob,
    LateDelivery,
    LateJob,
    Latency,
    Missing,
    MissingItem,
    OddTimes,
    OnCall,
    R,
    ResultsFault,
    Rule,
    Rules,
    ServerFault,
    SlowAnswer,
    SlowDelivery,
    Throttled,
    Unhealthy,
    UnknownStatus,
    Unreadable,
    WrongSignature,
)


class Faults(BaseModel):
    """Everything that can be made to go wrong. Nothing does by default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, orders: Any) -> Any:
        known = list(cls.model_fields)
        for name in orders if isinstance(orders, Mapping) else ():
            if name not in known:
                close = get_close_matches(str(name), known, n=1)
                meant = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
                raise PydanticCustomError(
                    "fault", "there is no fault {name}; {meant}", {"name": str(name), "meant": meant}
                )
        return orders

    # Any /v1 call, before it is looked at.
    latency: Rules[Latency] = ()
    cut_before: Rules[OnCall] = ()
    """The connection is cut and nothing is done."""
    unauthorized: Rules[OnCall] = ()
    forbidden: Rules[OnCall] = ()
    rate_limit_429: Rules[Throttled] = ()

    # POST /v1/extract, /v1/batch and /v1/crawl.
    payment_required: Rules[Rule] = ()
    post_500_before: Rules[ServerFault] = ()
    """A server error, and no job is made."""
    post_502_after_accept: Rules[BadGateway] = ()
    """A server error, and yet a job is made."""
    answer_lost: Rules[Rule] = ()
    """A job is made, then the connection is cut without an answer."""
    slow_answer: Rules[SlowAnswer] = ()
    """A job is made, and the answer takes its time."""
    unreadable_answer: Rules[Unreadable] = ()
    """A job is made, and the 202 is not what it should be."""

    # GET /v1/extract/{job_id}, and the same of batches and crawls.
    get_500: Rules[ServerFault] = ()
    job_404: Rules[Missing] = ()
    truncated_body: Rules[Rule] = ()
    gzip_bomb: Rules[Bomb] = ()
    false_gzip: Rules[Rule] = ()
    """A plain body that claims to be gzip."""
    strange_text: Rules[Rule] = ()
    """NUL, lone surrogates and numbers beyond 64 bits, in values and in keys."""
    empty_data: Rules[EmptyData] = ()
    odd_timestamps: Rules[OddTimes] = ()
    """In the answers of GET and of the listing."""

    # GET /v1/batch/{job_id} and /v1/crawl/{job_id}.
    results_500: Rules[ResultsFault] = ()
    """A server error in place of a page of results: of any, or of the one named."""
    results_empty_page: Rules[EmptyPage] = ()
    """A page without items, whatever the counts say."""

    # GET /v1/extract/jobs, and the same of batches and crawls.
    list_500: Rules[ServerFault] = ()
    listing_empty_page: Rules[Rule] = ()
    """A page without jobs, whatever its `page_count` says."""

    # The life of a job, settled when it is made.
    never_finish: Rules[Rule] = ()
    late_job: Rules[LateJob] = ()
    unknown_status: Rules[UnknownStatus] = ()
    """Shown for as long as the job is not terminal."""
    job_failed: Rules[FailedJob] = ()
    job_cancelled: Rules[Rule] = ()

    # The pages of batches and crawls; `never_finish`, `late_job`, `job_failed` and `job_cancelled` strike these singly.
    item_missing: Rules[MissingItem] = ()
    """Counted in the total, and in no page of results."""
    bulk_ends_as: Rules[EndsAs] = ()
    """The whole ends so, whatever its pages came to."""

    # Deliveries to webhooks, aimed by the job's URL; settled for each webhook and event, or where it says so, attempt.
    webhook_drop: Rules[Rule] = ()
    """No attempt is ever made, and the delivery log knows of none."""
    webhook_early: Rules[EarlyDelivery] = ()
    """Delivered when the job is accepted, with the job as it is then."""
    webhook_duplicate: Rules[DuplicateDelivery] = ()
    webhook_delay: Rules[LateDelivery] = ()
    webhook_out_of_order: Rules[LateDelivery] = ()
    """Held until a later event has been attempted, or for `seconds`; of several that are held the last goes first."""
    webhook_wrong_signature: Rules[WrongSignature] = ()
    """Settled for each attempt."""
    webhook_slow: Rules[SlowDelivery] = ()
    """Settled for each attempt."""

    # The calls under /v1/webhooks, aimed by the webhook's URL where there is one.
    webhook_500: Rules[ServerFault] = ()
    """A server error, and nothing is done."""
    webhook_answer_lost: Rules[OnCall] = ()
    """It is done, then the connection is cut without an answer."""

    # GET /health.
    unhealthy: Rules[Unhealthy] = ()

    # Standing conditions: plain numbers, in force until changed.
    rate: float | None = Field(default=None, gt=0)
    """Requests a second over all of /v1; more are answered 429."""
    rate_form: RateForm = "bucket"
    rate_retry_after: int | float | str | list[str] | None = "needed"
    """The `Retry-After` of these answers: `"needed"` is what it takes in whole seconds, null none at all."""
    balance: int | None = Field(default=None, ge=0)
    """Pages that may be charged from the start of the sandbox; then 402, and pages found by crawls fail."""
    work_concurrency: int | None = Field(default=None, ge=1)
    """In place of `work_concurrency_limit`; while that much is at work, a POST is answered 429."""
    listing_lag: float = Field(default=0.0, ge=0)
    """Seconds before a new job appears in the listing."""
    listing_capped_above: int | None = Field(default=None, ge=1)
    """More matches than this are cut off, with `is_capped` true."""
    results_reversed: bool = False
    """The pages of batches and crawls are shown in reverse, as by a service that promises no order."""
    expire_results_after: float | None = Field(default=None, ge=0)
    """Seconds after its end at which a job answers `expired_status`."""
    expired_status: Literal[404, 410] = 410
    clock_shift: float = 0.0
    """Seconds by which the service's clock is ahead: the Date header, created_at, completed_at."""

    def changed(self, changes: Mapping[str, Any]) -> "Faults":
        """These faults with some ordered anew; raises pydantic's `ValidationError`."""
        return Faults.model_validate(self.model_dump() | dict(changes))


@dataclass
class FaultBook:
    """Decides when the ordered faults strike, and counts how often each did.

    Probabilities are drawn from the seed, the URL without its host and how often the fault was considered for
    it, so a URL meets the same fate whatever else goes on and wherever the sandbox listens.
    """

    seed: int
    faults: Faults = field(default_factory=Faults)
    struck: Counter[str] = field(default_factory=Counter)
    _remaining: dict[tuple[str, int], int] = field(default_factory=dict)
    _considered: Counter[tuple[str, int, str]] = field(default_factory=Counter)

    def order(self, changes: Mapping[str, Any]) -> None:
        """Order the named faults anew, with fresh counts; the others stay as they are."""
        self.faults = self.faults.changed(changes)
        for key in [key for key in self._remaining if key[0] in changes]:
            del self._remaining[key]

    def clear(self) -> None:
        """Take every order back; what has struck stays counted."""
        self.faults = Faults()
        self._remaining.clear()

    def strike(
        self, name: str, rules: tuple[R, ...], url: str = "", call: Call = "any", *, page: int | None = None
    ) -> R | None:
        """The first rule of a fault that strikes now, if any; its count goes down by one."""
        for position, rule in enumerate(rules):
            if isinstance(rule, EmptyPage | ResultsFault) and rule.page not in (None, page):
                continue
            if isinstance(rule, OnCall) and rule.on not in ("any", call):
                continue
            if rule.url_contains not in url:
                continue
            if rule.count is not None and self._left(name, position, rule.count) <= 0:
                continue
            if rule.probability < 1 and not self._chance_hits(name, position, rule.probability, url):
                continue
            if rule.count is not None:
                self._remaining[name, position] -= 1
            self.struck[name] += 1
            return rule
        return None

    def remaining(self) -> dict[str, int]:
        """What is left of the counts, by fault, for those that have been considered."""
        left: Counter[str] = Counter()
        for (name, _), count in self._remaining.items():
            left[name] += count
        return dict(left)

    def _left(self, name: str, position: int, count: int) -> int:
        return self._remaining.setdefault((name, position), count)

    def _chance_hits(self, name: str, position: int, probability: float, url: str) -> bool:
        subject = without_host(url)
        self._considered[name, position, subject] += 1
        nth = self._considered[name, position, subject]
        return draw(self.seed, name, position, subject, nth) < probability
