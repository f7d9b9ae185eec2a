"""The hierarchy of a call from Python or NetworkX: made if the call gains, as for a run, and kept for the next call."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.base.progress import Progress
from sssp_pipeline.kernels.hierarchy import shared
from sssp_pipeline.kernels.host.solver import ANOTHER_SOLVER
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.planning.choice import has_hierarchy
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.planning.work import Work
from sssp_pipeline.pipeline.run.hierarchy_stage import (
    is_free,
    kernels_of,
    leaves_weights_for,
    make_hierarchy,
    why_not_for,
    why_not_wanted,
)
from sssp_pipeline.pipeline.run.hierarchy_steps import make_in_memory
from sssp_pipeline.pipeline.run.pace import Searches, pace_of_run, reach_of_run
from sssp_pipeline.storage import files
from sssp_pipeline.storage.lease import is_held
from sssp_pipeline.workflow.models import Solve

#: Held while one is made, so that several threads of a program do not make the same one.
_making = threading.Lock()


def prepare_call(
    graph: CsrGraph,
    stored: StoredGraph | None,
    sources: np.ndarray,
    solve: Solve,
    work: Work,
    machine: Machine,
    progress: Progress,
) -> tuple[GraphTraits, str | None]:
    """Make the hierarchy of a call if it is to have one. It stays in the store, or in memory as long as `graph`.

    Parameters
    ----------
    graph, stored
        The graph, and where it is stored, if it is. If its store cannot be written now, the hierarchy stays in memory.
    sources
        (S,) some are searched, to learn how long a search takes.
    solve, work, machine, progress
        As for `hierarchy_stage.prepare`.

    Returns
    -------
    traits : GraphTraits
        Of the graph and its hierarchy, afterwards.
    no_hierarchy : str or None
        As in `Work`.

    Raises
    ------
    InputError, SsspError
        A file of the store is damaged; or none can be made, unless solver and hierarchy are both `auto`.
    """
    if (reason := why_not_wanted(solve)) is not None:
        return work.traits, reason
    with _making:
        traits = replace(work.traits, hierarchy=shared.known_hierarchy(graph))
        if not has_hierarchy(traits):
            searches = Searches(lambda: graph, work.options, [sources], lambda: traits.hierarchy)
            if (pace := pace_of_run(searches, solve, work.instead or work, machine)) is not None:
                work = work.at_pace(pace.pace)
            work = work.with_reach(reach_of_run(searches, solve, work, machine))
        hint = "leave out `hierarchy=True`" if solve.hierarchy == "build" else ANOTHER_SOLVER
        why_not = why_not_for(solve, work, machine, lambda: graph, hint)
        leaves_weights = leaves_weights_for(solve, work, machine)
        try:
            if not has_hierarchy(traits) and (reason := why_not(traits)) is None:
                if stored is not None and _can_be_kept(stored, progress):
                    of_solver = kernels_of(solve.solver, machine.gpu_free_bytes is not None)
                    traits, reason = make_hierarchy(stored, why_not, progress, leaves_weights, of_solver)
                    shared.note_traits(graph, traits.hierarchy)
                else:
                    traits, reason = make_in_memory(graph, why_not, progress, leaves_weights)
        except SsspError as error:
            if not is_free(solve):
                raise
            progress.say(f"without a hierarchy: {error.message}", "no_hierarchy", level="warning")
            reason = error.message
        return work.with_hierarchy(traits.hierarchy).traits, reason


def _can_be_kept(stored: StoredGraph, progress: Progress) -> bool:
    """Return whether a hierarchy can be written to the store of a graph now; report why not."""
    try:
        files.check_writable(stored.store)
    except InputError as error:
        problem = error.message
    else:
        if not is_held(stored.store):
            return True
        problem = f"another process is writing to `{files.redacted(stored.store)}`"
    progress.say(f"{problem}: the hierarchy stays in memory", level="warning")
    return False
