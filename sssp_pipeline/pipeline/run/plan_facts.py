"""What a run would do: the facts that `sssp-pipeline plan` shows."""

from __future__ import annotations

from dataclasses import asdict
from math import inf
from typing import Any

import numpy as np

from sssp_pipeline.base.progress import Progress
from sssp_pipeline.kernels import solver_named
from sssp_pipeline.kernels.hierarchy.completion import costs
from sssp_pipeline.kernels.host.solver import Solver
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.planning.choice import has_hierarchy
from sssp_pipeline.pipeline.planning.machine import Machine, this_machine
from sssp_pipeline.pipeline.planning.plan import RunPlan, make_plan
from sssp_pipeline.pipeline.planning.searched_graph import searched_graph
from sssp_pipeline.pipeline.planning.selection import select
from sssp_pipeline.pipeline.planning.work import Work, solve_options, work_of
from sssp_pipeline.pipeline.results.folder.run_files import BACKWARD, DIRECTION, FORWARD
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.run.checks import check_before_ingest
from sssp_pipeline.pipeline.run.direction_of_run import in_direction
from sssp_pipeline.pipeline.run.graphs import Graphs
from sssp_pipeline.pipeline.run.hierarchy_stage import planned
from sssp_pipeline.pipeline.run.pace import Pace, Searches, measured_pace, pace_of_run, reach_of_run
from sssp_pipeline.pipeline.run.way_of_sums import with_way_of_sums
from sssp_pipeline.workflow.models import Solve, Workflow
from sssp_pipeline.workflow.weights import naming_weight

#: A solver whose expected time is more than this multiple of the best measured time is not measured.
_MAX_RATIO = 10
#: Seconds of the searches that show the pace.
_PROBE_S = 0.2


def describe_plan(workflow: Workflow, probe: int, progress: Progress) -> dict[str, Any]:
    """Return facts about a run of `workflow`, without the run. Ingest the graph if its store does not hold it.

    If weights have names, return the facts of each run by the name of its weight.

    Parameters
    ----------
    workflow
        The workflow of the run.
    probe
        How many of its sources to solve on one thread of this machine for an estimate of time; 0 for no estimate.
    progress
        Gets each stage.

    Raises
    ------
    InputError
        The run would refuse its input. The message names the weight if weights have names.
    """
    weights = {name: workflow.with_weight(name) for name in workflow.weights}
    for name, one in weights.items():
        with naming_weight(name):
            check_before_ingest(one, progress, cluster=False)
    graphs = Graphs(workflow, progress)
    graphs.ingest()
    facts: dict[Any, Any] = {}
    for name, one in weights.items():
        with naming_weight(name):
            facts[name] = _facts(one, graphs.graph(name), probe, progress)
    return facts.get(None, facts)


def _facts(workflow: Workflow, stored: StoredGraph, probe: int, progress: Progress) -> dict[str, Any]:
    """Return the facts about the run of one weight."""
    selected, machine = select(workflow, stored, progress), this_machine()
    folder = RunFolder(workflow.output.path)
    selected = in_direction(workflow, stored, selected, folder, lambda: machine)
    way = with_way_of_sums(workflow, stored, selected, folder, lambda: machine, progress, is_plan=True)
    selected = way.selected
    (batches, output), solve = selected.searched, workflow.solve
    work = work_of(stored.manifest.traits, batches, solve, output)
    pace = _pace(stored, solve, work, machine, batches, probe)
    work = work if pace is None else work.at_pace(pace.pace)
    work = work.with_reach(reach_of_run(Searches.of_run(stored, solve, batches), solve, work, machine))
    if way.traits is None:
        known, no_hierarchy = planned(stored, solve, work, machine, progress)
    else:
        known, no_hierarchy = way.traits, None
    plan = make_plan(known, batches, solve, output, machine, no_hierarchy)
    traits = stored.manifest.traits
    facts: dict[str, Any] = {
        "n_vertices": traits.n_vertices,
        "n_edges": traits.n_edges,
        "weight_dtype": traits.weight_dtype.name,
        "solver": plan.solver,
        "solver_reason": plan.solver_reason,
        "hierarchy": _hierarchy_facts(plan.work, solver_named(plan.solver)),
        **({} if way.line is None else {"way_of_sums": way.line}),
        "sources": sum(map(len, selected.batches)),
        "targets": selected.output.n_targets,
        DIRECTION: BACKWARD if output.follows_reversed else FORWARD,
        "batches": len(plan.batches),
        "batches_a_call": plan.batches_per_call,
        "graph_bytes": plan.graph_bytes,
        "batch_bytes": plan.batch_bytes,
        "written_bytes": plan.written_bytes,
        "expected_s": plan.expected_s,
        "measured": asdict(pace) if pace else None,
        "gpu": asdict(plan.gpu) if plan.gpu else None,
    }
    if probe and plan.batches:
        progress.stage("probe")
        facts |= _probed(workflow, stored, plan, probe)
    return facts


