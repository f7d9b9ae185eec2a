import gc
import weakref
from decimal import Decimal
from functools import wraps
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.errors import DiskFullError, InputError
from sssp_pipeline.base.generators import GENERATORS, grid
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.graph_store.loading import load_graph
from sssp_pipeline.pipeline.graph_store.manifest import Manifest
from sssp_pipeline.pipeline.graph_store.store import read_manifest
from sssp_pipeline.pipeline.ingest.input import preview
from sssp_pipeline.pipeline.ingest.into_store import ingest
from sssp_pipeline.pipeline.ingest.rows.sorted_rows import sources_of_edges
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.graph import Graph


def ingested(tmp_path: Path, text: str, **graph) -> tuple[Manifest, CsrGraph]:
    (tmp_path / "edges.txt").write_text(text)
    spec = Graph.model_validate({"input": str(tmp_path / "edges.txt"), **graph})
    manifest = ingest(spec, str(tmp_path / "graph"), Quiet())[0].first
    return manifest, load_graph(str(tmp_path / "graph"), manifest)


def listed(graph: CsrGraph) -> list[tuple]:
    columns = sources_of_edges(graph), graph.col_indices, graph.weights
    return list(zip(*(column.tolist() for column in columns), strict=True))


MIXED = "0 1 5\n1 2 9\n0 1 3\n2 2 1\n1 0 4\n1 2 9\n"


def test_by_default_loops_go_and_the_lightest_parallel_edge_stays(tmp_path):
    manifest, graph = ingested(tmp_path, MIXED)
    assert listed(graph) == [(0, 1, 3), (1, 0, 4), (1, 2, 9)]
    assert manifest.counts.model_dump() == {
        "edges_read": 6,
        "self_loops_dropped": 1,
        "reverses_added": 0,
        "duplicates_dropped": 2,
        "rows_skipped": 0,
    }


ONCE = "".join(f"{u} {v}\n" for u, v in ((3, 1), (1, 2), *((i, i + 5) for i in range(9)), (4, 4)))
MATRIX = f"%%MatrixMarket matrix coordinate pattern general\n20 20 12\n{ONCE}".replace("\n0 5", "\n7 9")


@pytest.mark.parametrize(
    ("text", "options", "is_noted"),
    [
        (ONCE, {}, True),
        (ONCE.replace(" ", " A").replace("\n", "\nA").removesuffix("A").replace("3", "A3", 1), {}, True),
        (ONCE, {"self_loops": "keep", "memory": "256MiB"}, True),
        (ONCE, {"directed": True}, False),
        (ONCE, {"directed": False}, False),
        (ONCE, {"directed": "reversed"}, False),
        (ONCE + "2 1\n", {}, False),
        ("1 2\n2 3\n", {}, False),  # too few to tell
        (MATRIX, {}, False),  # the format says that it is not symmetric
    ],
)
def test_a_graph_without_reverses_may_be_undirected(tmp_path, text, options, is_noted):
    (tmp_path / "e").write_text(text)
    spec = Graph.model_validate({"input": str(tmp_path / "e"), **options})
    whole = ingest(spec, str(tmp_path / "graph"), Quiet())[0].first.reading.note
    words = "`--set graph.directed=false` reads each edge both ways"
    n_edges = text.count("\n")
    assert whole == (f"no edge has its reverse: {words}" if is_noted else "")
    beginning = preview(spec)[0].note
    assert beginning == (f"of the first {n_edges} edges none has its reverse: {words}" if is_noted else "")


@pytest.mark.medium
def test_a_large_graph_without_reverses_may_be_undirected(tmp_path):
    """Of a graph with more than 2^20 edges, those between the first vertices are looked at."""
    rng = np.random.default_rng(3)
    src = rng.integers(0, 200_000, 1_200_000)
    dst = src + rng.integers(1, 1000, len(src))
    pairs = np.unique(np.column_stack([src, dst]), axis=0)
    first = np.searchsorted(np.cumsum(np.bincount(pairs[:, 0], minlength=200_999)), 2**20, side="right")
    n_between = np.count_nonzero((pairs < first).all(axis=1))
    note = (
        f"of the {n_between:,} edges between the first vertices none has its reverse: "
        "`--set graph.directed=false` reads each edge both ways"
    )
    for name, more, expected in (
        ("once", [], note),
        ("late", [(200_500, 199_999)], note),
        ("early", [tuple(pairs[1000, ::-1])], ""),
    ):
        file = tmp_path / f"{name}.parquet"
        rows = np.concatenate([pairs, np.array(more, np.int64).reshape(-1, 2)])
        pq.write_table(pa.table({"source": rows[:, 0], "target": rows[:, 1]}), file)
        for memory in ("auto", "256MiB"):
            spec = Graph.model_validate({"input": str(file), "memory": memory})
            stored, _ = ingest(spec, str(tmp_path / f"{name}-{memory}"), Quiet())
            assert stored.first.reading.note == expected


