"""Formats that declare their counts, as the reference reads them: DIMACS, Matrix Market, METIS, TNTP, Galois, NPZ."""

from __future__ import annotations

import io
import re
import struct
import zipfile

import numpy as np
from reference_graph import (
    BLANKS,
    CONTROL,
    DIGITS,
    INTEGER,
    Graph,
    Refused,
    asked_columns,
    exact,
    graph_of,
    rows_of,
    words,
)


def _refuse_columns(graph: dict) -> None:
    if (
        set(asked_columns(graph)) - {"auto", "none"}
        or graph.get("ids") == "string"
        or graph.get("unreadable") == "skip"
    ):
        raise Refused("columns, string ids and skipping are for tables")
    if asked_columns(graph)[0] == "none" or asked_columns(graph)[1] == "none":
        raise Refused("no column none")


def _natural(word: str, low: int = 0, high: int = 2**32) -> int:
    if not DIGITS.fullmatch(word) or len(word.lstrip("0")) > 19 or not low <= int(word) <= high:
        raise Refused(f"{word} is not within {low} and {high}")
    return int(word)


def _weightless(graph: dict) -> bool:
    return asked_columns(graph)[2] == "none"


def read_dimacs(text: str, graph: dict) -> Graph:
    """`p sp V E` and `a u v w`; `p edge`, `p col` and `e u v`; `p tw` and `u v`. Lines of `c` are comments."""
    _refuse_columns(graph)
    rows = [words(line) for _, line in rows_of(text.replace("\r", " "), "c")]
    if not rows or rows[0][0] != "p" or len(rows[0]) != 4 or rows[0][1] not in ("sp", "edge", "col", "tw"):
        raise Refused("no problem line")
    vertices = range(1, _natural(rows[0][2]) + 1)
    n_edges = _natural(rows[0][3], high=2**62)
    letter = {"sp": ["a"], "tw": []}.get(rows[0][1], ["e"])
    n_columns = 3 if rows[0][1] == "sp" else 2
    edges = []
    for row in rows[1:]:
        if row[: len(letter)] != letter or len(row) != len(letter) + n_columns:
            raise Refused(f"{row} is no edge")
        u, v, *weight = row[len(letter) :]
        edges.append((u, v, weight[0] if weight and not _weightless(graph) else None))
    result = _declared(edges, vertices, n_edges, graph)
    result.mirrored = rows[0][1] != "sp"  # colouring and treewidth are about undirected graphs
    return result


def _declared(edges: list[tuple[str, str, str | None]], vertices: range, n_edges: int, graph: dict) -> Graph:
    if len(edges) != n_edges:
        raise Refused(f"{n_edges} edges are declared, {len(edges)} are listed")
    plain = [
        (
            str(_natural(u, vertices.start, vertices.stop - 1)),
            str(_natural(v, vertices.start, vertices.stop - 1)),
            w,
        )
        for u, v, w in edges
    ]
    return graph_of(plain, graph, comma=False, vertices=vertices)


def read_matrix_market(text: str, graph: dict) -> Graph:
    """A banner, comments, `ROWS COLUMNS ENTRIES`, then `row column [value]`."""
    _refuse_columns(graph)
    banner, _, rest = text.partition("\n")
    kind = banner.lower().split()
    if len(kind) != 5 or kind[:3] != ["%%matrixmarket", "matrix", "coordinate"]:
        raise Refused("no banner")
    field, symmetry = kind[3:]
    if field not in ("pattern", "integer", "real") or symmetry not in ("general", "symmetric"):
        raise Refused(f"{field} {symmetry} is no graph")
    rows = [words(line) for _, line in rows_of(rest.replace("\r", " "), "%")]
    if not rows or len(rows[0]) != 3:
        raise Refused("no sizes")
    n_rows, n_columns, n_entries = (_natural(word, high=2**62) for word in rows[0])
    if n_rows != n_columns or n_rows > 2**32:
        raise Refused("no square matrix")
    edges = []
    for row in rows[1:]:
        if len(row) != (2 if field == "pattern" else 3):
            raise Refused(f"{row} is no entry")
        if field == "integer" and not _weightless(graph) and not INTEGER.fullmatch(row[2]):
            raise Refused(f"{row[2]} is no integer")
        edges.append((row[0], row[1], row[2] if field != "pattern" and not _weightless(graph) else None))
    result = _declared(edges, range(1, n_rows + 1), n_entries, graph)
    result.mirrored = symmetry == "symmetric"
    return result


