"""What docs/results.md says about reading the published files is so."""

from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pytest

from scraper_pipeline.ledger import Ledger
from scraper_pipeline.publishing import Place, publish_pages
from scraper_pipeline_tests.integration.ledger.driving import DAY, NEXT_DAY
from scraper_pipeline_tests.integration.publishing.driving import site, store

EMPTY_DAY = "2026-03-03"


@pytest.fixture
def base(ledger: Ledger, folder: Place) -> Path:
    """Two days whose lists had different labels, and one without pages."""
    store(ledger, site(1, 2), topic="prices")
    store(ledger, site(3), day=NEXT_DAY, customer="acme")
    for day in (DAY, NEXT_DAY, EMPTY_DAY):
        publish_pages(ledger, folder, day)
    return Path(folder.location(""))


def test_pandas_reads_a_day_and_all_days(base: Path) -> None:
    day = pd.read_parquet(base / f"day={DAY}" / "pages.parquet")
    assert sorted(day["markdown"]) == ["# Page 1", "# Page 2"]
    assert list(day["label_topic"]) == ["prices", "prices"]
    assert str(day["stored_at"].dtype) == "datetime64[us, UTC]"
    days = pd.read_parquet(base, columns=["url", "markdown"], filters=[("day", ">=", NEXT_DAY)])
    assert list(days["markdown"]) == ["# Page 3"]


def test_duckdb_reads_a_day_and_all_days_by_name(base: Path) -> None:
    with duckdb.connect() as connection:
        day = connection.execute(f"SELECT count(*) FROM '{base}/day={DAY}/pages.parquet'").fetchall()  # noqa: S608
        days = connection.execute(
            f"SELECT day, count(*), max(labels ->> 'topic'), max(label_customer) FROM read_parquet("  # noqa: S608
            f"'{base}/*/*.parquet', hive_partitioning = true, union_by_name = true) GROUP BY day ORDER BY day"
        ).fetchall()
    assert day == [(2,)]
    assert [(str(row[0]), *row[1:]) for row in days] == [
        (DAY, 2, "prices", None),
        (NEXT_DAY, 1, None, "acme"),
    ]


def test_polars_reads_a_day_and_all_days(base: Path) -> None:
    day = pl.read_parquet(base / f"day={DAY}" / "pages.parquet")
    assert day["completed_at"].dtype == pl.Datetime("us", "UTC")
    pages = pl.scan_parquet(
        base / "**/*.parquet", hive_partitioning=True, missing_columns="insert", extra_columns="ignore"
    )
    found = pages.filter(pl.col("day") >= pl.date(2026, 3, 2)).select(
        "markdown", topic=pl.col("labels").str.json_path_match("$.topic")
    )
    assert found.collect().rows() == [("# Page 3", None)]
