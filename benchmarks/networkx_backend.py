"""Functions of NetworkX with our backend and without it: how many times as fast the backend is.

    python benchmarks/networkx_backend.py [--data FOLDER] [--graphs gnm-300,grid-1000,facebook] [--rounds 3]

`cold` includes the conversion of the graph; `converted` uses the graph that NetworkX kept at the call before. Made
graphs have four edges for each node (`gnm`) or are square grids (`grid`). Their weights are whole numbers up to 100.
The real graphs have no weights. A round calls NetworkX, cold and converted one after the other. The ratios are those
of the medians. A function that needs a row for every node runs only where NetworkX is expected to need less than
`--limit` seconds.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from record import record

NAME = "sssp_pipeline"
SIZES = (30, 100, 200, 300, 1000, 2000)
REAL = {"facebook": "facebook_combined.txt", "wiki-Vote": "wiki-Vote.txt", "Email-Enron": "Email-Enron.txt"}
DIRECTED = ("wiki-Vote",)


def load(name: str, data: Path | None) -> nx.Graph:
    if name in REAL:
        kind = nx.DiGraph if name in DIRECTED else nx.Graph
        return nx.read_edgelist(Path(data or "") / REAL[name], create_using=kind, nodetype=int)
    kind, size = name.split("-")
    side = round(int(size) ** 0.5)
    made = {
        "gnm": lambda: nx.gnm_random_graph(int(size), 4 * int(size), seed=1),
        "grid": lambda: nx.convert_node_labels_to_integers(nx.grid_2d_graph(side, side)),
    }
    graph = made[kind]()
    rng = np.random.default_rng(1)
    for _, _, found in graph.edges(data=True):
        found["weight"] = int(rng.integers(1, 101))
    return graph.subgraph(max(nx.connected_components(graph), key=len)).copy()


def read_all(pairs: Any) -> int:
    return sum(sum(lengths.values()) for _, lengths in pairs)


def calls(graph: nx.Graph) -> dict[str, tuple[bool, Callable[[str], Any]]]:
    """Return by name whether a call needs a row for every node, and the call with a backend."""
    first, *_, last = graph
    every: dict[str, tuple[bool, Callable[[str], Any]]] = {
        "single_source_dijkstra_path_length, one read": (
            False,
            lambda b: nx.single_source_dijkstra_path_length(graph, first, backend=b)[first],
        ),
        "single_source_dijkstra_path_length, all read": (
            False,
            lambda b: dict(nx.single_source_dijkstra_path_length(graph, first, backend=b).items()),
        ),
        "single_source_bellman_ford_path_length, all read": (
            False,
            lambda b: dict(nx.single_source_bellman_ford_path_length(graph, first, backend=b).items()),
        ),
        "all_pairs_dijkstra_path_length, all summed": (
            True,
            lambda b: read_all(nx.all_pairs_dijkstra_path_length(graph, backend=b)),
        ),
        "closeness_centrality": (True, lambda b: nx.closeness_centrality(graph, backend=b)),
        "closeness_centrality, weighted": (
            True,
            lambda b: nx.closeness_centrality(graph, distance="weight", backend=b),
        ),
        "harmonic_centrality": (True, lambda b: nx.harmonic_centrality(graph, backend=b)),
    }
    if not graph.is_directed() and nx.is_connected(graph):
        every["diameter"] = True, lambda b: nx.diameter(graph, backend=b)
        every["average_shortest_path_length, weighted"] = (
            True,
            lambda b: nx.average_shortest_path_length(graph, weight="weight", backend=b),
        )
    if not graph.is_directed() and nx.has_path(graph, first, last):
        every["dijkstra_path"] = False, lambda b: nx.dijkstra_path(graph, first, last, backend=b)
    return every


def timed(call: Callable[[str], Any], backend: str) -> tuple[float, Any]:
    began = time.perf_counter()
    found = call(backend)
    return time.perf_counter() - began, found


def measure(
    name: str, graph: nx.Graph, function: str, call: Callable[[str], Any], rounds: int, limit_s: float
) -> None:
    taken = []
    for _ in range(rounds):
        networkx_s, theirs = timed(call, "networkx")
        graph.__networkx_cache__.clear()
        cold_s, ours = timed(call, NAME)
        converted_s, again = timed(call, NAME)
        assert ours == again == theirs, f"{function} on {name}"
        taken.append((networkx_s, cold_s, converted_s))
        if networkx_s > limit_s:
            break
    networkx_s, cold_s, converted_s = np.median(taken, axis=0).tolist()
    record(
        "networkx_backend",
        graph=name,
        nodes=len(graph),
        edges=graph.number_of_edges(),
        function=function,
        rounds=len(taken),
        networkx_s=networkx_s,
        cold_speedup=networkx_s / cold_s,
        converted_speedup=networkx_s / converted_s,
        networkx=nx.__version__,
        load=os.getloadavg()[0],
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("SSSP_TEST_DATA"))
    parser.add_argument("--graphs", default=",".join(f"gnm-{size},grid-{size}" for size in SIZES))
    parser.add_argument("--functions", help="separated by `;`")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=20.0)
    given = parser.parse_args()
    nx.config.warnings_to_ignore = {"cache"}
    warnings.simplefilter("error")
    small = nx.path_graph(3)
    for _, call in calls(small).values():
        call(NAME)  # compiles, or loads what was compiled
    for name in given.graphs.split(","):
        graph = load(name, given.data)
        work = len(graph) * (len(graph) + graph.number_of_edges())
        for function, (needs_all, call) in calls(graph).items():
            if given.functions and function not in given.functions.split(";"):
                continue
            if needs_all and work * 2e-7 > given.limit:
                continue
            measure(name, graph, function, call, given.rounds, given.limit / 10)


if __name__ == "__main__":
    main()
