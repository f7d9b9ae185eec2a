"""`solve.along`: second costs are those of the path, in every layout that has them, whoever solves."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import sssp_pipeline as sp
from sssp_pipeline.base.csr import CsrGraph, unreached_distance
from sssp_pipeline.base.errors import InputError, RefutedError, SsspError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu.dijkstra import Dijkstra
from sssp_pipeline.kernels.host.second_costs import SecondCosts
from sssp_pipeline.pipeline.results.exports.matrices.matrix_export import export_matrix
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.run.completed_run import verify_run
from sssp_pipeline.pipeline.run.conductor import run_each
from sssp_pipeline.workflow.models import Workflow
from sssp_pipeline.workflow.weights import along_contradictions

N_VERTICES = 70
#: A float is summed in the order of the path, and kilometres are scaled decimals.
SEVERAL = [{"name": "minutes"}, {"name": "km", "scale": 100}, {"name": "toll", "dtype": "float64"}]
COLUMNS = ["source", "vertex", "distance", "km", "toll"]


def roads(seed=3):
    """Return edges with string ids, parallel ones, and ties; some vertices are not reached from others."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, N_VERTICES, (2, 220))
    src[:60], dst[:60] = src[60:120], dst[60:120]
    return pa.table(
        {
            "from": [f"v{v:02}" for v in src],
            "to": [f"v{v:02}" for v in dst],
            "minutes": rng.integers(1, 5, len(src)),
            "km": rng.integers(0, 400, len(src)) / 100,
            "toll": rng.integers(0, 30, len(src)) / 10,
        }
    )


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    pa.csv.write_csv(roads(), "roads.csv")


def data_of(along=("km", "toll"), output=(), solve=(), graph=(), **others):
    graph = {
        "input": "roads.csv",
        "store": "graph",
        "duplicates": "keep-all",
        "weights": {"several": SEVERAL},
        **dict(graph),
    }
    solve = {"weights": ["minutes"], "along": list(along), "batch": 4, **dict(solve)}
    given = {"sources": {"random": {"count": 11, "seed": 1}}, "name": "w", **others}
    return {"version": 1, "graph": graph, "solve": solve, "output": {"path": "out", **dict(output)}, **given}


def run(*args, **sections):
    return sp.run_each(data_of(*args, **sections))["minutes"]


def expected(run, walked, cutoff=None, directed=True):
    """Return km and tolls (S, V) of each source of a run, from the rows of its input."""
    table = roads()
    ends = [np.array([int(name[1:]) for name in table[end].to_pylist()]) for end in ("from", "to")]
    used = np.unique(np.concatenate(ends))
    src, dst = (np.searchsorted(used, end) for end in ends)
    values = [table["minutes"].to_numpy(), np.rint(table["km"].to_numpy() * 100), table["toll"].to_numpy()]
    kept = src != dst
    src, dst, values = src[kept], dst[kept], [each[kept] for each in values]
    if not directed:
        src, dst = np.concatenate([src, dst]), np.concatenate([dst, src])
        values = [np.concatenate([each, each]) for each in values]
    order = np.lexsort((dst, src))
    row_offsets = np.searchsorted(src[order], np.arange(len(used) + 1))
    minutes, km, toll = (each[order] for each in values)
    graph = CsrGraph(row_offsets, dst[order].astype(np.uint32), minutes.astype(np.uint32))
    rows = {}
    for name in run.metrics["source"].to_pylist():
        source = int(np.searchsorted(used, int(name[1:])))
        row = Dijkstra().solve(graph, np.array([source]), SolveOptions(cutoff=cutoff)).distances[0]
        rows[name] = row, *walked(graph, (km.astype(np.uint32), toll), source, row)
    return [f"v{v:02}" for v in used], rows


def assert_right(run, walked, targets=None, reached_only=False, **how):
    names, rows = expected(run, walked, **how)
    table = run.distances()
    assert table.column_names == COLUMNS
    assert table.schema.field("km").type == table.schema.field("toll").type == pa.float64()
    wanted = []
    for source, (distances, km, toll) in rows.items():
        for vertex in names if targets is None else targets:
            v = names.index(vertex)
            if distances[v] != unreached_distance(distances.dtype):
                wanted.append((source, vertex, distances[v], km[v] / 100, toll[v]))
            elif not reached_only:
                wanted.append((source, vertex, None, None, None))
    found = list(zip(*(table[name].to_pylist() for name in COLUMNS), strict=True))
    assert any(row[2] is None for row in wanted) or reached_only
    assert found == wanted
    assert run.record["verify"]["refuted"] is None


