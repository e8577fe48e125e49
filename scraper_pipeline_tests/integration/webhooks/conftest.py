"""What the tests of webhooks share: a world whose service delivers, and a service whose log a test writes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from scraper_pipeline.sandbox import SandboxConfig, SandboxServer
from scraper_pipeline.webhook_secrets import SecretsFile
from scraper_pipeline_tests.integration.ledger.conftest import clock, ledger
from scraper_pipeline_tests.integration.lifecycle.conftest import world, world_clock
from scraper_pipeline_tests.integration.lifecycle.world import WorldClock
from scraper_pipeline_tests.integration.sandbox.receiver import Receiver
from scraper_pipeline_tests.integration.webhooks.log_service import LogService

__all__ = ["clock", "ledger", "world", "world_clock"]


@pytest.fixture
def service(world_clock: WorldClock) -> Iterator[SandboxServer]:
    """Jobs end at once, and what a receiver refuses is tried once more, after a tenth of a second."""
    config = SandboxConfig(
        min_delay=0.0, max_delay=0.02, fetch_timeout=30, webhook_retry_schedule=(0.1,), webhook_timeout=20
    )
    with SandboxServer(config, clock=world_clock.for_service) as server:
        yield server


@pytest.fixture
def secrets(tmp_path: Path) -> SecretsFile:
    return SecretsFile(tmp_path / "secrets" / "webhook-secrets.json")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Keeps what it is sent, and answers as it was told."""
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def log_service() -> Iterator[LogService]:
    with LogService() as service:
        yield service
