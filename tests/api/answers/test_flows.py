"""`flows` of the Python API: trips that are followed one by one, in fractions, are the oracle."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sssp_pipeline as sp

ROADS = pd.DataFrame(
    {"from": ["Ayr", "Ayr", "Bude", "Cork"], "to": ["Bude", "Cork", "Cork", "Deal"], "minutes": [4, 7, 3, 5]}
)
TRIPS = pd.DataFrame(
    {"source": ["Ayr", "Ayr", "Bude"], "target": ["Deal", "Cork", "Deal"], "amount": [10, 2.5, 1]}
)


def test_one_path_has_a_whole_trip_and_all_paths_share_it():
    found = sp.flows(ROADS, TRIPS)
    assert found.schema == pa.schema(
        [("source", pa.large_string()), ("target", pa.large_string()), ("flow", pa.float64())]
    )
    assert found["source"].to_pylist() == ["Ayr", "Ayr", "Bude", "Cork"]
    assert found["target"].to_pylist() == ["Bude", "Cork", "Cork", "Deal"]
    # Two paths lead from Ayr to Cork; Ayr is a smaller predecessor of Cork than Bude.
    assert found["flow"].to_pylist() == [0, 12.5, 1, 11]
    assert sp.flows(ROADS, TRIPS, paths="all")["flow"].to_pylist() == [6.25, 6.25, 7.25, 11]
    assert sp.flows(ROADS, {name: TRIPS[name].tolist() for name in TRIPS}) == found


def random_case(rng: np.random.Generator, dtype: str):
    """Return edges with ties and parallel edges, and trips, some of which have no path."""
    n_vertices, n_edges = int(rng.integers(2, 15)), int(rng.integers(1, 50))
    src, dst = rng.integers(0, n_vertices, (2, n_edges))
    edges = pd.DataFrame(
        {"source": src, "target": dst, "weight": rng.integers(1, 4, n_edges).astype(dtype)}
    ).sort_values(["source", "target", "weight"], ignore_index=True)
    vertices = np.unique([src, dst])
    ends = rng.choice(vertices, (2, 20))
    return edges, pd.DataFrame({"source": ends[0], "target": ends[1], "amount": rng.integers(0, 9, 20) / 4})


def followed(edges: pd.DataFrame, trips: pd.DataFrame, divided: bool) -> list[Fraction]:
    """Return the flow of each edge."""
    flow = [Fraction(0)] * len(edges)
    listed = list(edges.itertuples())
    distances = {}
    for source in set(trips["source"]):
        d = distances[source] = {source: 0}
        for _ in range(len(listed)):
            for edge in listed:
                if edge.source in d:
                    d[edge.target] = min(d.get(edge.target, np.inf), d[edge.source] + edge.weight)

    def n_paths(d: dict, v: int) -> int:
        return 1 if d[v] == 0 else sum(n_paths(d, listed[e].source) for e in tight(d, v))

    def tight(d: dict, v: int) -> list[int]:
        return [
            edge.Index
            for edge in listed
            if edge.target == v and edge.source in d and d[edge.source] + edge.weight == d[v]
        ]

    def send(d: dict, v: int, amount: Fraction) -> None:
        if d[v] == 0:
            return
        into = tight(d, v)
        shares = [(e, Fraction(n_paths(d, listed[e].source), n_paths(d, v))) for e in into]
        for e, share in shares if divided else [(min(into, key=lambda e: (listed[e].source, e)), 1)]:
            flow[e] += amount * share
            send(d, listed[e].source, amount * share)

    for trip in trips.itertuples():
        if trip.target in distances[trip.source]:
            send(distances[trip.source], trip.target, Fraction(trip.amount))
    return flow


@pytest.mark.parametrize("dtype", ["int64", "float64"])
@pytest.mark.parametrize("paths", ["one", "all"])
def test_random_trips(dtype, paths):
    rng = np.random.default_rng(4)
    for _ in range(25):
        edges, trips = random_case(rng, dtype)
        found = sp.flows(edges, trips, paths=paths, unreached="skip")
        expected = [float(value) for value in followed(edges, trips, paths == "all")]
        assert found["source"].to_pylist() == edges["source"].tolist()
        if paths == "one":
            assert found["flow"].to_pylist() == expected
        np.testing.assert_allclose(found["flow"], expected, rtol=1e-14, atol=1e-15)


def test_a_trip_between_all_pairs_is_betweenness_to_the_bit():
    edges, _ = random_case(np.random.default_rng(9), "int64")
    vertices = np.unique(edges[["source", "target"]])
    ends = np.array([(u, v) for u in vertices for v in vertices])
    trips = pa.table({"source": ends[:, 0], "target": ends[:, 1], "amount": np.ones(len(ends))})
    found = sp.flows(edges, trips, paths="all", unreached="skip")
    assert found["flow"] == sp.betweenness(edges, edges=True)["betweenness"]


@pytest.mark.parametrize("paths", ["one", "all"])
def test_order_of_trips_and_number_of_cores_change_no_bit(paths, monkeypatch):
    rng = np.random.default_rng(5)
    side = 12
    at = np.arange(side * side).reshape(side, side)
    src, dst = np.r_[at[:, 1:].ravel(), at[1:].ravel()], np.r_[at[:, :-1].ravel(), at[:-1].ravel()]
    streets = pd.DataFrame({"source": src, "target": dst, "weight": rng.integers(1, 3, len(src))})
    ends = rng.integers(0, side * side, (2, 3000))
    trips = pd.DataFrame({"source": ends[0], "target": ends[1], "amount": rng.random(3000)})
    expected = sp.flows(streets, trips, paths=paths, directed=False)
    assert expected["flow"].to_numpy().max() > 50
    for n_cores in (1, 5):
        monkeypatch.setattr("sssp_pipeline.api.calls.along_paths.usable_cores", lambda n=n_cores: n)
        mixed = trips.sample(frac=1, random_state=n_cores)
        assert sp.flows(streets, mixed, paths=paths, directed=False) == expected


def test_a_store_with_decimals_and_a_cutoff(tmp_path):
    ROADS.assign(minutes=[0.4, 0.7, 0.3, 0.5]).to_csv(tmp_path / "roads.csv", index=False)
    store = sp.ingest(tmp_path / "roads.csv", tmp_path / "store")
    assert sp.flows(store, TRIPS, paths="all")["flow"].to_pylist() == [6.25, 6.25, 7.25, 11]
    near = sp.flows(store, TRIPS, cutoff=0.8, unreached="skip")
    assert near["flow"].to_pylist() == [0, 2.5, 1, 1]
    with pytest.raises(
        sp.InputError, match="no path leads from `Ayr` to `Deal` within the cutoff, and a trip"
    ):
        sp.flows(store, TRIPS, cutoff=0.8)


def test_trips_that_are_left_out():
    trips = TRIPS.assign(source=["Exe", "Ayr", "Deal"])
    assert sp.flows(ROADS, trips, unknown="skip", unreached="skip")["flow"].to_pylist() == [0, 2.5, 0, 0]


@pytest.mark.parametrize(
    ("trips", "options", "message", "hint"),
    [
        (
            TRIPS.assign(amount=[1, -2, 3]),
            {},
            "row 1 of the trips has the amount -2",
            "an amount is a number of 0",
        ),
        (
            TRIPS.assign(amount=[1, 2, None]),
            {},
            "row 2 of the trips has the amount None",
            "an amount is a number",
        ),
        (
            TRIPS.assign(amount=[np.inf, 2, 1]),
            {},
            "row 0 of the trips has the amount inf",
            "an amount is a number",
        ),
        (
            TRIPS.assign(amount=["a", "b", "c"]),
            {},
            "the amounts are of type large_string",
            "they are numbers",
        ),
        (TRIPS.assign(amount=1e19), {}, "all amounts together are 3e+19", "give them in a larger unit"),
        (
            TRIPS.drop(columns="amount"),
            {},
            "the table of trips has the columns source, target",
            "it needs the",
        ),
        ([("Ayr", "Deal", 1)], {}, "`trips` is of type list", "give a table with the columns"),
        (TRIPS.iloc[:0], {}, "there is no pair", "a row has the ids"),
        (
            TRIPS.assign(source="Exe"),
            {},
            "3 of 3 pairs have an id that is not in the graph: `Exe`",
            "the 4 ids",
        ),
        (
            TRIPS.assign(target="Ayr"),
            {},
            "no path leads from `Bude` to `Ayr`, and a trip does",
            '`unreached="skip"`',
        ),
        (TRIPS, {"paths": "both"}, "`paths` is 'both'", 'it is "one" or "all"'),
        (TRIPS, {"unreached": None}, "`unreached` is None", 'it is "error" or "skip"'),
        (TRIPS, {"dtype": "float32"}, "the weights are float32, in which rounding makes some", ""),
    ],
)
def test_wrong_trips(trips, options, message, hint, error_of):
    error = error_of(sp.flows, ROADS, trips, **options)
    assert error.message.startswith(message)
    assert (error.hint or "").startswith(hint)


def test_a_weight_that_is_zero_or_lost(error_of):
    error = error_of(sp.flows, ROADS.assign(minutes=[4, 7, 0, 5]), TRIPS)
    assert error.message.startswith("the edge from `Bude` to `Cork` has weight 0")
    for paths in ("one", "all"):
        lost = error_of(sp.flows, ROADS.assign(minutes=[4, 7, 3, 1e-30]), TRIPS, paths=paths)
        assert lost.message.startswith("an edge to `Deal` is too short for its distance from `Ayr`")
