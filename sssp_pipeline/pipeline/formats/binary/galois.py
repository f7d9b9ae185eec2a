"""Galois binary graphs, version 1: compressed sparse rows, little-endian.

| part | type | entries |
| --- | --- | --- |
| header | uint64 | version = 1, bytes per edge weight (0, 4 or 8), V, E |
| row ends | uint64 | V: the index after the last edge of each vertex |
| targets | uint32 | E, and one more as padding if E is odd |
| weights | unsigned, or the type that the workflow sets | E |

Each part is read through a stream of its own, so a file of any size needs only the memory of one chunk.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO

import numpy as np

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.ordered import read_ahead
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk, InputEdges, ReadOptions
from sssp_pipeline.pipeline.formats.parsing.declared import common_n_vertices, declared_reading
from sssp_pipeline.pipeline.formats.streams.decompressed import move_to, open_decompressed, read_exactly
from sssp_pipeline.storage import files

_HEADER = struct.Struct("<QQQQ")


@dataclass(frozen=True)
class _Header:
    weight_bytes: int
    n_vertices: int
    n_edges: int

    @property
    def targets_at(self) -> int:
        return _HEADER.size + 8 * self.n_vertices

    @property
    def weights_at(self) -> int:
        return self.targets_at + 4 * (self.n_edges + self.n_edges % 2)


def open_galois(urls: list[str], options: ReadOptions) -> InputEdges:
    """Return the edge list in the Galois files `urls`, which declare the same number of vertices.

    Raises
    ------
    InputError
        A header is cut short, has another version or weights of an unknown size; or files differ.
    """
    headers = [_read_header(url) for url in urls]
    n_vertices = common_n_vertices(urls, [header.n_vertices for header in headers])
    for url, header in zip(urls, headers, strict=True):
        if header.weight_bytes != headers[0].weight_bytes:
            raise InputError(
                f"`{files.redacted(urls[0])}` has weights of {headers[0].weight_bytes} bytes, "
                f"`{files.redacted(url)}` of {header.weight_bytes}",
                hint="files read together are of one kind",
            )
    dtype = None
    if headers[0].weight_bytes and options.weight_column != "none":
        # The format does not say of which type the weights are.
        kind = "u" if options.weight_dtype == "auto" else np.dtype(options.weight_dtype).kind
        dtype = np.dtype(f"<{kind}{headers[0].weight_bytes}")

    def read(n_threads: int) -> Iterator[EdgeChunk]:
        for url, header in zip(urls, headers, strict=True):
            yield from read_ahead(_read_edges(url, header, dtype, options.block_bytes))

    return InputEdges(
        declared_reading("galois", "the format numbers its vertices from 0"),
        dtype is not None,
        read,
        n_vertices=n_vertices,
        weight_dtype=dtype,
    )


def _read_header(url: str) -> _Header:
    with open_decompressed(url) as stream:
        content = stream.read(_HEADER.size)
    if len(content) < _HEADER.size:
        raise _cut_short(url, "header")
    version, weight_bytes, n_vertices, n_edges = _HEADER.unpack(content)
    if version != 1:
        raise InputError(
            f"`{files.redacted(url)}` is a Galois file of version {version}", hint="version 1 is read"
        )
    if weight_bytes not in (0, 4, 8):
        raise InputError(
            f"`{files.redacted(url)}` has weights of {weight_bytes} bytes",
            hint="weights of 4 or 8 bytes are read",
        )
    if n_vertices > 2**32:
        raise InputError(
            f"`{files.redacted(url)}` declares {n_vertices} vertices, more than its 32-bit ids can name",
            hint="the file may be damaged, or of another format: see `graph.format`",
        )
    return _Header(weight_bytes, n_vertices, n_edges)


def _read_edges(url: str, header: _Header, dtype: np.dtype | None, block_bytes: int) -> Iterator[EdgeChunk]:
    rows = max(1, block_bytes // 8)
    with ExitStack() as stack:
        row_ends = _cursor(stack, url, _HEADER.size)
        targets = _cursor(stack, url, header.targets_at)
        weights = _cursor(stack, url, header.weights_at) if dtype is not None else None
        n_read = 0
        for first in range(0, header.n_vertices, rows):
            n_rows = min(rows, header.n_vertices - first)
            ends = _read_array(row_ends, url, np.dtype("<u8"), n_rows, "row ends")
            _check_ends(url, ends, first, n_read, header.n_edges)
            ends = np.concatenate(([n_read], ends.astype(np.int64)))
            while n_read < ends[-1]:
                upto = min(n_read + rows, int(ends[-1]))
                # A vertex with many edges may extend over several chunks, so count its edges within this one.
                share = np.diff(np.clip(ends, n_read, upto))
                src = np.repeat(np.arange(first, first + n_rows, dtype=np.int64), share)
                dst = _read_array(targets, url, np.dtype("<u4"), upto - n_read, "targets").astype(np.int64)
                _check_targets(url, dst, n_read, header.n_vertices)
                values = None
                if weights is not None and dtype is not None:
                    values = _read_array(weights, url, dtype, upto - n_read, "weights")
                    _check_weights(url, values, n_read)
                yield EdgeChunk(src, dst, values)
                n_read = upto
        if n_read != header.n_edges:
            raise _damaged(url, f" declares {header.n_edges} edges but its rows end at {n_read}")
        last, rest = weights, 0
        if last is None and header.weight_bytes:  # there are weights that are not read
            last, rest = _cursor(stack, url, header.weights_at + header.weight_bytes * max(n_read - 1, 0)), 0
            if n_read:
                _read_array(last, url, np.dtype(f"<u{header.weight_bytes}"), 1, "weights")
        elif last is None:
            last, rest = targets, 4 * (n_read % 2)  # padding, which may be missing
        if len(last.read(rest + 1)) > rest:
            raise _damaged(url, f" goes on after its {n_read} edges")


def _cursor(stack: ExitStack, url: str, position: int) -> IO[bytes]:
    stream = stack.enter_context(open_decompressed(url))
    move_to(stream, position)
    return stream


def _read_array(stream: IO[bytes], url: str, dtype: np.dtype, n: int, part: str) -> np.ndarray:
    values = np.empty(n, dtype)
    if read_exactly(stream, values.view(np.uint8).data) < values.nbytes:
        raise _cut_short(url, part)
    return values


def _check_ends(url: str, ends: np.ndarray, first: int, n_read: int, n_edges: int) -> None:
    falls = np.flatnonzero(ends[1:] < ends[:-1]) + 1
    bad = 0 if ends[0] < n_read else int(falls[0]) if len(falls) else -1
    if bad < 0 and ends[-1] > n_edges:
        bad = int(np.argmax(ends > n_edges))
    if bad >= 0:
        end = f"the edges of vertex {first + bad} end at {ends[bad]}"
        raise _damaged(url, f": {end}, wanted a number that does not fall and is at most {n_edges}")


def _check_targets(url: str, dst: np.ndarray, n_read: int, n_vertices: int) -> None:
    if int(dst.max()) >= n_vertices:
        e = int(np.argmax(dst >= n_vertices))
        raise _damaged(url, f" edge {n_read + e}: vertex id `{dst[e]}` is outside 0 to {n_vertices - 1}")


def _check_weights(url: str, values: np.ndarray, n_read: int) -> None:
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        e = int(np.argmin(np.isfinite(values)))
        raise InputError(
            f"`{files.redacted(url)}` edge {n_read + e}: weight `{values[e]}` is not finite",
            hint="set `graph.weights.dtype: uint32` if the weights are whole numbers",
        )


def _damaged(url: str, problem: str) -> InputError:
    return InputError(f"`{files.redacted(url)}`{problem}", hint="the file may be damaged: fetch it again")


def _cut_short(url: str, part: str) -> InputError:
    return InputError(
        f"`{files.redacted(url)}` is cut short: its {part} end early", hint="fetch the file again"
    )
