"""`reduce` and `nearest` of the Python API."""

from __future__ import annotations

from functools import partial

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as ss

import sssp_pipeline as sp

ROADS = pd.DataFrame(
    {"from": ["Ayr", "Ayr", "Bude", "Cork"], "to": ["Bude", "Cork", "Cork", "Deal"], "minutes": [4, 9, 3, 5]}
)
MATRIX = ss.csr_array([[0, 1.5, 2.0, 0], [0, 0, 1.25, 0], [0.5, 0, 0, 0], [0, 0, 0, 0]])


def test_values_are_those_of_the_distances(numpy_answers):
    row = sp.solve(MATRIX, 0).numpy()[0]
    true = numpy_answers.reduced(row, (0.5, 1.5), np.array([[4, 5, 6, 7]]))
    values = ["harmonic", "reached", "max_distance", "sum_distance", "mean_distance", "closeness"]
    amounts = {"vertex": np.arange(4), "jobs": [4, 5, 6, 7]}
    found = sp.reduce(MATRIX, [0, 0], values, within=[1.5, 0.5], amounts=amounts).to_pydict()
    assert found.pop("source") == [0, 0]
    for value in values:
        assert found.pop(value) == [getattr(true, value)] * 2, value
    for place, radius in enumerate((0.5, 1.5)):
        assert found.pop(f"within_{radius}") == [true.within[place][0]] * 2
        assert found.pop(f"jobs_within_{radius}") == true.within[place][1] * 2
    assert not found


def test_histogram_and_quantiles(numpy_answers):
    row = sp.solve(MATRIX, 0).numpy()[0]
    found = sp.reduce(MATRIX, 0, histogram=np.array([0, 1.5, 3]), quantiles=0.5).to_pydict()
    (low, high), [median] = (
        numpy_answers.histogram_of(row, [0, 1.5, 3]),
        numpy_answers.quantiles_of(row, [0.5]),
    )
    named = {"from_0.0_to_1.5": [low], "from_1.5_to_3.0": [high], "quantile_0.5": [median]}
    assert found == {"source": [0], **named}


def test_each_vertex_has_numbers_over_all_sources():
    found = sp.reduce_per_vertex(ROADS, ["Cork", "Ayr"], ["nearest_source", "mean_distance"], within=7)
    assert found.to_pydict() == {
        "vertex": ["Ayr", "Bude", "Cork", "Deal"],
        "nearest_source": ["Ayr", "Ayr", "Cork", "Cork"],
        "nearest_distance": [0, 4, 0, 5],
        "mean_distance": [0.0, 4.0, 3.5, 8.5],
        "within_7": [1, 1, 2, 1],
    }
    grid = nx.grid_2d_graph(3, 3)  # the first of its nodes wins a tie
    nearest = sp.reduce_per_vertex(grid, [(2, 2), (0, 0)], "nearest_source", weight=None)["nearest_source"]
    assert nearest.to_pylist()[4] == [0, 0]
    assert sp.reduce_per_vertex(ROADS, [], "reached_by")["reached_by"].to_pylist() == [0] * 4


@pytest.mark.parametrize("kind", [dict, pa.table, pd.DataFrame])
def test_amounts_may_be_any_table(kind):
    amounts = kind({"jobs": [3.5, 4.0], "vertex": ["Bude", "Deal"]})
    found = sp.reduce(ROADS, "Ayr", within=7, amounts=amounts, directed=False)
    assert found.to_pydict() == {"source": ["Ayr"], "within_7": [3], "jobs_within_7": [3.5]}


def test_the_nearest_have_ids_in_the_order_of_distance_and_id():
    found = sp.nearest(ROADS, ["Ayr", "Deal"], 2, targets=["Deal", "Cork", "Deal"]).to_pydict()
    assert found == {
        "source": ["Ayr", "Ayr", "Deal", "Deal"],
        "rank": [1, 2, 1, 2],
        "vertex": ["Cork", "Deal", "Deal", None],
        "distance": [7, 12, 0, None],
    }
    assert sp.nearest(MATRIX, 0, 3, cutoff=1.5)["vertex"].to_pylist() == [0, 1, None]
    assert sp.nearest(MATRIX, 0, 1, targets=[])["vertex"].to_pylist() == [None]


@pytest.mark.parametrize("call", [sp.solve, sp.reduce, sp.nearest, sp.reduce_per_vertex])
def test_all_stands_for_every_vertex(call):
    more = {sp.solve: {}, sp.nearest: {"k": 2}, sp.reduce_per_vertex: {"values": "reached_by"}}
    given = more.get(call, {"values": "closeness"})
    every = call(ROADS, ["Ayr", "Bude", "Cork", "Deal"], **given)
    assert pa.table(call(ROADS, "all", **given)) == pa.table(every)


def test_closeness_is_that_of_networkx_on_the_reversed_graph():
    graph = nx.gnp_random_graph(30, 0.1, seed=5, directed=True)
    closeness = sp.reduce(graph.reverse(), "all", ["closeness", "harmonic"])
    true = nx.closeness_centrality(graph)
    assert closeness["closeness"].to_pylist() == pytest.approx(list(true.values()), rel=1e-12)
    true = nx.harmonic_centrality(graph)
    assert closeness["harmonic"].to_pylist() == pytest.approx([true[node] for node in graph], rel=1e-12)


