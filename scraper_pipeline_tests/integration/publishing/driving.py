"""Short ways to have pages in a ledger, and to read what became of them in a file."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from scraper_pipeline.ledger import Ledger, StoredPage
from scraper_pipeline.publishing import Place, file_of_day
from scraper_pipeline_tests.integration.ledger.driving import (
    DAY,
    accept_planned,
    finish,
    page,
    target,
)


def store(ledger: Ledger, pages: Mapping[str, StoredPage], day: str = DAY, **labels: str) -> None:
    """Bring pages of these URLs into a day, with these labels."""
    ledger.submissions.plan(day, [target(url, None, **labels) for url in pages])
    jobs = accept_planned(ledger, day, prefix=f"{day} ")
    finish(ledger, {job: pages[job.removeprefix(f"{day} ")] for job in jobs}, day)


def site(*numbers: int) -> dict[str, StoredPage]:
    """Some pages with Markdown."""
    return {f"https://site.test/{number}": page(f"# Page {number}") for number in numbers}


def table(place: Place, day: str = DAY) -> pa.Table:
    """The published file of a day, read."""
    with place.opening(file_of_day(day)) as file:
        assert file is not None
        return pq.read_table(file)


def column(read: pa.Table, name: str) -> list[Any]:
    return list(read.column(name).to_pylist())