def _pace(
    stored: StoredGraph, solve: Solve, work: Work, machine: Machine, batches: list[np.ndarray], probe: int
) -> Pace | None:
    """Return the pace that a run would measure; with a `probe`, one that is measured in any case."""
    searches = Searches.of_run(stored, solve, batches)
    pace = pace_of_run(searches, solve, work, machine)
    if pace is None and probe:
        pace = measured_pace(searches, solve, work, machine, _PROBE_S)
    return pace


def _hierarchy_facts(work: Work, solver: Solver) -> dict[str, Any]:
    """Return whether the store has a hierarchy for `solver`, or the run would make one, and what that takes."""
    known = work.traits.hierarchy
    facts: dict[str, Any] = {
        "arcs": known and known.n_arcs,
        "triangles": known and known.n_triangles,
        "largest_front": known and known.largest_front,
    }
    if has_hierarchy(work.traits, solver):
        return {"state": "stored", **facts}
    if work.no_hierarchy is not None:
        return {"state": "none", "why": work.no_hierarchy, **facts}
    return {
        "state": "would be made"
        if known is not None
        else "would be made, unless the graph has too many arcs",
        **facts,
        "make_s": costs.left_s(work.traits, on_gpu=solver.weighs_arcs),
        "make_bytes": costs.build_bytes(work.traits, on_gpu=solver.weighs_arcs),
    }


def _probed(workflow: Workflow, stored: StoredGraph, plan: RunPlan, probe: int) -> dict[str, Any]:
    """Return the measured time of `probe` sources with each solver that a run would try."""
    graph = searched_graph(stored.graph(), stored, plan.output)
    traits, n_sources = stored.manifest.traits, sum(len(b) for b in plan.batches)
    tried = np.concatenate(plan.batches)[:: max(1, n_sources // probe)][:probe]
    options = solve_options(workflow.solve, plan.output.kept, stored.manifest.weights.scale)
    source_s: dict[str, float] = {}
    for name in (plan.solver, *plan.others):
        solver = solver_named(name, workflow.solve.options)
        if solver.uses_hierarchy and not has_hierarchy(plan.work.traits, solver):
            continue  # it would make the hierarchy
        expected = solver.forecast(traits, len(tried))
        best_s = min(source_s.values(), default=inf)
        if expected.source_s / expected.off_by > best_s or expected.source_s > _MAX_RATIO * best_s:
            continue
        solver.solve(graph, tried[:1], options)  # compiles the solver and prepares the graph for it
        source_s[name] = float(np.mean([m.solve_s for m in solver.solve(graph, tried, options).metrics]))
    facts = {"probed_sources": len(tried) if source_s else 0, "solve_s_per_source": source_s}
    if not source_s:
        return facts
    fastest = solver_named(min(source_s, key=source_s.__getitem__))
    # A few sources do not predict the time of many for a solver that takes many at once.
    takes_few = all(solver_named(name).forecast(traits, 1).at_once <= len(tried) for name in source_s)
    if fastest.device == "cpu" and takes_few:
        sharing = min(plan.machine.cores, fastest.forecast(traits, 1).most_cores)
        facts["solve_core_s"] = source_s[fastest.name] * sharing * n_sources
    return facts
