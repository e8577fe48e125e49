"""Parquet: zstd, row groups of bounded size, and a note in the footer that says what the file was made of."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from scraper_pipeline.publishing.columns import Column, ColumnType, json_text

if TYPE_CHECKING:  # slow to import, and loaded with the definitions
    import pyarrow as pa

ROWS_IN_A_GROUP = 10_000
CHARACTERS_IN_A_GROUP = 4 * 1024 * 1024
SMALL_GROUPS = 64
"""The groups of such size; those that follow have twice as much, for each costs the writer tens of kB to the end."""
COMPRESSION_LEVEL = 3
_NOTE = b"scraper_pipeline."
_NEVER_REPEATED = (
    "markdown",
    "html",
    "metadata",
    "url",
    "parent_url",
    "target_id",
    "item_key",
    "content_sha256",
)
_TOO_LARGE_TO_COMPARE = ("markdown", "html", "metadata", "labels")


def write_parquet(
    path: Path, columns: Sequence[Column], rows: Iterable[Mapping[str, Any]], note: Mapping[str, str]
) -> None:
    """Write rows of the ledger to a new file; memory holds one row group, and the footer."""
    import pyarrow.parquet as pq

    schema = _schema(columns, note)
    names = [column.name for column in columns]
    with pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=COMPRESSION_LEVEL,
        use_dictionary=[name for name in names if name not in _NEVER_REPEATED],
        write_statistics=[name for name in names if name not in _TOO_LARGE_TO_COMPARE],
    ) as writer:
        for group in _groups(columns, rows):
            writer.write_batch(_batch(schema, group))


def read_note(file: BinaryIO) -> dict[str, str]:
    """What ``write_parquet`` noted in a file; nothing of a file that is none of ours or can't be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_schema(file).metadata or {}
    except (pa.ArrowException, ValueError):
        return {}
    return {
        key.removeprefix(_NOTE).decode(): value.decode()
        for key, value in metadata.items()
        if key.startswith(_NOTE)
    }


def _schema(columns: Sequence[Column], note: Mapping[str, str]) -> "pa.Schema":
    import pyarrow as pa

    types = {
        ColumnType.TEXT: pa.string(),
        ColumnType.INTEGER: pa.int64(),
        ColumnType.SMALL_INTEGER: pa.int32(),
        ColumnType.BOOLEAN: pa.bool_(),
        ColumnType.TIME: pa.timestamp("us", tz="UTC"),
        ColumnType.JSON: pa.string(),
    }
    return pa.schema(
        [pa.field(column.name, types[column.type]) for column in columns],
        metadata={_NOTE + key.encode(): value.encode() for key, value in note.items()},
    )


def _groups(columns: Sequence[Column], rows: Iterable[Mapping[str, Any]]) -> Iterator[list[list[Any]]]:
    """The values of each row group, column by column."""
    group: list[list[Any]] = [[] for _ in columns]
    size = count = groups = 0
    for row in rows:
        for column, values in zip(columns, group, strict=True):
            value = column.value_in(row)
            if column.type is ColumnType.JSON:
                value = json_text(value)
            values.append(value)
            if isinstance(value, str):
                size += len(value)
        count += 1
        largest = CHARACTERS_IN_A_GROUP * (1 if groups < SMALL_GROUPS else 2)
        if count >= ROWS_IN_A_GROUP or size >= largest:
            yield group
            groups += 1
            group = [[] for _ in columns]
            size = count = 0
    if count:
        yield group


def _batch(schema: "pa.Schema", group: list[list[Any]]) -> "pa.RecordBatch":
    import pyarrow as pa

    arrays = []
    for field, values in zip(schema, group, strict=True):
        arrays.append(pa.array(values, type=field.type))
        values.clear()  # the array has a copy: twice the page is enough
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
