"""The stage that makes the hierarchy of a stored graph, and keeps it in the store for all workers and all later runs.

It is made step by step: order, arcs, weights of the arcs. Each step shows more of what the next ones cost, so a
function decides before each step whether to go on. If a run is free to search instead, this function first looks at the
graph. The store keeps what a step has shown. So the next run does not repeat a step.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from sssp_pipeline.base import compile_children
from sssp_pipeline.base.compile_children import KernelGroup
from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.base.error_text import Text
from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.base.host_memory import free_memory_bytes
from sssp_pipeline.base.progress import Progress, in_bytes, plural
from sssp_pipeline.kernels import solver_named
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.common.cuda.cupy_setup import gpu_missing
from sssp_pipeline.kernels.hierarchy import shared
from sssp_pipeline.kernels.hierarchy.compile_ahead import (
    COMPLETION,
    CORE,
    COUNTS,
    MANY_CHILDREN,
    SWEEPS,
    compiling_ahead,
    n_children,
    wait_for_weights,
)
from sssp_pipeline.kernels.hierarchy.completion import costs
from sssp_pipeline.kernels.hierarchy.completion.arc_completion import Completion, fill
from sssp_pipeline.kernels.hierarchy.completion.customization import customize
from sssp_pipeline.kernels.hierarchy.ordering.order import neighbours_of
from sssp_pipeline.pipeline.graph_store.hierarchies import HierarchyWriter, load_completion
from sssp_pipeline.pipeline.graph_store.hierarchy_record import OfEdges, OfGraph, edges_id, read_record
from sssp_pipeline.pipeline.graph_store.manifest import StoreManifest
from sssp_pipeline.pipeline.graph_store.store import older_versions, read_newest
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.planning import hierarchy
from sssp_pipeline.pipeline.planning.choice import choose_solver, has_hierarchy, seconds_text
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.planning.work import Work
from sssp_pipeline.pipeline.run.hierarchy_steps import (
    CountedAhead,
    Found,
    LeavesWeights,
    WhyNot,
    ask_why_not,
    count_arcs,
    nothing_ahead,
)
from sssp_pipeline.storage import files
from sssp_pipeline.storage.lease import exclusive
from sssp_pipeline.workflow.models import Solve
from sssp_pipeline.workflow.weights import naming_weight

#: From this many seconds on, the stage says how long the weights of the arcs will take.
_LONG_S = 10.0
#: The hint of a run whose hierarchy cannot be made.
_LEAVE_IT = "set `solve.hierarchy: auto` and `solve.solver: auto`; with `ingest`, leave out `--hierarchy`"


def known_traits(stored: StoredGraph) -> GraphTraits:
    """Return the properties of a stored graph and of its hierarchy; raises the errors of `read_record`."""
    return replace(stored.manifest.traits, hierarchy=read_record(stored.store).traits(stored.manifest))


def _never(traits: GraphTraits) -> bool:
    return False


def _nothing(*_: object) -> None:
    return None


def make_hierarchy(
    stored: StoredGraph,
    why_not: WhyNot,
    progress: Progress,
    leaves_weights: LeavesWeights = _never,
    of_solver: KernelGroup = SWEEPS,
    ahead: Callable[[], Found | None] = _nothing,
    on_completion: Callable[[CsrGraph], None] = _nothing,
) -> tuple[GraphTraits, str | None]:
    """Make what the store lacks of the hierarchy of a graph, as long as `why_not` agrees.

    Where `leaves_weights`, the order and the arcs are enough. If another process writes to the store, this function
    waits. A killed process leaves no hierarchy in the store. Meanwhile children compile what is needed later,
    `of_solver` too. `ahead` is called when the order is wanted. If it returns counted arcs, these are taken.
    `on_completion` is called when the graph has its arcs, before the store has them, if no weights are to be found.

    Returns
    -------
    traits : GraphTraits
        As `known_traits`, afterwards.
    reason : str or None
        Why the hierarchy is not there; None if it is.

    Raises
    ------
    InputError
        The store cannot be written, or a file of the store is damaged; or the graph is too large for METIS.
    SsspError
        METIS failed.
    """
    traits = known_traits(stored)
    if has_hierarchy(traits) or (reason := why_not(traits)) is not None:
        return traits, None if has_hierarchy(traits) else reason
    if _is_completed(traits) and leaves_weights(traits):
        return traits, None
    files.check_writable(stored.store)

    def report_wait(holder: str) -> None:
        place = files.redacted(stored.store)
        progress.say(f"{holder} is writing to the graph store `{place}`: waiting until it ends", "waiting")

    with exclusive(stored.store, report_wait) as check_held:
        of_run = leaves_weights, of_solver, ahead, on_completion
        return _Making(stored, why_not, progress, check_held, *of_run).make()


def _is_completed(traits: GraphTraits) -> bool:
    return traits.hierarchy is not None and traits.hierarchy.is_completed


class _Making:
    """One attempt; this process holds the store."""

    def __init__(
        self,
        stored: StoredGraph,
        why_not: WhyNot,
        progress: Progress,
        check_held: Callable[[], None],
        leaves_weights: LeavesWeights,
        of_solver: KernelGroup = SWEEPS,
        ahead: Callable[[], Found | None] = _nothing,
        on_completion: Callable[[CsrGraph], None] = _nothing,
    ) -> None:
        self._stored, self._why_not, self._progress = stored, why_not, progress
        self._check_held, self._leaves_weights, self._of_solver = check_held, leaves_weights, of_solver
        self._ahead, self._on_completion = ahead, on_completion
        self._record = read_record(stored.store)  # another process may have made it meanwhile

    def make(self) -> tuple[GraphTraits, str | None]:
        """Do what `make_hierarchy` does."""
        began = time.perf_counter()
        if (reason := self._reason()) is not None or self._is_there:
            return self._traits, reason
        graph = self._stored.graph()
        key = self._record.edges_of(self._stored.manifest) or edges_id(graph)
        with HierarchyWriter(self._stored.store) as writer:
            if key in self._record.edges:  # maybe of a graph with other weights
                self._note_edges(key, self._record.edges[key])
            with compiling_ahead(graph, self._of_solver):
                completion, reason = self._completion(graph, key, writer)
            if completion is None:
                compile_children.stop()
            if completion is not None and not self._is_there and (reason := self._reason()) is None:
                self._progress.stage(f"hierarchy: weights of {_amount_text(completion)}")
                wait_for_weights(graph)
                made = customize(completion, graph)
                shared.share_hierarchy(graph, made)
                self._note_graph(OfGraph(edges=key, arrays=writer.write_customization(made)))
            self._check_held()
            writer.commit_record(self._record, _content_ids(self._stored.store))
        if reason is None:
            self._say(time.perf_counter() - began)
        return self._traits, reason

    def _completion(
        self, graph: CsrGraph, key: str, writer: HierarchyWriter
    ) -> tuple[Completion | None, str | None]:
        """Return the completion, which is read or made, or why not."""
        if key in self._record.edges and self._record.edges[key].arrays:
            self._progress.stage("hierarchy: read the order")
            completion = load_completion(self._stored.store, self._stored.manifest, record=self._record)
            assert completion is not None
            shared.share_completion(graph, completion)
            return completion, None
        found, reason = self._counted(graph, key)
        if found is None:
            return None, reason
        compile_children.wait_for(COMPLETION)
        around, counted = found
        completion = fill(*around, counted)
        del found, around, counted  # they are as large as the graph
        shared.share_completion(graph, completion)
        known, traits = self._record.edges[key], self._traits
        assert traits.hierarchy is not None, "the arcs are counted"
        if self._leaves_weights(replace(traits, hierarchy=replace(traits.hierarchy, is_completed=True))):
            self._on_completion(graph)
        self._note_edges(key, known.model_copy(update={"arrays": writer.write_completion(completion)}))
        return completion, None

    def _counted(self, graph: CsrGraph, key: str) -> tuple[Found | None, str | None]:
        """Return the neighbours of a graph and the counted arcs of its hierarchy, or why none is to be made."""
        self._progress.stage("hierarchy: order")
        if (found := self._ahead()) is None:
            compile_children.wait_for(CORE)
            around = neighbours_of(graph)
            found = around, count_arcs(around, self._progress)
        known, reason = ask_why_not(found[1], self._traits, self._why_not)
        self._note_edges(key, OfEdges.counted(known))
        return found if reason is None else None, reason

    def counted_traits(self) -> tuple[GraphTraits, str | None]:
        """Return what `make` does, but count the arcs only, and write nothing."""
        if (reason := self._reason()) is None:
            graph = self._stored.graph()
            key = self._record.edges_of(self._stored.manifest) or edges_id(graph)
            if self._traits.hierarchy is None:
                _, reason = self._counted(graph, key)
        return self._traits, reason

    @property
    def _traits(self) -> GraphTraits:
        manifest = self._stored.manifest
        return replace(manifest.traits, hierarchy=self._record.traits(manifest))

    @property
    def _is_there(self) -> bool:
        traits = self._traits
        return has_hierarchy(traits) or (_is_completed(traits) and self._leaves_weights(traits))

    def _reason(self) -> str | None:
        """Return why the next step is not taken; None if it is, or if there is none."""
        return None if self._is_there else self._why_not(self._traits)

    def _note_edges(self, key: str, edges: OfEdges) -> None:
        """Add what is known of the edges to the record that will be committed."""
        self._record = self._record.model_copy(update={"edges": self._record.edges | {key: edges}})
        if self._stored.manifest.content_id not in self._record.graphs:
            self._note_graph(OfGraph(edges=key))

    def _note_graph(self, graph: OfGraph) -> None:
        """Add what is known of the graph to the record that will be committed."""
        graphs = self._record.graphs | {self._stored.manifest.content_id: graph}
        self._record = self._record.model_copy(update={"graphs": graphs})

    def _say(self, seconds: float) -> None:
        known = self._traits.hierarchy
        assert known is not None
        n_bytes = sum(part.bytes for part in self._record.parts)
        self._progress.say(
            f"hierarchy: {plural(known.n_arcs, 'arc')}, {known.n_triangles:,} triangles, made in {seconds:.1f} s; "
            f"{in_bytes(n_bytes)} in {files.redacted(self._stored.store)}",
            "hierarchy",
            arcs=known.n_arcs,
            triangles=known.n_triangles,
            largest_front=known.largest_front,
            made_s=seconds,
            bytes=n_bytes,
        )


def _amount_text(completion: Completion) -> str:
    """Return how many arcs get weights, and how long that takes if it takes long."""
    expected_s = costs.weights_s(completion.n_arcs, completion.n_triangles)
    long = f", about {seconds_text(expected_s)}" if expected_s >= _LONG_S else ""
    return f"{completion.n_arcs:,} arcs{long}"


def _content_ids(store: str) -> list[str]:
    """Return the content ids of all graphs in a store, in all versions."""
    newest = read_newest(store)
    versions = (newest, *older_versions(store, newest).values())
    return [graph.content_id for version in versions for graph in version.by_weight.values()]


def prepare(
    stored: StoredGraph,
    solve: Solve,
    work: Work,
    machine: Machine,
    progress: Progress,
    ahead: CountedAhead = nothing_ahead,
    *,
    is_on_gpu: bool = False,
) -> tuple[GraphTraits, str | None]:
    """Make the hierarchy of a run if it is to have one.

    Parameters
    ----------
    stored, solve
        The graph, and the section of the workflow.
    work
        What is left of the run. Its traits are kept, with what was measured.
    machine
        Where the run solves. The hierarchy is made by this process.
    progress
        Gets each step.
    ahead
        As `order_ahead` gives it.
    is_on_gpu
        Whether the run searches in this graph, in this process, on its only GPU. Then that GPU gets the graph while it
        is ordered, and its hierarchy while the arcs are written to the store.

    Returns
    -------
    traits : GraphTraits
        Those of `work`, with the hierarchy that is known afterwards.
    no_hierarchy : str or None
        As in `Work`.

    Raises
    ------
    InputError, SsspError
        The record of the store is damaged. As `make_hierarchy`, and if none can be made, unless solver and hierarchy
        are both `auto`.
    """
    if (reason := why_not_wanted(solve)) is not None:
        return work.traits, reason
    if solve.hierarchy == "auto" and solve.solver != "auto":
        try:
            files.check_writable(stored.store)
        except InputError as error:
            progress.say(f"{error.message}: each process makes the hierarchy for itself", level="warning")
            return work.with_hierarchy(known_traits(stored).hierarchy).traits, None
    traits = known_traits(stored)  # a damaged record is an error, like a damaged part

    try:
        traits, reason = make_hierarchy(
            stored,
            why_not_for(solve, work, machine, stored.graph),
            progress,
            leaves_weights_for(solve, work, machine),
            kernels_of(solve.solver, machine.gpu_free_bytes is not None),
            partial(ahead, partial(_load_for_gpu, solve, work, machine, stored if is_on_gpu else None)),
            partial(_make_on_gpu, work.options.preparation_s) if is_on_gpu else _nothing,
        )
        return work.with_hierarchy(traits.hierarchy).traits, reason
    except SsspError as error:
        if not is_free(solve):
            raise
        progress.say(f"without a hierarchy: {error.message}", "no_hierarchy", level="warning")
        return work.with_hierarchy(traits.hierarchy).traits, error.message


def planned(
    stored: StoredGraph, solve: Solve, work: Work, machine: Machine, progress: Progress
) -> tuple[GraphTraits, str | None]:
    """Return what `prepare` would find out about a graph until the arcs are counted. Nothing is written.

    Raises
    ------
    InputError
        The record of the store is damaged; or as `prepare`.
    """
    if (reason := why_not_wanted(solve)) is not None:
        return work.traits, reason
    why_not = why_not_for(solve, work, machine, stored.graph)
    leaves_weights = leaves_weights_for(solve, work, machine)
    making = _Making(stored, why_not, progress, lambda: None, leaves_weights)
    traits, reason = making.counted_traits()
    return work.with_hierarchy(traits.hierarchy).traits, reason


def make_for_all(store: str, manifest: StoreManifest, progress: Progress) -> None:
    """Make the hierarchies for all weights of a store; raises the errors of `solve.hierarchy: build` in `prepare`."""
    stored: StoredGraph | None = None
    for name, graph in manifest.by_weight.items():
        stored = StoredGraph(store, graph) if stored is None else stored.beside(graph)
        with naming_weight(name):
            make_hierarchy(stored, _required(SolveOptions()), progress)


def kernels_of(solver: str, has_gpu: bool) -> KernelGroup:
    """Return the kernels that a solver of a hierarchy needs; `auto` takes the one on a GPU if there is one."""
    if solver != "phast-gpu" and not (solver == "auto" and has_gpu):
        return SWEEPS
    # Not at the top: a run on the CPU does not import the solvers of a GPU.
    from sssp_pipeline.kernels.gpu.phast_gpu.host_hierarchy import chunk_kernels

    return chunk_kernels()


def _load_for_gpu(solve: Solve, work: Work, machine: Machine, stored: StoredGraph | None) -> None:
    """Load what a GPU needs after the order, if it will probably solve the run. Threads load the kernels of the GPU.

    The graph is uploaded too if it is `stored`.
    """
    # The GPU may be of another machine.
    if machine.gpu_free_bytes is None or n_children() < MANY_CHILDREN or gpu_missing() is not None:
        return
    if not leaves_weights_for(solve, work, machine)(work.traits):
        return
    # Not at the top: a run on the CPU does not import the solvers of a GPU.
    from sssp_pipeline.kernels.gpu.phast_gpu.phast_gpu import load_for_graph, upload_ahead

    load_for_graph(work.traits, work.n_sources, work.options)
    dtype = work.traits.weight_dtype
    for group in (COUNTS, COMPLETION, kernels_of(solve.solver, has_gpu=True)):
        if group.is_compiled(dtype):
            group.compile_for(dtype)  # which loads them
    if stored is not None:
        upload_ahead(stored.graph())


def _make_on_gpu(limit_s: float, graph: CsrGraph) -> None:
    """Begin to make the hierarchy of a graph with its completion on the GPU, in a thread of its own."""
    # Not at the top: a run on the CPU does not import the solvers of a GPU.
    from sssp_pipeline.kernels.gpu.phast_gpu.phast_gpu import make_ahead

    with suppress(RuntimeError):  # there may be too many threads; a call makes it then
        threading.Thread(target=make_ahead, args=(graph, limit_s), name="sssp-hierarchy").start()


def why_not_wanted(solve: Solve) -> str | None:
    """Return why a workflow wants no hierarchy, or None."""
    if solve.hierarchy == "off":
        return "`solve.hierarchy` is off"
    is_used = solve.solver == "auto" or solver_named(solve.solver).uses_hierarchy
    return None if is_used else f"`{solve.solver}` uses no hierarchy"


def is_free(solve: Solve) -> bool:
    """Return whether a workflow that wants a hierarchy leaves the choice to the run."""
    return (solve.hierarchy, solve.solver) == ("auto", "auto")


def why_not_for(
    solve: Solve, work: Work, machine: Machine, graph: Callable[[], CsrGraph], hint: str = _LEAVE_IT
) -> WhyNot:
    """Return a function that goes on if the run is expected to gain, or if a hierarchy is asked for.

    If none is asked for, the function looks at the `graph` when only that can tell.

    If one is asked for and there can be none, the function raises `InputError` with this `hint`. It also does so if a
    solver is named that makes the weights of the arcs itself, and its GPU has too little memory for what is counted.
    """
    required = _required(work.options, hint, for_gpu=_is_for_gpu(solve))

    def why_not_on_gpu(traits: GraphTraits) -> str | None:
        reason = required(traits)
        choose_solver(solve.solver, work.with_hierarchy(traits.hierarchy), machine)
        return reason

    if not is_free(solve):
        return why_not_on_gpu if _is_for_gpu(solve) and machine.gpu_free_bytes is not None else required
    looked: list[int] = []

    def why_not(traits: GraphTraits) -> str | None:
        with_known, free_bytes = work.with_hierarchy(traits.hierarchy), free_memory_bytes()
        reason = hierarchy.why_not(with_known, machine, free_bytes)
        if reason is not None or traits.hierarchy is not None:
            return reason
        if not looked:
            looked.append(hierarchy.look_at(graph(), with_known, machine))
        return hierarchy.why_not(with_known.with_width(looked[0]), machine, free_bytes)

    return why_not


def leaves_weights_for(solve: Solve, work: Work, machine: Machine) -> LeavesWeights:
    """Return a function that tells whether the run solves on a GPU, which computes the weights of the arcs itself."""
    if not is_free(solve):
        return lambda traits: _is_for_gpu(solve) and not work.sums_on_hierarchy
    return lambda traits: hierarchy.leaves_weights(
        replace(work.with_hierarchy(traits.hierarchy), no_hierarchy=None), machine
    )


def _is_for_gpu(solve: Solve) -> bool:
    return solve.solver != "auto" and solver_named(solve.solver).weighs_arcs


def _required(options: SolveOptions, hint: str = _LEAVE_IT, *, for_gpu: bool = False) -> WhyNot:
    """Return a function that raises `InputError` with this `hint` if there can be no hierarchy."""

    def why_not(traits: GraphTraits) -> str | None:
        reason = hierarchy.why_never(traits, options, free_memory_bytes(), for_gpu=for_gpu)
        if reason is not None:
            raise InputError(Text("no hierarchy of this graph can be made: ", reason), hint=hint)
        return None

    return why_not
