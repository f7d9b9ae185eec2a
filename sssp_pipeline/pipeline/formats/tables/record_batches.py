"""The rows of Parquet and Arrow files in batches of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.arrow_compute import pc
from sssp_pipeline.pipeline.formats.streams.decompressed import is_compressed, open_decompressed
from sssp_pipeline.pipeline.formats.streams.magic import ARROW_FILE_MAGIC, PARQUET_MAGIC
from sssp_pipeline.storage import files

#: A function that gives the rows of a table with some columns, in batches of a number of rows.
BatchesOf: TypeAlias = Callable[[list[str], int], Iterator[pa.RecordBatch]]
#: Bytes of text in a batch. A text may be longer.
_BATCH_BYTES = 1 << 26
#: Texts that are compressed by more than this are taken for repetitions of a few.
_COMPRESSION = 20


@contextmanager
def record_batches(url: str, rows: int, names: list[str] | None = None) -> Iterator[tuple]:
    """Give the schema of a file, and an iterator over batches of at most `rows` rows with the columns `names`."""
    with open_decompressed(url) as stream:
        magic = stream.read(6)
    is_stream = not magic.startswith((PARQUET_MAGIC, ARROW_FILE_MAGIC))
    if not is_stream and is_compressed(url):
        raise InputError(
            f"`{files.redacted(url)}` is compressed as a whole, but such a table is read from its end",
            hint="decompress it: its columns are compressed inside",
        )
    with open_decompressed(url) as stream, _arrow_errors(url):
        if magic.startswith(PARQUET_MAGIC):
            file = pq.ParquetFile(stream)
            schema = file.schema_arrow
            if small := _small_texts(file.metadata):
                file = pq.ParquetFile(stream, metadata=file.metadata, read_dictionary=small)
            yield schema, file.iter_batches(_rows_at_once(file.metadata, rows), columns=names)
            return
        reader = pa.ipc.open_stream(stream) if is_stream else pa.ipc.open_file(stream)
        whole = reader if is_stream else (reader.get_batch(i) for i in range(reader.num_record_batches))
        yield reader.schema, _cut(whole, rows, names)


def checked_batches(url: str, names: list[str], rows: int) -> Iterator[pa.RecordBatch]:
    """Give batches of at most `rows` rows with the columns `names`; raises `InputError` if the file is damaged."""
    with record_batches(url, rows, names) as (schema, found):
        for batch in found:
            # Finds text that is not UTF-8, and in Arrow files offsets that lead outside of a buffer.
            batch.validate(full=True)
            yield from _bounded(batch, schema)


def _text_chunks(metadata: pq.FileMetaData) -> Iterator[pq.ColumnChunkMetaData]:
    """Give the column chunks of text that have rows."""
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            if chunk.physical_type == "BYTE_ARRAY" and chunk.num_values > 0:
                yield chunk


def _small_texts(metadata: pq.FileMetaData) -> list[str]:
    """Return the columns of text that may take far more memory than their bytes in the file.

    They are read as dictionaries, which is slower if most texts differ.
    """
    small = {
        chunk.path_in_schema
        for chunk in _text_chunks(metadata)
        # A text outside of a dictionary takes four bytes for its length and one for itself.
        if chunk.total_uncompressed_size < 5 * chunk.num_values
        or chunk.total_uncompressed_size > _COMPRESSION * chunk.total_compressed_size
    }
    return sorted(small)


def _rows_at_once(metadata: pq.FileMetaData, rows: int) -> int:
    """Return how many rows a batch may have, at most `rows`, so that its texts take about `_BATCH_BYTES`."""
    longest = max((c.total_uncompressed_size / c.num_values for c in _text_chunks(metadata)), default=1)
    return max(1, min(rows, int(_BATCH_BYTES / max(longest, 1))))


def _bounded(batch: pa.RecordBatch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Give the rows of `batch` in parts whose dictionaries take about `_BATCH_BYTES` when they are decoded.

    Dictionaries that `schema` does not have are decoded.
    """
    size = np.zeros(len(batch), np.int64)
    for column in batch.columns:
        if pa.types.is_dictionary(column.type) and not is_numeric(column.type.value_type):
            lengths = pc.binary_length(column.dictionary).take(column.indices)
            size += lengths.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    part = np.cumsum(size) // _BATCH_BYTES
    starts = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(batch)]
    for start, end in pairwise(starts):
        rows = batch.slice(start, end - start)
        columns = [
            decoded(rows[name]) if schema.field(name).type != rows[name].type else rows[name]
            for name in rows.schema.names
        ]
        yield pa.RecordBatch.from_arrays(columns, names=rows.schema.names)


def _cut(batches: Iterator[pa.RecordBatch], rows: int, names: list[str] | None) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        chosen = batch.select(names) if names else batch
        for start in range(0, len(chosen), rows):
            yield chosen.slice(start, rows)


@contextmanager
def _arrow_errors(url: str) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise InputError(
            f"`{files.redacted(url)}`: the name of a column is not UTF-8: {error}",
            hint="write the table again with names in UTF-8",
        ) from error
    except MemoryError as error:
        raise InputError(
            f"`{files.redacted(url)}` is damaged, or a batch of it is larger than the memory: {error}",
            hint="fetch or write it again, in row groups of a few million rows",
        ) from error
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        what = "has text that is not UTF-8" if "UTF8" in str(error) else "is cut short or damaged"
        raise InputError(
            f"`{files.redacted(url)}` {what}: {error}", hint="fetch or write it again"
        ) from error


def is_numeric(type_: pa.DataType) -> bool:
    """Return whether a column of this type holds numbers."""
    return pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)


def decoded(column: pa.Array) -> pa.Array:
    """Return a column without a dictionary."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