def read_metis(text: str, graph: dict) -> Graph:
    """`V E [format [vertex weights]]`, then a line of neighbours for each vertex; each edge stands in two lines."""
    _refuse_columns(graph)
    lines = []
    for line in text.removesuffix("\n").split("\n"):
        line = line.strip(BLANKS + "\r")
        if line.startswith("%"):
            continue
        if CONTROL.search(line.replace("\r", " ")):
            raise Refused("a control character")
        if line or lines:
            lines.append(line)
    header = words(lines[0].replace("\r", " ")) if lines else []
    if not 2 <= len(header) <= 4 or not all(map(DIGITS.fullmatch, header)):
        raise Refused("no header")
    n_vertices, n_edges = _natural(header[0]), _natural(header[1], high=2**62)
    layout = (header[2].lstrip("0") if len(header) > 2 else "").zfill(3)
    if len(layout) != 3 or set(layout) - set("01"):
        raise Refused(f"no format {layout}")
    n_weights = _natural(header[3]) if len(header) > 3 else 1
    n_skipped = int(layout[0]) + (n_weights if layout[1] == "1" else 0)
    if len(lines) - 1 < n_vertices or any(lines[1 + n_vertices :]):
        raise Refused("wrong number of lines")
    rows = []
    for u, line in enumerate(lines[1 : 1 + n_vertices], 1):
        entries = words(line.replace("\r", " ")) if line else []
        if not all(map(INTEGER.fullmatch, entries)) or (len(entries) < n_skipped and (entries or n_skipped)):
            raise Refused(f"the line of vertex {u}")
        entries = entries[n_skipped:]
        step = 1 + int(layout[2])
        if len(entries) % step:
            raise Refused(f"the last neighbour of vertex {u} has no weight")
        for i in range(0, len(entries), step):
            weight = entries[i + 1] if step == 2 and not _weightless(graph) else None
            rows.append((str(u), entries[i], weight))
    result = _declared(rows, range(1, n_vertices + 1), 2 * n_edges, graph)
    result.both_ways = True
    if set(result.edges) != {(v, u, w) for u, v, w in result.edges}:
        raise Refused("an edge without its reverse")
    return result


TNTP_COLUMNS = ["capacity", "length", "free_flow_time", "b", "power", "speed", "toll", "link_type"]


def read_tntp(text: str, graph: dict) -> Graph:
    """`<NAME> value` up to `<END OF METADATA>`, then ends, eight numbers and a semicolon; `~` begins a comment."""
    weight = asked_columns(graph)[2]
    _refuse_columns(graph | {"weights": {}})
    if weight not in (*TNTP_COLUMNS, "none"):
        raise Refused("no weight is named")
    lines = iter(line.strip(BLANKS + "\r") for line in text.split("\n"))
    counts: dict[str, int] = {}
    for line in lines:
        if not line or line.startswith("~"):
            continue
        metadata = re.fullmatch("<([A-Z ]+)>(.*)", line)
        if not metadata:
            raise Refused("no metadata")
        name, value = metadata[1].strip(" "), metadata[2].partition("~")[0].strip(BLANKS)
        if name == "END OF METADATA":
            break
        if name in ("NUMBER OF NODES", "NUMBER OF LINKS", "FIRST THRU NODE"):
            if name in counts:
                raise Refused(f"{name} stands twice")
            counts[name] = _natural(value, high=2**62)
    else:
        raise Refused("no end of the metadata")
    if not {"NUMBER OF NODES", "NUMBER OF LINKS"} <= set(counts) or counts["NUMBER OF NODES"] > 2**32:
        raise Refused("no counts")
    edges = []
    for line in lines:
        row, _, rest = line.partition("~")[0].partition(";")
        if not (row + rest).strip(BLANKS) and ";" not in line.partition("~")[0]:
            continue
        link = words(row)
        if len(link) != 10 or rest.strip(BLANKS) or ";" not in line.partition("~")[0]:
            raise Refused(f"{line} is no link")
        edges.append((link[0], link[1], None if weight == "none" else link[2 + TNTP_COLUMNS.index(weight)]))
    return _declared(edges, range(1, counts["NUMBER OF NODES"] + 1), counts["NUMBER OF LINKS"], graph)


