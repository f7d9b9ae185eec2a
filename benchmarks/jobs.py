"""Jobs that users of other programs found too slow: `sp.reduce` and `sp.nearest` beside these programs.

    python benchmarks/jobs.py [--jobs all-sources,city,radii] [--with sssp-pipeline,scipy,…] [--seconds 20]

| job | reported | graph | answers |
| --- | --- | --- | --- |
| all-sources | cugraph 1320: 2 hours | 44,000 vertices, 10^6 edges | eccentricity, closeness, 10 nearest of 500 |
| city | osmnx 153: 14 hours | generated roads, 90,000 vertices | closeness of every vertex |
| radii | pandana 172: over 6 hours | generated roads, 1,324,602 vertices | vertices within 3 radii of 49,460 |

The graphs are made at the reported sizes, because the reported graphs are not public. The radii are 10, 20 and 30
minutes at 15 km/h. The user of pandana asked for the last one.

Every program reads the same CSV file. It then solves sources in random order until `--seconds` have passed or all are
done. `total_s` is the time to read plus the time for all sources at the measured rate. `is_extrapolated` says that not
all were solved. Programs that give whole rows get the answers from NumPy. SciPy, igraph and NetworkX use one core;
NetworKit and ours use all cores, or ours a GPU. Programs that are not installed are left out.

Imports and compilation are not timed: each program solves a small graph first. Nor are the first two sources. If two
programs have different answers for these, the run ends.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from record import record

import sssp_pipeline as sp
from sssp_pipeline.base.generators import random_edges, road_like

#: Bytes of the rows that a program may return at once.
ROWS_BYTES = 2**28
#: Sources that each program solves before its time is taken.
WARM_UP = 2
#: The size of the first graph, which is not timed.
SMALL = 0.01
#: How far a vertex may be in the job `radii`, in metres: 10, 20 and 30 minutes at 15 km/h.
RADII = (2500, 5000, 7500)


@dataclass(frozen=True)
class Job:
    """What a user asked for: a graph, sources, and answers for each source."""

    #: Makes src, dst, weights and the number of vertices, for a share of the size.
    edges: Callable[[float], tuple[np.ndarray, np.ndarray, np.ndarray, int]]
    #: The number of sources; None for every vertex.
    n_sources: int | None = None
    values: tuple[str, ...] = ()
    within: tuple[int, ...] = ()
    #: k, and the number of vertices of which the k nearest are asked for.
    nearest: tuple[int, int] | None = None

    @property
    def cutoff(self) -> int | None:
        """Beyond this distance nothing is asked for."""
        return None if self.values or self.nearest else max(self.within)


def random_graph(share: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Return uniformly random edges without self-loops and parallel edges, for which programs have different rules."""
    n_vertices, n_edges = int(44_000 * share), int(1_000_000 * share)
    made = random_edges(vertices=n_vertices, edge_factor=24)
    pairs = made.src.astype(np.int64) * n_vertices + made.dst
    _, first = np.unique(pairs, return_index=True)
    chosen = np.sort(first[made.src[first] != made.dst[first]])[:n_edges]
    return made.src[chosen], made.dst[chosen], made.weights[chosen], n_vertices


