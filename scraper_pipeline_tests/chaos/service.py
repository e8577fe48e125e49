"""The sandbox as a run uses it: faults are ordered, other programs use it, and its books tell the truth."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from scraper_pipeline.local.stack import sandbox
from scraper_pipeline_tests.chaos.storms import RAIN, Orders

_WATCH_SECONDS = 0.25


@dataclass
class Service:
    """A sandbox process, and what another program on the same account has done with it."""

    url: str
    http: httpx.Client
    foreign_jobs: set[str] = field(default_factory=set)
    foreign_urls: set[str] = field(default_factory=set)
    storms: int = 0
    slowest_answer: float = 0.0
    """Seconds; a POST that takes as long makes its job as late."""

    def rain(self, storm: Orders | None = None) -> None:
        """Order the steady faults, and those of a storm in their place."""
        self.storms += storm is not None
        answer = self.http.post("/sandbox/faults", json={**RAIN, **(storm or {})})
        assert answer.status_code == 200, answer.text

    def calm_down(self) -> None:
        self.http.delete("/sandbox/faults").raise_for_status()

    def submit_as_another_program(self, path: str) -> None:
        """Have a page extracted that is, or will be, a target of ours, too."""
        url = f"{self.url}/site/{path}"
        self.foreign_urls.add(url)
        with contextlib.suppress(httpx.HTTPError, ValueError, KeyError):
            answer = self.http.post(
                "/v1/extract",
                json={"url": url, "processing_mode": "async"},
                headers={"X-Api-Key": "another program"},
            )
            self.foreign_jobs.add(answer.json()["job_id"])

    def truth(self) -> dict[str, Any]:
        answer = self.http.get("/sandbox/truth")
        answer.raise_for_status()
        found: dict[str, Any] = json.loads(answer.content)
        return found

    def finish_jobs(self) -> None:
        """Bring those jobs to their end that never would have ended."""
        for job in jobs_of(self.truth()):
            if job["completed_at"] is None:
                self.http.post(f"/sandbox/jobs/{job['job_id']}/finish").raise_for_status()

    def requests(self) -> Mapping[str, int]:
        counts: dict[str, int] = self.http.get("/sandbox/requests").raise_for_status().json()
        return counts


def jobs_of(truth: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Single jobs and batches alike."""
    return [*truth["jobs"], *truth["batches"]]


@contextlib.contextmanager
def service(folder: Path, seed: int, more_options: tuple[str, ...] = ()) -> Iterator[Service]:
    """A sandbox with these faults to come; ``more_options`` win over its usual ones."""
    options = (
        *("--seed", str(seed), "--min-delay", "0.05", "--max-delay", "1.5"),
        *("--webhook-timeout", "2", "--webhook-retries", "0.3,0.7,1.5,3"),
        *more_options,
    )
    with (
        sandbox(folder, options) as url,
        httpx.Client(base_url=url, trust_env=False, timeout=60) as http,
    ):
        found = Service(url, http)
        over = threading.Event()
        watch = threading.Thread(target=_watch, args=(found, over), daemon=True)
        watch.start()
        try:
            yield found
        finally:
            over.set()
            watch.join()


def _watch(service: Service, over: threading.Event) -> None:
    with httpx.Client(base_url=service.url, trust_env=False, timeout=60) as http:
        while not over.wait(_WATCH_SECONDS):
            began = time.monotonic()
            with contextlib.suppress(httpx.HTTPError):
                http.get("/sandbox/requests")
            service.slowest_answer = max(service.slowest_answer, time.monotonic() - began)
