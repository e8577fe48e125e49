"""The pages of a day are read in their order, the newest of each target, as they stood at one moment."""

from collections.abc import Iterator
from itertools import chain

import pytest
from sqlalchemy import select

from scraper_pipeline.ledger import Ledger
from scraper_pipeline.ledger.pages import PAGES_AT_ONCE
from scraper_pipeline.ledger.schema import current_results
from scraper_pipeline_tests.integration.ledger.driving import (
    DAY,
    NEXT_DAY,
    accept,
    execute,
    finish,
    page,
    rows,
)

COUNT = 2 * PAGES_AT_ONCE + 3


def _url(number: int) -> str:
    return f"https://site.test/{number}"


@pytest.fixture
def many(ledger: Ledger) -> Ledger:
    """Two days with more pages than are read at once."""
    for day in (DAY, NEXT_DAY):
        jobs = accept(ledger, *map(_url, range(COUNT)), day=day, prefix=f"{day} ")
        finish(ledger, {job: page(f"# {job}") for job in jobs}, day=day)
    return ledger


def test_every_current_page_of_the_day_comes_once_by_target(many: Ledger) -> None:
    execute(many, "UPDATE results SET target_id = 'twice' WHERE url IN (:a, :b)", a=_url(1), b=_url(2))
    execute(many, "UPDATE results SET attempt = 2 WHERE url = :url", url=_url(1))
    execute(many, "UPDATE results SET target_id = 'crawl' WHERE url LIKE :some", some=_url(1) + "_")
    with many.pages.of(DAY) as pages:
        keys, found = list(pages.keys()), list(pages.rows(["url", "markdown", "stored_at"]))
    current = [row for row in rows(many, select(current_results)) if row.partition_key == DAY]
    assert len(found) == len(current) == COUNT - 1
    order = [(key.target_id, key.item_key) for key in keys]
    assert order == sorted((row.target_id, row.item_key) for row in current)
    assert [target_id for target_id, _ in order].count("crawl") == 10
    assert [(key.job_id, key.item_key) for key in keys] == [(row["job_id"], row["item_key"]) for row in found]
    assert {(row["url"], row["markdown"], row["stored_at"]) for row in found} == {
        (row.url, row.markdown, row.stored_at) for row in current
    }


def test_a_page_that_is_stored_meanwhile_is_not_among_them(
    many: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scraper_pipeline.ledger.pages.KEYS_AT_ONCE", 5)
    late = accept(many, "https://site.test/late")
    with many.pages.of(DAY) as pages:
        reading: Iterator[object] = pages.rows(["url"])
        first = next(reading)
        assert finish(many, {job: page("# late") for job in late}).stored == 1
        assert len(list(chain([first], reading))) == COUNT
        assert len(list(pages.keys())) == COUNT
    with many.pages.of(DAY) as pages:
        assert len(list(pages.keys())) == COUNT + 1


def test_a_day_without_pages_has_none(ledger: Ledger) -> None:
    with ledger.pages.of(DAY) as pages:
        assert list(pages.keys()) == []
        assert list(pages.rows(["url"])) == []
