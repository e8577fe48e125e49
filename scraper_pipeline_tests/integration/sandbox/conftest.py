"""A running sandbox, and a plain HTTP client that speaks to it."""

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from scraper_pipeline.sandbox import SandboxConfig, SandboxServer


class Caller:
    """What a user of the service does, over plain HTTP."""

    def __init__(self, sandbox: SandboxServer) -> None:
        self.sandbox = sandbox
        self.http = httpx.Client(
            base_url=sandbox.url, headers={"X-Api-Key": "any"}, trust_env=False, timeout=10
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
        deadline = time.monotonic() + 10
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


@pytest.fixture
def sandbox() -> Iterator[SandboxServer]:
    with SandboxServer(SandboxConfig(seed=1, min_delay=0, max_delay=0, fetch_timeout=0.5)) as server:
        yield server


@pytest.fixture
def caller(sandbox: SandboxServer) -> Iterator[Caller]:
    caller = Caller(sandbox)
    with caller.http:
        yield caller
