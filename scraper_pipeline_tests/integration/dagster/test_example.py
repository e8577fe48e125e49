"""The example downstream of the pipeline works as it stands, over a range of days in one run."""

from pathlib import Path

import dagster as dg
import pandas as pd
import pytest

from examples.word_counts import Reports, defs
from scraper_pipeline.ledger import Ledger
from scraper_pipeline_tests.integration.dagster.driving import (
    DAY,
    NEXT_DAY,
    THIRD_DAY,
    THREE_DAYS,
    metadata_of,
)
from scraper_pipeline_tests.integration.ledger.driving import accept, finish, page


def test_words_are_counted_by_host_for_each_day_of_a_range(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRAPER_LEDGER_URL", sqlite_url)
    texts: dict[str, dict[str, str | None]] = {
        DAY: {"https://a.test/1": "one two", "https://a.test/2": "three"},
        NEXT_DAY: {"https://b.test/": None},
    }
    with Ledger.open(sqlite_url) as ledger:
        for day, pages in texts.items():
            accept(ledger, *pages, day=day, prefix=f"{day} ")
            finish(ledger, {f"{day} {url}": page(text) for url, text in pages.items()}, day)
    job = dg.Definitions(
        assets=defs.assets,
        jobs=[dg.define_asset_job("count", selection=["word_counts"])],
        resources=defs.resources,
    ).resolve_job_def("count")
    run = job.execute_in_process(tags=THREE_DAYS, resources={"reports": Reports(folder=str(tmp_path))})
    assert {day: shown["words"] for (_, day), shown in metadata_of(run).items()} == {
        DAY: 3,
        NEXT_DAY: 0,
        THIRD_DAY: 0,
    }
    assert pd.read_csv(tmp_path / f"{DAY}.csv").to_dict("records") == [
        {"host": "a.test", "pages": 2, "words": 3}
    ]
