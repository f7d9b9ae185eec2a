"""The programs of `jobs.py`: each reads a CSV file of edges, and answers questions as its users ask them.

Every program takes the smaller side where its functions allow that: distances from many sources to few targets are
found by searches from the targets in the reversed graph.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import sssp_pipeline as sp

#: Bytes of the rows that a program may return at once.
ROWS_BYTES = 2**27
#: A distance that is longer than every shortest path, for programs that want a limit.
FARTHEST = 4_000_000
#: pandana returns this where there is no path: its largest integer, in thousandths.
PANDANA_UNREACHED = 4_294_967.295
#: A profile of OSRM. A way takes its own weight, in tenths of a second, and a turn takes no time.
OSRM_PROFILE = """
api_version = 4
function setup()
  return {properties = {weight_name = 'duration', continue_straight_at_waypoint = false, use_turn_restrictions = false}}
end
function process_node() end
function process_way(profile, way, result)
  result.forward_mode = mode.driving
  result.backward_mode = mode.driving
  result.duration = tonumber(way:get_value_by_key('weight')) / 10
end
function process_turn(profile, turn)
  turn.duration = 0
  turn.weight = 0
end
return {setup = setup, process_node = process_node, process_way = process_way, process_turn = process_turn}
"""


@dataclass(frozen=True)
class Network:
    """A graph in files, which every program reads."""

    name: str
    #: A CSV file with the columns `from`, `to` and `weight`.
    edges: Path
    #: A CSV file with the columns `x` and `y`, and a row for each vertex.
    places: Path
    n_vertices: int
    n_edges: int


@dataclass(frozen=True)
class Question:
    """What is asked for each of some sources."""

    sources: np.ndarray
    #: The columns of `distances`, or the vertices that `nearest` chooses from; None for every vertex.
    targets: np.ndarray | None = None
    #: Whether the distances to the targets are asked for.
    distances: bool = False
    #: Measures of whole rows.
    values: tuple[str, ...] = ()
    within: tuple[int, ...] = ()
    #: How many of the nearest targets are asked for.
    nearest: int | None = None

    @property
    def needs_rows(self) -> bool:
        """Whether the distances to every vertex are needed."""
        return bool(self.values or self.within or self.targets is None)

    @property
    def has_few_targets(self) -> bool:
        """Whether the targets are fewer than the sources."""
        return not self.needs_rows and len(self.targets) < len(self.sources)

    @property
    def cutoff(self) -> int | None:
        """Beyond this distance nothing is asked for."""
        return (
            max(self.within) if self.within and not (self.values or self.nearest or self.distances) else None
        )


class Program(ABC):
    """A program that has read a graph."""

    #: What stands for "no path" in `distances`.
    unreached: float = np.inf
    #: Whether the graph is read again for each question, so that nothing is left of the question before.
    reads_again = False
    #: Whether a part of a question says how long the whole takes.
    takes_parts = True

    def __init__(self, network: Network) -> None:
        self.n_vertices = network.n_vertices
        self.graph = self.read(network)

    @classmethod
    def can_answer(cls, question: Question) -> bool:
        """Return whether the program has a function for the question."""
        return True

    @classmethod
    def warm_up(cls, network: Network, question: Question) -> None:
        """Answer a question of a small graph, so that nothing is imported or compiled later."""
        cls(network).answers(question)

    @abstractmethod
    def read(self, network: Network) -> Any:
        """Return the graph, prepared for all questions."""

    @abstractmethod
    def answers(self, question: Question) -> dict[str, np.ndarray]:
        """Return an array for each answer, with a row for each source."""

    def goes_backward(self, question: Question) -> bool:
        """Return whether the program searches from the targets, because these are fewer."""
        return False

    def n_searches(self, question: Question) -> int:
        """Return how many parts the question has."""
        return len(question.targets if self.goes_backward(question) else question.sources)

    def part(self, question: Question, n_searches: int) -> Question:
        """Return the first `n_searches` parts of the question."""
        if self.goes_backward(question):
            return replace(question, targets=question.targets[:n_searches])
        return replace(question, sources=question.sources[:n_searches])


class Ours(Program):
    """`sp.solve`, `sp.reduce` and `sp.nearest` on a graph store, with the default of every option."""

    reads_again = True
    #: `auto` decides by the number of sources, so that a part says little about the whole.
    takes_parts = False
    #: `auto`, except while the solvers are compiled.
    solver = "auto"

    @classmethod
    def warm_up(cls, network: Network, question: Question) -> None:
        """Answer the question with every solver that `auto` may choose."""
        program = cls(network)
        for program.solver in ("auto", "dijkstra", "delta-stepping", "parallel-delta-stepping", "phast"):
            program.answers(question)

    def read(self, network: Network) -> Any:
        store = sp.ingest(network.edges, tempfile.mkdtemp(dir=network.edges.parent))
        store.graph()
        return store

    def answers(self, question: Question) -> dict[str, np.ndarray]:
        found = {}
        if question.values or question.within:
            table = sp.reduce(
                self.graph,
                question.sources,
                question.values,
                within=question.within,
                cutoff=question.cutoff,
                solver=self.solver,
            )
            found = {name: table[name].to_numpy() for name in table.column_names[1:]}
        if question.distances:
            solved = sp.solve(self.graph, question.sources, targets=question.targets, solver=self.solver)
            self.unreached = solved.unreached
            found["distances"] = solved.numpy()
        if question.nearest is not None:
            nearest = sp.nearest(
                self.graph, question.sources, question.nearest, targets=question.targets, solver=self.solver
            )
            distances = np.nan_to_num(nearest["distance"].to_numpy().astype(float), nan=np.inf)
            found["nearest"] = distances.reshape(len(question.sources), -1)
        return found


class OursPrepared(Ours):
    """The same on a graph store with a hierarchy, which is part of the preparation."""

    reads_again = False

    @classmethod
    def can_answer(cls, question: Question) -> bool:
        return not (question.values or question.within)

    def read(self, network: Network) -> Any:
        store = sp.ingest(network.edges, tempfile.mkdtemp(dir=network.edges.parent), hierarchy=True)
        store.graph()
        return store


class RoutingKit(Program):
    """A customizable contraction hierarchy of `pyroutingkit`, and `distances_many_to_many`."""

    @classmethod
    def can_answer(cls, question: Question) -> bool:
        return not (question.values or question.within)

    def read(self, network: Network) -> Any:
        import pyroutingkit

        edges, places = pd.read_csv(network.edges), pd.read_csv(network.places, dtype=np.float32)
        src, dst, weights = (edges[name].to_numpy(np.uint32) for name in ("from", "to", "weight"))
        topology = pyroutingkit.CCHTopology()
        topology.build(src, dst, places["y"].to_numpy(), places["x"].to_numpy(), network.n_vertices)
        metric = pyroutingkit.CCHMetric(topology)
        metric.customize(weights, len(os.sched_getaffinity(0)))
        self.unreached = pyroutingkit.INF_WEIGHT
        self.is_symmetric = is_symmetric(src, dst, weights)
        return metric

    def goes_backward(self, question: Question) -> bool:
        return self.is_symmetric and question.has_few_targets

    def answers(self, question: Question) -> dict[str, np.ndarray]:
        targets = np.arange(self.n_vertices) if question.targets is None else question.targets
        ends = question.sources.astype(np.uint32), targets.astype(np.uint32)
        if self.goes_backward(question):
            matrix = self.graph.distances_many_to_many(*reversed(ends)).T
        else:
            matrix = self.graph.distances_many_to_many(*ends)
        return answers_of(question, matrix, self.unreached)


class Osrm(Program):
    """OSRM's multi-level Dijkstra and its `Table`, on the graph as OpenStreetMap data: a way for each pair of edges."""

    #: `Table` searches from every source and from every target, so a part takes nearly as long as the whole.
    takes_parts = False

    @classmethod
    def can_answer(cls, question: Question) -> bool:
        return not question.needs_rows

    def read(self, network: Network) -> Any:
        import osrm

        edges, places = pd.read_csv(network.edges), pd.read_csv(network.places)
        src, dst, weights = (edges[name].to_numpy() for name in ("from", "to", "weight"))
        if not is_symmetric(src, dst, weights):
            raise ValueError("one-way edges: a point on one would begin in its direction")
        if places["x"].abs().max() > 180:  # metres
            places = places / 111_195
        self.places = places.round(6).to_numpy()
        folder = Path(tempfile.mkdtemp(dir=network.edges.parent))
        (folder / "profile.lua").write_text(OSRM_PROFILE)
        with (folder / "roads.osm").open("w") as file:
            file.write('<osm version="0.6">')
            for vertex, (x, y) in enumerate(self.places.tolist(), 1):
                file.write(f'<node id="{vertex}" version="1" lat="{y}" lon="{x}"/>\n')
            for a, b, weight in edges[src < dst].itertuples(index=False, name=None):
                file.write(
                    f'<way id="{a * network.n_vertices + b}" version="1"><nd ref="{a + 1}"/><nd ref="{b + 1}"/>'
                )
                file.write(f'<tag k="highway" v="road"/><tag k="weight" v="{weight}"/></way>\n')
            file.write("</osm>")
        roads = str(folder / "roads.osrm")
        for step in (
            ["extract", "-p", str(folder / "profile.lua"), str(folder / "roads.osm")],
            ["partition", roads],
            ["customize", roads],
        ):
            subprocess.run([sys.executable, "-m", "osrm", *step, "--verbosity", "ERROR"], check=True)
        limits = {"use_shared_memory": False, "max_locations_distance_table": -1}
        return osrm.OSRM(algorithm="MLD", storage_config=roads, **limits)

    def answers(self, question: Question) -> dict[str, np.ndarray]:
        import osrm

        n_sources, n_ends = len(question.sources), len(question.sources) + len(question.targets)
        ends = self.places[np.concatenate([question.sources, question.targets])]
        asked = osrm.TableParameters(
            coordinates=[tuple(end) for end in ends.tolist()],
            sources=range(n_sources),
            destinations=range(n_sources, n_ends),
            annotations=["duration"],
            generate_hints=False,
        )
        seconds = np.array([list(row) for row in self.graph.Table(asked)["durations"]], float)
        rows = np.rint(np.where(np.isnan(seconds), np.inf, seconds) * 10)
        return answers_of(question, rows, self.unreached)


