"""Tables as Parquet and as CSV. They are written in parts, so a table may be larger than memory."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from contextlib import nullcontext

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from sssp_pipeline.pipeline.results.exports.file_format import FileFormat
from sssp_pipeline.storage import files


def write_parquet(url: str, tables: Iterable[pa.Table], schema: pa.Schema) -> None:
    """Write `tables`, whose first two columns are ids that repeat."""
    with (
        files.open_atomic(url, synced=True) as handle,
        pq.ParquetWriter(handle, schema, compression="zstd", use_dictionary=schema.names[:2]) as writer,
    ):
        for table in tables:
            writer.write_table(table)


def write_csv(url: str, tables: Iterable[pa.Table], schema: pa.Schema) -> None:
    """Write `tables` with a header, as RFC 4180 describes; lines end with a line feed.

    NULL is an empty field, and every text is in quotes. A list is one field, with spaces between its values. A name
    that ends in `.gz` is compressed.
    """
    header = io.StringIO()
    csv.writer(header, lineterminator="\n").writerow(schema.names)
    flat = pa.schema([(f.name, pa.string() if pa.types.is_list(f.type) else f.type) for f in schema])
    with files.open_atomic(url, synced=True) as handle:
        stream = pa.CompressedOutputStream(handle, "gzip") if url.endswith(".gz") else nullcontext(handle)
        with stream as lines:
            lines.write(header.getvalue().encode())
            options = pa_csv.WriteOptions(include_header=False)
            with pa_csv.CSVWriter(lines, flat, write_options=options) as writer:
                for table in tables:
                    writer.write_table(pa.table(list(map(_flat, table.columns)), schema=flat))


def _flat(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return (
        pc.binary_join(column.cast(pa.list_(pa.string())), " ") if pa.types.is_list(column.type) else column
    )


#: Their writers take the URL, the tables, and their schema.
TABLE_FORMATS = (FileFormat((".parquet",), write_parquet), FileFormat((".csv", ".csv.gz"), write_csv))
