"""The options of an extraction, alone or with others: what a target may ask for, and how that is sent."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator

Format = Literal["markdown", "html"]
ProcessingMode = Literal["sync", "async"]

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
_WORDS = {"string_pattern_mismatch": "two capitals, such as DE"}  # only a country has a pattern


class InvalidOptions(ValueError):
    """Options that the service would refuse; the message names each option and what it takes."""


class _Named(BaseModel):
    """Values that a list names, or the ledger keeps, as a mapping."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, JsonValue]) -> Self:
        """What `to_mapping` gave, or a list names. Raises InvalidOptions."""
        try:
            return cls.model_validate(dict(mapping))
        except ValidationError as error:
            faults = (
                f"{'.'.join(str(part) for part in fault['loc'])}: {_WORDS.get(fault['type'], fault['msg'])}"
                for fault in error.errors()
            )
            raise InvalidOptions("; ".join(faults)) from None


class ExtractOptions(_Named):
    """What a target asks for besides its URL (contract, "Jobs"). Times are milliseconds.

    `headers` go to the scraped site and may hold credentials, so that no repr shows them.
    """

    formats: Annotated[tuple[Format, ...], Field(min_length=1)] = ("markdown",)
    render_js: bool = False
    country: Annotated[str, Field(pattern=r"^[A-Z]{2}$")] | None = None
    proxy_type: Literal["datacenter", "residential", "mix"] | None = None
    wait_until: Literal["commit", "domcontentloaded", "load", "networkidle"] | None = None
    wait_for: Annotated[str, Field(min_length=1, max_length=4096)] | None = None
    wait_timeout: Annotated[int, Field(ge=0, le=30_000)] | None = None
    timeout: Annotated[int, Field(ge=1_000)] | None = None
    headers: Annotated[dict[str, str] | None, Field(repr=False)] = None

    @field_validator("formats")
    @classmethod
    def _order_formats(cls, formats: tuple[Format, ...]) -> tuple[Format, ...]:
        return tuple(sorted(set(formats), reverse=True))

    @field_validator("headers")
    @classmethod
    def _check_headers(cls, headers: dict[str, str] | None) -> dict[str, str] | None:
        for name, value in (headers or {}).items():
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                raise ValueError("a header's name or value holds characters that HTTP does not allow")
        return dict(sorted(headers.items())) if headers else None

    def to_mapping(self) -> dict[str, JsonValue]:
        """Only what differs from the defaults, in one order: the same options always give the same JSON."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def to_request(self, url: str, mode: ProcessingMode) -> dict[str, JsonValue]:
        """The body of `POST /v1/extract`."""
        sections: dict[str, JsonValue] = {
            "timeout": self.timeout,
            "headers": dict(self.headers) if self.headers else None,
        }
        return {"url": url, "processing_mode": mode} | self._shared_request() | _present(sections)

    @property
    def fit_a_batch(self) -> bool:
        """Whether a batch takes these options, all but a time-out of one's own."""
        return self.timeout is None

    def to_batch_request(self, urls: Sequence[str], ignore_invalid_urls: bool) -> dict[str, JsonValue]:
        """The body of `POST /v1/batch`. Raises InvalidOptions for what no batch takes."""
        if not self.fit_a_batch:
            raise InvalidOptions("timeout: a batch takes none; submit the URL by itself")
        headers: dict[str, JsonValue] = {"headers": dict(self.headers) if self.headers else None}
        body: dict[str, JsonValue] = {"urls": list(urls), "ignore_invalid_urls": ignore_invalid_urls}
        return body | self._shared_request() | _present(headers)

    def to_crawl_request(self, url: str, scope: "CrawlScope") -> dict[str, JsonValue]:
        """The body of `POST /v1/crawl`. Raises InvalidOptions for what no crawl takes."""
        self.check_fits_a_crawl()
        return {"url": url} | scope.model_dump(mode="json") | self._shared_request()

    def check_fits_a_crawl(self) -> None:
        """Raises InvalidOptions for what no crawl takes."""
        if self.timeout is not None or self.headers:
            raise InvalidOptions("timeout, headers: a crawl takes neither")

    def _shared_request(self) -> dict[str, JsonValue]:
        body: dict[str, JsonValue] = {"formats": list(self.formats), "render_js": self.render_js}
        proxy: dict[str, JsonValue] = {"country": self.country, "type": self.proxy_type}
        waiting: dict[str, JsonValue] = {
            "wait_until": self.wait_until,
            "wait_for": self.wait_for,
            "wait_timeout": self.wait_timeout,
        }
        sections: dict[str, JsonValue] = {
            "proxy": _present(proxy),
            "wait_config": _present(waiting),
        }
        return body | _present(sections)


class CrawlScope(_Named):
    """How far a crawl goes: the service's own defaults. `depth` 1 is the first page alone."""

    depth: Annotated[int, Field(ge=1, le=10)] = 2
    limit: Annotated[int, Field(ge=1, le=10_000)] = 50
    same_domain_only: bool = True
    include_subdomains: bool = False

    def to_mapping(self) -> dict[str, JsonValue]:
        """Depth and limit in full, since they decide what is paid, and what else differs from the defaults."""
        return {"depth": self.depth, "limit": self.limit} | self.model_dump(
            mode="json", exclude_defaults=True
        )


def _present(fields: dict[str, JsonValue]) -> dict[str, JsonValue]:
    return {name: value for name, value in fields.items() if value is not None and value != {}}