def test_a_generated_graph_is_made_once_and_not_kept(tmp_path, monkeypatch):
    made = []

    @wraps(grid)
    def counted(**given):
        edges = grid(**given)
        made.append(weakref.ref(edges))
        return edges

    monkeypatch.setitem(GENERATORS, "grid", counted)
    spec = Graph.model_validate({"input": "generated:grid?rows=20&cols=30"})
    manifest, _ = ingest(spec, str(tmp_path / "graph"), Quiet())
    gc.collect()
    assert (len(made), made[0]()) == (1, None)
    assert manifest.first.n_edges == len(grid(rows=20, cols=30).src)


def test_loops_and_parallel_edges_can_be_kept(tmp_path):
    manifest, graph = ingested(tmp_path, MIXED, self_loops="keep", duplicates="keep-all")
    assert listed(graph) == [(0, 1, 3), (0, 1, 5), (1, 0, 4), (1, 2, 9), (1, 2, 9), (2, 2, 1)]
    assert manifest.n_edges == manifest.counts.edges_read


def test_an_undirected_graph_gets_the_missing_reverses(tmp_path):
    manifest, graph = ingested(tmp_path, MIXED, directed=False)
    assert listed(graph) == [(0, 1, 3), (1, 0, 3), (1, 2, 9), (2, 1, 9)]
    assert manifest.symmetric
    counts = manifest.counts
    kept = counts.edges_read - counts.self_loops_dropped + counts.reverses_added - counts.duplicates_dropped
    assert kept == manifest.n_edges


@pytest.mark.parametrize(
    ("policy", "message", "hint"),
    [
        (
            {"self_loops": "error"},
            "edge 4 is a self-loop of vertex `2`",
            "`graph.self_loops: drop` leaves self-loops out, `keep` keeps them",
        ),
        (
            {"duplicates": "error"},
            "the edge from `0` to `1` is listed twice",
            "`graph.duplicates: keep-min` keeps the lighter one, `keep-all` keeps both",
        ),
    ],
)
def test_policies_that_refuse(tmp_path, policy, message, hint):
    with pytest.raises(InputError) as caught:
        ingested(tmp_path, MIXED, **policy)
    assert (caught.value.message, caught.value.hint) == (f"`{tmp_path / 'edges.txt'}`: {message}", hint)
    assert [p.name for p in tmp_path.iterdir()] == ["edges.txt"]


@pytest.mark.parametrize(
    ("weights", "dtype", "scale"),
    [
        ("0 4294967294", "uint32", 1),
        ("-3 1.5", "int32", 10),
        ("9223372036854775808", "uint64", 1),
        ("1e39", "float64", 1),
    ],
)
def test_the_manifest_tells_the_type_and_the_ends_of_the_weights(tmp_path, weights, dtype, scale):
    text = "".join(f"{i} {i + 1} {w}\n" for i, w in enumerate(weights.split()))
    manifest, graph = ingested(tmp_path, text)
    facts = manifest.weights
    assert (facts.dtype, facts.scale or 1) == (dtype, scale)
    numbers = [float(w) if dtype == "float64" else Decimal(w) for w in weights.split()]
    assert graph.weights.tolist() == [w * scale for w in numbers]
    assert (facts.min, facts.negative) == (min(graph.weights), min(graph.weights) < 0)
    assert facts.zero == (0 in graph.weights)


@pytest.mark.parametrize(
    ("weight", "dtype", "why", "hint"),
    [
        ("4294967295", "uint32", "is too large for uint32", "set `graph.weights.dtype: uint64`"),
        ("-1", "uint32", "is negative, uint32 is not", "set `graph.weights.dtype: int32`"),
        ("2147483647", "int32", "is too large for int32", "set `graph.weights.dtype: int64`"),
        ("-2147483649", "int32", "is too small for int32", "set `graph.weights.dtype: int64`"),
        ("1.5", "int32", "is not of type int32", "set `graph.weights.dtype: auto`"),
        ("1e+39", "float32", "is too large for float32", "set `graph.weights.dtype: float64`"),
        (
            "1e-39",
            "float32",
            "is a subnormal float32, which GPUs take for zero",
            "set `graph.weights.dtype: float64`, or scale the weights up",
        ),
        ("1e-310", "auto", "is a subnormal float64, which GPUs take for zero", "scale the weights up"),
    ],
)
def test_a_weight_the_type_cannot_hold_is_named(tmp_path, weight, dtype, why, hint):
    with pytest.raises(InputError) as caught:
        ingested(tmp_path, f"0 1 7\n5 6 {weight}\n", weights={"dtype": dtype})
    message = f"`{tmp_path / 'edges.txt'}`: edge 2, from `5` to `6`: weight {weight} {why}"
    assert (caught.value.message, caught.value.hint) == (message, hint)
    assert [p.name for p in tmp_path.iterdir()] == ["edges.txt"]


