"""The graph store: a CSR graph as Parquet files and the manifest that commits them.

```
<store>/manifest.json                      written last; names every part with its rows, range and CRC-32
<store>/versions/<content id>.json         manifest of an older version, kept when a changed input was ingested
<store>/row_offsets/part-<id>-*.parquet    row_offset int64, V+1 values in order
<store>/edges/part-<id>-*.parquet          col_index uint32, weight; CSR order; a part is a range of vertices
<store>/vertices/part-<id>-*.parquet       original_id (only if ids were remapped), x, y (only if given)
```

A store holds one graph: the same input, read with the same options (`differences`). Where the content of the input has
changed, the graph becomes a new version, and the older one stays until its removal is asked for, so that runs on it
can be verified.

`<id>` is new for every ingest, so a store is replaced by one write of its manifest and is never seen half old,
half new. Parts that no manifest names are leftovers of a killed ingest; the next one removes them.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
import zlib
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import IO, TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from sssp_pipeline.errors import InputError
from sssp_pipeline.lazy import LazyModule
from sssp_pipeline.pipeline.formats.reading import Reading
from sssp_pipeline.pipeline.storage import files
from sssp_pipeline.progress import shortened
from sssp_pipeline.vertex_ids import IdMapping

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from sssp_pipeline.csr import CsrGraph, GraphTraits
else:  # `inspect` needs none of them
    np, pa, pq = LazyModule("numpy"), LazyModule("pyarrow"), LazyModule("pyarrow.parquet")

FORMAT = "sssp-pipeline graph store"
VERSION = 1
MANIFEST = "manifest.json"
#: The first rows of the input that were left out because they are no edge.
SKIPPED = "skipped.txt"
#: Which graph the readers make of an input. Raise it when a release makes another graph of the same input and options:
#: stores are then ingested again. Release 0.1.0 counts as 1.
READER = 2

#: Edges of one part: 128 MB with 4-byte weights, so that a worker holds little beside the graph while it loads.
PART_EDGES = 16 * 2**20
PART_ROWS = 16 * 2**20
ROW_GROUP_ROWS = 4 * 2**20
#: What helps against a damaged store.
INGEST_AGAIN = "remove the folder of the graph store and make it again with `sssp-pipeline ingest` or `run`"
_OUR_PART = re.compile(r"(row_offsets|edges|vertices)/part-[0-9a-f]{8}-\d{5}\.parquet")
_FOLDERS = ("row_offsets", "edges", "vertices")
_VERSIONS = "versions"
_VERSION_FILE = re.compile(r"versions/([0-9a-f]{16})\.json")


class Part(BaseModel):
    """One Parquet file of the store; `first` and `last` are the half-open range of vertices (rows) it holds.

    `crc32` is that of the file, `content_crc32` that of its values, whatever release of pyarrow wrote them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    path: str
    rows: int
    first: int
    last: int
    bytes: int
    crc32: int
    content_crc32: int


class WeightFacts(BaseModel):
    """What the weights are; all 0 and False where there are no edges.

    With a `scale` they are the input's weights times that number.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    dtype: Literal["uint32", "int32", "float32", "uint64", "int64", "float64"]
    unit: str | None
    scale: int | None = None
    min: int | float
    max: int | float
    mean: float
    zero: bool
    negative: bool


class Counts(BaseModel):
    """What ingest did to the edges: `edges_read - self_loops_dropped + reverses_added - duplicates_dropped` remain.

    `rows_skipped` counts the rows that are no edge and were left out; they are not among `edges_read`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    edges_read: int
    self_loops_dropped: int
    reverses_added: int
    duplicates_dropped: int
    rows_skipped: int = 0