def test_graphs_of_objects_and_graph_stores(tmp_path):
    grid = nx.grid_2d_graph(3, 3)
    amounts = {"vertex": [(0, 1), (2, 2)], "people": [7, 9]}
    found = sp.reduce(grid, [(0, 0)], "closeness", within=[1, 4], amounts=amounts, weight=None)
    assert found.column("people_within_4").to_pylist() == [16]
    assert found["closeness"].to_pylist() == [nx.closeness_centrality(grid, (0, 0))]
    harmonic = sp.reduce(grid, [(1, 1)], "harmonic", weight=None)["harmonic"].to_pylist()
    assert harmonic == pytest.approx([nx.harmonic_centrality(grid, [(1, 1)])[(1, 1)]], rel=1e-15)

    ROADS.to_csv(tmp_path / "roads.csv", index=False)
    store = sp.ingest(str(tmp_path / "roads.csv"), str(tmp_path / "store"), weights={"scale": 100})
    assert sp.reduce(store, "Ayr", "sum_distance")["sum_distance"].to_pylist() == [23.0]
    assert sp.nearest(store, "Ayr", 2)["distance"].to_pylist() == [0.0, 4.0]


#: Arguments that cannot be used, the message and the hint.
WRONG = {
    sp.reduce: [
        ({}, "`reduce` asks for no value and no radius", "give `values`"),
        ({"values": "closenes"}, "`values` has `closenes`", "did you mean `closeness`?"),
        ({"values": "eccentricity"}, "`values` has `eccentricity`", "did you mean `max_distance`?"),
        ({"within": -1}, "`within` has -1", "a radius is a distance of zero or more"),
        ({"within": [np.inf]}, "`within` has inf", "a radius is a distance"),
        ({"within": [1, 1]}, "`within` has `1` twice", "name it once"),
        ({"histogram": 3}, "`histogram` has 1 bound", "give 2 to 1,025 rising bounds"),
        ({"histogram": [0, 9, 5]}, "the bounds in `histogram` do not rise: `5`", "in rising order"),
        ({"histogram": [0, np.nan]}, "`histogram` has nan", "a bound is a distance of zero or more"),
        ({"histogram": [0, 9], "cutoff": 3}, "the bound `9` is beyond `cutoff`", "raise the cutoff"),
        ({"quantiles": []}, "`quantiles` has 0 shares", "give 1 to 32 shares"),
        ({"quantiles": 50}, "`quantiles` has 50", "a number from 0 to 1"),
        ({"within": range(200)}, "`within` and `amounts` ask for 200 columns", "ask for at most 128"),
        ({"values": "reached", "amounts": {}}, "`amounts` are summed within radii", "add `within`"),
        ({"within": 1, "amounts": 5}, "`amounts` is of type int", "give a dictionary"),
        ({"within": 1, "amounts": {"x": [1]}}, "has the columns `x`", "a column `vertex`"),
        ({"within": 1, "amounts": {"vertex": ["Ayr"] * 2, "x": [1, 2]}}, "`Ayr` more than once", "add up"),
        ({"within": 1, "amounts": {"vertex": ["Ayr"], "x": [None]}}, "has no finite number", "a number"),
        ({"within": 1, "amounts": {"vertex": ["Aye"], "x": [1]}}, "vertex `Aye` is not in", "the 4 ids"),
        ({"sources": "Aye", "values": "reached"}, "source `Aye` is not in the graph", "the 4 ids"),
        ({"sources": None, "values": "reached"}, "source is None", "`store.ids.column()` has all ids"),
    ],
    sp.reduce_per_vertex: [
        ({}, "`reduce_per_vertex` asks for no value and no radius", "such as [nearest_source]"),
        ({"values": "betweenness"}, "`values` has `betweenness`", "call `betweenness`: it takes samples"),
        ({"values": "nearest"}, "`values` has `nearest`, which is unknown", "did you mean `nearest_source`?"),
        ({"within": [np.nan]}, "`within` has nan", "a radius is a distance"),
        ({"within": [2, 2]}, "`within` has `2` twice", "name it once"),
        ({"within": 9, "cutoff": 3}, "the radius `9` is beyond `cutoff`, which is `3`", "raise the cutoff"),
    ],
    sp.nearest: [
        ({"k": 0}, "k is 0", "ask for 1 to 1,024 nearest vertices"),
        ({"k": 1, "targets": "X"}, "target `X` is not in the graph", "the 4 ids"),
    ],
}


@pytest.mark.parametrize("function", WRONG, ids=lambda function: function.__name__)
def test_what_cannot_be_is_one_clear_error(function, error_of):
    for arguments, message, hint in WRONG[function]:
        found = error_of(function, ROADS, **{"sources": "Ayr"} | arguments)
        assert message in found.message
        assert hint in found.hint
        assert "output." not in found.message + found.hint


@pytest.mark.parametrize("call", [partial(sp.nearest, k=2), partial(sp.reduce, values="closeness")])
def test_an_unknown_argument_is_not_ignored(call):
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'of'; the others are cutoff, "):
        call(ROADS, "Ayr", of=[3])
