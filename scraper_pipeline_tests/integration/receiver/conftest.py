"""Receivers for the tests: one that many tests share, and one that a test may kill."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from scraper_pipeline_tests.integration.receiver.receiving import ReceiverProcess, running_receiver


@pytest.fixture(scope="session", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def receiver(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ReceiverProcess]:
    """A receiver that the tests of a run share, once on each database: they tell their rows apart by job ids."""
    folder = tmp_path_factory.mktemp("receiver")
    if request.param == "sqlite":
        with running_receiver(f"sqlite:///{folder / 'ledger.db'}", folder) as shared:
            yield shared
        return
    server = request.getfixturevalue("postgres_server")
    with server.database() as name, running_receiver(server.url(name), folder) as shared:
        yield shared


@pytest.fixture
def own_receiver(ledger_url: str, tmp_path: Path) -> Iterator[ReceiverProcess]:
    """A receiver of the test's own, once on each database."""
    with running_receiver(ledger_url, tmp_path) as receiver:
        yield receiver
