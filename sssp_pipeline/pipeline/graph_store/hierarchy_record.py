"""Hierarchy record: what a graph store holds of the hierarchies of its graphs, in `hierarchy/manifest.json`.

```
<store>/hierarchy/manifest.json              written last; names every part with its rows and checksums
<store>/hierarchy/part-<id>-*.parquet        value: one array of a completion or of a customization, or a part of one
```

The manifest of the graph does not mention it. So a store without a hierarchy has no such file, and a release without
hierarchies reads a store with one. `docs/design/0019-hierarchy-in-the-store.md` has the decisions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.lazy import LazyModule
from sssp_pipeline.pipeline.graph_store.manifest import Manifest, StoredPart, damaged_record
from sssp_pipeline.storage import files
from sssp_pipeline.storage.records import record_bytes, record_content

if TYPE_CHECKING:
    import numpy as np

    from sssp_pipeline.base.csr import CsrGraph, HierarchyTraits
else:  # `inspect` reads a record without NumPy
    np = LazyModule("numpy")

FOLDER = "hierarchy"
RECORD = f"{FOLDER}/manifest.json"
VERSION = 1
#: The hint for a damaged hierarchy.
BUILD_AGAIN = (
    f"remove the folder `{FOLDER}` of the graph store, and the next run makes it again; "
    "or set `solve.hierarchy: off`"
)
#: The arrays of a completion, and of a customization. `DOWN` is missing if the arcs down are the arcs up.
COMPLETION = ("ranks", "parents", "arc_offsets", "arc_heads")
UP, DOWN = (tuple(f"{way}_{name}" for name in ("offsets", "heads", "weights")) for way in ("up", "down"))


class StoredArray(BaseModel):
    """An array, in parts of consecutive entries."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    dtype: Literal["uint32", "uint64"]
    parts: list[StoredPart]

    @property
    def size(self) -> tuple[int, np.dtype]:
        """Length and type."""
        return sum(part.rows for part in self.parts), np.dtype(self.dtype)


Arrays = dict[str, StoredArray]


class OfEdges(BaseModel):
    """What is known of the hierarchy of some edges, whatever their weights; None for what was never found out."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    #: Arcs without triangles come from an older release, which stopped counting at this number: they count as unknown.
    n_arcs: int | None = None
    n_triangles: int | None = None
    #: The most arcs of a vertex.
    largest_front: int | None = None
    #: The arrays of the completion; empty if it is not stored, since it would not pay.
    arrays: Arrays = Field(default_factory=dict)

    @classmethod
    def counted(cls, known: HierarchyTraits) -> Self:
        """Return what is `known`, without arrays."""
        return cls(
            n_arcs=known.n_arcs,
            n_triangles=known.n_triangles,
            largest_front=known.largest_front,
        )

    @model_validator(mode="before")
    @classmethod
    def _without_core(cls, content: Any) -> Any:
        """Leave out what older releases wrote of the graph without low degrees."""
        if not isinstance(content, dict):
            return content
        return {name: value for name, value in content.items() if not name.startswith("core_")}

    @model_validator(mode="after")
    def _has_all_arrays(self) -> Self:
        if self.arrays and (set(self.arrays) != set(COMPLETION) or self.n_triangles is None):
            raise ValueError("arrays of the completion are missing")
        return self


class OfGraph(BaseModel):
    """A graph: its edges, and the arrays of the customization for its weights, empty if there is none."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    #: The key of `HierarchyRecord.edges`.
    edges: str
    arrays: Arrays = Field(default_factory=dict)

    @model_validator(mode="after")
    def _has_all_arrays(self) -> Self:
        if self.arrays and set(self.arrays) not in ({*UP}, {*UP, *DOWN}):
            raise ValueError("arrays of the customization are missing")
        return self