class Manifest(BaseModel):
    """All that is known of a stored graph without reading it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: Literal["sssp-pipeline graph store"]
    version: Literal[1]
    n_vertices: int
    n_edges: int
    degree_skew: float
    weights: WeightFacts
    symmetric: bool
    ids: IdMapping
    coordinates: bool
    counts: Counts
    inputs: list[dict[str, Any]]
    options: dict[str, Any]
    reading: Reading | None = None
    row_offsets: list[Part]
    edges: list[Part]
    vertices: list[Part]

    @model_validator(mode="after")
    def _parts_cover_the_graph(self) -> Self:
        with_vertices = self.ids.kind == "table" or self.coordinates
        for name, parts, rows in (
            ("row_offsets", self.row_offsets, self.n_vertices + 1),
            ("edges", self.edges, self.n_vertices),
            ("vertices", self.vertices, self.n_vertices if with_vertices else 0),
        ):
            bounds = [0, *(p.last for p in parts)]
            if [p.first for p in parts] != bounds[:-1] or bounds[-1] != rows:
                raise ValueError(f"the parts of {name} do not cover the graph")
        if sum(p.rows for p in self.edges) != self.n_edges:
            raise ValueError("the parts of edges do not hold all edges")
        return self

    @property
    def traits(self) -> GraphTraits:
        from sssp_pipeline.csr import GraphTraits

        return GraphTraits(
            self.n_vertices,
            self.n_edges,
            np.dtype(self.weights.dtype),
            self.weights.min,
            self.weights.max,
            self.weights.mean,
            self.degree_skew,
        )

    @property
    def content_id(self) -> str:
        """A digest of what the parts hold; two stores of equal graphs have the same one."""
        parts = [(p.first, p.last, p.content_crc32) for p in self.parts]
        # The same bytes are other weights in another type.
        facts: list[Any] = [parts, self.ids.model_dump(), self.weights.dtype]
        if self.weights.scale is not None:
            facts.append(self.weights.scale)
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]

    @property
    def parts(self) -> list[Part]:
        """All files of the graph but the manifest."""
        return [*self.row_offsets, *self.edges, *self.vertices]

    @property
    def arrays(self) -> dict[str, tuple[int, np.dtype]]:
        """Length and type of each array of the `CsrGraph`, by its name there."""
        return {
            "row_offsets": (self.n_vertices + 1, np.dtype(np.int64)),
            "col_indices": (self.n_edges, np.dtype(np.uint32)),
            "weights": (self.n_edges, np.dtype(self.weights.dtype)),
        }

    @property
    def graph_bytes(self) -> int:
        """Host memory of the `CsrGraph`."""
        return sum(length * dtype.itemsize for length, dtype in self.arrays.values())


def read_manifest(store: str, content_id: str | None = None) -> Manifest:
    """Return the manifest of the graph store at the URL `store`: the newest, or that of the version `content_id`.

    Raises
    ------
    InputError
        There is no store, it is of another format version, the manifest is damaged, or no version has the
        `content_id`.
    """
    url = files.join(store, MANIFEST)
    if (text := files.read_if_there(url)) is None:
        raise InputError(
            f"`{files.redacted(store)}` is not a graph store: it has no {MANIFEST}",
            hint="make one with `sssp-pipeline ingest`",
        )
    newest = _parse_manifest(text, store, url)
    if content_id is None or newest.content_id == content_id:
        return newest
    url = _version_url(store, content_id)
    if (text := files.read_if_there(url)) is None:
        raise InputError(
            f"`{files.redacted(store)}` holds no version of the graph with content id `{content_id}`",
            hint="name the store that the run was solved on",
        )
    return _parse_manifest(text, store, url)


def older_versions(store: str, newest: Manifest) -> dict[str, Manifest]:
    """Return the manifests of the older versions that a store still holds, by content id."""
    names = files.list_files(files.join(store, _VERSIONS))
    found = (_VERSION_FILE.fullmatch(f"{_VERSIONS}/{name}") for name in names)
    return {m[1]: read_manifest(store, m[1]) for m in found if m and m[1] != newest.content_id}


def remove_older_versions(store: str) -> None:
    """Remove all versions of the graph but the newest; the caller holds the store."""
    newest = read_manifest(store)
    for content_id in older_versions(store, newest):
        files.remove(_version_url(store, content_id))
    files.remove_if_empty(files.join(store, _VERSIONS))
    _remove_parts(store, {part.path for part in newest.parts})


def _remove_parts(store: str, kept: set[str]) -> None:
    """Remove the parts in a store whose paths are not among those `kept`."""
    for name in files.list_files(store):
        if _OUR_PART.fullmatch(name) and name not in kept:
            files.remove(files.join(store, name))


def _version_url(store: str, content_id: str) -> str:
    return files.join(store, _VERSIONS, f"{content_id}.json")


def _parse_manifest(text: bytes, store: str, url: str) -> Manifest:
    """Return the manifest that the file `url` of a store holds as `text`."""
    try:
        content = json.loads(text)
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise InputError(
                f"`{files.redacted(url)}` is not the manifest of a graph store", hint=_ANOTHER_FOLDER
            )
        if content.get("version") != VERSION:
            raise InputError(
                f"`{files.redacted(store)}` is a graph store of format {content.get('version')}, "
                f"this release reads format {VERSION}",
                hint=f"{INGEST_AGAIN}, or use the release that wrote it",
            )
        return Manifest.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(x) for x in first["loc"]) or "the top"
        if first["type"] in ("missing", "extra_forbidden"):
            lacks = "lacks" if first["type"] == "missing" else "has an unknown"
            raise InputError(
                f"`{files.redacted(store)}` is a graph store of another release: its {MANIFEST} {lacks} `{where}`",
                hint=f"{INGEST_AGAIN}, or use the release that wrote it",
            ) from error
        raise InputError(
            f"`{files.redacted(url)}` is damaged at {where}: {first['msg']}", hint=INGEST_AGAIN
        ) from error
    except ValueError as error:
        raise InputError(f"`{files.redacted(url)}` is damaged: {error}", hint=INGEST_AGAIN) from error


_ANOTHER_FOLDER = "name another `graph.store`, or leave it out"


def newest_version(store: str) -> Manifest | None:
    """Return the newest manifest of the graph store at the URL `store`, None where there may be one: an empty folder.

    The leavings of a killed ingest do not count. Beside a manifest other files may lie: they are never removed.

    Raises
    ------
    InputError
        The folder has no manifest of a graph store, but other files; or as `read_manifest`.
    """
    url = files.join(store, MANIFEST)
    if files.exists(url):
        return _parse_manifest(files.read_bytes(url), store, url)
    foreign = [name for name in files.list_names(store) if not _is_leftover(store, name)]
    if foreign:
        raise InputError(
            f"`{files.redacted(store)}` is not empty and is not a graph store: it has {shortened(foreign)}",
            hint="name an empty or a new folder as `graph.store`",
        )
    return None


def is_complete(store: str, manifest: Manifest) -> bool:
    """Return whether every part is there with the size the manifest says; their content is not read."""
    sizes = files.file_sizes(store)
    return all(sizes.get(part.path) == part.bytes for part in manifest.parts)


def _is_leftover(store: str, name: str) -> bool:
    """Return whether `name`, right in the folder `store`, is of an ingest that was killed."""
    if name in _FOLDERS:
        below = files.list_files(files.join(store, name))
        return all(_OUR_PART.fullmatch(f"{name}/{file}") or files.TEMP_PREFIX in file for file in below)
    return name in ("_lease", SKIPPED) or name.startswith(files.TEMP_PREFIX)


class StoreWriter:
    """Writes one graph to a store; nothing there changes for a reader until `commit`.

    Leaving the `with` block by an error removes what was written.
    """

    def __init__(self, store: str) -> None:
        self._store = store
        self._id = uuid.uuid4().hex[:8]
        self._is_committed = False

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and not self._is_committed:
            for name in files.list_files(self._store):
                if _OUR_PART.fullmatch(name) and f"/part-{self._id}-" in name:
                    files.remove(files.join(self._store, name))

    def write_graph(self, graph: CsrGraph, threads: int) -> tuple[list[Part], list[Part]]:
        """Return the parts of `row_offsets/` and `edges/` after writing them, `threads` at a time."""
        offsets = graph.row_offsets
        bounds = [0]
        while bounds[-1] < graph.n_vertices:
            # At least one vertex a part, and otherwise as many as stay below PART_EDGES.
            fit = int(np.searchsorted(offsets, offsets[bounds[-1]] + PART_EDGES, side="right")) - 1
            bounds.append(min(max(fit, bounds[-1] + 1), graph.n_vertices))
        ranges = list(pairwise(bounds))

        def write_edges(number: int) -> Part:
            first, last = ranges[number]
            edges = slice(int(offsets[first]), int(offsets[last]))
            table = pa.table({"col_index": graph.col_indices[edges], "weight": graph.weights[edges]})
            return self._write_part("edges", number, table, first, last)

        with ThreadPoolExecutor(threads) as pool:
            edges = list(pool.map(write_edges, range(len(ranges))))
        return self._write_rows("row_offsets", pa.table({"row_offset": offsets})), edges

    def write_vertices(self, table: pa.Table) -> list[Part]:
        """Return the parts of `vertices/` after writing `table`, a row a vertex."""
        return self._write_rows("vertices", table)

    def commit(self, manifest: Manifest) -> None:
        """Make the written parts the newest version of the graph, and remove parts that no version has.

        The version that was the newest stays, unless it holds the same graph or lacks a part. At every moment each
        version has its manifest in one place at least, so that a kill loses none.
        """
        url = files.join(self._store, MANIFEST)
        versions = {}
        if (text := files.read_if_there(url)) is not None:
            before = _parse_manifest(text, self._store, url)
            versions = older_versions(self._store, before)
            if is_complete(self._store, before):
                versions[before.content_id] = before
                files.write_atomic(_version_url(self._store, before.content_id), text)
        files.write_atomic(url, manifest.model_dump_json(indent=1).encode())
        self._is_committed = True
        files.remove(_version_url(self._store, manifest.content_id))
        versions[manifest.content_id] = manifest
        _remove_parts(self._store, {part.path for version in versions.values() for part in version.parts})
        files.remove_if_empty(files.join(self._store, _VERSIONS))
        for folder in ("", *_FOLDERS, _VERSIONS):
            files.remove_temporaries(files.join(self._store, folder) if folder else self._store)

    def _write_rows(self, folder: str, table: pa.Table) -> list[Part]:
        starts = range(0, max(table.num_rows, 1), PART_ROWS)
        return [
            self._write_part(
                folder, i, table.slice(start, PART_ROWS), start, min(start + PART_ROWS, table.num_rows)
            )
            for i, start in enumerate(starts)
        ]

    def _write_part(self, folder: str, number: int, table: pa.Table, first: int, last: int) -> Part:
        path = f"{folder}/part-{self._id}-{number:05d}.parquet"
        with files.open_atomic(files.join(self._store, path)) as handle:
            sink = _Checksummed(handle)
            # Plain pages: a few per cent larger than dictionaries on such columns, and several times as fast.
            pq.write_table(
                table, sink, row_group_size=ROW_GROUP_ROWS, use_dictionary=False, compression="none"
            )
        return Part(
            path=path,
            rows=table.num_rows,
            first=first,
            last=last,
            bytes=sink.bytes,
            crc32=sink.crc32,
            content_crc32=_content_crc32(table),
        )


def _content_crc32(table: pa.Table) -> int:
    crc32 = 0
    for column in table.columns:
        for chunk in column.chunks:
            text = pa.types.is_large_string(chunk.type)
            crc32 = zlib.crc32(
                "\0".join(chunk.to_pylist()).encode() if text else chunk.to_numpy().data, crc32
            )
    return crc32


class _Checksummed:
    """A file for pyarrow to write to that keeps the CRC-32 and the length of what passes through."""

    closed = False

    def __init__(self, handle: IO[bytes]) -> None:
        self._handle = handle
        self.crc32 = 0
        self.bytes = 0

    def write(self, data: Any) -> int:
        self.crc32 = zlib.crc32(data, self.crc32)
        self.bytes += len(data)
        return self._handle.write(data)

    def tell(self) -> int:
        return self.bytes

    def flush(self) -> None:
        self._handle.flush()

    def writable(self) -> bool:
        return True