def test_without_weights_every_edge_has_the_default(tmp_path):
    assert listed(ingested(tmp_path, "0 1\n1 2\n")[1]) == [(0, 1, 1), (1, 2, 1)]
    (tmp_path / "other").mkdir()
    manifest, graph = ingested(tmp_path / "other", "0 1\n", weights={"default": 2.5})
    assert (manifest.weights.dtype, listed(graph)) == ("uint32", [(0, 1, 25)])
    assert manifest.weights.scale == 10


@pytest.mark.parametrize(
    ("default", "dtype"),
    [(-1, "int32"), (4294967295, "uint64"), (2**64 - 2, "uint64"), (1e-60, "float64"), (2.0, "uint32")],
)
def test_a_default_has_the_type_it_would_have_in_the_input(tmp_path, default, dtype):
    manifest, graph = ingested(tmp_path, "0 1\n1 2\n", weights={"default": default})
    assert manifest.weights.dtype == dtype
    assert graph.weights.tolist() == [default] * 2
    (tmp_path / "given").mkdir()
    given, same = ingested(tmp_path / "given", f"0 1 {default}\n1 2 {default}\n")
    assert given.weights == manifest.weights
    np.testing.assert_array_equal(same.weights, graph.weights, strict=True)


@pytest.mark.parametrize(
    ("default", "dtype", "why", "hint"),
    [
        (-1, "uint32", "-1 is negative, uint32 is not", "set `graph.weights.dtype: int32`"),
        (2.5, "int64", "2.5 is not of type int64", "set `graph.weights.dtype: auto`"),
        (
            10**60,
            "auto",
            f"{10**60} is an integer beyond 64 bits",
            "write it with a decimal point to round it",
        ),
        (10**60, "uint64", f"{10**60} is too large for uint64", "scale the weights down"),
        pytest.param(
            10**400, "auto", f"{10**400} is not a finite number", "weights are finite", id="400-digits"
        ),
        (1e39, "float32", "1e+39 is too large for float32", "set `graph.weights.dtype: float64`"),
        (1e-310, "auto", "1e-310 is a subnormal float64, which GPUs take for zero", "scale the weights up"),
    ],
)
def test_a_default_that_is_no_weight_is_refused(tmp_path, default, dtype, why, hint):
    weights = {"default": default, "dtype": dtype}
    with pytest.raises(InputError) as caught:
        ingested(tmp_path, "0 1\n", weights=weights)
    assert (caught.value.message, caught.value.hint) == (f"`graph.weights.default`: weight {why}", hint)
    assert [p.name for p in tmp_path.iterdir()] == ["edges.txt"]
    # Where the input has weights the default is not used.
    assert listed(ingested(tmp_path, "0 1 7\n", weights=weights)[1]) == [(0, 1, 7)]


def test_a_store_of_huge_weights_can_be_read_again(tmp_path):
    manifest, graph = ingested(tmp_path, "0 1 1.5e308\n1 2 1.5e308\n")
    assert read_manifest(str(tmp_path / "graph")) == manifest
    assert manifest.weights.mean == graph.weights.mean(where=[True, False]) == 1.5e308


def test_files_with_and_without_weights_are_not_mixed(tmp_path):
    (tmp_path / "a.txt").write_text("0 1 5\n")
    (tmp_path / "b.txt").write_text("1 2\n")
    with pytest.raises(InputError):
        ingest(Graph(input=str(tmp_path / "?.txt")), str(tmp_path / "graph"), Quiet())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.txt", "b.txt"]


def test_a_bad_input_leaves_the_old_store(tmp_path):
    ingested(tmp_path, "0 1 5\n")
    before = read_manifest(str(tmp_path / "graph"))
    with pytest.raises(InputError):
        ingested(tmp_path, "0 1 x\n")
    assert read_manifest(str(tmp_path / "graph")) == before
    assert load_graph(str(tmp_path / "graph"), before).weights.tolist() == [5]