class Pandana(Program):
    """`Network`: `shortest_path_lengths`, `nodes_in_range` for whole rows and radii, `nearest_pois`."""

    @classmethod
    def can_answer(cls, question: Question) -> bool:
        return not question.values

    def read(self, network: Network) -> Any:
        import pandana

        edges, self.places = pd.read_csv(network.edges), pd.read_csv(network.places)
        return pandana.Network(
            self.places["x"],
            self.places["y"],
            edges["from"],
            edges["to"],
            edges[["weight"]].astype(float),
            twoway=False,
        )

    def answers(self, question: Question) -> dict[str, np.ndarray]:
        sources, targets = question.sources, question.targets
        if question.within:
            found = self.graph.nodes_in_range(sources, max(question.within))
            return {
                f"within_{radius}": np.array(
                    found[found["weight"] <= radius].groupby("source").size()[sources], np.int64
                )
                for radius in question.within
            }
        if question.nearest is not None:
            chosen = self.places.iloc[targets]
            self.graph.set_pois("chosen", FARTHEST, question.nearest, chosen["x"], chosen["y"])
            every = self.graph.nearest_pois(FARTHEST, "chosen", question.nearest, max_distance=np.inf)
            return {"nearest": every.to_numpy()[sources]}
        if targets is None:
            found = self.graph.nodes_in_range(sources, FARTHEST)
            rows = np.full((len(sources), self.n_vertices), np.inf)
            rank = pd.Series(np.arange(len(sources)), index=sources)
            rows[rank[found["source"]].to_numpy(), found["destination"].to_numpy()] = found["weight"]
            return {"distances": rows}
        pairs = np.repeat(sources, len(targets)), np.tile(targets, len(sources))
        lengths = np.array(self.graph.shortest_path_lengths(*pairs))
        lengths[lengths >= PANDANA_UNREACHED] = np.inf
        return {"distances": lengths.reshape(len(sources), -1)}

    def n_searches(self, question: Question) -> int:
        """Return 1 for the nearest vertices, because `nearest_pois` always answers for every vertex."""
        return 1 if question.nearest is not None else len(question.sources)

    def part(self, question: Question, n_searches: int) -> Question:
        return question if question.nearest is not None else super().part(question, n_searches)