class HierarchyRecord(BaseModel):
    """What a store holds of hierarchies."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    format: Literal["sssp-pipeline hierarchy"] = "sssp-pipeline hierarchy"
    version: Literal[1] = 1
    #: By the digest of the edges, `edges_id`.
    edges: dict[str, OfEdges] = Field(default_factory=dict)
    #: By the content id of the graph.
    graphs: dict[str, OfGraph] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _graphs_have_edges(self) -> Self:
        for content_id, graph in self.graphs.items():
            edges = self.edges.get(graph.edges)
            if edges is None or (graph.arrays and not edges.arrays):
                raise ValueError(f"the graph {content_id} has no completion")
        return self

    @property
    def parts(self) -> list[StoredPart]:
        """All files of the record."""
        entries: list[OfEdges | OfGraph] = [*self.edges.values(), *self.graphs.values()]
        return [part for entry in entries for array in entry.arrays.values() for part in array.parts]

    def edges_of(self, manifest: Manifest) -> str | None:
        """Return the key in `edges` of a graph, which all its weights share; None if there is none."""
        ids = (graph.content_id for graph in manifest.by_weight.values())
        return next((self.graphs[id_].edges for id_ in ids if id_ in self.graphs), None)

    def traits(self, manifest: Manifest) -> HierarchyTraits | None:
        """Return what is known of the hierarchy of a graph; None if nothing is."""
        from sssp_pipeline.base.csr import HierarchyTraits

        if (key := self.edges_of(manifest)) is None:
            return None
        edges, graph = self.edges[key], self.graphs.get(manifest.content_id)
        if edges.n_arcs is None or edges.n_triangles is None:
            return None
        return HierarchyTraits(
            edges.n_arcs,
            edges.n_triangles,
            is_completed=bool(edges.arrays),
            is_customized=graph is not None and bool(graph.arrays),
            largest_front=edges.largest_front,
        )

    def facts(self, graphs: Iterable[Manifest]) -> dict[str, Any] | None:
        """Return what `inspect` shows of the graphs of one version; None if nothing is known."""
        graphs = list(graphs)
        if (key := self.edges_of(graphs[0])) is None:
            return None
        edges = self.edges[key]
        found = [self.graphs.get(graph.content_id) for graph in graphs]
        n_customized = sum(graph is not None and bool(graph.arrays) for graph in found)
        return {
            "state": "stored" if edges.arrays else "not made: it did not pay",
            "arcs": edges.n_arcs,
            "triangles": edges.n_triangles,
            "largest_front": edges.largest_front,
            "weights": n_customized,
            "bytes": sum(part.bytes for part in self.parts),
        }

    def of_graphs(self, content_ids: Iterable[str]) -> HierarchyRecord:
        """Return the record of only these graphs."""
        graphs = {id_: self.graphs[id_] for id_ in content_ids if id_ in self.graphs}
        kept = {graph.edges for graph in graphs.values()}
        edges = {key: entry for key, entry in self.edges.items() if key in kept}
        return HierarchyRecord(edges=edges, graphs=graphs)


def edges_id(graph: CsrGraph) -> str:
    """Return a digest of the edges of a graph, without their weights."""
    digest = hashlib.sha256()
    for array in (graph.row_offsets, graph.col_indices):
        digest.update(array.data)
    return digest.hexdigest()


def read_record(store: str) -> HierarchyRecord:
    """Return what the store at the URL `store` holds of hierarchies.

    Raises
    ------
    InputError
        The record is damaged, or was written by a release with another format.
    """
    url = files.join(store, RECORD)
    if (text := files.read_if_there(url)) is None:
        return HierarchyRecord()
    try:
        content = record_content(text)
        found = content.get("version")
        if found is not None and found != VERSION:
            raise InputError(
                f"`{files.redacted(url)}` has format {found}, this release reads format {VERSION}",
                hint=f"use the release that wrote it; or {BUILD_AGAIN}",
            )
        return HierarchyRecord.model_validate(content)
    except InputError:
        raise
    except ValueError as error:
        raise damaged_record(url, error, BUILD_AGAIN) from error


def keep_hierarchies(store: str, content_ids: Iterable[str]) -> set[str]:
    """Forget the hierarchies of all graphs but these; return the paths of the parts that are left.

    A record that cannot be read is removed: what it names can be made again. The caller holds the store.
    """
    url = files.join(store, RECORD)
    try:
        before = read_record(store)
    except InputError:
        _remove_record(url)
        return set()
    after = before.of_graphs(content_ids)
    if after != before:
        write_record(store, after)
    return {part.path for part in after.parts}


def write_record(store: str, record: HierarchyRecord) -> None:
    """Commit `record`, whose parts are written; the caller holds the store."""
    url = files.join(store, RECORD)
    if record.edges:
        files.sync(store, [part.path for part in record.parts])
        files.write_atomic(url, record_bytes(record.model_dump(mode="json")), synced=True)
    else:
        _remove_record(url)


def _remove_record(url: str) -> None:
    files.remove(url)
    files.sync(url.rpartition("/")[0])  # before its parts are removed
