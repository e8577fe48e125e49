"""Who follows a page gets what it shows: its commands are run in order, its Python and its SQL as well."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from scraper_pipeline.accounts import opening
from scraper_pipeline.ledger import ResubmissionPolicy
from scraper_pipeline.sandbox import SandboxConfig, SandboxServer
from scraper_pipeline_tests.documents import DOCUMENTS, Document
from scraper_pipeline_tests.integration.documents.desk import Desk
from scraper_pipeline_tests.integration.documents.reading import is_followed

_FOLLOWED = [page for page in DOCUMENTS if is_followed(page)]


@pytest.fixture
def sandbox() -> Iterator[SandboxServer]:
    with SandboxServer(SandboxConfig(seed=1, min_delay=0, max_delay=0, fetch_timeout=60)) as server:
        yield server


@pytest.fixture
def desk(sandbox: SandboxServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """An empty project folder, of which the settings tell as a page's reader would set them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "var" / "dagster").mkdir(parents=True)
    for name, value in {
        "DAGSTER_HOME": str(tmp_path / "var" / "dagster"),
        "GEONODE_SCRAPER_API_KEY": "sandbox",
        "GEONODE_SCRAPER_HOST": sandbox.url,
        "GEONODE_WEBHOOK_SECRETS_FILE": str(tmp_path / "var" / "webhook-secrets.json"),
        "SCRAPER_LEDGER_URL": f"sqlite:///{tmp_path / 'var' / 'ledger.db'}",
        "SCRAPER_PAGES_URL": str(tmp_path / "var" / "pages"),
        "SCRAPER_TARGETS": str(tmp_path / "targets.csv"),
    }.items():
        monkeypatch.setenv(name, value)
    quick = partial(ResubmissionPolicy, first_delay_seconds=0.01)
    monkeypatch.setattr(opening, "ResubmissionPolicy", quick)
    return Desk(tmp_path, sandbox, monkeypatch)


@pytest.mark.parametrize("page", _FOLLOWED, ids=lambda page: page.name)
def test_whoever_follows_a_page_gets_what_it_shows(page: Document, desk: Desk) -> None:
    desk.follow(page)
