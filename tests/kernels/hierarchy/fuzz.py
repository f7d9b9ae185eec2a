"""Random small graphs, solved over a hierarchy and by Dijkstra's algorithm: every distance and metric must be equal.

    python tests/kernels/hierarchy/fuzz.py --graphs 100000 --seed 1 --solver phast
    python tests/kernels/hierarchy/fuzz.py --graphs 100000 --seed 1 --solver bits-gpu

A graph has parts: trees, cycles, cliques, lattices with holes, stars, random ones. Each part is joined to an earlier
one by bridges or at a vertex, or not at all. Weights may be zero, equal, as large as the type allows, or negative.
Edges lead both ways, one way, or both ways with different weights. Some graphs are ordered by METIS, and some of these
are cut before. Others are ordered as where METIS is not installed. One to three threads prepare a graph. Chunks are
smaller than they are otherwise, so that small graphs have several bands of them. Options vary too: sources, targets,
cutoff, what is kept.

`bits` and `bits-gpu` get equal weights, also floats. `bits-gpu` is in turns as it is, and with hubs of few edges, marks
at most depths, and launches that stop after few depths.

Every graph follows from the seed and its number. So `--first N --graphs 1` repeats graph N, and a failure is printed
with its edges.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from itertools import repeat
from unittest import mock

import numpy as np
import pymetis

from sssp_pipeline.base.csr import CsrGraph, csr_from_edges
from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.answers.nearest import NearestOfRow
from sssp_pipeline.kernels.answers.reductions import Reductions
from sssp_pipeline.kernels.contract.kept import EveryVertex, KeptOfRow, Nothing, Targets
from sssp_pipeline.kernels.contract.over_sources import OverSources
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.bits_gpu.bits_gpu import BitsGpu
from sssp_pipeline.kernels.gpu.phast_gpu import device_hierarchy, host_hierarchy, phast_gpu
from sssp_pipeline.kernels.hierarchy.completion import arc_completion, chunks, customization
from sssp_pipeline.kernels.hierarchy.dividing import flows
from sssp_pipeline.kernels.hierarchy.dividing.cuts import Subgraph
from sssp_pipeline.kernels.hierarchy.ordering import metis_processes, order
from sssp_pipeline.kernels.hierarchy.ordering.metis_child import found_by

Pairs = list[tuple[int, int]]
Random = np.random.Generator

#: The metrics that do not depend on the solver.
METRICS = ("source", "reached", "max_distance", "mean_distance")
INTEGERS = ("uint32", "uint32", "int32", "uint64", "int64")
#: The solvers that take equal weights only, and what weights they get.
EQUAL_ONLY = ("bits", "bits-gpu")
ANY_TYPE = ("uint32", "int32", "uint64", "int64", "float32", "float64")
EQUAL_WEIGHTS = (1, 1, 7, 0.1, 2**29)
#: How `bits-gpu` is made: each takes some seconds to compile.
BITS_GPU = (
    BitsGpu(),
    BitsGpu(item_edges=4, mark_share=1, most_counted=2),
    BitsGpu(item_edges=1, mark_share=3, most_counted=7, words_each=2),
)


@dataclass
class Case:
    """A graph and how it is solved."""

    graph: CsrGraph
    sources: np.ndarray
    options: SolveOptions
    n_threads: int
    #: From how many vertices on METIS orders what is left, and from how many on that is cut before. With 0 for the
    #: second number, it is ordered without METIS.
    few: int
    cut_vertices: int
    #: The most vertices of the top, of the chunks below it, and of a chunk of whole subtrees.
    chunk_sizes: tuple[int, int, int]
    #: On a GPU: from how many boundary vertices on a chunk is a front, and blocks share it; and above which share of
    #: all vertices sources climb together.
    least_front: int
    least_part: int
    least_share: float
    #: `FEW_STEPS` for any number of sources: with 0, many warps share a tile; with 100, one warp has several tiles.
    few_steps: int
    #: The least bits of a word on a GPU.
    least_bits: int
    #: Which of `BITS_GPU`.
    bits_gpu: int


# ---- graphs ----


def tree(random: Random, n: int) -> Pairs:
    return [(int(random.integers(0, v)), v) for v in range(1, n)]


def cycle(random: Random, n: int) -> Pairs:
    return [(v, (v + 1) % n) for v in range(n)]


def clique(random: Random, n: int) -> Pairs:
    return [(u, v) for v in range(min(n, 9)) for u in range(v)]


def star(random: Random, n: int) -> Pairs:
    return [(0, v) for v in range(1, n)]


def lattice_with_holes(random: Random, n: int) -> Pairs:
    width = int(random.integers(1, n + 1))
    is_hole = random.random(n) < random.choice([0, 0.1, 0.3])
    pairs = [(v, v + 1) for v in range(n - 1) if (v + 1) % width]
    pairs += [(v, v + width) for v in range(n - width)]
    return [(u, v) for u, v in pairs if not is_hole[u] and not is_hole[v]]


def anything(random: Random, n: int) -> Pairs:
    return [(int(u), int(v)) for u, v in random.integers(0, n, (int(random.integers(0, 3 * n)), 2))]


PARTS = (tree, cycle, clique, star, lattice_with_holes, lattice_with_holes, anything)


def pairs_of(random: Random) -> tuple[int, Pairs]:
    """Return how many vertices there are, and their pairs."""
    n, pairs = 0, []
    largest = int(random.choice([4, 12, 30, 60]))
    for _ in range(int(random.integers(1, 7))):
        size = int(random.integers(1, largest + 1))
        make = PARTS[int(random.integers(len(PARTS)))]
        some = make(random, size)
        joint = random.choice(["bridge", "bridge", "two bridges", "vertex", "nothing"]) if n else "nothing"
        if joint == "vertex":  # parts that share a vertex: a cactus if they are cycles
            shared = int(random.integers(0, n))
            places = [shared, *range(n, n + size - 1)]
            pairs += [(places[u], places[v]) for u, v in some]
            n += size - 1
            continue
        pairs += [(n + u, n + v) for u, v in some]
        for _ in range({"bridge": 1, "two bridges": 2, "nothing": 0}[joint]):
            pairs.append((int(random.integers(0, n)), int(random.integers(n, n + size))))
        n += size
    return n, pairs


def weights_of(random: Random, n: int, dtype: np.dtype) -> np.ndarray:
    kind = random.choice(
        ["few", "few", "zeros", "one", "spread", "large"], p=[0.25, 0.2, 0.2, 0.1, 0.22, 0.03]
    )
    largest = int(np.iinfo(dtype).max) - 1
    if kind == "spread":
        return random.integers(0, 10**6, n).astype(dtype)
    values = {"few": [1, 2, 3, 5, 10], "zeros": [0, 0, 0, 1, 2], "one": [1]}
    values["large"] = [largest // 3, largest // 7, 1, 0]
    return random.choice(np.array(values[str(kind)], dtype), n)


def graph_of(random: Random, is_equal: bool) -> CsrGraph:
    n, pairs = pairs_of(random)
    dtype = np.dtype(str(random.choice(INTEGERS)))
    ends = np.array(pairs, np.int64).reshape(-1, 2)
    there, back = weights_of(random, len(ends), dtype), weights_of(random, len(ends), dtype)
    ways = random.choice(["both", "differ", "there", "back"], len(ends), p=random.choice(WAYS))
    back = np.where(ways == "both", there, back)
    forward, backward = np.isin(ways, ["both", "differ", "there"]), np.isin(ways, ["both", "differ", "back"])
    src = np.concatenate([ends[forward, 0], ends[backward, 1]])
    dst = np.concatenate([ends[forward, 1], ends[backward, 0]])
    weights = np.concatenate([there[forward], back[backward]])
    if len(src) and random.random() < 0.3:  # parallel edges and loops
        again = random.integers(0, len(src), 3)
        src, dst = np.concatenate([src, src[again], [n - 1]]), np.concatenate([dst, dst[again], [n - 1]])
        weights = np.concatenate([weights, weights_of(random, 4, dtype)])
    if is_equal:
        dtype = np.dtype(str(random.choice(ANY_TYPE)))
        weight = random.choice(EQUAL_WEIGHTS)
        weights = np.full(len(src), weight if dtype.kind == "f" else max(weight, 1), dtype)
    elif dtype.kind == "i" and random.random() < 0.2 and np.max(weights, initial=0) < 2**24:
        heights = random.integers(-50, 50, n)  # no cycle becomes negative
        weights = (weights + heights[dst] - heights[src]).astype(dtype)
    numbers = random.permutation(n) if random.random() < 0.5 else np.arange(n)
    return csr_from_edges(numbers[src], numbers[dst], weights, n)


#: How likely an edge leads both ways, both ways with two weights, there, or back.
WAYS = np.array([[1, 0, 0, 0], [1, 0, 0, 0], [0.5, 0.2, 0.15, 0.15], [0, 0.5, 0.25, 0.25], [0, 0, 0.7, 0.3]])


def kept_of(random: Random, n: int) -> KeptOfRow:
    targets = random.integers(0, n, int(random.integers(1, 12)))
    some, k = Targets(random.integers(0, n, 70)), int(random.integers(1, 5))
    kinds: list[KeptOfRow] = [EveryVertex(), EveryVertex(), Nothing(), Targets(targets), some]
    kinds += [NearestOfRow(k, targets), NearestOfRow(2), *(reductions_of(random, n) for _ in range(4))]
    return kinds[int(random.integers(len(kinds)))]


def reductions_of(random: Random, n: int) -> Reductions:
    """Return any of the reductions, each with others or alone."""
    has = random.random(5) < np.array([0.5, 0.5, 0.4, 0.15, 0.4])  # quantiles need whole rows
    amounts = random.integers(int(random.choice([-9, 0])), int(random.choice([10, 2**50])), (2, n))
    n_bounds = int(random.choice([2, 5, 300, 1025]))
    return Reductions(
        (3, 100) if has[0] else (),
        amounts[: int(random.integers(1, 3))] if has[0] and random.random() < 0.7 else None,
        harmonic=bool(has[1]),
        bounds=tuple(np.linspace(0, n_bounds, n_bounds).tolist()) if has[2] else (),
        shares=(0.25, 0.9) if has[3] else (),
        over_sources=OverSources(*(random.random(2) < 0.7).tolist(), (2, 50)) if has[4] else None,
    )


#: Of the top, of the chunks below it, and of chunks of whole subtrees.
CHUNK_SIZES = ([1, 2, 8, 32, chunks.MOST_TOP], [1, 3, 8, 30, chunks.MOST_OWN], [1, 2, 5, 16, chunks.MOST_LOW])


def case(seed: int, number: int, *, is_equal: bool = False) -> Case:
    """Return the case of this number; always the same one. All its weights are equal if `is_equal`."""
    random = np.random.default_rng([seed, number])
    graph = graph_of(random, is_equal)
    n = graph.n_vertices
    sources = np.arange(n)
    if random.random() < 0.8:
        most = 2100 if is_equal and random.random() < 0.02 else random.choice([5, 5, 20, 20, 20, 130])
        sources = random.integers(0, n, int(random.integers(1, most)))
    cutoff = None
    if random.random() < 0.3:
        cutoff = float(random.choice([0, 1, 3, 7.5, 12, 40, 10**6]))
    options = SolveOptions(cutoff=cutoff, kept=kept_of(random, n), metrics=bool(random.random() < 0.7))
    by_metis = random.random() < 0.02
    few, cut_vertices = (0, int(random.choice([0, 8, 1000]))) if by_metis else (10**6, 10**6)
    n_threads = int(random.choice([1, 1, 1, 1, 1, 1, 2, 3]))
    chunk_sizes = tuple(int(random.choice(sizes)) for sizes in CHUNK_SIZES)
    least_front = int(random.choice([0, 1, 4, host_hierarchy.LEAST_FRONT]))
    least_part = int(random.choice([1, 1, 2, phast_gpu.LEAST_PART]))
    least_share = float(random.choice([0, 0.1, 0.5, 2]))
    bits_gpu = int(random.integers(len(BITS_GPU)))
    least_bits = int(random.choice([16, 16, 16, 32, 32, 64]))
    few_steps = {1: 0, 2: 100}.get(least_part, 1)
    sizes = chunk_sizes, least_front, least_part, least_share, few_steps, least_bits
    return Case(graph, sources, options, n_threads, few, cut_vertices, *sizes, bits_gpu)


# ---- comparison ----


@contextmanager
def prepared_as(given: Case) -> Iterator[None]:
    """Have hierarchies made as `given` says, without a process for METIS."""

    class InThisProcess(nullcontext):
        def __enter__(self) -> InThisProcess:
            return self

        def send(self, request: int, part: Subgraph, *weights: np.ndarray) -> None:
            arrays = (array.astype(np.int64) for array in (part.offsets, part.neighbours, *weights))
            self.found = np.array(found_by(pymetis._internal, request, *arrays), np.int32)

        def receive(self, n_vertices: int) -> np.ndarray:
            assert len(self.found) == n_vertices
            return self.found

        def kill(self) -> None:
            pass

    stand_ins = [
        (arc_completion, "usable_cores", lambda: given.n_threads),
        (customization, "usable_cores", lambda: given.n_threads),
        (order, "FEW", given.few),
        (metis_processes, "MetisProcess", InThisProcess),
        (flows, "MOST_IN_SEPARATOR", 1.0),
        (metis_processes, "CUT_VERTICES", given.cut_vertices),
        (metis_processes, "package", (lambda: True) if given.cut_vertices else (lambda: None)),
        (phast_gpu, "LEAST_PART", given.least_part),
        (phast_gpu, "FEW_STEPS", dict.fromkeys(phast_gpu.FEW_LANES, given.few_steps)),
        (device_hierarchy, "LEAST_BITS", given.least_bits),
        (host_hierarchy, "LEAST_FRONT", given.least_front),
        (host_hierarchy, "LEAST_SHARE", given.least_share),
        (host_hierarchy, "LEAST_WORDS", 0 if given.least_share <= 1 else 2**60),
        *zip(repeat(chunks), ("MOST_TOP", "MOST_OWN", "MOST_LOW"), given.chunk_sizes, strict=False),
    ]
    with ExitStack() as stack:
        for module, name, stand_in in stand_ins:
            stack.enter_context(mock.patch.object(module, name, stand_in))
        yield


def solved(solver: str, given: Case) -> tuple[np.ndarray | str, np.ndarray | None, list[tuple]]:
    """Return what is kept of the rows, or the message of an error; what is kept over sources; and the metrics."""
    try:
        found = SOLVERS[solver].solve(given.graph, given.sources, given.options)
    except SsspError as error:
        return error.message, None, []
    names = METRICS if given.options.metrics else ("source",)
    metrics = [tuple(getattr(metrics, name) for name in names) for metrics in found.metrics]
    return found.distances, found.over_sources, metrics


def difference(given: Case, solver: str) -> str | None:
    """Return how `solver` and Dijkstra's algorithm differ, or None."""
    SOLVERS[
        solver
    ]  # its module takes the sizes of chunks when it is first imported, and they are replaced below
    if solver == "bits-gpu":
        SOLVERS[solver] = BITS_GPU[given.bits_gpu]
    with prepared_as(given):
        found, over, metrics = solved(solver, given)
    expected, expected_over, expected_metrics = solved("dijkstra", given)
    if isinstance(found, str) or isinstance(expected, str):
        if isinstance(found, str) and isinstance(expected, str):
            # Groups of sources are solved in another order than they are given: the first error may name another one.
            ids = "`[0-9]+`" if solver in EQUAL_ONLY else ""
            if re.sub(ids, "", found) == re.sub(ids, "", expected):
                return None
        return f"found {found}, expected {expected}"
    if found.dtype != expected.dtype or not np.array_equal(found, expected):
        where = np.argwhere(found != expected)[:3].tolist()
        return f"distances differ at {where}: {[(found[*at], expected[*at]) for at in where]}"
    if not np.array_equal(over, expected_over):
        return f"what is kept over sources differs: {over}, expected {expected_over}"
    if metrics != expected_metrics:
        return (
            f"metrics differ: {[p for p in zip(metrics, expected_metrics, strict=True) if p[0] != p[1]][:3]}"
        )
    return None


