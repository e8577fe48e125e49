"""A Parquet file means what a CSV with the same columns means, and is read a few rows at a time."""

import tracemalloc
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from scraper_pipeline.ledger import Target
from scraper_pipeline.target_lists import (
    Duplicate,
    Rejected,
    TargetListError,
    load_target_lists,
    read_target_list,
)

DAY = date(2026, 1, 31)
Entry = Target | Rejected | Duplicate


def read(path: Path) -> list[Entry]:
    (one,) = load_target_lists(str(path))
    return list(one.read(DAY))


def write(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    parquet.write_table(pa.table(columns), path, **options)
    return path


def test_a_parquet_file_gives_the_targets_that_its_csv_gives(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text(
        "URL,render_js,formats,wait_timeout,kind,depth,limit,shop\n"
        "https://a.example/1,true,markdown|html,5000,,,,7\n"
        "https://a.example/2,,,,crawl,3,20,8\n"
        "nonsense,,,,,,,\n"
        "https://A.example/1,yes,html markdown,5000,,,,9\n"
        ",,,,,,,9\n"
        "https://a.example/3,,,,,,,\n"
    )
    path = write(
        tmp_path / "list.parquet",
        {
            "URL": [
                "https://a.example/1",
                " https://a.example/2 ",
                "nonsense",
                "https://A.example/1",
                None,
                "https://a.example/3",
            ],
            "render_js": [True, None, None, True, None, None],
            "formats": [["markdown", "html"], None, None, ["html", "markdown"], None, []],
            "wait_timeout": [5000.0, float("nan"), None, 5000.0, None, None],
            "kind": [None, "crawl", None, None, None, None],
            "depth": pa.array([None, 3, None, None, None, None], pa.int8()),
            "limit": [None, 20, None, None, None, None],
            "shop": pa.array(["7", "8", None, "9", "9", None]).dictionary_encode(),
        },
    )
    entries = read(path)
    # Rows count from 1, lines of a CSV with its header.
    assert [entry for entry in entries if isinstance(entry, Target)] == [
        entry for entry in read_target_list(tmp_path / "list.csv") if isinstance(entry, Target)
    ]
    assert entries[2] == Rejected(3, "this is no http or https URL with a host")
    assert entries[3:5] == [Duplicate(4, 1), Rejected(5, "the row has no URL")]


def test_values_of_every_type_become_labels_as_people_would_write_them(tmp_path: Path) -> None:
    path = write(
        tmp_path / "list.pq",
        {
            "url": ["https://a.example"],
            "day": [date(2026, 1, 2)],
            "at": [datetime(2026, 1, 2, 3, 4, tzinfo=UTC)],
            "price": [Decimal("1.50")],
            "share": [0.25],
            "many": pa.array([2**60], pa.int64()),
            "no": [False],
            "tags": [["a", "b"]],
            "sizes": [{"x": 1}],
        },
    )
    (target,) = read(path)
    assert isinstance(target, Target)
    assert target.labels == {
        "day": "2026-01-02", "at": "2026-01-02T03:04:00+00:00", "price": "1.50", "share": "0.25",
        "many": str(2**60), "no": "false", "tags": "a|b", "sizes": '{"x": 1}',
    }  # fmt: skip


def test_a_cell_that_can_be_no_label_costs_its_row_only(tmp_path: Path) -> None:
    urls = [f"https://a.example/{number}" for number in range(3)]
    path = write(
        tmp_path / "list.parquet",
        {"url": urls, "raw": [b"\xff", None, None], "page": [None, "x" * 140_000, None]},
    )
    first, second, third = read(path)
    assert isinstance(first, Rejected)
    assert "raw holds bytes" in first.reason
    assert isinstance(second, Rejected)
    assert "page holds more than 131072 characters" in second.reason
    assert isinstance(third, Target)


def test_rows_come_before_the_end_of_the_file_is_read(tmp_path: Path) -> None:
    urls = [f"https://a.example/{number}" for number in range(5000)]
    path = write(tmp_path / "list.parquet", {"url": urls}, row_group_size=1000, compression="none")
    raw = bytearray(path.read_bytes())
    at = raw.rindex(b"https://a.example/4500")
    raw[at - 4000 : at] = b"\xff" * 4000  # within the last row group
    path.write_bytes(raw)
    (one,) = load_target_lists(str(path))
    entries = one.read(DAY)
    assert len(list(islice(entries, 4000))) == 4000
    with pytest.raises(TargetListError, match=r"list\.parquet cannot be read as Parquet after row 4000"):
        list(entries)


def test_a_row_group_is_not_read_whole(tmp_path: Path) -> None:
    rows = ["https://a.example/" + "x" * 200] * 60_000
    path = write(tmp_path / "list.parquet", {"url": rows}, use_dictionary=False, compression="none")
    (one,) = load_target_lists(str(path))
    tracemalloc.start()
    try:
        assert len(list(islice(one.read(DAY), 1500))) == 1500
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < path.stat().st_size / 4


def test_what_is_no_list_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(TargetListError, match=r"absent\.parquet cannot be opened \(No such file"):
        read(tmp_path / "absent.parquet")
    (tmp_path / "text.parquet").write_text("url\nhttps://a.example\n" * 20)
    with pytest.raises(TargetListError, match=r"text\.parquet cannot be read as Parquet"):
        read(tmp_path / "text.parquet")
    with pytest.raises(TargetListError, match="has no column `url`"):
        read(write(tmp_path / "link.parquet", {"link": ["https://a.example"]}))
    with pytest.raises(TargetListError, match="several columns named url"):
        read(write(tmp_path / "twice.parquet", {"url": ["x"], "URL": ["y"]}))
