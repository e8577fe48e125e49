"""What was stored is read as data frames: by day, over a range, in chosen columns."""

import dagster as dg
import pandas as pd
import pytest

from scraper_pipeline.ledger import LETTER_COLUMNS, RESULT_COLUMNS
from scraper_pipeline.partitions import DAYS
from scraper_pipeline_tests.integration.dagster.driving import (
    DAY,
    NEXT_DAY,
    THIRD_DAY,
    THREE_DAYS,
    Pipeline,
    on_sqlite,
)


@pytest.fixture
def finished(pipeline: Pipeline) -> Pipeline:
    """Three days of three pages and a letter each."""
    pipeline.ask_for("pages/1", "pages/2", "empty", "broken/1")
    assert pipeline.run("submit_jobs", tags=THREE_DAYS).success
    pipeline.bring_news()
    assert pipeline.run("settle_jobs", tags=THREE_DAYS).success
    return pipeline


def _load(pipeline: Pipeline, asset: str, day: str, **metadata: object) -> pd.DataFrame:
    with pipeline.definitions.get_asset_value_loader(instance=pipeline.instance) as loader:
        frame = loader.load_asset_value(
            asset, partition_key=day, input_definition_metadata=metadata, python_type=pd.DataFrame
        )
    assert isinstance(frame, pd.DataFrame)
    return frame


@on_sqlite
def test_a_day_is_a_frame_with_a_row_a_page(finished: Pipeline) -> None:
    frame = _load(finished, "stored_results", NEXT_DAY)
    assert list(frame.columns) == list(RESULT_COLUMNS)
    assert set(frame["partition_key"]) == {NEXT_DAY}
    assert sorted(url.rsplit("/site/", 1)[1] for url in frame["url"]) == ["empty", "pages/1", "pages/2"]
    assert sorted(frame["markdown"].str.len() > 100) == [False, True, True]


@on_sqlite
def test_chosen_columns_come_in_the_order_asked_for(finished: Pipeline) -> None:
    frame = _load(finished, "stored_results", THIRD_DAY, columns=["is_empty", "url"])
    assert list(frame.columns) == ["is_empty", "url"]
    assert sorted(frame["is_empty"].map(bool)) == [False, False, True]


@on_sqlite
def test_letters_are_read_the_same_way_and_only_open_ones(finished: Pipeline) -> None:
    frame = _load(finished, "dead_letters", DAY)
    assert list(frame.columns) == list(LETTER_COLUMNS)
    assert list(frame["error_code"]) == ["PERMANENT_BLOCK"]
    finished.execute("UPDATE dead_letters SET resolved_at = parked_at WHERE partition_key = :day", day=DAY)
    empty = _load(finished, "dead_letters", DAY, columns=["url"])
    assert list(empty.columns) == ["url"]
    assert empty.empty


@on_sqlite
def test_a_column_that_does_not_exist_is_named(finished: Pipeline) -> None:
    with pytest.raises(ValueError, match="has no column colour; it has"):
        _load(finished, "stored_results", DAY, columns=["url", "colour"])


@dg.asset(
    partitions_def=DAYS,
    ins={
        "stored_results": dg.AssetIn(metadata={"columns": ["partition_key", "url"]}),
        "dead_letters": dg.AssetIn(metadata={"columns": ["error_code"]}),
    },
    io_manager_key="memory",
)
def counts(stored_results: pd.DataFrame, dead_letters: pd.DataFrame) -> dict[str, object]:
    """What somebody may build upon the results."""
    return {
        "columns": list(stored_results.columns),
        "pages": stored_results.groupby("partition_key").size().to_dict(),
        "letters": len(dead_letters),
    }


@pytest.mark.parametrize(
    ("tags", "pages", "letters"),
    [
        ({"dagster/partition": NEXT_DAY}, {NEXT_DAY: 3}, 1),
        (THREE_DAYS, {DAY: 3, NEXT_DAY: 3, THIRD_DAY: 3}, 3),
    ],
    ids=["day", "range"],
)
def test_an_asset_downstream_gets_frames_of_its_days(
    finished: Pipeline, tags: dict[str, str], pages: dict[str, int], letters: int
) -> None:
    definitions = dg.Definitions.merge(
        finished.definitions,
        dg.Definitions(
            assets=[counts],
            jobs=[dg.define_asset_job("count", selection=[counts])],
            resources={"memory": dg.mem_io_manager},
        ),
    )
    run = definitions.resolve_job_def("count").execute_in_process(
        partition_key=tags.get("dagster/partition"), tags=tags, instance=finished.instance
    )
    assert run.output_for_node("counts") == {
        "columns": ["partition_key", "url"],
        "pages": pages,
        "letters": letters,
    }
