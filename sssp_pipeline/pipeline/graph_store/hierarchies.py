"""Hierarchies in a graph store: how their arrays are written, read, and offered to solvers.

A worker reads them when a solver first asks for them. The processes of a machine share them in memory, as they share
the graph (`machine_cache.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import accumulate

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.csr import CsrGraph, HierarchyTraits
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.kernels.hierarchy.completion.arc_completion import Completion
from sssp_pipeline.kernels.hierarchy.completion.arcs import Arcs
from sssp_pipeline.kernels.hierarchy.completion.customization import Hierarchy
from sssp_pipeline.kernels.hierarchy.shared import Offer, offer
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.graph_store.hierarchy_record import (
    BUILD_AGAIN,
    COMPLETION,
    DOWN,
    FOLDER,
    UP,
    Arrays,
    HierarchyRecord,
    StoredArray,
    keep_hierarchies,
    read_record,
    write_record,
)
from sssp_pipeline.pipeline.graph_store.loading import MOST_READERS, Target, new_arrays, read_parts_into
from sssp_pipeline.pipeline.graph_store.machine_cache import shared_arrays
from sssp_pipeline.pipeline.graph_store.manifest import Manifest, StoredPart
from sssp_pipeline.pipeline.graph_store.store import remove_parts
from sssp_pipeline.pipeline.graph_store.writing.writer import StoreWriter, parts_of
from sssp_pipeline.storage import files

_COLUMN = "value"
#: How many parts are written at a time. A large array has as many parts, but none of fewer rows than the second number.
_MOST_WRITERS, _LEAST_ROWS = 16, 2**20


def offer_stored(graph: CsrGraph, store: str, manifest: Manifest, *, shared: bool) -> None:
    """Have solvers take the hierarchy of a loaded graph from its store, if the store has it.

    With `shared`, all processes of this machine share its memory.
    """
    completion = partial(load_completion, store, manifest, shared=shared)
    hierarchy = partial(load_hierarchy, store, manifest, shared=shared)
    offer(graph, Offer(completion, hierarchy, partial(_traits, store, manifest)))


def _traits(store: str, manifest: Manifest) -> HierarchyTraits | None:
    """Return what is known of a hierarchy; None if the record cannot be read, so that `auto` uses none."""
    with suppress(InputError):
        return read_record(store).traits(manifest)
    return None


def load_completion(
    store: str, manifest: Manifest, *, shared: bool = False, record: HierarchyRecord | None = None
) -> Completion | None:
    """Return the stored completion of a graph, every part checked against the record; None if there is none.

    Parameters
    ----------
    store, manifest
        As for `load_graph`.
    shared
        Whether all processes of this machine share its memory.
    record
        That of the store; None to read it.

    Raises
    ------
    InputError
        The record is damaged, or a part is missing, cut short or altered; the message names the file.
    """
    record = read_record(store) if record is None else record
    if (key := record.edges_of(manifest)) is None or not record.edges[key].arrays:
        return None
    n_triangles = record.edges[key].n_triangles
    assert n_triangles is not None  # the record was checked
    return Completion(**_load(store, record.edges[key].arrays, shared), n_triangles=n_triangles)


def load_hierarchy(store: str, manifest: Manifest, *, shared: bool = False) -> Hierarchy | None:
    """Return the stored hierarchy of a graph for its weights; as `load_completion`."""
    record = read_record(store)
    of_graph = record.graphs.get(manifest.content_id)
    if of_graph is None or not of_graph.arrays:
        return None
    completion = load_completion(store, manifest, shared=shared, record=record)
    assert completion is not None  # the record was checked
    loaded = _load(store, of_graph.arrays, shared)
    up = Arcs(*(loaded[name] for name in UP))
    return Hierarchy(completion, up, Arcs(*(loaded[name] for name in DOWN)) if DOWN[0] in loaded else up)


def _load(store: str, arrays: Arrays, shared: bool) -> dict[str, np.ndarray]:
    sizes = {name: array.size for name, array in arrays.items()}
    read = partial(_read_into, store, arrays)
    if shared:
        return shared_arrays(_content_id(arrays), sizes, read)
    loaded = new_arrays(sizes)
    read(loaded)
    return loaded


def _read_into(store: str, arrays: Arrays, into: dict[str, np.ndarray]) -> None:
    """Fill the arrays `into`, by name."""
    parts: list[Target] = []
    for name, array in arrays.items():
        ends = accumulate(part.rows for part in array.parts)
        parts += [
            (part, {_COLUMN: into[name][end - part.rows : end]})
            for part, end in zip(array.parts, ends, strict=True)
        ]
    try:
        read_parts_into(store, parts, MOST_READERS)
    except InputError as error:
        raise InputError(error.message, hint=BUILD_AGAIN) from error


def _content_id(arrays: Arrays) -> str:
    """Return a digest of the content of some arrays."""
    facts = [
        (name, array.dtype, [(part.rows, part.content_sha256) for part in array.parts])
        for name, array in sorted(arrays.items())
    ]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


class HierarchyWriter(StoreWriter):
    """Writes the arrays of hierarchies to a store; readers see no change before `commit_record`.

    If the `with` block ends before that, the written files are removed. The caller holds the store.
    """

    def __init__(self, store: str) -> None:
        super().__init__(store)
        self._n_parts = 0

    def write_completion(self, completion: Completion) -> Arrays:
        """Write the arrays of a completion."""
        return self._write_arrays({name: getattr(completion, name) for name in COMPLETION})

    def write_customization(self, hierarchy: Hierarchy) -> Arrays:
        """Write the arrays of a hierarchy that depend on the weights."""
        both = (
            {UP: hierarchy.up} if hierarchy.down is hierarchy.up else {UP: hierarchy.up, DOWN: hierarchy.down}
        )
        return self._write_arrays(
            {name: getattr(arcs, name.partition("_")[2]) for names, arcs in both.items() for name in names}
        )

    def commit_record(self, record: HierarchyRecord, content_ids: Iterable[str]) -> None:
        """Make the written arrays part of the store, and remove those of graphs that are not `content_ids`."""
        write_record(self.store, record)
        self._is_committed = True
        kept = keep_hierarchies(self.store, content_ids)
        remove_parts(self.store, kept, (FOLDER,))
        files.remove_temporaries(files.join(self.store, FOLDER))

    def _write_arrays(self, arrays: dict[str, np.ndarray]) -> Arrays:
        """Write several parts at a time, since their checksums take longer than their bytes."""
        writing: dict[str, list[Future[StoredPart]]] = {}
        pool = ThreadPoolExecutor(min(usable_cores(), _MOST_WRITERS), "sssp-write")
        try:
            for name, array in arrays.items():
                rows = max(_LEAST_ROWS, -(-len(array) // _MOST_WRITERS))
                parts = parts_of(pa.table({_COLUMN: array}), self._n_parts, rows)
                self._n_parts += len(parts)
                writing[name] = [pool.submit(self.write_part, FOLDER, *part) for part in parts]
            return {
                name: StoredArray(dtype=array.dtype.name, parts=[part.result() for part in writing[name]])
                for name, array in arrays.items()
            }
        finally:  # after an error or Ctrl-C, no thread may write when the files are removed
            pool.shutdown(cancel_futures=True)