@pytest.mark.medium
@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "n_vertices", "n_edges", "graph"),
    [
        ("USA-road-d.NY.gr.gz", 264_346, 733_846, {"duplicates": "keep-all"}),
        ("USA-road-d.NY.gr.gz", 264_346, 730_100, {}),
        ("USA-road-t.NY.gr.gz", 264_346, 733_846, {"duplicates": "keep-all"}),
        ("rome99.gr", 3_353, 8_870, {"duplicates": "keep-all"}),
        ("web-NotreDame.txt.gz", 325_729, 1_497_134, {"self_loops": "keep"}),
        ("wiki-Vote.txt", 7_115, 103_689, {}),
        ("p2p-Gnutella31.txt", 62_586, 147_892, {}),
        ("Email-Enron.txt", 36_692, 367_662, {}),
        ("facebook_combined.txt", 4_039, 2 * 88_234, {"directed": False}),
        ("wing.graph", 62_032, 2 * 121_544, {}),
        ("wave.graph.bz2", 156_317, 2 * 1_059_331, {}),
        ("pace16-NE.gr.xz", 1_524_453, 2 * 1_934_010, {"directed": False}),
    ],
)
def test_real_graphs_have_the_known_counts(tmp_path, data_file, name, n_vertices, n_edges, graph):
    spec = Graph.model_validate({"input": str(data_file(name)), **graph})
    manifest = ingest(spec, str(tmp_path), Quiet())[0].first
    assert (manifest.n_vertices, manifest.n_edges) == (n_vertices, n_edges)


def test_a_scale_belongs_to_the_graph(tmp_path):
    manifest, graph = ingested(tmp_path, "0 1 0.1\n1 2 2.125\n", weights={"scale": 1000})
    assert (manifest.weights.dtype, manifest.weights.scale) == ("uint32", 1000)
    assert graph.weights.tolist() == [100, 2125]
    # The same integers in another unit are another graph.
    (tmp_path / "whole").mkdir()
    whole, same = ingested(tmp_path / "whole", "0 1 100\n1 2 2125\n")
    assert same.weights.tolist() == graph.weights.tolist()
    assert whole.content_id != manifest.content_id


def test_reversed_edges_lead_the_other_way(tmp_path):
    manifest, graph = ingested(tmp_path, "0 1 5\n1 2 9\n", directed="reversed")
    assert listed(graph) == [(1, 0, 5), (2, 1, 9)]
    assert manifest.reading.edges == "turned round"
    assert manifest.reading.sample == ((1, 0, 5), (2, 1, 9))


def test_rows_that_are_left_out_are_counted_and_kept(tmp_path):
    manifest, graph = ingested(tmp_path, "0 1 5\n1 x 9\n\n1 2 inf\n2 3 4\n", unreadable="skip")
    assert listed(graph) == [(0, 1, 5), (2, 3, 4)]
    assert (manifest.counts.edges_read, manifest.counts.rows_skipped) == (2, 2)
    file = f"`{tmp_path / 'edges.txt'}`"
    assert (tmp_path / "graph" / "skipped.txt").read_text().splitlines() == [
        f"{file} line 2: `x` is not a vertex id: 1 x 9",
        f"{file} line 4: weight `inf` is not finite: 1 2 inf",
    ]
    ingested(tmp_path, "0 1 5\n", unreadable="skip")
    assert not (tmp_path / "graph" / "skipped.txt").exists()


def test_a_graph_that_the_disk_cannot_hold_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "free_bytes", lambda _: 10**9)
    with pytest.raises(
        DiskFullError,
        match=r"a graph of 4,294,967,295 vertices takes at least 34\.4 GB, and `.*graph` has 1\.0 GB free",
    ):
        ingested(tmp_path, "p sp 4294967295 1\na 1 2 3\n")
    assert not list((tmp_path / "graph").rglob("*.parquet"))


def test_the_manifest_says_what_was_read(tmp_path):
    manifest, _ = ingested(tmp_path, "id,from,to,km,note\n1,A,B,2.5,x\n2,B,A,3,y\n", directed=False)
    assert manifest.reading.facts() == {
        "format": "csv, by its content",
        "between columns": "comma",
        "header": "yes",
        "source": "`from`, by its name",
        "target": "`to`, by its name",
        "weight": "`km`, by its name",
        "not used": "`id`, `note`",
        "ids": "string: `A` is a name",
        "weights": "uint32 of 1/10: at most 1 place after the point, so sums are exact",
        "edges": "both ways",
        "first edges": "A -> B (2.5); B -> A (3.0)",
    }


def test_long_ids_are_shown_in_part(tmp_path):
    """An input of some kilobytes can hold ids of megabytes, which would fill the terminal."""
    manifest, _ = ingested(tmp_path, f"from,to,w\n{'x' * 5000},{'y' * 40},2\n")
    assert manifest.reading.facts()["first edges"] == f"{'x' * 40}… -> {'y' * 40} (2)"
