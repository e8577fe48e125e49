"""The service's answers about webhooks and their deliveries, as frozen values read leniently."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

from pydantic import AliasChoices, AliasPath, BeforeValidator, Field, SecretStr, model_validator

from scraper_pipeline.scraper_api.bodies import REPLACEMENT
from scraper_pipeline.scraper_api.models import (
    HttpStatus,
    Identifier,
    ServiceValue,
    Text,
    Time,
    TimedValue,
    WholeNumber,
    one_line,
    readable,
    whole_number,
)

_LONGEST_NAME = 100


def _usable_secret(value: object) -> SecretStr:
    text = value.get_secret_value() if isinstance(value, SecretStr) else value
    # A character that was replaced on the way makes a secret that verifies nothing.
    if not isinstance(text, str) or not text.strip() or REPLACEMENT in text:
        raise ValueError("no usable secret")
    return SecretStr(text)


Secret = Annotated[SecretStr, BeforeValidator(_usable_secret)]
Name = Annotated[str, BeforeValidator(lambda value: one_line(value, _LONGEST_NAME))]
JobId = Annotated[
    str | None, BeforeValidator(lambda value: value if isinstance(value, str) and value else None)
]


class Webhook(TimedValue):
    """One registration: deliveries of one event type to one URL. What the service did not say is empty."""

    webhook_id: Annotated[Identifier, Field(validation_alias=AliasChoices("id", "webhook_id"))]
    url: Annotated[str, BeforeValidator(lambda value: value if isinstance(value, str) else "")] = ""
    event_type: Annotated[Name, Field(validation_alias=AliasChoices("event_type", "event"))] = ""
    # Only a plain "no" says that nothing is delivered.
    is_active: Annotated[bool, BeforeValidator(lambda value: value is not False)] = True
    description: Text = None
    created_at: Time = None
    updated_at: Time = None


class CreatedWebhook(Webhook):
    """A new registration with the secret that its deliveries are signed with, shown this once."""

    secret: Secret


class RotatedSecret(ServiceValue):
    """The secret that has taken the place of the one before."""

    secret: Secret


class Delivery(TimedValue):
    """One attempt at a delivery. `status` is the service's word, whichever it is.

    `attempt_number` is 0 where the service did not tell it.
    """

    delivery_id: Annotated[Identifier, Field(validation_alias=AliasChoices("delivery_id", "id"))]
    event_type: Annotated[Name, Field(validation_alias=AliasChoices("event_type", "event"))] = ""
    job_id: Annotated[JobId, Field(validation_alias=AliasChoices("job_id", AliasPath("data", "job_id")))] = (
        None
    )
    attempt_number: Annotated[int, BeforeValidator(lambda value: whole_number(value) or 0)] = 0
    status: Name = ""
    http_status: HttpStatus = None
    delivered_at: Time = None
    created_at: Time = None

    @property
    def is_acknowledged(self) -> bool:
        """Whether the receiver answered 2xx: `status` has values that no source lists in full, and does not decide."""
        return self.http_status is not None and 200 <= self.http_status <= 299


class _Listing(ServiceValue):
    page: WholeNumber = None
    page_size: WholeNumber = None
    page_count: WholeNumber = None
    unreadable: int = 0


class WebhookListing(_Listing):
    """One page of the account's webhooks. `unreadable` counts the lines without a readable id."""

    items: Annotated[tuple[Webhook, ...], Field(validation_alias=AliasChoices("items", "webhooks"))]

    @model_validator(mode="before")
    @classmethod
    def _set_unreadable_lines_apart(cls, payload: object) -> object:
        return _with_readable(Webhook, payload, "webhooks")


class DeliveryListing(_Listing):
    """One page of a webhook's attempts, in the service's order; `service_time` is its clock (its `Date` header).

    `unreadable` counts the lines without a readable id: a listing that has some proves no absence.
    """

    items: Annotated[tuple[Delivery, ...], Field(validation_alias=AliasChoices("items", "deliveries"))]
    service_time: datetime | None = None

    @model_validator(mode="before")
    @classmethod
    def _set_unreadable_lines_apart(cls, payload: object) -> object:
        return _with_readable(Delivery, payload, "deliveries")


def _with_readable(kind: type[TimedValue], payload: object, other_name: str) -> object:
    if not isinstance(payload, Mapping):
        return payload
    lines = payload.get("items", payload.get(other_name))
    if not isinstance(lines, list):
        return payload
    items = readable(kind, lines)
    return {**payload, "items": items, "unreadable": len(lines) - len(items)}