class RowProgram(Program):
    """A program that returns rows of distances, of which NumPy makes the answers."""

    @abstractmethod
    def rows(
        self, starts: np.ndarray, ends: np.ndarray | None, backward: bool, cutoff: int | None
    ) -> np.ndarray:
        """Return distances (S, E) from `starts` to `ends`, or with `backward` those from `ends` to `starts`."""

    def goes_backward(self, question: Question) -> bool:
        return question.has_few_targets

    def answers(self, question: Question) -> dict[str, np.ndarray]:
        at_once = max(1, ROWS_BYTES // (8 * self.n_vertices))
        if self.goes_backward(question):
            # To name most of the vertices as ends of the searches only costs time.
            every = len(question.sources) > self.n_vertices // 2
            matrix = np.empty((len(question.sources), len(question.targets)))
            for first in range(0, len(question.targets), at_once):
                part = slice(first, first + at_once)
                rows = self.rows(question.targets[part], None if every else question.sources, True, None)
                matrix[:, part] = (rows[:, question.sources] if every else rows).T
            return answers_of(question, matrix, self.unreached)
        ends = None if question.needs_rows else question.targets
        parts = []
        for first in range(0, len(question.sources), at_once):
            some = replace(question, sources=question.sources[first : first + at_once])
            rows = self.rows(some.sources, ends, False, question.cutoff)
            parts.append(answers_of(some, rows, self.unreached))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def is_symmetric(src: np.ndarray, dst: np.ndarray, weights: np.ndarray) -> bool:
    """Return whether every edge has its reverse; the edges have the order of src and then dst."""
    order = np.lexsort((src, dst))
    return all(
        np.array_equal(one[order], other) for one, other in ((src, dst), (dst, src), (weights, weights))
    )


def answers_of(question: Question, rows: np.ndarray, unreached: float) -> dict[str, np.ndarray]:
    """Return the answers that distances have: to every vertex if the question needs rows, else to its targets."""
    found, n_vertices = {}, rows.shape[1]
    if question.distances:
        found["distances"] = rows
    if question.values:
        is_reached = rows != unreached
        total, others = np.where(is_reached, rows, 0).sum(axis=1), is_reached.sum(axis=1) - 1
        every = {
            "max_distance": np.where(is_reached, rows, 0).max(axis=1),
            "closeness": others**2 / ((n_vertices - 1) * np.maximum(total, 1)),
        }
        found |= {name: every[name] for name in question.values}
    for radius in question.within:
        found[f"within_{radius}"] = (rows <= radius).sum(axis=1)
    if question.nearest is not None:
        of_targets = rows[:, question.targets] if question.needs_rows else rows
        k = min(question.nearest, of_targets.shape[1])
        nearest = np.sort(np.partition(of_targets, k - 1, axis=1)[:, :k], axis=1)
        found["nearest"] = np.where(nearest == unreached, np.inf, nearest)
    return found


class Scipy(RowProgram):
    """`scipy.sparse.csgraph.dijkstra`; its `limit` ends a search early."""

    def read(self, network: Network) -> Any:
        import scipy.sparse as ss

        table = pd.read_csv(network.edges)
        ends = table["from"].to_numpy(), table["to"].to_numpy()
        forward = ss.csr_array((table["weight"].to_numpy(float), ends), shape=(self.n_vertices,) * 2)
        return forward, forward.T.tocsr()

    def rows(
        self, starts: np.ndarray, ends: np.ndarray | None, backward: bool, cutoff: int | None
    ) -> np.ndarray:
        from scipy.sparse import csgraph

        limit = np.inf if cutoff is None else cutoff
        rows = csgraph.dijkstra(self.graph[backward], indices=starts, limit=limit)
        return rows if ends is None else rows[:, ends]


class NetworkX(RowProgram):
    """`single_source_dijkstra_path_length`; its `cutoff` ends a search early."""

    @classmethod
    def can_answer(cls, question: Question) -> bool:
        """Return whether this is a job that users reported: NetworkX is far slower than the others in the table."""
        return bool(question.values or question.within)

    def read(self, network: Network) -> Any:
        import networkx as nx

        graph = nx.DiGraph()
        graph.add_nodes_from(range(self.n_vertices))
        graph.add_weighted_edges_from(pd.read_csv(network.edges).itertuples(index=False, name=None))
        return graph

    def rows(
        self, starts: np.ndarray, ends: np.ndarray | None, backward: bool, cutoff: int | None
    ) -> np.ndarray:
        import networkx as nx

        rows = np.full((len(starts), self.n_vertices), np.inf)
        for row, source in zip(rows, starts.tolist(), strict=True):
            found = nx.single_source_dijkstra_path_length(self.graph, source, cutoff, backend="networkx")
            row[list(found)] = list(found.values())
        return rows


class Igraph(RowProgram):
    """`Graph.distances`; it has no cutoff."""

    def read(self, network: Network) -> Any:
        import igraph

        table = pd.read_csv(network.edges)
        graph = igraph.Graph(self.n_vertices, table[["from", "to"]].to_numpy(), directed=True)
        graph.es["weight"] = table["weight"].to_numpy()
        return graph

    def rows(
        self, starts: np.ndarray, ends: np.ndarray | None, backward: bool, cutoff: int | None
    ) -> np.ndarray:
        targets = None if ends is None else ends.tolist()
        mode = "in" if backward else "out"
        return np.array(self.graph.distances(starts.tolist(), targets, weights="weight", mode=mode), float)


class Networkit(RowProgram):
    """`SPSP`, whose searches run side by side; it has no cutoff."""

    unreached = float(np.finfo(np.float64).max)

    def read(self, network: Network) -> Any:
        import networkit

        table = pd.read_csv(network.edges)
        src, dst, weights = (table[name].to_numpy() for name in ("from", "to", "weight"))
        return tuple(
            networkit.GraphFromCoo(
                (weights.astype(float), ends), self.n_vertices, weighted=True, directed=True
            )
            for ends in ((src, dst), (dst, src))
        )

    def rows(
        self, starts: np.ndarray, ends: np.ndarray | None, backward: bool, cutoff: int | None
    ) -> np.ndarray:
        import networkit

        search = networkit.distance.SPSP(self.graph[backward], starts.tolist())
        if ends is not None:
            search.setTargets(ends.tolist())
        search.run()
        return np.asarray(search.getDistances(asarray=True))


class GraphTool(RowProgram):
    """`graph_tool.topology.shortest_distance`, one source after the other."""

    def read(self, network: Network) -> Any:
        import graph_tool

        graph = graph_tool.Graph()
        graph.add_vertex(self.n_vertices)
        weights = graph.new_edge_property("double")
        graph.add_edge_list(pd.read_csv(network.edges).to_numpy(), eprops=[weights])
        return graph, graph_tool.GraphView(graph, reversed=True), weights

    def rows(
        self, starts: np.ndarray, ends: np.ndarray | None, backward: bool, cutoff: int | None
    ) -> np.ndarray:
        from graph_tool.topology import shortest_distance

        view, weights = self.graph[backward], self.graph[2]
        limit = None if cutoff is None else float(cutoff)
        rows = [shortest_distance(view, start, weights=weights, max_dist=limit).a for start in starts]
        return np.array(rows) if ends is None else np.array(rows)[:, ends]


PROGRAMS: dict[str, type[Program]] = {
    "sssp-pipeline": Ours,
    "sssp-pipeline-prepared": OursPrepared,
    "pyroutingkit": RoutingKit,
    "osrm": Osrm,
    "pandana": Pandana,
    "networkit": Networkit,
    "scipy": Scipy,
    "igraph": Igraph,
    "graph-tool": GraphTool,
    "networkx": NetworkX,
}


def distribution_of(program: str) -> str:
    """Return the name of the package of a program of `PROGRAMS`."""
    return "osrm-bindings" if program == "osrm" else program.removesuffix("-prepared")


def module_of(program: str) -> str:
    return program.removesuffix("-prepared").replace("-", "_")


def version_of(program: str) -> str:
    """Return the version of a program that is installed."""
    try:
        return importlib.metadata.version(distribution_of(program))
    except importlib.metadata.PackageNotFoundError:  # graph-tool is no package of pip's
        return importlib.import_module(module_of(program)).__version__.partition(" ")[0]
