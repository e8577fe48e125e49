"""Answers about webhooks are read leniently, and their secrets are shown by nothing."""

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from scraper_pipeline.scraper_api import CreatedWebhook, Delivery, DeliveryListing, Webhook

SECRET = "whsec_b3Blbi1zZXNhbWU="
CREATED = {"id": "w-1", "url": "https://a/hook", "event_type": "extract_completed", "secret": SECRET}


def test_a_secret_is_in_no_repr_and_no_dump() -> None:
    created = CreatedWebhook.model_validate(CREATED)

    assert created.secret.get_secret_value() == SECRET
    assert SECRET not in repr(created) + str(created) + repr(created.model_dump()) + created.model_dump_json()


@pytest.mark.parametrize("secret", [None, "", "  ", 7, ["x"], "a\ufffdb"])
def test_a_secret_that_verifies_nothing_is_refused(secret: object) -> None:
    with pytest.raises(ValidationError):
        CreatedWebhook.model_validate({**CREATED, "secret": secret})


def test_a_secret_is_in_no_validation_error() -> None:
    with pytest.raises(ValidationError) as lacking:
        CreatedWebhook.model_validate({"secret": SECRET})
    with pytest.raises(ValidationError) as damaged:
        CreatedWebhook.model_validate({**CREATED, "secret": SECRET + "\ufffd"})

    assert SECRET not in str(lacking.value) + str(damaged.value)


def test_a_webhook_needs_nothing_but_its_id() -> None:
    webhook = Webhook.model_validate(
        {"id": "w-1", "url": 7, "event_type": None, "created_at": "once", "more": {}}
    )

    assert (webhook.webhook_id, webhook.url, webhook.event_type, webhook.created_at) == ("w-1", "", "", None)
    assert webhook.unread_times == {"created_at": "once"}
    lacking: list[Any] = [{}, {"id": ""}, {"id": 7}, None, "w-1"]
    for payload in lacking:
        with pytest.raises(ValidationError):
            Webhook.model_validate(payload)


@pytest.mark.parametrize(("value", "is_active"), [(True, True), (False, False), (None, True), ("no", True)])
def test_only_a_plain_no_says_that_a_webhook_is_switched_off(value: object, is_active: bool) -> None:
    assert Webhook.model_validate({"id": "w-1", "is_active": value}).is_active is is_active


NEWER = {
    "delivery_id": "d-1",
    "event": "extract_completed",
    "data": {"job_id": "j-1"},
    "attempt_number": 2,
    "status": "failed",
    "http_status": 401,
    "created_at": "2026-05-27T08:16:09Z",
}
OLDER = {**NEWER, "id": "d-1", "event_type": "extract_completed", "job_id": "j-1"}
for newer_name in ("delivery_id", "event", "data"):
    del OLDER[newer_name]


@pytest.mark.parametrize("payload", [NEWER, OLDER], ids=["newer names", "older names"])
def test_an_attempt_is_read_under_both_readings_of_its_names(payload: dict[str, Any]) -> None:
    assert Delivery.model_validate(payload) == Delivery(
        delivery_id="d-1",
        event_type="extract_completed",
        job_id="j-1",
        attempt_number=2,
        status="failed",
        http_status=401,
        created_at=datetime(2026, 5, 27, 8, 16, 9, tzinfo=UTC),
    )


def test_an_attempt_needs_nothing_but_its_id() -> None:
    odd = {
        "id": "d-1",
        "job_id": "",
        "data": "text",
        "attempt_number": "two",
        "delivered_at": 7,
        "http_status": 0,
    }

    attempt = Delivery.model_validate(odd)

    assert attempt.unread_times == {"delivered_at": "7"}
    assert (attempt.job_id, attempt.attempt_number, attempt.http_status) == (None, 0, None)


@pytest.mark.parametrize(
    ("status", "http_status", "is_acknowledged"),
    [
        ("success", 200, True),
        ("failed", 204, True),
        ("never heard of", 299, True),
        ("success", 401, False),
        ("success", 302, False),
        ("success", None, False),
        ("pending", None, False),
    ],
)
def test_the_http_status_alone_says_whether_an_attempt_was_acknowledged(
    status: str, http_status: int | None, is_acknowledged: bool
) -> None:
    assert (
        Delivery(delivery_id="d", status=status, http_status=http_status).is_acknowledged is is_acknowledged
    )


@pytest.mark.parametrize("name", ["items", "deliveries"])
def test_a_listing_sets_its_unreadable_lines_apart(name: str) -> None:
    listing = DeliveryListing.model_validate(
        {name: [{"id": "d-1"}, {"id": 7}, "junk", None], "page_count": "many"}
    )

    assert [attempt.delivery_id for attempt in listing.items] == ["d-1"]
    assert (listing.unreadable, listing.page_count) == (3, None)


def test_values_can_be_made_by_name() -> None:
    attempt = Delivery(delivery_id="d-1")

    assert DeliveryListing(items=(attempt,), page=1, page_count=1).items == (attempt,)
    assert CreatedWebhook(webhook_id="w-1", secret=SecretStr(SECRET)).secret == SecretStr(SECRET)
