"""What the service itself counted of an account in some span of time."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

from pydantic import BeforeValidator, model_validator

from scraper_pipeline.scraper_api.models import ServiceValue, WholeNumber, readable, whole_number
from scraper_pipeline.scraper_api.times import parse_time


class ChargedDay(ServiceValue):
    """What was charged on one of the service's days, in pages; ``date`` is when that day began."""

    date: Annotated[datetime, BeforeValidator(parse_time)]
    tokens_used: Annotated[int, BeforeValidator(whole_number)]


class Statistics(ServiceValue):
    """How many pages were extracted, and what was charged for them, in pages.

    Whether a page belongs to the span in which its job was made or to the one in which it ended is unpublished.
    """

    extraction_count: WholeNumber = None
    period_tokens_used: WholeNumber = None
    tokens_used: tuple[ChargedDay, ...] | None = None

    @model_validator(mode="before")
    @classmethod
    def _leave_unreadable_days_out(cls, payload: object) -> object:
        if not isinstance(payload, Mapping):
            return payload
        lines = payload.get("tokens_used")
        days = readable(ChargedDay, lines) if isinstance(lines, list) else None
        return {**payload, "tokens_used": days}

    @model_validator(mode="after")
    def _tells_what_was_charged(self) -> "Statistics":
        if self.period_tokens_used is None and self.tokens_used is None:
            raise ValueError("it does not tell what was charged")
        return self

    @property
    def pages_charged(self) -> int:
        """What was charged in the whole span."""
        if self.period_tokens_used is not None:
            return self.period_tokens_used
        return sum(day.tokens_used for day in self.tokens_used or ())
