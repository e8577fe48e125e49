"""Deliveries in the receiver's OpenAPI document: told by hand, since the framework never sees them."""

from typing import Any

from scraper_pipeline.receiver.config import ReceiverConfig, Scheme

_MEANINGS = {
    "200": "Durable, known already, or rightly signed but of no use: kept for the operator.",
    "401": "No valid secret gives this signature; nothing was parsed.",
    "408": "The body was not sent in time.",
    "413": "The body is larger than is taken.",
    "415": "The body is compressed.",
    "503": "It could not be committed in time: come again.",
}
_OUTCOMES = {
    "200": ["accepted", "duplicate", "quarantined"],
    "401": ["refused"],
    "408": ["too_slow"],
    "413": ["too_large"],
    "415": ["encoded"],
    "503": ["unavailable"],
}
_EXAMPLE = {
    "event": "extract_completed",
    "webhook_id": "wh-1",
    "delivery_id": "d-1",
    "timestamp": "2026-05-27T08:16:09Z",
    "data": {"job_id": "4b2f7b1e-7b8e-4a58-9d8c-2f3e0a6d9f10"},
}


def describe_deliveries(config: ReceiverConfig) -> dict[str, Any]:
    """An OpenAPI path item: what is posted to ``config.path``, and what is answered."""
    names = [config.signature_header] if config.schemes - {Scheme.STANDARD} else []
    if Scheme.STANDARD in config.schemes:
        names += ["webhook-id", "webhook-timestamp", "webhook-signature"]
    names += ["X-Webhook-Event", "X-Webhook-Delivery-Id"]
    return {
        "post": {
            "summary": "Deliver an event",
            "operationId": "deliver",
            "parameters": [{"name": name, "in": "header", "schema": {"type": "string"}} for name in names],
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": {"type": "object"}, "example": _EXAMPLE}},
            },
            "responses": {status: _describe_answer(status) for status in _MEANINGS},
        }
    }


def _describe_answer(status: str) -> dict[str, Any]:
    outcome = {"type": "string", "enum": _OUTCOMES[status]}
    schema = {"type": "object", "properties": {"status": outcome}, "required": ["status"]}
    return {"description": _MEANINGS[status], "content": {"application/json": {"schema": schema}}}
