"""Exported events as a Parquet file, which DuckDB and others read by column. Needs pyarrow (the extra `parquet`).

The columns are those of a line of the other export (COLUMNS in tally/transfer/line_format.py), as texts in place of the
numbers of labels. `timestamp` is a time in milliseconds (UTC), `event_data` is JSON in a text, `vitals` a struct.

Memory is bounded: rows are collected up to MAX_ROWS or MAX_BYTES, and written as one row group.
"""

import contextlib
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any, BinaryIO

from tally.engine.archive import COLUMNS
from tally.events.event_types import MEASURES
from tally.resources import install_command
from tally.transfer.exporter import Write
from tally.transfer.files import BadFile

# A row group of that size is read quickly by others; 100,000 usual events take 20 MB.
MAX_ROWS = 100_000
MAX_BYTES = 32 * 1_048_576


@contextlib.contextmanager
def parquet(out: BinaryIO) -> Iterator[Write]:
    """Yield a function that writes rows of COLUMNS to `out`, which is complete when the block ends. Raises BadFile."""
    arrow, files = _libraries()
    schema = _schema(arrow)
    with files.ParquetWriter(out, schema, compression="zstd") as writer:
        batches: list[Any] = []

        def flush() -> None:
            if batches:
                writer.write_table(arrow.Table.from_batches(batches, schema), row_group_size=MAX_ROWS)
                batches.clear()

        def write(rows: Sequence[Sequence[Any]]) -> None:
            columns = zip(*rows, strict=True)
            arrays = [arrow.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
            batches.append(arrow.RecordBatch.from_arrays(arrays, schema=schema))
            if (
                sum(batch.num_rows for batch in batches) >= MAX_ROWS
                or sum(batch.nbytes for batch in batches) >= MAX_BYTES
            ):
                flush()

        yield write
        flush()


def _libraries() -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError:
        command = install_command("parquet")
        raise BadFile(f"A Parquet file needs pyarrow, which is not installed: {command}.") from None


def _schema(arrow: Any) -> Any:
    """Return the type of each of COLUMNS: a text, but for these."""
    others = {
        "id": arrow.int64(),
        "timestamp": arrow.timestamp("ms", "UTC"),
        "value": arrow.float64(),
        "vitals": arrow.struct([(name, arrow.float64()) for name in MEASURES]),
    }
    return arrow.schema([(name, others.get(name, arrow.string())) for name in COLUMNS])