@pytest.mark.parametrize(
    ("output", "solve", "how"),
    [
        ({}, {}, {}),
        ({}, {"cutoff": 9}, {"cutoff": 9}),
        ({"targets": {"ids": ["v33", "v07", "v41"]}}, {}, {"targets": ["v33", "v07", "v41"]}),
        ({"distances": "reached"}, {"cutoff": 9}, {"reached_only": True, "cutoff": 9}),
        ({}, {"solver": "phast"}, {}),
        ({"layout": "wide"}, {"cutoff": 9}, {"cutoff": 9}),
        (
            {"layout": "wide", "targets": {"ids": ["v33", "v07", "v41"]}},
            {},
            {"targets": ["v33", "v07", "v41"]},
        ),
    ],
    ids=["all", "cutoff", "targets", "reached", "phast", "wide", "wide targets"],
)
@pytest.mark.medium
def test_costs_are_those_of_the_rows_of_the_input(output, solve, how, walked):
    assert_right(run(output=output, solve=solve), walked, **how)


@pytest.mark.medium
def test_an_undirected_graph(walked):
    assert_right(run(graph={"directed": False}), walked, directed=False, reached_only=True)


@pytest.mark.medium
def test_the_certificate_and_predecessors(walked):
    found = run(solve={"predecessors": True}, verify="certificate")
    assert found.distances().column_names == [*COLUMNS, "predecessor"]
    assert found.record["verify"]["refuted"] is None


@pytest.mark.medium
def test_batches_workers_and_resume_give_the_same_bytes(digests):
    run(solve={"batch": 1})
    calm = digests("out/minutes")

    class Ends(Quiet):
        def advance(self, done, total, what, **facts):
            if what == "batches":
                raise KeyboardInterrupt

    shutil.rmtree("out")
    with pytest.raises(KeyboardInterrupt):
        run_each(Workflow.model_validate(data_of(solve={"batch": 1}, cluster={"workers": 1})), Ends())
    assert 0 < len(digests("out/minutes")) < len(calm)
    run(solve={"batch": 1})
    assert digests("out/minutes") == calm
    shutil.rmtree("out")
    run(solve={"batch": 1}, cluster={"kind": "local-cpu", "workers": 2, "threads_per_worker": 1})
    assert digests("out/minutes") == calm
    run(output={"path": "one"}, solve={"batch": 11})
    tables = [sp.open_run(folder).distances() for folder in ("out/minutes", "one/minutes")]
    assert tables[0].equals(tables[1])


@pytest.mark.medium
def test_pairs(walked, digests, monkeypatch):
    rng = np.random.default_rng(2)
    pairs = [(f"v{u:02}", f"v{v:02}") for u, v in rng.choice(40, (60, 2)).tolist()]
    pa.csv.write_csv(pa.table(dict(zip(("from", "to"), zip(*pairs, strict=True), strict=True))), "pairs.csv")
    output = {"distances": "pairs", "pairs": "pairs.csv"}
    names, rows = expected(
        run(sources={"ids": sorted({u for u, _ in pairs})}, output={"path": "whole"}), walked
    )
    wanted = []
    for u, v in pairs:
        distance, km, toll = (row[names.index(v)] for row in rows[u])
        is_reached = distance != unreached_distance(distance.dtype)
        wanted.append((u, v, *((distance, km / 100, toll) if is_reached else (None, None, None))))
    found = run(output=output, sources=None)
    table = found.answers()
    assert table.column_names == ["source", "target", "distance", "km", "toll"]
    assert list(zip(*(table[name].to_pylist() for name in table.column_names), strict=True)) == wanted
    assert found.record["verify"]["refuted"] is None
    calm = digests("out/minutes")
    shutil.rmtree("out")
    run(output=output, sources=None, solve={"batch": 1})
    assert list(digests("out/minutes").values()) == list(calm.values())
    right = SecondCosts.of_rows
    shutil.rmtree("out")
    with monkeypatch.context() as patch:
        patch.setattr(SecondCosts, "of_rows", lambda *given: tuple(costs + 1 for costs in right(*given)))
        run(output=output, sources=None, verify="off")
    with pytest.raises(RefutedError, match=r"stored `km` \S+, true `km` \S+$"):
        verify_run("out/minutes", None, "sample", Quiet())


