"""What the integration tests share beyond the databases."""

from functools import partial

import pytest

from scraper_pipeline.accounts import client
from scraper_pipeline.scraper_api import RetryPolicy, ScraperClient


@pytest.fixture
def impatient_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Budgets are as ever, but their waits are hundredths of seconds, and an answer is awaited for one second."""
    policy = RetryPolicy(
        first_wait=0.01,
        request_seconds=1.0,
        sync_request_seconds=1.0,
        connect_seconds=1.0,
        least_request_seconds=0.5,
    )
    monkeypatch.setattr(client, "ScraperClient", partial(ScraperClient, policy=policy))


@pytest.fixture
def hasty_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits between tries are hundredths of seconds; an answer is awaited as long as ever."""
    monkeypatch.setattr(client, "ScraperClient", partial(ScraperClient, policy=RetryPolicy(first_wait=0.01)))
