"""Lists as Parquet, read a few rows at a time."""

from pathlib import Path

from scraper_pipeline.target_lists.columns import typed_columns, typed_row
from scraper_pipeline.target_lists.entries import Rows, TargetListError
from scraper_pipeline.target_lists.lines import open_list

_ROWS_AT_ONCE = 1000
_BUFFER_BYTES = (
    1024 * 1024
)  # of each column: without it, or with `pre_buffer`, a row group's columns are read whole


def parquet_rows(path: Path) -> Rows:
    """The rows of a file, counted from 1. Raises TargetListError."""
    import pyarrow  # takes half a second, and most lists are text
    from pyarrow import parquet

    number = 0
    with open_list(path) as opened:
        try:
            with parquet.ParquetFile(opened, buffer_size=_BUFFER_BYTES, pre_buffer=False) as file:
                columns = typed_columns(str(path), file.schema_arrow.names)
                for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE):
                    for values in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                        number += 1
                        yield number, typed_row(columns, values)
        except (pyarrow.ArrowException, OSError) as error:
            after = f" after row {number}" if number else ""
            raise TargetListError(
                f"{path} cannot be read as Parquet{after} ({str(error).splitlines()[0]}): write it anew"
            ) from None