@pytest.mark.medium
@pytest.mark.parametrize("of", ["all", "some", "points"])
def test_nearest(walked, monkeypatch, of):
    names = [f"v{v:02}" for v in (4, 9, 33, 41, 50, 61)]
    points = {"a": "v33", "b": "v09", "c": "v33"}  # two points at a vertex
    graph, nearest = {}, {"k": 3}
    if of == "some":
        nearest["of"] = {"ids": names}
    elif of == "points":
        ids = sorted({*roads()["from"].to_pylist(), *roads()["to"].to_pylist()})
        lon = np.arange(len(ids)) / 100
        pa.csv.write_csv(pa.table({"id": ids, "lon": lon, "lat": np.zeros(len(ids))}), "positions.csv")
        at = [lon[ids.index(name)] for name in points.values()]
        pa.csv.write_csv(pa.table({"id": list(points), "lon": at, "lat": np.zeros(3)}), "points.csv")
        graph, nearest["of"] = {"coordinates": "positions.csv"}, {"points": {"file": "points.csv"}}
    output = {"distances": "nearest", "nearest": nearest}
    found = run(output=output, graph=graph)
    table = found.answers()
    assert table.column_names == ["source", "rank", "vertex", "distance", "km", "toll"]
    assert found.record["verify"]["refuted"] is None
    all_names, rows = expected(found, walked)
    n_reached = 0
    for row in table.to_pylist():
        if row["vertex"] is None:
            assert (row["distance"], row["km"], row["toll"]) == (None, None, None)
            continue
        v = all_names.index(points[row["vertex"]] if of == "points" else row["vertex"])
        distance, km, toll = (each[v] for each in rows[row["source"]])
        assert (row["distance"], row["km"], row["toll"]) == (distance, km / 100, toll)
        n_reached += 1
    assert n_reached > 15
    right = SecondCosts.of_rows
    shutil.rmtree("out")
    with monkeypatch.context() as patch:
        patch.setattr(SecondCosts, "of_rows", lambda *given: tuple(costs + 1 for costs in right(*given)))
        run(output=output, graph=graph, verify="off")
    with pytest.raises(RefutedError, match=r"rank 1: stored km \S+, true km \S+$"):
        verify_run("out/minutes", None, "sample", Quiet())


@pytest.mark.gpu
def test_a_gpu_sums_integers_to_the_same_tables():
    pa.csv.write_csv(pa.table({"from": ["v03", "v33", "v03"], "to": ["v41", "v07", "v03"]}), "pairs.csv")
    pairs = {"distances": "pairs", "pairs": "pairs.csv"}
    nearest = {"distances": "nearest", "nearest": {"k": 3}}
    for output in ({}, {"targets": {"ids": ["v33", "v07"]}}, {"layout": "wide"}, nearest, pairs):
        tables = []
        for solver in ("adds-slots", "dijkstra"):
            sources = {"sources": None} if output is pairs else {}
            found = run(("km",), output=output, solve={"solver": solver, "batch": 11}, **sources)
            assert found.record["solver"] == solver
            assert found.record["verify"]["refuted"] is None
            tables.append(found.answers() if "distances" in output else found.distances())
            shutil.rmtree("out")
        assert "km" in tables[0].column_names
        assert tables[0].equals(tables[1])