def roads(vertices: int, share: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    made = road_like(vertices=int(vertices * share))
    return made.src, made.dst, made.weights, made.n_vertices


JOBS = {
    "all-sources": Job(random_graph, values=("max_distance", "closeness"), nearest=(10, 500)),
    "city": Job(lambda share: roads(90_000, share), values=("closeness",)),
    "radii": Job(lambda share: roads(1_324_602, share), n_sources=49_460, within=RADII),
}


@dataclass(frozen=True)
class Task:
    """A job at some size: its edges in a CSV file, and the vertices that it names."""

    edges: Path
    n_edges: int
    n_vertices: int
    sources: np.ndarray
    targets: np.ndarray


def task_of(job: Job, share: float, folder: Path) -> Task:
    """Return the job at a `share` of its size, with its edges in `folder`."""
    *columns, n_vertices = job.edges(share)
    folder.mkdir()
    edges = folder / "edges.csv"
    pd.DataFrame(dict(zip(("from", "to", "weight"), columns, strict=True))).to_csv(edges, index=False)
    random = np.random.default_rng(1)
    sources = random.permutation(n_vertices)[: job.n_sources and max(WARM_UP, int(job.n_sources * share))]
    targets = random.permutation(n_vertices)[: job.nearest[1]] if job.nearest else sources[:0]
    return Task(edges, len(columns[0]), n_vertices, sources, targets)


class Program(ABC):
    """A program that solves a job: it reads a CSV file of edges, and then returns answers for sources."""

    def __init__(self, job: Job, task: Task) -> None:
        self.job, self.n_vertices, self.targets = job, task.n_vertices, task.targets
        self.graph = self.read(task.edges)

    @abstractmethod
    def read(self, edges: Path) -> Any:
        """Return the graph of the file `edges`."""

    @abstractmethod
    def most_sources(self) -> int:
        """Return how many sources a call may have."""

    @abstractmethod
    def answers(self, sources: np.ndarray) -> dict[str, np.ndarray]:
        """Return an array for each answer, with a row for each source."""


class RowProgram(Program):
    """A program that returns rows of distances, of which NumPy makes the answers."""

    @abstractmethod
    def rows(self, sources: np.ndarray) -> np.ndarray:
        """Return distances (S, V) float64, infinity for unreached vertices."""

    def most_sources(self) -> int:
        return max(1, ROWS_BYTES // (8 * self.n_vertices))

    def answers(self, sources: np.ndarray) -> dict[str, np.ndarray]:
        rows, job = self.rows(sources), self.job
        is_reached = np.isfinite(rows)
        found = {}
        if "max_distance" in job.values:
            found["max_distance"] = np.where(is_reached, rows, 0).max(axis=1)
        if "closeness" in job.values:
            others, total = is_reached.sum(axis=1) - 1, np.where(is_reached, rows, 0).sum(axis=1)
            found["closeness"] = others**2 / ((self.n_vertices - 1) * np.maximum(total, 1))
        for radius in job.within:
            found[f"within_{radius}"] = (rows <= radius).sum(axis=1)
        if job.nearest is not None:
            of_targets = np.partition(rows[:, self.targets], job.nearest[0] - 1, axis=1)
            found["nearest"] = np.sort(of_targets[:, : job.nearest[0]], axis=1)
        return found


class Ours(Program):
    """`sp.ingest`, `sp.reduce` and `sp.nearest`: two searches for each source if both have answers."""

    def read(self, edges: Path) -> Any:
        store = sp.ingest(edges, edges.with_name("store"))
        store.graph()
        return store

    def most_sources(self) -> int:
        return 2**31

    def answers(self, sources: np.ndarray) -> dict[str, np.ndarray]:
        job, found = self.job, {}
        table = sp.reduce(self.graph, sources, job.values, within=job.within, cutoff=job.cutoff)
        found = {name: table[name].to_numpy() for name in table.column_names[1:]}
        if job.nearest is not None:
            nearest = sp.nearest(self.graph, sources, job.nearest[0], targets=self.targets)
            distances = np.nan_to_num(nearest["distance"].to_numpy().astype(float), nan=np.inf)
            found["nearest"] = distances.reshape(len(sources), -1)
        return found


class Scipy(RowProgram):
    """`scipy.sparse.csgraph.dijkstra`; its `limit` ends a search early."""

    def read(self, edges: Path) -> Any:
        import scipy.sparse as ss

        table = pd.read_csv(edges)
        ends = table["from"].to_numpy(), table["to"].to_numpy()
        return ss.csr_array((table["weight"].to_numpy(float), ends), shape=(self.n_vertices,) * 2)

    def rows(self, sources: np.ndarray) -> np.ndarray:
        from scipy.sparse import csgraph

        limit = np.inf if self.job.cutoff is None else self.job.cutoff
        return csgraph.dijkstra(self.graph, indices=sources, limit=limit)


class NetworkX(RowProgram):
    """`single_source_dijkstra_path_length`; its `cutoff` ends a search early."""

    def read(self, edges: Path) -> Any:
        import networkx as nx

        graph = nx.DiGraph()
        graph.add_nodes_from(range(self.n_vertices))
        graph.add_weighted_edges_from(pd.read_csv(edges).itertuples(index=False, name=None))
        return graph

    def rows(self, sources: np.ndarray) -> np.ndarray:
        import networkx as nx

        rows = np.full((len(sources), self.n_vertices), np.inf)
        for row, source in zip(rows, sources.tolist(), strict=True):
            found = nx.single_source_dijkstra_path_length(
                self.graph, source, self.job.cutoff, backend="networkx"
            )
            row[list(found)] = list(found.values())
        return rows


class Igraph(RowProgram):
    """`Graph.distances`; it always searches the whole graph."""

    def read(self, edges: Path) -> Any:
        import igraph

        table = pd.read_csv(edges)
        graph = igraph.Graph(self.n_vertices, table[["from", "to"]].to_numpy(), directed=True)
        graph.es["weight"] = table["weight"].to_numpy()
        return graph

    def rows(self, sources: np.ndarray) -> np.ndarray:
        return np.array(self.graph.distances(source=sources.tolist(), weights="weight"))


class Networkit(RowProgram):
    """`SPSP`, whose searches run side by side; it always searches the whole graph."""

    def read(self, edges: Path) -> Any:
        import networkit

        table = pd.read_csv(edges)
        ends = table["from"].to_numpy(), table["to"].to_numpy()
        coordinates = table["weight"].to_numpy(float), ends
        return networkit.GraphFromCoo(coordinates, self.n_vertices, weighted=True, directed=True)

    def rows(self, sources: np.ndarray) -> np.ndarray:
        import networkit

        search = networkit.distance.SPSP(self.graph, sources.tolist())
        search.run()
        rows = np.asarray(search.getDistances(asarray=True))
        return np.where(rows == np.finfo(np.float64).max, np.inf, rows)


PROGRAMS: dict[str, type[Program]] = {
    "sssp-pipeline": Ours,
    "networkit": Networkit,
    "scipy": Scipy,
    "igraph": Igraph,
    "networkx": NetworkX,
}


def module_of(program: str) -> str:
    return program.replace("-", "_")


def measure(name: str, job: Job, given: argparse.Namespace) -> None:
    """Record a line for each program; exits if two of them have different answers."""
    expected: dict[str, np.ndarray] = {}
    with tempfile.TemporaryDirectory() as folder:
        small = task_of(job, min(given.share, SMALL), Path(folder) / "small")
        task = task_of(job, given.share, Path(folder) / "whole")
        for program_name in given.programs:
            PROGRAMS[program_name](job, small).answers(small.sources[:WARM_UP])
            began = time.perf_counter()
            program = PROGRAMS[program_name](job, task)
            read_s = time.perf_counter() - began
            found = program.answers(task.sources[:WARM_UP])
            check_same(program_name, found, expected or found)
            expected = expected or found
            done, solve_s = solve(program, task.sources, given.seconds)
            del program
            record(
                "jobs",
                job=name,
                program=program_name,
                program_version=importlib.import_module(module_of(program_name)).__version__,
                vertices=task.n_vertices,
                edges=task.n_edges,
                sources=len(task.sources),
                solved=done,
                read_s=round(read_s, 3),
                solve_s=round(solve_s, 3),
                sources_per_s=round(done / solve_s, 2),
                total_s=round(read_s + solve_s * len(task.sources) / done, 1),
                is_extrapolated=done < len(task.sources),
                load=os.getloadavg()[0],
            )


def solve(program: Program, sources: np.ndarray, limit_s: float) -> tuple[int, float]:
    """Return how many sources were solved in about `limit_s`, or all, and in how many seconds."""
    done, spent_s, step = 0, 0.0, 1
    while done < len(sources) and spent_s < limit_s:
        part = sources[done : done + min(step, program.most_sources())]
        began = time.perf_counter()
        program.answers(part)
        spent_s += time.perf_counter() - began
        done += len(part)
        # Small steps first, since the rate of a few sources may be too low; a long call cannot be stopped.
        step = max(1, min(8 * len(part), int(done / spent_s * (limit_s - spent_s))))
    return done, spent_s


def check_same(program: str, found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """Exit if `program` has found something else; only closeness is rounded, and nearly the same in each program."""
    for name, values in expected.items():
        if not np.allclose(found[name], values, rtol=1e-12, atol=0):
            sys.exit(f"{program} finds another {name}: {found[name]}, expected {values}")


def chosen(parser: argparse.ArgumentParser, listed: str | None) -> Sequence[str]:
    """Return the programs to run: those listed, or all that are installed."""
    missing = [name for name in PROGRAMS if importlib.util.find_spec(module_of(name)) is None]
    if listed is None:
        for name in missing:
            sys.stderr.write(f"{name} is not installed, and is left out\n")
        return [name for name in PROGRAMS if name not in missing]
    names = listed.split(",")
    for name in names:
        if name not in PROGRAMS:
            parser.error(f"unknown program `{name}`; programs: {', '.join(PROGRAMS)}")
        if name in missing:
            parser.error(f"{name} is not installed: `pip install {name}`")
    return names


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--with", dest="programs", help="with commas; all that are installed by default")
    parser.add_argument("--seconds", type=float, default=20.0, help="of solving for each job and program")
    parser.add_argument("--share", type=float, default=1.0, help="of the sizes, for a quick try")
    given = parser.parse_args()
    given.programs = chosen(parser, given.programs)
    names = given.jobs.split(",")
    if unknown := [name for name in names if name not in JOBS]:
        parser.error(f"unknown job `{unknown[0]}`; jobs: {', '.join(JOBS)}")
    for name in names:
        measure(name, JOBS[name], given)


if __name__ == "__main__":
    main()
