"""Random small graphs: betweenness of the backend and of NetworkX must be equal.

    python tests/networkx_backend/fuzz.py --graphs 2000 --seed 1

Graphs are directed or not, with parallel edges or without, with self-loops, unreachable nodes and many paths of equal
length. Weights are integers, floats that rounding makes equal or different, or so far apart that a float loses one.
Options vary too: nodes that are drawn, endpoints, sources and targets. Every call follows from the seed and its number,
so `--first N --graphs 1` repeats call N.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import networkx as nx
import numpy as np

from sssp_pipeline.networkx_backend import interface
from sssp_pipeline.networkx_backend.info import FUNCTIONS

NAMES = tuple(name for name in FUNCTIONS if "betweenness" in name)
CLASSES = (nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph)
#: Functions that return the weight of an edge.
WEIGHTS: dict[str, Callable[[random.Random], Any]] = {
    "int": lambda rng: rng.randint(1, 4),
    "float": lambda rng: rng.choice([0.1, 0.2, 0.3, 0.7, 1.0]),
    "whole floats": lambda rng: float(rng.randint(1, 3)),
    "64 bits": lambda rng: rng.randint(1, 2**45),
    "tiny": lambda rng: rng.choice([1e-30, 1.0, 3.0]),
    "zero": lambda rng: rng.choice([0, 1, 2]),
}
#: The kinds of weights with which some calls are left to NetworkX.
MAY_BE_LEFT = ("tiny", "zero")


def random_call(rng: random.Random) -> tuple[str, str, nx.Graph, dict[str, Any]]:
    """Return the name of a function, a kind of weights, a graph and keyword arguments."""
    kind = rng.choice(list(WEIGHTS))
    graph = rng.choice(CLASSES)()
    graph.add_nodes_from(rng.sample(range(40), rng.randint(1, 16)))
    nodes = list(graph)
    for _ in range(rng.randint(0, 4 * len(nodes))):
        graph.add_edge(rng.choice(nodes), rng.choice(nodes), weight=WEIGHTS[kind](rng))
    name = rng.choice(NAMES)
    kwargs: dict[str, Any] = {
        "weight": rng.choice([None, "weight", "weight"]),
        "normalized": rng.random() < 0.5,
    }
    if "subset" in name:
        kwargs |= {end: rng.sample(nodes, rng.randint(0, len(nodes))) for end in ("sources", "targets")}
    else:
        kwargs |= {"k": rng.choice([None, None, rng.randint(1, len(nodes))]), "seed": rng.randint(0, 99)}
    if name == "betweenness_centrality":
        kwargs["endpoints"] = rng.random() < 0.5
    return name, kind, graph, kwargs


def difference(name: str, graph: nx.Graph, kwargs: dict[str, Any]) -> str | None:
    """Return how the values differ, None if they do not; raises `NotImplementedError` if the backend has none."""
    ours = getattr(interface, name)(interface.convert_from_nx(graph), **kwargs)
    theirs = getattr(nx, name)(graph, backend="networkx", **kwargs)
    if list(ours) != list(theirs) or set(map(type, ours.values())) - {float}:
        return f"{ours} and {theirs}"
    try:
        np.testing.assert_allclose(list(ours.values()), list(theirs.values()), rtol=1e-12, atol=1e-15)
    except AssertionError as error:
        return str(error)
    return None


def run(seed: int, numbers: Iterable[int]) -> tuple[int, Counter[str]]:
    """Print calls whose results differ; return how many they are, and how many calls of each kind the backend ran."""
    n_failed, ran = 0, Counter[str]()
    for number in numbers:
        name, kind, graph, kwargs = random_call(random.Random(f"{seed} {number}"))
        try:
            found = difference(name, graph, kwargs)
            ran[kind] += 1
        except NotImplementedError as error:
            found = None if kind in MAY_BE_LEFT and kwargs["weight"] else f"left to NetworkX: {error}"
        if found is not None:
            n_failed += 1
            print(f"call {number}: {name} {kwargs} on {graph} {list(graph.edges(data=True))}: {found}")
    return n_failed, ran


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    n_failed, ran = run(given.seed, range(given.first, given.first + given.graphs))
    print(f"{n_failed} of {given.graphs} calls differ; the backend ran {dict(ran)}")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main())