@pytest.mark.medium
def test_an_exported_table_has_the_costs():
    folder = RunFolder(run().url)
    export_matrix(folder, "all.parquet")
    export_matrix(folder, "all.csv")
    export_matrix(folder, "all.npy", unreached=2**32 - 1)
    table = sp.open_run("out/minutes").distances()
    assert pq.read_table("all.parquet").equals(table)
    assert pa.csv.read_csv("all.csv")["km"].to_pylist() == table["km"].to_pylist()
    assert np.load("all.npy").shape == (11, len(table) // 11)
    with pytest.raises(InputError, match=r"go with distances only, and `out/minutes` has second costs too"):
        export_matrix(folder, "sparse.csv", sparse=True)


def test_wide_files_have_the_columns_of_each_cost_one_after_the_other():
    found = run(output={"layout": "wide"}, solve={"batch": 11})
    sources = found.metrics["source"].to_pylist()
    names = pq.read_schema("out/minutes/distances/batch-00000.parquet").names
    assert names == [
        "vertex",
        *sources,
        *(f"{source}/{cost}" for cost in ("km", "toll") for source in sources),
    ]
    export_matrix(RunFolder(found.url), "all.parquet")
    assert pq.read_table("all.parquet").equals(found.distances())


def test_a_source_called_as_another_column_of_the_wide_layout():
    table = roads()
    renamed = pa.array(["v01/km" if name == "v02" else name for name in table["from"].to_pylist()])
    pa.csv.write_csv(table.set_column(0, "from", renamed), "roads.csv")
    with pytest.raises(SsspError, match="a source has the id `v01/km`, which is the name of another column"):
        run(output={"layout": "wide"}, sources={"ids": ["v01", "v01/km"]})


def test_a_run_with_other_costs_is_another_run():
    run(("km",))
    with pytest.raises(InputError, match=r"holds another run"):
        run(("toll",))


@pytest.mark.parametrize(
    ("output", "verify"),
    [
        ({}, "sample"),
        ({}, "certificate"),
        ({"targets": {"ids": ["v33", "v07"]}}, "sample"),
        ({"distances": "reached"}, "sample"),
        ({"layout": "wide"}, "sample"),
    ],
)
@pytest.mark.medium
def test_a_wrong_cost_is_refuted(output, verify, monkeypatch):
    right = SecondCosts.of_rows

    def wrong(self, *arguments):
        costs = right(self, *arguments)
        costs[1][:] += 0.5
        return costs

    with monkeypatch.context() as patch:
        patch.setattr(SecondCosts, "of_rows", wrong)
        run(output=output, verify="off")
    with pytest.raises(RefutedError, match=r"stored `toll` \S+, true `toll` \S+$"):
        verify_run("out/minutes", None, verify, Quiet())


def refused(**sections):
    with pytest.raises(InputError) as caught:
        run(**sections)
    assert not Path("out/minutes").exists() or not list(Path("out/minutes").iterdir())
    return caught.value.message, caught.value.hint


def test_names_are_not_compared_while_a_weight_has_none():
    graph = {"weights": {"several": [{"name": "minutes"}, {"column": "km"}]}}
    for along in ("km", "minutes"):
        assert not list(along_contradictions(graph, {"along": [along]}))


@pytest.mark.parametrize(
    ("sections", "message", "hint"),
    [
        ({"along": ["klm"]}, "workflow: `solve.along` has `klm`, which the graph lacks", "did you mean `km`?"),
        ({"along": ["km", "km"]}, "workflow: `solve.along` has `km` twice", "name it once"),
        (
            {"solve": {"weights": None}},
            "workflow: `km` is in `solve.along`, and it is also a weight to solve",
            "name what to solve: `solve.weights: [minutes]`",
        ),
        (
            {"output": {"distances": "none"}},
            "workflow: `output.distances: none` has no place for second costs",
            "remove `solve.along`: `output.distances: full`, `reached`, `nearest` and `pairs` have them",
        ),
        (
            {"output": {"targets": {"ids": ["v01"]}}, "solve": {"direction": "backward"}},
            "workflow: `solve.direction: backward` searches from the targets",
            "remove `solve.direction`",
        ),
        (
            {"output": {"distances": "pairs", "pairs": {"file": "p.csv", "direction": "backward"}}, "sources": None},
            "workflow: `output.pairs.direction: backward` searches from the targets",
            "remove `output.pairs.direction`",
        ),
        (
            {"graph": {"weights": {"column": "minutes"}}, "solve": {"weights": None}},
            "workflow: `solve.along` names other weights of the graph, and it has one",
            "list the weights in `graph.weights.several`",
        ),
        (
            {"graph": {"duplicates": "keep-min"}},
            "weight `minutes`: 60 parallel edges of the graph were merged",
            "`graph.duplicates: keep-all`",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(sections, message, hint):
    found, what_to_do = refused(**sections)
    assert found.startswith(message)
    assert hint in what_to_do


def test_costs_beyond_float64_are_refused():
    table = roads().set_column(3, "km", pa.array(np.full(len(roads()), 10.0**7)))
    pa.csv.write_csv(table, "roads.csv")
    weights = {"several": [{"name": "minutes"}, {"name": "km", "scale": 10**8}]}
    found, hint = refused(along=["km"], graph={"weights": weights})
    assert found == (
        "weight `minutes`: weight `km`: a second cost is 1000000000000000, and the sum along a path of 68 edges may be "
        "68000000000000000, which float64 cannot hold"
    )
    assert hint == "give the second cost in a larger unit"


def test_negative_weights_with_a_cutoff_are_refused():
    rows = roads().slice(0, 1).to_pylist()[0] | {"minutes": -1}
    pa.csv.write_csv(pa.Table.from_pylist([rows]), "roads.csv")
    given = {"along": ["km"], "sources": {"all": True}}
    found, hint = refused(**given, solve={"cutoff": 5})
    assert found == (
        "weight `minutes`: paths of negative weights may leave the cutoff and come back, so there are second costs "
        "only without one"
    )
    assert hint == "remove `solve.cutoff`, or `solve.along`"
    assert run(**given).record["verify"]["refuted"] is None
