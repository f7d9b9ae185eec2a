"""Which vertices to solve from, and to which: the workflow's `sources` and `output.targets` as vertex numbers.

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
from sssp_pipeline.workflow import Output, RandomVertices, Sources, Vertices


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
    return np.sort(_chosen(spec, "sources", ids, load)).astype(np.uint32)


def select_targets(output: Output, ids: VertexIds, load: Callable[[], CsrGraph]) -> np.ndarray | None:
    """Return the vertices (T,) uint32 to which distances are written: None for every vertex, (0,) for no distances.

    They stand in the order in which the workflow or its file names them, and ascend where they are drawn. The other
    parameters and what is raised are those of `select_sources`.
    """
    spec = output.targets
    if output.distances == "none":
        return np.empty(0, np.uint32)
    if spec is None:
        return None
    chosen = _chosen(spec, "output.targets", ids, load)
    is_drawn = spec.kind in ("random", "top_degree")
    return (np.sort(chosen) if is_drawn else chosen).astype(np.uint32)


def _chosen(spec: Vertices, key: str, ids: VertexIds, load: Callable[[], CsrGraph]) -> np.ndarray:
    """Return the vertices that `spec` chooses, which stands in the workflow as `key`."""
    what = "target" if key == "output.targets" else "source"
    if spec.top_degree is not None:
        _check_enough(spec.top_degree, ids.n_vertices, f"`{key}.top_degree`", what)
        degrees = np.diff(load().row_offsets)
        # A stable sort, so that of equal degrees the lower vertex comes first.
        return np.argsort(-degrees, kind="stable")[: spec.top_degree]
    if spec.random is not None:
        return _random_vertices(spec.random, key, what, ids.n_vertices, load)
    if spec.ids is not None:
        return _without_repeats(ids.vertices(spec.ids, what), what, ids)
    assert spec.file is not None
    named = read_ids_file(spec.file, what, ids.mapping.type)
    return _without_repeats(ids.vertices(named, f"`{storage.redacted(spec.file)}`: {what}"), what, ids)


def read_ids_file(url: str, what: str, id_type: str) -> list[int | str]:
    """Return the ids in the file `url`: one a line, or the column `what` or else the first of a Parquet file.

    Lines that begin with `#` are left out.

    Parameters
    ----------
    url
        Of the file.
    what
        "source" or "target".
    id_type
        "int64" or "string".

    Raises
    ------
    InputError
        There is no such file, it names nothing, or a line is no id of `id_type`.
    """
    content = storage.read_bytes(url)
    shown = storage.redacted(url)
    found: list[int | str] = []
    if content[:4] == b"PAR1":
        try:
            table = pq.read_table(pa.BufferReader(content))
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"`{shown}` is not readable Parquet: {error}") from error
        name = what if what in table.column_names else table.column_names[0]
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
        raise InputError(f"`{shown}` names no {what}", hint="one id a line, or a Parquet column")
    return found


def _without_repeats(vertices: np.ndarray, what: str, ids: VertexIds) -> np.ndarray:
    unique, counts = np.unique(vertices, return_counts=True)
    if len(unique) < len(vertices):
        repeated = int(unique[np.argmax(counts > 1)])
        raise InputError(
            f"{what} `{ids.original(repeated)}` is named {int(np.max(counts))} times", hint="name it once"
        )
    return vertices


def _check_enough(asked: int, there: int, key: str, what: str) -> None:
    if asked > there:
        raise InputError(
            f"{key} asks for {asked} {what}s, but there are {there}", hint=f"ask for at most {there}"
        )


def _random_vertices(
    spec: RandomVertices, key: str, what: str, n_vertices: int, load: Callable[[], CsrGraph]
) -> np.ndarray:
    """Return the first `count` vertices of a seeded random order that reach at least `min_reach` vertices."""
    _check_enough(spec.count, n_vertices, f"`{key}.random.count`", what)
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
            f"`{key}.random` asks for {spec.count} {what}s that reach {spec.min_reach} vertices, "
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
