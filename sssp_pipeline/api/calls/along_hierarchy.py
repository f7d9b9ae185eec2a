"""Sums along the shortest paths of a call by the hierarchy of the graph, on all cores or a GPU, without rows."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np

from sssp_pipeline.api.calls.calls import machine_of_call, result_of, traits_for, traits_with_hierarchy
from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.base.errors import UnsolvableError
from sssp_pipeline.base.host_memory import free_memory_bytes
from sssp_pipeline.kernels import SOLVERS, WITH_HIERARCHY
from sssp_pipeline.kernels.answers.path_sums import PathWords, add_group
from sssp_pipeline.kernels.answers.reductions import Reductions
from sssp_pipeline.kernels.contract.forecast import CORES_EXPONENT
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.path_sweep.arc_sums_on_device import part_words, passing_of_parts
from sssp_pipeline.kernels.gpu.path_sweep.path_sweep_on_device import PathSweepOnDevice
from sssp_pipeline.kernels.hierarchy.arc_sums import ArcSums, shared_counts
from sssp_pipeline.kernels.hierarchy.completion import costs
from sssp_pipeline.kernels.hierarchy.sweeps.path_counts import PathCounts
from sssp_pipeline.kernels.hierarchy.sweeps.path_sweep import GROUP, Passing, PathSweep, n_bytes_of, spread
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.kernels.host.search import search_limit
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.planning.choice import choose_solver, expected_s, has_hierarchy, refusals
from sssp_pipeline.pipeline.planning.hierarchy import LEAST_S
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.planning.work import GROUPS, SWEPT_AT_ONCE, Work, batch_size, cut
from sssp_pipeline.workflow.models import Solve

#: The share of the free memory that the threads may take.
_MEMORY_SHARE = 0.5


class Summed(NamedTuple):
    """Sums along the shortest paths of a call."""

    words: PathWords
    #: How many groups of sources have the squares that `words` may have. Along rows, a source is a group.
    n_groups: int


def sums_on_hierarchy(
    graph: CsrGraph,
    sources: np.ndarray,
    asked: PathSumsAsked,
    options: SolveOptions,
    solver: str,
    stored: StoredGraph | None,
) -> Summed | None:
    """Return what is `asked` over the shortest paths from `sources` (S,) uint32, which are in random order if sampled.

    The other parameters, and the errors, are those of `solve_sources`.

    Returns
    -------
    Summed or None
        None if rows give it sooner or with less memory, if there are too few sources, or if a vertex has too many
        paths. That vertex may be beyond the cutoff.
    """
    has_decay = asked.amounts is not None and asked.amounts.decay > 0
    groups = _groups(graph, sources, asked)
    is_too_small = not len(sources) or (asked.squares and len(groups) < GROUPS)
    is_refused = has_decay or graph.weight_dtype.kind == "f"
    if is_refused or is_too_small or solver not in ("auto", *WITH_HIERARCHY):
        return None
    device = _device_of_hierarchy(graph, sources, groups, asked, options, solver, stored)
    if device is None:
        return None
    counts = shared_counts(graph)
    if isinstance(counts, str):
        return None  # rows may be counted, and a solver may find no distance that is too long
    of_group = replace(asked, on_hierarchy=True)
    parts: Iterator[np.ndarray]
    if device == "gpu" and PathSweepOnDevice.fits(counts):
        parts = _on_device(graph, groups, of_group, options)
    else:
        n_threads = min(usable_cores(), int(_MEMORY_SHARE * free_memory_bytes() / n_bytes_of(counts)))
        if not n_threads:
            return None
        if not asked.squares:
            limit = counts.hierarchy.up.weights.dtype.type(search_limit(graph, options.cutoff))
            passing = _passing_on_cores(counts, sources, asked, limit, n_threads)
            return None if passing is None else Summed(spread(graph, counts, passing, asked), len(sources))
        parts = _on_cores(graph, groups, of_group, options.cutoff, n_threads)
    try:
        if asked.squares:
            return Summed(_sums_of_groups(graph, asked, groups, parts), len(groups))
        (words,) = parts
    except UnsolvableError:
        return None  # the vertex that has too many paths may be beyond the cutoff
    return Summed(PathWords(*np.split(words, [graph.n_vertices * asked.vertices])), len(sources))


def options_of_rows(options: SolveOptions, asked: PathSumsAsked) -> SolveOptions:
    """Return `options` for the choice of a solver whose rows are summed and not copied."""
    return replace(options, kept=Reductions(paths=asked, facts=False))


def _device_of_hierarchy(
    graph: CsrGraph,
    sources: np.ndarray,
    groups: list[np.ndarray],
    asked: PathSumsAsked,
    options: SolveOptions,
    solver: str,
    stored: StoredGraph | None,
) -> str | None:
    """Return the device that sums over the hierarchy, or None if rows are expected to be faster.

    If the call gains by a hierarchy, the graph has one afterwards. Parameters and errors are those of `solve_sources`.
    """
    machine, n_sources = machine_of_call(), len(sources)
    traits = traits_for(machine, graph)

    def work_of_sums(options: SolveOptions) -> Work:
        return Work(traits, options, n_sources, batch_size(traits, n_sources, Solve(), options.kept))

    def seconds_along_rows(traits: GraphTraits) -> float:
        work = replace(along_rows, traits=traits)
        return expected_s(choose_solver(solver, work, machine)[0], work, machine)

    along_rows = work_of_sums(options_of_rows(options, asked))
    rows_s = seconds_along_rows(traits)
    if not has_hierarchy(traits):
        if solver == "auto" and rows_s <= LEAST_S:
            return None
        works = {}
        for name in WITH_HIERARCHY if solver == "auto" else (solver,):
            over = replace(asked, on_hierarchy=True, on_gpu=SOLVERS.device_of(name) == "gpu")
            works[name] = replace(work_of_sums(options_of_rows(options, over)), instead=along_rows)
        able = [name for name, work in works.items() if name not in refusals(work, machine)]
        if not able:
            return None
        fastest = min(able, key=lambda name: expected_s(SOLVERS[name], works[name], machine))
        traits = traits_with_hierarchy(graph, stored, sources, solver, works[fastest], machine)
        if not has_hierarchy(traits):
            return None
        rows_s = seconds_along_rows(traits)
    devices = [SOLVERS.device_of(name) for name in WITH_HIERARCHY if solver in ("auto", name)]
    expected = {
        device: _seconds(device, traits, groups, machine)
        for device in devices
        if device == "cpu" or machine.gpu_free_bytes is not None
    }
    if not expected:
        return None
    fastest = min(expected, key=expected.__getitem__)
    return fastest if expected[fastest] < rows_s else None


def _seconds(device: str, traits: GraphTraits, groups: list[np.ndarray], machine: Machine) -> float:
    """Return the expected seconds of the sums over a hierarchy."""
    n_sources, unpack_s = sum(map(len, groups)), costs.unpack_s(traits)
    if device == "gpu":
        source_s = costs.gpu_pass_s(traits)
    else:
        n_at_once = len(groups) if len(groups) > 1 else -(-n_sources // GROUP)
        source_s = costs.pass_s(traits) / min(machine.cores, n_at_once) ** CORES_EXPONENT
    n_unpacked = len(groups) / min(machine.cores, len(groups)) ** CORES_EXPONENT
    return n_sources * source_s + (1 + n_unpacked) * unpack_s


def _groups(graph: CsrGraph, sources: np.ndarray, asked: PathSumsAsked) -> list[np.ndarray]:
    """Return `sources` in the groups whose sums give the squares; as one group if none are wanted."""
    if not asked.squares:
        return [sources]
    return cut(graph.traits, sources, Solve(), Reductions(paths=replace(asked, on_hierarchy=True)))


def _sums_of_groups(
    graph: CsrGraph, asked: PathSumsAsked, groups: list[np.ndarray], parts: Iterator[np.ndarray]
) -> PathWords:
    """Return the sums over all groups, and of their squares; `parts` are the words (P, 2) of each."""
    n_vertices = graph.n_vertices
    words = np.zeros((asked.n_places(n_vertices, graph.n_edges), 4), np.uint64)
    for group, part in zip(groups, parts, strict=True):
        add_group(words, part, len(group))
    return PathWords(*np.split(words, [n_vertices * asked.vertices]))


def _on_device(
    graph: CsrGraph, groups: list[np.ndarray], asked: PathSumsAsked, options: SolveOptions
) -> Iterator[np.ndarray]:
    """Yield the words (P, 2) of each group. It raises `UnsolvableError` if paths cannot be counted."""
    n_at_once = max(1, 2 * SWEPT_AT_ONCE // len(groups[0]))
    with ThreadPoolExecutor(min(usable_cores(), n_at_once), "sssp-unpack") as pool:
        for first in range(0, len(groups), n_at_once):
            some = groups[first : first + n_at_once]
            ends = np.cumsum([len(group) for group in some]).tolist()
            parts = passing_of_parts(graph, np.concatenate(some), ends, asked, options)
            yield from pool.map(partial(part_words, graph, asked), parts)


def _on_cores(
    graph: CsrGraph, groups: list[np.ndarray], asked: PathSumsAsked, cutoff: float | None, n_threads: int
) -> Iterator[np.ndarray]:
    """Yield the words (P, 2) of each group. It raises `UnsolvableError` if paths cannot be counted."""

    def words_of(group: np.ndarray) -> np.ndarray:
        sums = ArcSums(graph, asked, cutoff)
        sums.add(np.empty((0, 0)), group)
        return sums.part_words

    pool = ThreadPoolExecutor(n_threads, "sssp-paths")
    try:
        yield from map(result_of, [pool.submit(words_of, group) for group in groups])
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _passing_on_cores(
    counts: PathCounts, sources: np.ndarray, asked: PathSumsAsked, limit: np.generic, most_threads: int
) -> Passing | None:
    groups = [sources[first : first + GROUP] for first in range(0, len(sources), GROUP)]
    n_threads = min(most_threads, len(groups))
    every = [PathSweep(counts, asked) for _ in range(n_threads)]
    idle: SimpleQueue[PathSweep] = SimpleQueue()
    for sweep in every:
        idle.put(sweep)

    def add(group: np.ndarray) -> bool:
        sweep = idle.get()
        try:
            return sweep.add(group, limit) is not None
        finally:
            idle.put(sweep)

    pool = ThreadPoolExecutor(n_threads, "sssp-paths")
    try:
        can_count = all(map(result_of, [pool.submit(add, group) for group in groups]))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    for sweep in every[1:]:
        every[0].merge(sweep)
    return every[0].words() if can_count else None
