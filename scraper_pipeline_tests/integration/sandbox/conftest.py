"""A running sandbox, and a plain HTTP client that speaks to it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from scraper_pipeline.sandbox import SandboxConfig, SandboxServer
from scraper_pipeline.sandbox.clock import Clock
from scraper_pipeline_tests.integration.sandbox.receiver import Receiver

OPTIONS: dict[str, Any] = {
    "seed": 1,
    "min_delay": 0,
    "max_delay": 0,
    "fetch_timeout": 20,
    "webhook_retry_schedule": (0.05, 0.1),
    "webhook_timeout": 20,
}


class Caller:
    """What a user of the service does, over plain HTTP."""

    def __init__(self, sandbox: SandboxServer) -> None:
        self.sandbox = sandbox
        self.http = httpx.Client(
            base_url=sandbox.url, headers={"X-Api-Key": "any"}, trust_env=False, timeout=60
        )

    def page(self, path: str) -> str:
        return f"{self.sandbox.url}/site/{path}"

    def post(self, path: str, *, mode: str = "async", **options: Any) -> httpx.Response:
        body = {"url": self.page(path), "processing_mode": mode, "formats": ["markdown"], **options}
        return self.http.post("/v1/extract", json=body)

    def submit(self, path: str, **options: Any) -> str:
        answer = self.post(path, **options)
        assert answer.status_code == 202, answer.text
        job_id: str = answer.json()["job_id"]
        return job_id

    def job(self, job_id: str) -> httpx.Response:
        return self.http.get(f"/v1/extract/{job_id}")

    def wait(self, job_id: str) -> dict[str, Any]:
        """The job once it is terminal, by the truth, so that no ordered fault is spent on waiting."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            (true,) = [job for job in self.sandbox.truth()["jobs"] if job["job_id"] == job_id]
            if true["status"] in ("completed", "failed", "cancelled"):
                return dict(true)
            time.sleep(0.01)
        raise AssertionError(f"The job is still {true['status']}")

    def finished(self, path: str, **options: Any) -> str:
        job_id = self.submit(path, **options)
        self.wait(job_id)
        return job_id

    def listing(self, **query: Any) -> httpx.Response:
        return self.http.get("/v1/extract/jobs", params=query)

    def listed(self, **query: Any) -> list[str]:
        return [job["job_id"] for job in self.listing(**query).json()["jobs"]]

    def post_batch(self, *paths: str, **options: Any) -> httpx.Response:
        """Submits pages of the site, or what is a whole URL, as a batch."""
        urls = [path if "://" in path else self.page(path) for path in paths]
        return self.http.post("/v1/batch", json={"urls": urls, "formats": ["markdown"], **options})

    def batch(self, *paths: str, **options: Any) -> str:
        answer = self.post_batch(*paths, **options)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["job_id"])

    def crawl(self, path: str, **options: Any) -> str:
        body = {"url": self.page(path), "formats": ["markdown"], **options}
        answer = self.http.post("/v1/crawl", json=body)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["job_id"])

    def wait_for_all(self, job_id: str) -> dict[str, Any]:
        """The batch or crawl once it has ended, by the truth, so that no ordered fault is spent on waiting."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            truth = self.sandbox.truth()
            (true,) = [job for job in truth["batches"] + truth["crawls"] if job["job_id"] == job_id]
            if true["completed_at"] is not None:
                return dict(true)
            time.sleep(0.01)
        raise AssertionError(f"It is still {true}")

    def true_items(self, job_id: str) -> list[dict[str, Any]]:
        return [item for item in self.sandbox.truth()["items"] if item["job_id"] == job_id]

    def look(self, kind: str, job_id: str, **query: Any) -> httpx.Response:
        return self.http.get(f"/v1/{kind}/{job_id}", params=query)

    def webhook(self, url: str, event_type: str = "extract_completed") -> dict[str, Any]:
        """A new webhook, with its secret."""
        answer = self.http.post("/v1/webhooks", json={"url": url, "event_type": event_type})
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def attempts(self, webhook_id: str, **query: Any) -> list[dict[str, Any]]:
        """The delivery log, the latest first."""
        answer = self.http.get(f"/v1/webhooks/{webhook_id}/deliveries", params=query)
        assert answer.status_code == 200, answer.text
        return list(answer.json()["items"])

    def settled(self, webhook_id: str, count: int) -> list[dict[str, Any]]:
        """The delivery log in the order of the attempts, once none of so many is pending."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            attempts = self.attempts(webhook_id, page_size=100)
            if len(attempts) >= count and all(one["status"] != "pending" for one in attempts):
                return attempts[::-1]
            time.sleep(0.01)
        raise AssertionError(f"The log still says {attempts}")

    def deliveries(self, job_id: str) -> dict[str, Any]:
        """What the truth says of a job's deliveries."""
        (true,) = [job for job in self.sandbox.truth()["jobs"] if job["job_id"] == job_id]
        return dict(true["deliveries"])


@contextmanager
def calling(*, clock: Clock | None = None, **options: Any) -> Iterator[Caller]:
    """A caller of a sandbox with options, or a clock, of its own."""
    with SandboxServer(SandboxConfig.model_validate(OPTIONS | options), clock=clock) as server:
        caller = Caller(server)
        with caller.http:
            yield caller


@pytest.fixture
def sandbox() -> Iterator[SandboxServer]:
    with SandboxServer(SandboxConfig.model_validate(OPTIONS)) as server:
        yield server


@pytest.fixture
def caller(sandbox: SandboxServer) -> Iterator[Caller]:
    caller = Caller(sandbox)
    with caller.http:
        yield caller


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver
