"""Exports of a graph store: each file, read by the program and by an independent reader, is the graph again."""

import struct
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse
from typer.testing import CliRunner

import sssp_pipeline as sp
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.cli import app
from sssp_pipeline.pipeline.graph_store import edge_stream
from sssp_pipeline.pipeline.graph_store.exports import exported_graph, parquet
from sssp_pipeline.pipeline.graph_store.writing import part_files
from sssp_pipeline.pipeline.ingest.rows.sorted_rows import sources_of_edges
from sssp_pipeline.storage import files

#: A file of each format, and the name of the format where its ending does not tell.
FILES = {
    "dimacs": ("g.gr", "dimacs"),
    "galois": ("g.gr", "galois"),
    "matrix-market": ("g.mtx", None),
    "metis": ("g.graph", None),
    "parquet": ("g.parquet", None),
    "scipy-npz": ("g.npz", None),
}


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(params=[None, 3], ids=["whole", "in parts"])
def cut(request, monkeypatch):
    """Have the store and the exports in parts of some rows each."""
    if request.param is not None:
        monkeypatch.setattr(part_files, "PART_EDGES", 7)
        monkeypatch.setattr(part_files, "PART_ROWS", 5)
        monkeypatch.setattr(part_files, "ROW_GROUP_ROWS", 2)
        monkeypatch.setattr(exported_graph, "BLOCK_ROWS", request.param)
        monkeypatch.setattr(parquet, "ROW_GROUP_EDGES", request.param)


def edges(dtype="uint32", n_vertices=40, seed=0, parallel=False):
    """Return sources, targets and weights of random edges: a hub, a vertex without edges, both ends used."""
    rng = np.random.default_rng(seed)
    src = np.concatenate((rng.integers(0, n_vertices, 150), np.full(30, 7), [0]))
    dst = np.concatenate((rng.integers(0, n_vertices, 150), np.arange(30), [n_vertices - 1]))
    keep = (src != 11) & (dst != 11)
    src, dst = src[keep], dst[keep]
    if not parallel:
        src, dst = np.unique(np.stack([src, dst]), axis=1)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        weights = rng.random(len(src)) * 10.0 ** rng.integers(-9, 9, len(src))
    else:
        limits = np.iinfo(kind)
        weights = rng.integers(limits.min, limits.max, len(src), dtype=kind)
        weights[0] = max(limits.min, -(2**62))
    return src, dst, weights.astype(kind)


def stored(src, dst, values, **graph):
    """Return the store of these edges, whose ids are integers or strings."""
    pq.write_table(pa.table({"source": src, "target": dst, "weight": values}), "store.parquet")
    return sp.ingest("store.parquet", "store", **({"self_loops": "keep", "duplicates": "keep-all"} | graph))


def numbered(src, dst, weights, n_vertices=40, **graph):
    """Return the store of edges between vertices 0 to `n_vertices` - 1, some of which may have no edge."""
    header = struct.pack("<QQQQ", 1, weights.itemsize, n_vertices, len(src))
    order = np.lexsort((weights, dst, src))
    ends = np.cumsum(np.bincount(src, minlength=n_vertices)).astype("<u8")
    pad = bytes(4 * (len(src) % 2))
    content = header + ends.tobytes() + dst[order].astype("<u4").tobytes() + pad + weights[order].tobytes()
    Path("input.gr").write_bytes(content)
    options = {"self_loops": "keep", "duplicates": "keep-all", "weights": {"dtype": weights.dtype.name}}
    return sp.ingest("input.gr", "store", **(options | graph))


def rows(graph):
    """Return (source, target, weight) of every edge of a CSR graph, in its order."""
    columns = sources_of_edges(graph), graph.col_indices, graph.weights
    return list(zip(*(column.tolist() for column in columns), strict=True))


def both_ways():
    """Return the store of random edges with positive weights, each with its reverse."""
    src, dst, weights = edges()
    keep = (src < dst) & (weights > 0)
    return numbered(src[keep], dst[keep], weights[keep], directed=False)


def read_back(name, format_name=None, **graph):
    """Ingest an exported file, and return the store."""
    options = {"self_loops": "keep", "duplicates": "keep-all", "format": format_name or "auto"}
    return sp.ingest(name, "again", **(options | graph))


def names_here():
    """Return the names of all files in this folder."""
    return sorted(path.name for path in Path().iterdir())


# ---- independent readers: number of vertices, and (source, target, weight) from 0 ----


def read_dimacs(path, _):
    lines = Path(path).read_text().splitlines()
    word, kind, n_vertices, n_edges = lines[0].split()
    found = []
    for line in lines[1:]:
        letter, u, v, w = line.split(" ")
        assert letter == "a"
        found.append((int(u) - 1, int(v) - 1, int(w)))
    assert (word, kind, int(n_edges)) == ("p", "sp", len(found))
    return int(n_vertices), found


def read_metis(path, _):
    lines = Path(path).read_text().split("\n")
    assert lines.pop() == ""
    n_vertices, n_edges, flags = lines[0].split(" ")
    assert (int(n_vertices), flags) == (len(lines) - 1, "001")
    found = []
    for u, line in enumerate(lines[1:]):
        numbers = [int(word) for word in line.split(" ")] if line else []
        found += [(u, v - 1, w) for v, w in zip(numbers[::2], numbers[1::2], strict=True)]
    assert len(found) == 2 * int(n_edges)
    return int(n_vertices), found


def read_galois(path, kind):
    content = Path(path).read_bytes()
    version, size, n_vertices, n_edges = struct.unpack("<QQQQ", content[:32])
    assert (version, size) == (1, np.dtype(kind).itemsize)
    ends = np.frombuffer(content, "<u8", n_vertices, 32)
    at = 32 + 8 * n_vertices
    targets = np.frombuffer(content, "<u4", n_edges, at)
    at += 4 * (n_edges + n_edges % 2)
    weights = np.frombuffer(content, np.dtype(kind).newbyteorder("<"), n_edges, at)
    assert len(content) == at + size * n_edges
    sources = np.repeat(np.arange(n_vertices), np.diff(ends, prepend=np.uint64(0)).astype(np.int64))
    return n_vertices, list(zip(sources.tolist(), targets.tolist(), weights.tolist(), strict=True))


def of_matrix(matrix):
    assert matrix.shape[0] == matrix.shape[1]
    coo = matrix.tocoo()
    order = np.lexsort((coo.col, coo.row))
    columns = coo.row[order].tolist(), coo.col[order].tolist(), coo.data[order].tolist()
    return matrix.shape[0], list(zip(*columns, strict=True))


def read_matrix_market(path, kind):
    matrix = scipy.io.mmread(path, spmatrix=False)
    assert matrix.dtype == (np.float64 if kind.startswith("float") else np.int64)
    return of_matrix(matrix)


def read_scipy_npz(path, kind):
    matrix = scipy.sparse.load_npz(path)
    assert isinstance(matrix, scipy.sparse.csr_array)
    assert matrix.dtype == kind
    assert matrix.indices.dtype == matrix.indptr.dtype == np.int32
    return of_matrix(matrix)


def read_parquet(path, kind):
    table = pq.read_table(path)
    ends = [("source", pa.int64()), ("target", pa.int64())]
    assert table.schema == pa.schema([*ends, ("weight", pa.from_numpy_dtype(np.dtype(kind)))])
    return 40, list(zip(*table.to_pydict().values(), strict=True))


# ---- every format ----

ALL = ["uint32", "int32", "float32", "uint64", "int64", "float64"]
#: An independent reader of each format, the types that it holds, and whether it holds parallel edges.
READERS = {
    "dimacs": (read_dimacs, ["uint32", "int32", "uint64", "int64"], True),
    "galois": (read_galois, ALL, True),
    "matrix-market": (read_matrix_market, ["uint32", "int32", "float32", "int64", "float64"], False),
    "parquet": (read_parquet, ALL, True),
    "scipy-npz": (read_scipy_npz, ALL, False),
}


@pytest.mark.parametrize(
    ("form", "dtype"), [(form, dtype) for form, (_, dtypes, _) in READERS.items() for dtype in dtypes]
)
def test_a_file_is_the_graph_again(cut, form, dtype):
    (name, format_name), (read, _, parallel) = FILES[form], READERS[form]
    graph = numbered(*edges(dtype, parallel=parallel))
    assert graph.export(name, format=format_name) == [name]
    assert read(name, dtype) == (40, rows(graph.graph()))
    again = read_back(name, weights={"dtype": dtype})
    if form == "parquet":  # a table of edges lacks the vertex without any
        assert again.manifest.n_edges == graph.manifest.n_edges
    else:
        assert rows(again.graph()) == rows(graph.graph())
        is_same = again.manifest.content_id == graph.manifest.content_id
        assert is_same == (again.manifest.ids.first_id == 0)
    assert again.manifest.weights == graph.manifest.weights
    # What counts from 1 in the store counts from 1 in the file: the same file to the last bit.
    (graph if form == "parquet" else again).export("same-" + name, format=format_name)
    assert Path("same-" + name).read_bytes() == Path(name).read_bytes()


@pytest.mark.parametrize("n_edges", [6, 7])
def test_galois_pads_an_odd_number_of_edges(n_edges):
    graph = numbered(*(column[:n_edges] for column in edges()))
    graph.export("g.gr", format="galois")
    assert Path("g.gr").read_bytes() == Path("input.gr").read_bytes()


@pytest.mark.parametrize("dtype", ["uint32", "int64"])
def test_metis(cut, dtype):
    src, dst, weights = edges(dtype)
    keep = (src < dst) & (weights > 0)
    graph = numbered(src[keep], dst[keep], weights[keep], directed=False)
    assert graph.export("g.graph") == ["g.graph"]
    assert read_metis("g.graph", dtype) == (40, rows(graph.graph()))
    assert rows(read_back("g.graph", weights={"dtype": dtype}).graph()) == rows(graph.graph())


@pytest.mark.parametrize("ids", ["integers", "strings"])
def test_a_parquet_file_has_the_ids(cut, ids):
    src, dst, weights = edges(parallel=True)
    names = np.sort(np.random.default_rng(1).choice(10**12, 40, replace=False))
    if ids == "strings":
        names = np.sort([f"v{name}\N{SNOWMAN}" for name in names])
    graph = stored(names[src], names[dst], weights)
    graph.export("g.parquet", columns=("from", "to", "minutes"))
    found = list(zip(*pq.read_table("g.parquet").to_pydict().values(), strict=True))
    kept = graph.ids.column().to_pylist()
    assert found == [(kept[u], kept[v], w) for u, v, w in rows(graph.graph())]
    assert pq.read_schema("g.parquet").names == ["from", "to", "minutes"]
    columns = {"columns": {"source": "from", "target": "to"}, "weights": {"column": "minutes"}}
    assert read_back("g.parquet", **columns).manifest.content_id == graph.manifest.content_id


@pytest.mark.parametrize("form", FILES)
def test_a_table_of_the_vertices_has_the_ids_of_numbers(cut, form):
    src, dst, weights = edges()
    names = np.sort([f"v{number:02d}" for number in range(40)])
    keep = (src < dst) & (weights > 0)
    graph = stored(names[src[keep]], names[dst[keep]], weights[keep], directed=False)
    name, format_name = FILES[form]
    graph.export(name, format=format_name, vertices="v.parquet")
    found = pq.read_table("v.parquet")
    assert found["id"].to_pylist() == graph.ids.column().to_pylist()
    if form == "parquet":
        assert found.column_names == ["id"]
        return
    again = read_back(name)
    assert found["number"].to_pylist() == again.ids.column().to_pylist()
    assert rows(again.graph()) == rows(graph.graph())


@pytest.mark.parametrize("form", ["matrix-market", "parquet", "scipy-npz", "galois"])
def test_scaled_weights_are_in_the_unit_of_the_input(cut, form):
    src, dst, _ = edges()
    decimals = np.round(np.random.default_rng(2).random(len(src)) * 1000, 3)
    graph = stored(src, dst, decimals, weights={"scale": 1000})
    assert graph.graph().weights.dtype == np.uint32
    name, format_name = FILES[form]
    graph.export(name, format=format_name, vertices="v.parquet")
    if form == "galois":  # which does not say that its weights are floats, and a type excludes a scale
        n_vertices, found = read_galois(name, "float64")
        expected = [(u, v, w / 1000) for u, v, w in rows(graph.graph())]
        assert (n_vertices, found) == (graph.manifest.n_vertices, expected)
        return
    again = read_back(name, weights={"scale": 1000})
    assert rows(again.graph()) == rows(graph.graph())
    assert again.manifest.weights == graph.manifest.weights


def test_one_of_several_weights_is_written(cut):
    Path("roads.csv").write_text("from,to,minutes,km\nA,B,4,1.5\nB,C,5,2.5\nA,C,9,3.25\n")
    several = {"weights": {"several": [{"name": "minutes"}, {"name": "km"}]}}
    sp.ingest("roads.csv", "store", weight="km", **several).export("km.parquet")
    assert pq.read_table("km.parquet").to_pydict() == {
        "source": ["A", "A", "B"],
        "target": ["B", "C", "C"],
        "weight": [1.5, 3.25, 2.5],
    }
    shown = CliRunner().invoke(app, ["export", "store", "m.parquet"])
    assert shown.exit_code == 2
    assert "the graph store `store` has several weights: minutes, km" in shown.output
    assert CliRunner().invoke(app, ["export", "store", "m.parquet", "--weight", "minutes"]).exit_code == 0
    assert pq.read_table("m.parquet")["weight"].to_pylist() == [4, 9, 5]


@pytest.mark.parametrize("form", FILES)
def test_a_graph_without_edges(cut, form):
    Path("empty.gr").write_text("p sp 3 0\n")
    name, format_name = FILES[form]
    sp.ingest("empty.gr", "store").export(name, format=format_name)
    if form == "parquet":
        assert pq.read_table(name).num_rows == 0
        return
    again = read_back(name, format_name)
    assert (again.manifest.n_vertices, again.manifest.n_edges) == (3, 0)


# ---- coordinates ----


def test_a_dimacs_file_comes_with_its_coordinates(cut):
    Path("g.gr").write_text("p sp 3 2\na 1 2 5\na 2 3 6\n")
    Path("g.co").write_text("p aux sp co 3\nv 1 -73530767 41085396\nv 2 0 7\nv 3 1 -2\n")
    graph = sp.ingest("g.gr", "store", coordinates="g.co")
    assert graph.export("out.gr", format="dimacs", vertices="v.parquet") == ["out.gr", "out.co", "v.parquet"]
    assert Path("out.gr").read_bytes() == Path("g.gr").read_bytes()
    assert Path("out.co").read_bytes() == Path("g.co").read_bytes()
    assert read_back("out.gr", coordinates="out.co").manifest.content_id == graph.manifest.content_id
    assert pq.read_table("v.parquet").to_pydict() == {
        "number": [1, 2, 3],
        "id": [1, 2, 3],
        "x": [-73530767, 0, 1],
        "y": [41085396, 7, -2],
    }


def test_the_table_of_vertices_is_a_file_of_coordinates(cut, listener):
    told = listener()
    Path("places.csv").write_text("id,lon,lat\nAyr,-4.6,55.5\nBude,-4.5,50.8\n")
    Path("roads.csv").write_text("from,to,km\nAyr,Bude,530\n")
    graph = sp.ingest("roads.csv", "store", coordinates="places.csv")
    graph.export("g.parquet", vertices="v.parquet")
    assert pq.read_table("v.parquet").to_pydict() == {
        "id": ["Ayr", "Bude"],
        "lon": [-4.6, -4.5],
        "lat": [55.5, 50.8],
    }
    assert read_back("g.parquet", coordinates="v.parquet").manifest.content_id == graph.manifest.content_id
    written = graph.export("g.gr", format="dimacs", vertices="w.parquet", progress=told)
    assert written == ["g.gr", "w.parquet"]
    assert told.lines == [
        "the coordinates are decimals, and a `.co` file has whole numbers: `--vertices FILE` writes them"
    ]


# ---- what is told, and what is refused ----


def test_what_a_file_has_otherwise_is_told(cut, listener):
    told = listener()
    graph = numbered(*edges())
    graph.export("g.mtx", progress=told)
    graph.export("g.parquet", progress=told)
    graph.export("g.npz", progress=told)
    assert told.lines == [
        "the file numbers the vertices from 1: id 0 of the graph is 1 there",
        "1 vertex without edges is not in a table of edges; `--vertices FILE` writes a table of all vertices",
    ]


@pytest.mark.parametrize(
    ("name", "options", "message", "hint"),
    [
        ("g.gr", {}, "`g.gr` may be a file of dimacs or of galois", "add `--format dimacs` or `--format galois`"),
        ("g.csv", {}, "`g.csv` names no format of a graph: it ends in none of .gr, .graph", "such as `graph.mtx`"),
        ("g.mtx", {"format": "mtx"}, "a graph cannot be written as `mtx`", "Formats: dimacs, galois"),
        ("g.mtx", {"format": "metiss"}, "a graph cannot be written as `metiss`", "did you mean `metis`? "),
        ("g.mtx", {"format": "metis"}, "`g.mtx` is the name of a matrix-market file, and the format is metis", "end"),
        ("g.mtx", {"columns": ("a", "b", "c")}, "a file of matrix-market has no names of columns", "`.parquet`"),
        ("g.parquet", {"columns": ("a", "b")}, "`columns` is 'a, b', not three different names", "from,to,min"),
        ("g.parquet", {"columns": ("a", "b", "a")}, "`columns` is 'a, b, a', not three different", "from,to,min"),
        ("g.mtx", {"vertices": "v.csv"}, "`v.csv` is to hold a table of vertices, which is Parquet", "v"),
        ("g.parquet", {"vertices": "g.parquet"}, "`g.parquet` is named for two tables", "name another file"),
        ("taken.npz", {"vertices": "v.parquet"}, "`taken.npz` exists", "choose another name, or remove it"),
        ("g.npz", {"vertices": "taken.parquet"}, "`taken.parquet` exists", "choose another name, or remove it"),
        ("g.npz", {}, "`store` has ids of its own (int64), and scipy-npz numbers the vertices from 0", "--vertices"),
        ("g.mtx", {"vertices": "v.parquet"}, "parallel edges from `20` to `30`, and a matrix has one", "keep-min"),
        ("g.npz", {"vertices": "v.parquet"}, "parallel edges from `20` to `30`, and a matrix has one", "keep-min"),
        ("g.graph", {"vertices": "v.parquet"}, "edges without a reverse of the same weight", "directed: false"),
    ],
)  # fmt: skip
def test_what_cannot_be_written_is_one_error_and_leaves_nothing(cut, name, options, message, hint):
    graph = stored([10, 10, 20, 20, 30], [20, 30, 30, 30, 30], [5, 6, 7, 8, 9])
    Path("taken.npz").write_text("mine")
    Path("taken.parquet").write_text("mine")
    before = names_here()
    with pytest.raises(InputError) as caught:
        graph.export(name, **options)
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert names_here() == before
    assert Path("taken.npz").read_text() == Path("taken.parquet").read_text() == "mine"


@pytest.mark.parametrize(
    ("weights", "graph", "name", "message"),
    [
        ([0.5, 0.5], {}, "g.graph", "`store` has weights of type float64, and METIS has integers"),
        ([0.5, 0.5], {}, "g.gr", "`store` has weights of type float64, and DIMACS has integers"),
        ([0.5, 0.5], {"weights": {"scale": 10}}, "g.gr", "weights with decimals (scale 10), and DIMACS has"),
        ([0, 0], {}, "g.graph", "`store` has the weight 0, and METIS has positive weights"),
        ([-3, -3], {}, "g.graph", "`store` has the weight -3, and METIS has positive weights"),
        ([2**63, 2**63], {}, "g.mtx", "weight 9223372036854775808, and Matrix Market has integers up to 2^63 - 1"),
        ([2**63, 2**63], {}, "g.graph", "the weight 9223372036854775808, and METIS has integers up to 2^63 - 1"),
        ([5, 5, 5], {}, "g.graph", "`store` has a self-loop of vertex `1`, and METIS has none"),
        ([5, 5, 6, 6], {}, "g.graph", "`store` has parallel edges from `0` to `1`, and METIS has one"),
    ],
)  # fmt: skip
def test_weights_and_edges_that_a_format_cannot_hold(cut, weights, graph, name, message):
    src, dst = ([0, 1, 1], [1, 0, 1]) if len(weights) == 3 else ([0, 1] * 2, [1, 0] * 2)
    given = stored(src[: len(weights)], dst[: len(weights)], np.array(weights), **graph)
    before = names_here()
    with pytest.raises(InputError) as caught:
        given.export(name, format="dimacs" if name == "g.gr" else None)
    assert message in caught.value.message
    assert names_here() == before


@pytest.mark.parametrize("form", FILES)
def test_a_damaged_store_leaves_no_file(form):
    graph = both_ways()
    (part,) = Path("store/edges").iterdir()
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)
    name, format_name = FILES[form]
    before = names_here()
    with pytest.raises(InputError, match="was altered"):
        graph.export(name, format=format_name, vertices="v.parquet")
    assert names_here() == before


@pytest.mark.parametrize("form", FILES)
def test_an_object_store_gets_the_same_bytes(form, tmp_path):
    graph = both_ways()
    name, format_name = FILES[form]
    graph.export(name, format=format_name)
    url = f"memory://{tmp_path.name}/{name}"
    assert graph.export(url, format=format_name) == [url]
    assert files.read_bytes(url) == Path(name).read_bytes()


# ---- the stream ----


@pytest.mark.parametrize("block_rows", [1, 2, 3, 7, 50, 1000])
def test_blocks_are_the_whole_graph(cut, block_rows):
    graph = numbered(*edges(parallel=True))
    csr = graph.graph()
    blocks = list(edge_stream.EdgeStream("store", graph.manifest).blocks(block_rows))
    columns = ((block.sources(), block.col_indices, block.weights) for block in blocks)
    assert [edge for of_block in columns for edge in zip(*of_block, strict=True)] == rows(csr)
    assert all(len(block.col_indices) <= block_rows for block in blocks)
    assert all(1 <= len(block.row_offsets) - 1 <= block_rows for block in blocks)
    begun = [v for b in blocks for v in range(b.first, b.first + len(b.row_offsets) - 1)]
    assert sorted(set(begun)) == list(range(40))
    for before, block in pairwise(blocks):
        goes_on = block.first == before.first + len(before.row_offsets) - 2
        assert block.before == (before.col_indices[-1] if goes_on else -1)


# ---- the command ----


def test_the_command(tmp_path):
    numbered(*edges())

    def run(*words):
        return CliRunner().invoke(app, ["export", *words])

    done = run("store", "g.gr", "--format", "dimacs", "--vertices", "v.parquet")
    assert (done.exit_code, done.stdout) == (0, "g.gr\nv.parquet\n")
    assert "the file numbers the vertices from 1: id 0 of the graph is 1 there" in done.stderr
    assert run("store", "g.parquet", "--columns", "u,v,w", "-q").stdout == ""
    assert pq.read_schema("g.parquet").names == ["u", "v", "w"]
    for words, message in (
        (("store", "m.mtx", "--sparse"), "`--sparse` goes with a run, and `store` is a graph store"),
        (("store", "m.mtx", "--unreached", "0"), "`--unreached` goes with a run, and `store` is a graph store"),
        (("nowhere", "m.npy"), "`nowhere` is neither a run nor a graph store"),
        (("run", "m.npy", "--format", "metis"), "`--format` goes with a graph store, and `run` is no graph store"),
        (("run", "m.npy", "--weight", "km"), "`--weight` goes with a graph store, and `run` is no graph store"),
        (("run", "m.npy", "--vertices", "v"), "`--vertices` goes with a graph store, and `run` is no graph store"),
    ):  # fmt: skip
        refused = run(*words)
        assert refused.exit_code == 2
        assert message in " ".join(refused.stderr.split())


# ---- real graphs ----


@pytest.mark.medium
def test_a_road_network_comes_back_with_its_coordinates(data_file):
    road = data_file("USA-road-d.NY.gr.gz")
    graph = sp.ingest(road, "store", coordinates=data_file("USA-road-d.NY.co.gz"))
    assert graph.export("ny.gr", format="dimacs") == ["ny.gr", "ny.co"]
    assert read_back("ny.gr", coordinates="ny.co").manifest.content_id == graph.manifest.content_id
    graph.export("ny.npz")
    assert of_matrix(scipy.sparse.load_npz("ny.npz")) == (264346, rows(graph.graph()))


@pytest.mark.medium
def test_a_mesh_comes_back_as_metis(data_file):
    graph = sp.ingest(data_file("wave.graph.bz2"), "store")
    graph.export("wave.graph")
    assert read_back("wave.graph").manifest.content_id == graph.manifest.content_id