def shown(given: Case) -> str:
    """Return a case as text, complete enough to repeat it by hand."""
    graph = given.graph
    src = np.repeat(np.arange(graph.n_vertices), np.diff(graph.row_offsets))
    edges = list(zip(src.tolist(), graph.col_indices.tolist(), graph.weights.tolist(), strict=True))
    return (
        f"  {graph.n_vertices} vertices, {graph.weight_dtype}, edges {edges}\n"
        f"  sources {given.sources.tolist()}, {given.options}, {given.n_threads} threads, METIS from {given.few}, "
        f"chunks of {given.chunk_sizes}, fronts from {given.least_front} boundary vertices, parts of "
        f"{given.least_part}, climbed together above {given.least_share} of the vertices, words of {given.least_bits} "
        f"bits or more, bits-gpu {given.bits_gpu}"
    )


def run(seed: int, numbers: range, solver: str, most_failures: int = 5) -> int:
    """Compare the cases `numbers`, print what happens, and return how many differ. It ends at `most_failures`."""
    n_failed = 0
    counts: Counter[str] = Counter()
    began = last = time.monotonic()
    for number in numbers:
        given = case(seed, number, is_equal=solver in EQUAL_ONLY)
        try:
            fault = difference(given, solver)
        except Exception:
            fault = traceback.format_exc()
        counts["with METIS"] += given.few == 0 < given.cut_vertices
        counts["without METIS"] += given.cut_vertices == 0
        counts["64 bits"] += given.graph.weight_dtype.itemsize == 8
        counts["sources"] += len(given.sources)
        if fault is not None:
            n_failed += 1
            print(f"FAILURE seed {seed} graph {number}: {fault}\n{shown(given)}", flush=True)
        is_last = number == numbers[-1] or n_failed == most_failures
        if time.monotonic() - last > 10 or is_last:
            last = time.monotonic()
            done = number - numbers[0] + 1
            facts = ", ".join(f"{count} {what}" for what, count in counts.items())
            each = 1000 * (last - began) / done
            print(f"{solver}: {done} graphs, {n_failed} differ; {facts}; {each:.2f} ms each", flush=True)
        if is_last:
            break
    return n_failed


def main() -> int:
    """Run the command line; return 1 if a graph was solved differently."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first graph")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--solver", choices=list(SOLVERS), default="phast")
    parser.add_argument("--most-failures", type=int, default=5, help="end at so many")
    chosen = parser.parse_args()
    numbers = range(chosen.first, chosen.first + chosen.graphs)
    return 1 if run(chosen.seed, numbers, chosen.solver, chosen.most_failures) else 0


if __name__ == "__main__":
    sys.exit(main())
