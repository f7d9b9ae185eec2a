"""Which vertices to solve from: the workflow's `sources`, turned into ascending vertex numbers.

The choice depends on the graph and the workflow alone, so that a run that is started again asks for the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numba import njit

from sssp_pipeline.csr import CsrGraph
from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline import storage
from sssp_pipeline.pipeline.vertex_ids import VertexIds
from sssp_pipeline.workflow import RandomSources, Sources


def select_sources(spec: Sources, ids: VertexIds, load: Callable[[], CsrGraph]) -> np.ndarray:
    """Return the sources (S,) uint32, ascending.

    Parameters
    ----------
    spec
        The workflow's `sources`.
    ids
        The input's ids, which `spec` speaks of.
    load
        Gives the graph; called only where degrees or reach are asked for.

    Raises
    ------
    InputError
        The graph is empty, a source is not in it or named twice, or there are fewer eligible vertices than asked for.
    """
    if ids.n_vertices == 0:
        raise InputError("there is nothing to solve: the graph has no vertices", hint="check `graph.input`")
    if spec.all:
        return np.arange(ids.n_vertices, dtype=np.uint32)
    if spec.top_degree is not None:
        _check_enough(spec.top_degree, ids.n_vertices, "`sources.top_degree`")
        degrees = np.diff(load().row_offsets)
        # A stable sort, so that of equal degrees the lower vertex comes first.
        chosen = np.argsort(-degrees, kind="stable")[: spec.top_degree]
    elif spec.random is not None:
        chosen = _random_sources(spec.random, ids.n_vertices, load)
    elif spec.ids is not None:
        chosen = _without_repeats(ids.vertices(spec.ids, "source"), ids)
    else:
        assert spec.file is not None
        named = read_source_file(spec.file, ids.mapping.type)
        chosen = _without_repeats(ids.vertices(named, f"`{storage.redacted(spec.file)}`: source"), ids)
    return np.sort(chosen).astype(np.uint32)


def read_source_file(url: str, id_type: str) -> list[int | str]:
    """Return the ids in the file `url`: one a line, or the first column of a Parquet file.

    Lines that begin with `#` are left out.

    Raises
    ------
    InputError
        There is no such file, it names no source, or a line is no id of `id_type` ("int64" or "string").
    """
    content = storage.read_bytes(url)
    shown = storage.redacted(url)
    found: list[int | str] = []
    if content[:4] == b"PAR1":
        try:
            table = pq.read_table(pa.BufferReader(content))
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"`{shown}` is not readable Parquet: {error}") from error
        name = "source" if "source" in table.column_names else table.column_names[0]
        found = table[name].to_pylist()
    else:
        try:
            lines = content.decode("utf-8-sig").splitlines()
        except UnicodeDecodeError as error:
            raise InputError(
                f"`{shown}` is not UTF-8 text: {error}", hint="one id a line, or Parquet"
            ) from error
        for number, line in enumerate(lines, 1):
            word = line.strip()
            if not word or word.startswith("#"):
                continue
            if id_type == "int64" and not re.fullmatch("[0-9]+", word):
                raise InputError(
                    f"`{shown}` line {number}: `{word}` is not a vertex id of this graph, whose ids are integers"
                )
            found.append(int(word) if id_type == "int64" else word)
    if not found:
        raise InputError(f"`{shown}` names no source", hint="one id a line, or a Parquet column")
    return found


def _without_repeats(vertices: np.ndarray, ids: VertexIds) -> np.ndarray:
    unique, counts = np.unique(vertices, return_counts=True)
    if len(unique) < len(vertices):
        repeated = int(unique[np.argmax(counts > 1)])
        raise InputError(
            f"source `{ids.original(repeated)}` is named {int(np.max(counts))} times", hint="name it once"
        )
    return vertices


def _check_enough(asked: int, there: int, key: str) -> None:
    if asked > there:
        raise InputError(
            f"{key} asks for {asked} sources, but there are {there}", hint=f"ask for at most {there}"
        )


def _random_sources(spec: RandomSources, n_vertices: int, load: Callable[[], CsrGraph]) -> np.ndarray:
    """Return the first `count` vertices of a seeded random order that reach at least `min_reach` vertices."""
    _check_enough(spec.count, n_vertices, "`sources.random.count`")
    # The raw stream of PCG64 never changes; NumPy's shuffles may, from release to release.
    order = np.argsort(np.random.PCG64(spec.seed).random_raw(n_vertices), kind="stable")
    if spec.min_reach <= 1:
        return order[: spec.count]
    chosen = order[:0]
    if spec.min_reach <= n_vertices:
        graph = load()
        chosen = _reaching(graph.row_offsets, graph.col_indices, order, spec.count, spec.min_reach)
    if len(chosen) < spec.count:
        raise InputError(
            f"`sources.random` asks for {spec.count} sources that reach {spec.min_reach} vertices, "
            f"but there are {len(chosen)}",
            hint="lower `count` or `min_reach`",
        )
    return chosen


@njit(nogil=True, cache=True)
def _reaching(
    row_offsets: np.ndarray, col_indices: np.ndarray, order: np.ndarray, count: int, min_reach: int
) -> np.ndarray:
    """Return the first `count` of `order` from which at least `min_reach` vertices are reached."""
    chosen = np.empty(count, np.int64)
    n_chosen = 0
    seen_by = np.full(len(row_offsets) - 1, -1, np.int64)
    queue = np.empty(min_reach, np.int64)
    for candidate in order:
        if n_chosen == count:
            break
        head, tail = 0, 1
        queue[0] = candidate
        seen_by[candidate] = candidate
        while head < tail and tail < min_reach:
            u = queue[head]
            head += 1
            for e in range(row_offsets[u], row_offsets[u + 1]):
                v = np.intp(col_indices[e])
                if seen_by[v] != candidate:
                    seen_by[v] = candidate
                    queue[tail] = v
                    tail += 1
                    if tail == min_reach:
                        break
        if tail >= min_reach:
            chosen[n_chosen] = candidate
            n_chosen += 1
    return chosen[:n_chosen]
