"""What the tests of published files share: a ledger with pages, and places to publish them to."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from scraper_pipeline.ledger import Ledger
from scraper_pipeline.publishing import Place, open_place
from scraper_pipeline_tests.integration.ledger.driving import HandClock


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def sqlite_url(fresh_sqlite_url: str) -> str:
    return fresh_sqlite_url


@pytest.fixture
def ledger(sqlite_url: str, clock: HandClock) -> Iterator[Ledger]:
    with Ledger.open(sqlite_url, clock=clock) as ledger:
        yield ledger


@pytest.fixture(params=["folder", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A folder, and an object store."""
    base = {
        "folder": str(tmp_path / "pages"),
        "memory": f"memory://{uuid.uuid4().hex}/pages",
    }
    return open_place(base[request.param])


@pytest.fixture
def folder(tmp_path: Path) -> Place:
    return open_place(str(tmp_path / "pages"))
