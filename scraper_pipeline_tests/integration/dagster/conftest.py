"""The pipeline in one process: a real sandbox, a real ledger and a real Dagster instance."""

import socket
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import dagster as dg
import pytest

from scraper_pipeline.accounts import opening
from scraper_pipeline.ledger import Ledger, ResubmissionPolicy
from scraper_pipeline.sandbox import SandboxConfig, SandboxServer
from scraper_pipeline_tests.integration.dagster.driving import Pipeline

API_KEY = "key-5c0ffee5ecre7"


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def sandbox() -> Iterator[SandboxServer]:
    config = SandboxConfig(seed=1, min_delay=0, max_delay=0, fetch_timeout=20, flaky_failures=1)
    with SandboxServer(config) as server:
        yield server


@pytest.fixture
def environment(
    sandbox: SandboxServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> pytest.MonkeyPatch:
    """The settings of an operator in a hurry: a settle run ends as soon as it has met no news.

    Pages go out one by one, as most of these tests count them; those of batches say so.
    """
    for name, value in {
        "GEONODE_SCRAPER_API_KEY": API_KEY,
        "GEONODE_SCRAPER_HOST": sandbox.url,
        "SCRAPER_PAGES_URL": str(tmp_path / "pages"),
        "SCRAPER_TARGETS": str(tmp_path / "targets.txt"),
        "SCRAPER_DRAIN_QUIET_SECONDS": "0",
        "SCRAPER_SUBMISSION_MODE": "extract",
    }.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@pytest.fixture
def pipeline(
    environment: pytest.MonkeyPatch,
    sandbox: SandboxServer,
    instance: dg.DagsterInstance,
    fresh_url: str,
    tmp_path: Path,
) -> Iterator[Pipeline]:
    """On both databases, but for tests that are marked `on_sqlite`."""
    environment.setenv("SCRAPER_LEDGER_URL", fresh_url)
    with Ledger.open(fresh_url) as ledger:
        yield Pipeline(sandbox, instance, ledger, tmp_path / "targets.txt")


@pytest.fixture
def quick_resubmission(monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is tried again after hundredths of seconds."""
    policy = partial(ResubmissionPolicy, first_delay_seconds=0.05)
    monkeypatch.setattr(opening, "ResubmissionPolicy", policy)


@pytest.fixture
def silent_host() -> Iterator[str]:
    """A host that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def refusing_host() -> Iterator[str]:
    """A port that nobody listens on, held so that nobody else comes to."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
