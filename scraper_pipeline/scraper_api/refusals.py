"""Turns a refusal, a status with whatever body, into the error that says what happened and what to do."""

from collections.abc import Mapping
from typing import Any, Literal

from scraper_pipeline.scraper_api.errors import (
    EXTRACTION_CODES,
    PAYMENT_REQUIRED,
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

Subject = Literal["job", "webhook", "webhooks"]

_ADVICE: dict[type[ScraperError], str] = {
    Unauthorized: "check GEONODE_SCRAPER_API_KEY",
    PaymentRequired: "top up the balance; the work waits",
    Throttled: "lower SCRAPER_CONCURRENCY or wait",
    ServerError: "try again later",
    JobNotFound: "the service does not show it yet, or has lost it",
    JobExpired: "its result is gone; resubmit the target if it is still wanted",
    InvalidRequest: "correct the target's URL or options",
    WebhookNotFound: "it was removed, or belongs to another account",
    WebhooksNotOffered: "the service does not offer webhooks yet; polling goes on and brings every result",
    UnexpectedStatus: "check that GEONODE_SCRAPER_HOST is the service's address",
}
_ADVICE_ON_INVALID_WEBHOOK = (
    "correct the webhook's URL, event type or description; an account has 10 webhooks at most"
)
_WEBHOOKS: dict[int, type[ScraperError]] = {
    405: WebhooksNotOffered,
    409: InvalidRequest,
    422: InvalidRequest,
    501: WebhooksNotOffered,
}
_KINDS_BY_SUBJECT: dict[Subject | None, dict[int, type[ScraperError]]] = {
    "job": {404: JobNotFound, 410: JobExpired},
    "webhook": {**_WEBHOOKS, 404: WebhookNotFound, 410: WebhookNotFound},
    "webhooks": {**_WEBHOOKS, 404: WebhooksNotOffered},
}
_KINDS: dict[int, type[ScraperError]] = {
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

    What a 404 says depends on the call's subject: one job, one webhook, or webhooks as such.
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
