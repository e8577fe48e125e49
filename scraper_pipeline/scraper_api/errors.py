"""The errors that the client raises, and what each of them proves about the work that it interrupted."""

from typing import ClassVar, Literal

Scope = Literal["account", "target", "service"]

_TRANSIENT_CODES = frozenset(
    {
        "CAPTCHA_CHALLENGE",
        "INTERNAL_ERROR",
        "NETWORK_ERROR",
        "PROXY_ERROR",
        "RATE_LIMITED",
        "TEMPORARY_BLOCK",
        "TIMEOUT",
        "WAIT_FOR_SELECTOR_TIMEOUT",
        "WORK_CONCURRENCY_LEASE_EXPIRED",
        "WORK_CONCURRENCY_LIMITED",
    }
)
_PERMANENT_CODES = frozenset(
    {
        "AUTH_REQUIRED",
        "CANCELLED",
        "INVALID_URL",
        "INVALID_WAIT_FOR_SELECTOR",
        "PERMANENT_BLOCK",
        "UNPROCESSABLE_CONTENT",
    }
)
PAYMENT_REQUIRED = "PAYMENT_REQUIRED"
WORK_CONCURRENCY_LIMITED = "WORK_CONCURRENCY_LIMITED"
EXTRACTION_CODES = _TRANSIENT_CODES | _PERMANENT_CODES

_MAY_FOLLOW_ACCEPTANCE = frozenset({408, 499})


def is_retryable_code(code: str | None, flag: bool | None = None) -> bool:
    """Whether another attempt may succeed: the body's `retryable` decides, else the table of the contract's "Errors".

    A code that nobody knows counts as retryable. So does `PAYMENT_REQUIRED`, for which work waits.
    """
    return flag if flag is not None else code not in _PERMANENT_CODES


class ScraperError(Exception):
    """A call that did not give what it promises.

    `scope` says what is concerned: the `account` (stop the run), the one `target`, or the `service` (come back later).
    `proves_no_job` says whether a POST that ended so has certainly made nothing: no job, no webhook, no new secret.
    """

    scope: ClassVar[Scope] = "service"

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        retryable: bool | None = None,
        correlation_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retryable = retryable
        self.correlation_id = correlation_id

    @property
    def proves_no_job(self) -> bool:
        status = self.status or 0
        return 400 <= status < 500 and status not in _MAY_FOLLOW_ACCEPTANCE


class Unauthorized(ScraperError):
    """401 or 403: the key is missing, wrong, or not allowed to do this."""

    scope = "account"


class PaymentRequired(ScraperError):
    """402: the balance is used up. Nothing is lost: the work waits."""

    scope = "account"


class _Deferrable(ScraperError):
    """A refusal that may say when to come back: `retry_after` seconds, already capped."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        retryable: bool | None = None,
        correlation_id: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(
            message, status=status, code=code, retryable=retryable, correlation_id=correlation_id
        )
        self.retry_after = retry_after


class Throttled(_Deferrable):
    """429 beyond the budget for it, or a turn that would come only after the time allowed."""

    scope = "account"

    @property
    def proves_no_job(self) -> bool:
        return True


class ServerError(_Deferrable):
    """5xx, beyond its budget where the call may be repeated."""


class InvalidRequest(ScraperError):
    """400 or a validation 422: the same request will never be accepted."""

    scope = "target"


class ExtractionFailed(ScraperError):
    """422 with an extraction error: the page could not be had."""

    scope = "target"

    @property
    def is_retryable(self) -> bool:
        return is_retryable_code(self.code, self.retryable)


class CannotCancel(ScraperError):
    """409: the batch or crawl has ended, or is being cancelled already."""

    scope = "target"


class JobNotFound(ScraperError):
    """404: the service knows no such job, or not yet, or no longer."""

    scope = "target"


class JobExpired(ScraperError):
    """410: the job's result is gone for good."""

    scope = "target"


class WebhookNotFound(ScraperError):
    """404 or 410: the service knows no such webhook, or no longer."""

    scope = "target"


class NotOffered(ScraperError):
    """404 to a call that names no single thing, 405 or 501 to any of its kind: so far only the reference has them."""

    @property
    def proves_no_job(self) -> bool:
        return True


class WebhooksNotOffered(NotOffered):
    """Nothing is lost by it: whatever webhooks would tell is found by polling."""


class BatchesNotOffered(NotOffered):
    """Nothing is lost by it: each URL can be submitted by itself."""


class CrawlsNotOffered(NotOffered):
    """Nothing takes a crawl's place: pages have to be named one by one."""


class UnexpectedStatus(ScraperError):
    """A redirect or a refusal that no call of this API should get: most often the host is not the service."""


class NetworkError(ScraperError):
    """No whole answer came: no connection, a cut one, a time-out, or a body that can't be decoded.

    `request_sent` is false only if the failure came before anything was sent. `is_final` marks what no repetition
    cures, a certificate that doesn't verify.
    """

    def __init__(self, message: str, *, request_sent: bool, is_final: bool = False) -> None:
        super().__init__(message)
        self.request_sent = request_sent
        self.is_final = is_final

    @property
    def proves_no_job(self) -> bool:
        return not self.request_sent


class UnreadableAnswer(ScraperError):
    """A 2xx that is no JSON, or lacks what the call promises."""


class AnswerTooLarge(ScraperError):
    """The decoded body passed the cap and was cut off."""

    scope = "target"


class DeadlineExceeded(ScraperError):
    """The request was not begun: too little time was left for it."""

    @property
    def proves_no_job(self) -> bool:
        return True
