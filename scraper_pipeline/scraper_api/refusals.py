"""Turns a refusal, a status with whatever body, into the error that says what happened and what to do."""

from collections.abc import Mapping
from typing import Any, Literal

from scraper_pipeline.scraper_api.errors import (
    EXTRACTION_CODES,
    PAYMENT_REQUIRED,
    BatchesNotOffered,
    CannotCancel,
    CrawlsNotOffered,
    ExtractionFailed,
    InvalidRequest,
    JobExpired,
    JobNotFound,
    PaymentRequired,
    ScraperError,
    ServerError,
    Throttled,
    Unauthorized,
    UnexpectedStatus,
    WebhookNotFound,
    WebhooksNotOffered,
)
from scraper_pipeline.scraper_api.models import UNKNOWN_CODE, JobError, one_line

Subject = Literal["job", "webhook", "webhooks", "batch", "batches", "crawl", "crawls"]

_ADVICE: dict[type[ScraperError], str] = {
    Unauthorized: "check GEONODE_SCRAPER_API_KEY",
    PaymentRequired: "top up the balance; the work waits",
    Throttled: "lower SCRAPER_CONCURRENCY or wait",
    ServerError: "try again later",
    JobNotFound: "the service does not show it yet, or has lost it",
    JobExpired: "its result is gone; resubmit the target if it is still wanted",
    InvalidRequest: "correct the target's URL or options",
    CannotCancel: "it has ended already, or is about to",
    WebhookNotFound: "it was removed, or belongs to another account",
    WebhooksNotOffered: "the service does not offer webhooks yet; polling goes on and brings every result",
    BatchesNotOffered: "the service does not offer batches yet; submit each URL by itself",
    CrawlsNotOffered: "the service does not offer crawls yet; name the pages one by one",
    UnexpectedStatus: "check that GEONODE_SCRAPER_HOST is the service's address",
}
_ADVICE_ON_INVALID_WEBHOOK = (
    "correct the webhook's URL, event type or description; an account has 10 webhooks at most"
)
Kinds = dict[int, type[ScraperError]]

_WEBHOOKS: Kinds = {
    405: WebhooksNotOffered,
    409: InvalidRequest,
    422: InvalidRequest,
    501: WebhooksNotOffered,
}
_ONE_OF_MANY: Kinds = {404: JobNotFound, 409: CannotCancel, 410: JobExpired, 422: InvalidRequest}
_BATCHES: Kinds = {
    404: BatchesNotOffered,
    405: BatchesNotOffered,
    422: InvalidRequest,
    501: BatchesNotOffered,
}
_CRAWLS: Kinds = {404: CrawlsNotOffered, 405: CrawlsNotOffered, 422: InvalidRequest, 501: CrawlsNotOffered}
_KINDS_BY_SUBJECT: dict[Subject | None, Kinds] = {
    "job": {404: JobNotFound, 410: JobExpired},
    "webhook": {**_WEBHOOKS, 404: WebhookNotFound, 410: WebhookNotFound},
    "webhooks": {**_WEBHOOKS, 404: WebhooksNotOffered},
    "batch": {**_BATCHES, **_ONE_OF_MANY},
    "batches": _BATCHES,
    "crawl": {**_CRAWLS, **_ONE_OF_MANY},
    "crawls": _CRAWLS,
}
_KINDS: Kinds = {
    400: InvalidRequest,
    401: Unauthorized,
    403: Unauthorized,
    413: InvalidRequest,
    414: InvalidRequest,
    422: InvalidRequest,
    429: Throttled,
    431: InvalidRequest,
}
_DETAILS_SHOWN = 3


def refusal(
    call: str,
    status: int,
    payload: Any,
    *,
    subject: Subject | None = None,
    retry_after: float | None = None,
    secret: str = "",
) -> ScraperError:
    """The error for an answer with a status outside 2xx.

    What a 404 says depends on the call's subject: one job, webhook, batch or crawl, or all of a kind as such.
    `secret` is blotted out wherever the body repeats it.
    """
    reported = _reported_error(payload)
    kind = _kind(status, payload, reported, subject)
    said = [f"{call}: the service answered {status}"]
    code = reported.code if reported and reported.code != UNKNOWN_CODE else None
    if code:
        said.append(f" {code}")
    if message := (reported.message if reported else "") or _validation_message(payload):
        said.append(f": {message}")
    if advice := _advice(kind, subject):
        said.append(f"; {advice}")
    fields: dict[str, Any] = {
        "status": status,
        "code": code,
        "retryable": reported.retryable if reported else None,
        "correlation_id": reported.correlation_id if reported else None,
    }
    if issubclass(kind, Throttled | ServerError):
        fields["retry_after"] = retry_after
    text = "".join(said)
    return kind(text.replace(secret, "***") if secret else text, **fields)


def _kind(
    status: int, payload: Any, reported: JobError | None, subject: Subject | None
) -> type[ScraperError]:
    if status == 402 or (400 <= status < 500 and reported and reported.code == PAYMENT_REQUIRED):
        return PaymentRequired
    if kind := _KINDS_BY_SUBJECT.get(subject, {}).get(status):
        return kind
    if status == 422 and reported and (_is_wrapped(payload) or reported.code in EXTRACTION_CODES):
        return ExtractionFailed
    if status >= 500 or status == 408:
        return ServerError
    return _KINDS.get(status, UnexpectedStatus)


def _advice(kind: type[ScraperError], subject: Subject | None) -> str | None:
    if kind is InvalidRequest and subject in ("webhook", "webhooks"):
        return _ADVICE_ON_INVALID_WEBHOOK
    return _ADVICE.get(kind)


def _is_wrapped(payload: Any) -> bool:
    return isinstance(payload, Mapping) and isinstance(payload.get("error"), Mapping)


def _reported_error(payload: Any) -> JobError | None:
    body = payload["error"] if _is_wrapped(payload) else payload
    if not isinstance(body, Mapping) or not any(
        isinstance(body.get(part), str) for part in ("code", "message")
    ):
        return None
    return JobError.model_validate(body)


def _validation_message(payload: Any) -> str:
    """FastAPI's `detail`: a sentence, or a list of faults of which the first few are told."""
    detail = payload.get("detail") if isinstance(payload, Mapping) else None
    if not isinstance(detail, list):
        return one_line(detail)
    faults = [
        f"{'.'.join(str(part) for part in fault.get('loc', ()))}: {fault.get('msg', '')}"
        for fault in detail[:_DETAILS_SHOWN]
        if isinstance(fault, Mapping) and isinstance(fault.get("loc", ()), list | tuple)
    ]
    return one_line("; ".join(faults))
