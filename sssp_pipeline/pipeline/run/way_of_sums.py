"""How a run sums along shortest paths: over the arcs of a hierarchy, or along rows of distances.

The last digits of both differ, and the choice depends on the machine and on the number of sources. So it is made before
the first batch, the identity of a run over a hierarchy has it, and a run that has committed batches keeps it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sssp_pipeline.base.csr import GraphTraits
from sssp_pipeline.base.progress import Progress
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.hierarchy.arc_sums import shared_counts
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.planning.choice import choose_solver, expected_s, seconds_text
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.planning.selection import Selected
from sssp_pipeline.pipeline.planning.sources import as_drawn
from sssp_pipeline.pipeline.planning.work import GROUPS, Work, cut, solve_options, work_of
from sssp_pipeline.pipeline.results.reduced import Reduced
from sssp_pipeline.pipeline.results.run_files import RUN_FILE
from sssp_pipeline.pipeline.results.run_folder import RunFolder
from sssp_pipeline.pipeline.run.direction_of_run import begun_as, identity_of
from sssp_pipeline.pipeline.run.hierarchy_stage import planned, prepare, why_not_wanted
from sssp_pipeline.pipeline.run.pace import Searches, pace_of_run
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.models import Solve, Workflow

_ON_ARCS = "betweenness: summed over the hierarchy"
_ALONG_ROWS = "betweenness: summed along rows of distances"
#: The solver that sums over arcs.
_SOLVER = "phast"


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
    traits, solve = stored.manifest.traits, workflow.solve
    on_arcs = replace(output, betweenness=replace(output.betweenness, on_hierarchy=True))
    sources = np.concatenate([np.empty(0, np.uint32), *selected.batches])
    drawn = None if workflow.sources is None else workflow.sources.random
    if drawn is not None:
        sources = as_drawn(drawn, sources, traits.n_vertices)
    over_hierarchy = replace(selected, output=on_arcs, batches=cut(traits, sources, solve, on_arcs.kept))
    ways = [selected, over_hierarchy]
    begun = begun_as(folder, [identity_of(workflow, stored, one) for one in ways])
    if begun is not None:
        was_on_arcs = Reduced.wrote(begun) and begun["reduce"].get("betweenness", {}).get("on_hierarchy")
        line = f"{_ON_ARCS if was_on_arcs else _ALONG_ROWS}, as before"
        return WayOfSums(ways[bool(was_on_arcs)], None if files.exists(folder.path(RUN_FILE)) else line)
    if not len(sources):
        reason: str | None = "there is no source"
    elif (counted := output.betweenness.paths) is not None and counted.decay:
        reason = "a hierarchy sums without the decay of distance"
    elif drawn is not None and (n_groups := len(over_hierarchy.batches)) < GROUPS:
        reason = f"a standard error over a hierarchy needs {GROUPS} batches, and the sample has {n_groups}"
    else:
        supports = SOLVERS[_SOLVER].supports
        reason = why_not_wanted(solve) or supports(traits, solve_options(solve, on_arcs.kept))
        if reason is None and solve.solver not in ("auto", _SOLVER):
            reason = f"`{solve.solver}` sums along rows"
    if reason is None:
        known, reason = _why_rows(stored, solve, ways, machine(), progress, is_plan=is_plan)
        if reason is None:
            return WayOfSums(over_hierarchy, _ON_ARCS, known)
    return WayOfSums(selected, f"{_ALONG_ROWS}: {reason}")


def _why_rows(
    stored: StoredGraph,
    solve: Solve,
    ways: list[Selected],
    machine: Machine,
    progress: Progress,
    *,
    is_plan: bool,
) -> tuple[GraphTraits, str | None]:
    """Return what is known of the graph, and why rows are taken or None.

    `ways` are the run along rows, and the run over a hierarchy.
    """
    traits = stored.manifest.traits
    along_rows, on_arcs = (work_of(traits, way.batches, solve, way.output.kept) for way in ways)
    searches = Searches.of_run(stored, solve, ways[0].batches)
    if (pace := pace_of_run(searches, solve, along_rows, machine)) is not None:
        along_rows = along_rows.at_pace(pace.pace)
    on_arcs = replace(on_arcs, traits=along_rows.traits, instead=along_rows)
    known, reason = (planned if is_plan else prepare)(stored, solve, on_arcs, machine, progress)
    if reason is not None:
        return known, reason

    def seconds(work: Work, solver: str) -> float:
        work = replace(work, traits=known, no_hierarchy=None)
        chosen, *_ = choose_solver(solver, work, machine)
        return expected_s(chosen, work, machine)

    hierarchy_s, rows_s = seconds(on_arcs, _SOLVER), seconds(along_rows, solve.solver)
    if hierarchy_s >= rows_s:
        return known, f"expected to take {seconds_text(rows_s)}, over a hierarchy {seconds_text(hierarchy_s)}"
    counts = None if is_plan else shared_counts(stored.graph())
    return known, counts if isinstance(counts, str) else None
