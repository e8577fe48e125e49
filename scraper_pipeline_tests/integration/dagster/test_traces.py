"""Traces, as a collector receives them: whole days and ticks, each request below what it was made for."""

import gzip
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.util._once import Once

from scraper_pipeline_tests.integration.dagster.conftest import API_KEY
from scraper_pipeline_tests.integration.dagster.driving import DAY, Pipeline, on_sqlite


@dataclass
class Collector:
    """What an OTLP collector has received: spans by name, and all bytes."""

    url: str = ""
    spans: list[Any] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    services: set[str] = field(default_factory=set)

    def take(self, body: bytes) -> None:
        self.bodies.append(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.services |= {
                one.value.string_value for one in resource.resource.attributes if one.key == "service.name"
            }
            for scope in resource.scope_spans:
                self.spans += scope.spans

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]

    def parents(self, span: Any) -> list[str]:
        """The names of the spans around it, the nearest first."""
        by_id = {one.span_id: one for one in self.spans}
        names = []
        while span.parent_span_id in by_id:
            span = by_id[span.parent_span_id]
            names.append(span.name)
        return names


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.take(gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        found.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def traced(collector: Collector, environment: pytest.MonkeyPatch) -> Iterator[Collector]:
    """Tracing is on, and off again afterwards for the tests that come in the same process."""
    environment.setenv("SCRAPER_TRACES", "otlp")
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    environment.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "60")  # a busy machine may stall for seconds
    environment.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    environment.setattr(trace, "_TRACER_PROVIDER", None)
    yield collector
    provider: Any = trace.get_tracer_provider()
    provider.shutdown()


def _attributes(span: Any) -> dict[str, str | int]:
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


@on_sqlite
def test_a_day_and_a_tick_are_told_without_a_url_a_page_or_a_key(
    pipeline: Pipeline, traced: Collector
) -> None:
    pipeline.ask_for("pages/1", "pages/2", "code")
    submitted = pipeline.submit()
    pipeline.bring_news()
    pipeline.settle()
    pipeline.tick()
    pipeline.run("reconcile_jobs", day=None)
    assert pipeline.is_green()

    assert traced.services == {"scraper-pipeline"}
    posts = traced.named("submit_extract")
    assert len(posts) == 3
    assert {tuple(traced.parents(post)) for post in posts} == {("send_chunk", "step submitted_jobs")}
    [step] = traced.named("step submitted_jobs")
    assert _attributes(step) == {
        "scraper.run_id": submitted.run_id, "scraper.job_name": "submit_jobs", "scraper.partition_key": DAY
    }  # fmt: skip
    gets = traced.named("get_job")
    assert {_attributes(get)["scraper.job_id"] for get in gets} == {job["job_id"] for job in pipeline.jobs()}
    assert {_attributes(get)["http.response.status_code"] for get in gets} == {200}
    assert all("fetch_outcomes" in traced.parents(get) for get in gets)
    assert any(
        _attributes(commit)["scraper.jobs"] == 3 and traced.parents(commit)[-1].startswith("step ")
        for commit in traced.named("commit_outcomes")
    )
    [sweep] = traced.named("reconcile_jobs")
    assert _attributes(sweep)["scraper.listed"] == 3

    said = b"".join(traced.bodies)
    assert b"site/pages" not in said
    assert API_KEY.encode() not in said
    assert b"# " not in said


@on_sqlite
def test_a_failed_request_tells_its_kind_and_nothing_more(pipeline: Pipeline, traced: Collector) -> None:
    pipeline.sandbox.set_faults(unauthorized={})
    pipeline.ask_for("pages/1")
    assert not pipeline.submit().success
    [request] = traced.named("get_concurrency")
    assert _attributes(request)["error.type"] == "Unauthorized"
    assert _attributes(request)["http.response.status_code"] == 401
    [step] = traced.named("step submitted_jobs")
    assert (step.status.code, len(step.events)) == (2, 0)


@on_sqlite
def test_a_collector_that_is_away_holds_nothing_up(
    pipeline: Pipeline, traced: Collector, environment: pytest.MonkeyPatch, refusing_host: str
) -> None:
    environment.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", refusing_host)
    environment.delenv("OTEL_EXPORTER_OTLP_TIMEOUT")
    pipeline.ask_for("pages/1")
    began = time.monotonic()
    assert pipeline.submit().success
    assert time.monotonic() - began < 30
