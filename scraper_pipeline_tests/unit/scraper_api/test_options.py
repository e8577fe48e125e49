"""Options have one canonical form, and what the service would refuse is refused here."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from scraper_pipeline.scraper_api import CrawlScope, ExtractOptions, InvalidOptions


def test_a_country_that_is_none_is_answered_with_one_that_is() -> None:
    with pytest.raises(InvalidOptions, match=r"^country: two capitals, such as DE$"):
        ExtractOptions.from_mapping({"country": "GERMANY"})


def test_the_same_options_give_the_same_json_however_they_were_written() -> None:
    one = ExtractOptions.from_mapping(
        {"timeout": 2000, "formats": ["html", "markdown"], "headers": {"b": "1", "A": "2"}}
    )
    other = ExtractOptions.from_mapping(
        {
            "headers": {"A": "2", "b": "1"},
            "formats": ["markdown", "html", "html"],
            "timeout": 2000,
            "render_js": False,
        }
    )

    assert one == other
    assert json.dumps(one.to_mapping()) == json.dumps(other.to_mapping())
    assert ExtractOptions.from_mapping(one.to_mapping()) == one


def test_defaults_are_no_part_of_the_mapping() -> None:
    assert ExtractOptions().to_mapping() == {}
    assert ExtractOptions(formats=("markdown",), headers={}).to_mapping() == {}


def test_the_format_is_always_sent_since_the_services_default_differs() -> None:
    assert ExtractOptions().to_request("https://a", "async") == {
        "url": "https://a",
        "processing_mode": "async",
        "formats": ["markdown"],
        "render_js": False,
    }


@pytest.mark.parametrize(
    "options",
    [
        {"formats": []},
        {"formats": ["pdf"]},
        {"country": "de"},
        {"country": "DEU"},
        {"country": "DE\n"},
        {"proxy_type": "mobile"},
        {"wait_until": "soon"},
        {"wait_for": "x" * 4097},
        {"wait_for": ""},
        {"wait_timeout": -1},
        {"wait_timeout": 30_001},
        {"timeout": 999},
        {"headers": {"a b": "1"}},
        {"headers": {"a": "1\r\nb: 2"}},
        {"label": "x"},
    ],
)
def test_what_the_service_would_refuse_is_refused_in_one_line(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptions) as raised:
        ExtractOptions.from_mapping(options)

    assert str(raised.value).startswith(next(iter(options)))
    assert "\n" not in str(raised.value)


def test_headers_for_the_site_are_not_shown() -> None:
    assert "secret" not in repr(ExtractOptions(headers={"Cookie": "secret"}))
    with pytest.raises(InvalidOptions) as raised:
        ExtractOptions.from_mapping({"headers": {"Cookie": "secret\x00"}})
    assert "secret" not in str(raised.value)


def test_a_batch_is_asked_for_what_a_single_job_would_be() -> None:
    options = ExtractOptions(country="DE", wait_for="#a", headers={"B": "2", "A": "1"})
    alone = options.to_request("https://a/", "async")
    together = options.to_batch_request(["https://a/", "https://b/"], True)

    for body in (alone, together):
        for name in ("url", "urls", "processing_mode", "ignore_invalid_urls"):
            body.pop(name, None)
    assert together == alone


def test_a_time_out_of_ones_own_fits_no_batch() -> None:
    assert ExtractOptions(render_js=True, headers={"A": "1"}).fit_a_batch
    assert not ExtractOptions(timeout=1000).fit_a_batch


def test_a_crawls_bounds_are_the_services() -> None:
    for scope in ({"depth": 0}, {"depth": 11}, {"limit": 0}, {"limit": 10_001}):
        with pytest.raises(ValidationError):
            CrawlScope.model_validate(scope)
