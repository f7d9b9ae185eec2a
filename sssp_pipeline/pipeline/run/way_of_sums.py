"""How a run sums along shortest paths: over the arcs of a hierarchy, or along rows of distances.

A GPU adds over a hierarchy in another order than a CPU. The last digits of all three ways differ, and the choice
depends on the machine and on the number of sources. So it is made before the first batch. The identity of a run over
a hierarchy has it, and a run that has committed batches keeps it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from sssp_pipeline.base.csr import GraphTraits
from sssp_pipeline.base.progress import Progress
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.hierarchy.arc_sums import shared_counts
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.planning.choice import choose_solver, expected_s, refusals, seconds_text
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.planning.selection import Selected
from sssp_pipeline.pipeline.planning.sources import as_drawn
from sssp_pipeline.pipeline.planning.work import GROUPS, Work, cut, solve_options, work_of
from sssp_pipeline.pipeline.results.answers.reduced import Reduced
from sssp_pipeline.pipeline.results.folder.run_files import RUN_FILE
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.run.direction_of_run import begun_as, identity_of
from sssp_pipeline.pipeline.run.hierarchy_stage import planned, prepare, why_not_wanted
from sssp_pipeline.pipeline.run.pace import Searches, pace_of_run
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.models import Solve, Workflow

_ALONG_ROWS = "betweenness: summed along rows of distances"
#: The solvers that sum over arcs, and what a run says of each.
_OVER_ARCS = {
    "phast": "betweenness: summed over the hierarchy",
    "phast-gpu": "betweenness: summed over the hierarchy on a GPU",
}


class WayOfSums(NamedTuple):
    """The way in which a run sums along paths."""

    #: What the run solves in this way.
    selected: Selected
    #: A line about the way; None if the run has no such sums, or is finished.
    line: str | None = None
    #: The traits of the graph with its hierarchy; None if this call did not look for one, or sums are made of rows.
    traits: GraphTraits | None = None


def with_way_of_sums(
    workflow: Workflow,
    stored: StoredGraph,
    selected: Selected,
    folder: RunFolder,
    machine: Callable[[], Machine],
    progress: Progress,
    *,
    is_plan: bool = False,
) -> WayOfSums:
    """Return the way in which a run sums along paths. Parameters and errors are those of `in_direction`.

    If sums over a hierarchy may be faster, this function makes it. With `is_plan` it counts the arcs only.
    """
    output = selected.output
    if not isinstance(output, Reduced) or output.betweenness is None:
        return WayOfSums(selected)
    ways = {_ALONG_ROWS: selected} | _over_arcs(workflow, stored, selected, output)
    begun = begun_as(folder, [identity_of(workflow, stored, one) for one in ways.values()])
    if begun is not None:
        line = _way_of(begun)
        return WayOfSums(ways[line], None if files.exists(folder.path(RUN_FILE)) else f"{line}, as before")
    has_decay = output.betweenness.has_decay
    reason = _why_not_over_arcs(workflow, stored.manifest.traits, ways, has_decay=has_decay)
    if reason is None:
        line, known, reason = _fastest(stored, workflow.solve, ways, machine(), progress, is_plan=is_plan)
        if reason is None:
            return WayOfSums(ways[line], line, known)
    return WayOfSums(selected, f"{_ALONG_ROWS}: {reason}")


def _over_arcs(
    workflow: Workflow, stored: StoredGraph, selected: Selected, output: Reduced
) -> dict[str, Selected]:
    """Return the run over a hierarchy for each solver that can sum so, by what the run says of it."""
    assert output.betweenness is not None
    traits, ways = stored.manifest.traits, {}
    sources = np.concatenate([np.empty(0, np.uint32), *selected.batches])
    if workflow.sources is not None and workflow.sources.random is not None:
        sources = as_drawn(workflow.sources.random, sources, traits.n_vertices)
    for name, line in _OVER_ARCS.items():
        over = replace(output.betweenness, on_hierarchy=True, on_gpu=SOLVERS.device_of(name) == "gpu")
        of_way = replace(output, betweenness=over)
        batches = cut(traits, sources, workflow.solve, of_way.kept)
        ways[line] = replace(selected, output=of_way, batches=batches)
    return ways


def _way_of(identity: dict[str, Any]) -> str:
    """Return what a run says whose `identity` is this."""
    over = identity["reduce"].get("betweenness", {}) if Reduced.wrote(identity) else {}
    if not over.get("on_hierarchy"):
        return _ALONG_ROWS
    return _OVER_ARCS["phast-gpu" if over.get("on_gpu") else "phast"]


def _why_not_over_arcs(
    workflow: Workflow, traits: GraphTraits, ways: dict[str, Selected], *, has_decay: bool
) -> str | None:
    """Return why a run does not sum over a hierarchy, whatever that would take; None if it may."""
    solve, batches = workflow.solve, ways[_OVER_ARCS["phast"]].batches
    if not batches:
        return "there is no source"
    if has_decay:
        return "a hierarchy sums without the decay of distance"
    is_sample = workflow.sources is not None and workflow.sources.random is not None
    if is_sample and len(batches) < GROUPS:
        return f"a standard error over a hierarchy needs {GROUPS} batches, and the sample has {len(batches)}"
    if (reason := why_not_wanted(solve)) is not None:
        return reason
    # What `phast-gpu` refuses beside that, `_fastest` leaves out.
    name = "phast" if solve.solver == "auto" else solve.solver
    kept = ways[_OVER_ARCS[name]].output.kept
    return SOLVERS[name].supports(traits, solve_options(solve, kept))


def _fastest(
    stored: StoredGraph,
    solve: Solve,
    ways: dict[str, Selected],
    machine: Machine,
    progress: Progress,
    *,
    is_plan: bool,
) -> tuple[str, GraphTraits, str | None]:
    """Return the fastest way over a hierarchy, what is known of the graph, and why rows are taken or None."""
    traits = stored.manifest.traits
    works = {line: work_of(traits, way.batches, solve, way.output) for line, way in ways.items()}
    along_rows = works.pop(_ALONG_ROWS)
    searches = Searches.of_run(stored, solve, ways[_ALONG_ROWS].batches)
    if (pace := pace_of_run(searches, solve, along_rows, machine)) is not None:
        along_rows = along_rows.at_pace(pace.pace)
    works = {
        line: replace(work, traits=along_rows.traits, instead=along_rows) for line, work in works.items()
    }
    names = [
        name
        for name in _OVER_ARCS
        if solve.solver in ("auto", name)
        and (solve.solver == name or name not in refusals(works[_OVER_ARCS[name]], machine))
    ]

    def seconds(work: Work, solver: str, known: GraphTraits) -> float:
        work = replace(work, traits=known, no_hierarchy=None)
        chosen, *_ = choose_solver(solver, work, machine)
        return expected_s(chosen, work, machine)

    def fastest(known: GraphTraits) -> tuple[float, str]:
        return min((seconds(works[_OVER_ARCS[name]], name, known), _OVER_ARCS[name]) for name in names)

    _, line = fastest(along_rows.traits)
    known, reason = (planned if is_plan else prepare)(stored, solve, works[line], machine, progress)
    if reason is not None:
        return line, known, reason
    hierarchy_s, line = fastest(known)
    rows_s = seconds(along_rows, solve.solver, known)
    if hierarchy_s >= rows_s:
        took = f"expected to take {seconds_text(rows_s)}, over a hierarchy {seconds_text(hierarchy_s)}"
        return line, known, took
    counts = None if is_plan else shared_counts(stored.graph())
    return line, known, counts if isinstance(counts, str) else None
