"""Traces are an extra: without it they are refused with what to do, and nothing else is any different."""

import sys

import pytest

from scraper_pipeline.traces import TracingError, span, start_tracing


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(TracingError, match=r"scraper-pipeline\[traces\]"):
        start_tracing()


def test_an_error_passes_through_a_span_as_it_is() -> None:
    with pytest.raises(KeyError, match="as it was"), span("work", jobs=3):
        raise KeyError("as it was")