def read_galois(data: bytes, graph: dict) -> Graph:
    """Little-endian uint64 version, bytes a weight, V, E; V row ends; E targets of 4 bytes, padded to 8; E weights."""
    _refuse_columns(graph)
    if len(data) < 32:
        raise Refused("cut short")
    version, weight_bytes, n_vertices, n_edges = struct.unpack("<QQQQ", data[:32])
    if version != 1 or weight_bytes not in (0, 4, 8):
        raise Refused("another version")
    padding = 4 * (n_edges % 2)
    size = 32 + 8 * n_vertices + (4 + weight_bytes) * n_edges + padding
    # Files without weights end with the padding, or lack it.
    if not size - (0 if weight_bytes else padding) <= len(data) <= size:
        raise Refused(f"{len(data)} bytes, wanted {size}")
    row_ends = struct.unpack_from(f"<{n_vertices}Q", data, 32)
    targets = struct.unpack_from(f"<{n_edges}I", data, 32 + 8 * n_vertices)
    asked = graph.get("weights", {}).get("dtype", "auto")
    kind = "u" if asked == "auto" else np.dtype(asked).kind
    weights = [None] * n_edges
    if weight_bytes and not _weightless(graph):
        code = {"u4": "I", "i4": "i", "f4": "f", "u8": "Q", "i8": "q", "f8": "d"}[f"{kind}{weight_bytes}"]
        weights = [
            exact(w, np.dtype(f"{kind}{weight_bytes}"), graph)
            for w in struct.unpack_from(f"<{n_edges}{code}", data, size - weight_bytes * n_edges)
        ]
    if list(row_ends) != sorted(row_ends) or (row_ends[-1] if row_ends else 0) != n_edges:
        raise Refused("row ends")
    if any(target >= n_vertices for target in targets):
        raise Refused("a target that is no vertex")
    sources = [
        u for u, (a, b) in enumerate(zip((0, *row_ends), row_ends, strict=False)) for _ in range(b - a)
    ]
    typed = f"{kind}{weight_bytes}" if weight_bytes and not _weightless(graph) else None
    return Graph(
        list(zip(sources, targets, weights, strict=True)),
        vertices=range(n_vertices),
        decimals=bool(typed) and kind == "f",
        typed=typed and np.dtype(typed).name,
    )


def read_npz(data: bytes, graph: dict) -> Graph:
    """A matrix as `scipy.sparse.save_npz` writes it: csr, csc or coo; the entry (i, j) is an edge from i to j."""
    _refuse_columns(graph)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if len(archive.namelist()) != len(set(archive.namelist())):
                raise Refused("a member stands twice")
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            layout = np.asarray(archive["format"]).ravel().tolist() if "format" in archive.files else []
            layout = layout[0] if len(layout) == 1 else "?"
            layout = layout.decode("ascii", "replace") if isinstance(layout, bytes) else str(layout)
            wanted = {"csr": "indices indptr", "csc": "indices indptr", "coo": "row col"}.get(layout)
            names = [*(wanted or "").split(), "shape", "data"]
            arrays = {name: archive[name] for name in names if name in archive.files}
    except Refused:
        raise
    except Exception as error:
        raise Refused(f"damaged: {error}") from None
    if wanted is None or set(arrays) != {"shape", "data", *wanted.split()}:
        raise Refused(f"layout {layout} with {sorted(arrays)}")
    if isinstance(arrays["shape"], np.ndarray):
        arrays["shape"] = arrays["shape"].ravel()
    for name, array in arrays.items():
        if (
            not isinstance(array, np.ndarray)
            or array.ndim != 1
            or (name != "data" and array.dtype.kind not in "iu")
        ):
            raise Refused(f"{name} is no row of integers")
    shape = arrays["shape"].tolist()
    if len(shape) != 2 or shape[0] != shape[1] or not 0 <= shape[0] <= 2**32:
        raise Refused(f"no square matrix: {shape}")
    values, n = arrays["data"], shape[0]
    if values.dtype == bool and values.all():
        values = values.astype(np.uint8)
    if values.dtype.kind not in "iuf" or values.dtype.itemsize > 8:
        raise Refused(f"weights of type {values.dtype}")
    if layout == "coo":
        sources, targets = arrays["row"].tolist(), arrays["col"].tolist()
    else:
        ends, targets = arrays["indptr"].tolist(), arrays["indices"].tolist()
        if len(ends) != n + 1 or ends != sorted(ends) or ends[0] != 0 or ends[-1] != len(targets):
            raise Refused("indptr")
        sources = [u for u in range(n) for _ in range(ends[u + 1] - ends[u])]
        if layout == "csc":
            sources, targets = targets, sources
    if not len(sources) == len(targets) == len(values) or any(not 0 <= i < n for i in (*sources, *targets)):
        raise Refused("indices")
    if len(set(zip(sources, targets, strict=True))) < len(sources):
        raise Refused("an entry stands twice: SciPy would add the two")
    weights = [None if _weightless(graph) else exact(w, values.dtype, graph) for w in values.tolist()]
    typed = None if _weightless(graph) else values.dtype.name
    return Graph(
        list(zip(sources, targets, weights, strict=True)),
        vertices=range(n),
        decimals=bool(typed) and values.dtype.kind == "f",
        typed=typed,
    )
