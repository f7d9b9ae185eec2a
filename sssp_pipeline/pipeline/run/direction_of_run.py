"""The direction of a run: few targets are searched from, along reversed edges, in place of many sources.

`auto` depends on the machine and on what is known of the graph. So a run that has committed batches keeps its
direction, and the identity of a run backward has it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import largest_distance
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.vertex_ids import digest_of
from sssp_pipeline.kernels.host.grouped_pairs import may_go_backward
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.planning.choice import choose_solver, expected_s
from sssp_pipeline.pipeline.planning.direction import LEAST_GAIN, fits_every_path, gains
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.planning.selection import Searched, Selected
from sssp_pipeline.pipeline.planning.work import WRITE_S_PER_BYTE, cut, solve_options, work_of
from sssp_pipeline.pipeline.results.folder import commits
from sssp_pipeline.pipeline.results.folder.run_files import (
    BACKWARD,
    DIRECTION,
    FORWARD,
    RUN_FILE,
    WRITER,
    WRITER_OF_PATHS,
)
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.results.outputs.distance_outputs import TargetDistances
from sssp_pipeline.pipeline.results.outputs.outputs import RowOutput
from sssp_pipeline.pipeline.results.outputs.table_output import NearestVertices
from sssp_pipeline.pipeline.results.outputs.turned_output import TurnedDistances, TurnedNearest, TurnedOutput
from sssp_pipeline.pipeline.run.hierarchy_stage import known_traits, why_not_wanted
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.models import Workflow

#: A run that is expected to take less seconds forward stays forward.
LEAST_S = 1.0
#: What a run must have in common with the one in its folder to keep its direction.
_SAME = ("graph", "sources", "targets")


def identity_of(workflow: Workflow, stored: StoredGraph, selected: Selected) -> dict[str, Any]:
    """Return everything that the bytes of the distances depend on, and the direction. It tells a run from others."""
    batches, output, digest = selected.batches, selected.output, selected.snapper.digest
    writer = output.layout.writer
    if output.paths is not None:
        writer = f"{writer}, {WRITER_OF_PATHS}"
    turned = {}
    if selected.turned is not None:
        turned = {DIRECTION: BACKWARD, "searched": len(selected.turned.batches[0])}
    return {
        "graph": stored.manifest.content_id,
        "sources": digest_of(*batches),
        **output.identity(),
        "batch": len(batches[0]) if batches else 0,
        "cutoff": workflow.solve.cutoff,
        **output.layout.identity(),
        WRITER: writer,
        **({} if digest is None else {"snapped": digest}),
        **turned,
    }


def in_direction(
    workflow: Workflow,
    stored: StoredGraph,
    selected: Selected,
    folder: RunFolder,
    machine: Callable[[], Machine],
) -> Selected:
    """Return `selected`, with the searches from the targets if the run goes backward.

    Parameters
    ----------
    folder
        Of the run, which may have begun.
    machine
        Returns the hardware that solves. It is asked only if the choice depends on it.

    Raises
    ------
    InputError
        The workflow asks for the way backward, and the graph gives other bits there; what the folder holds is damaged
        or of another release; or as `choose_solver`.
    """
    output, wanted = selected.output, workflow.solve.direction
    kind = _turned(output)
    if wanted == FORWARD or kind is None or output.form.along:
        return selected  # second costs belong to paths from the sources
    traits = stored.manifest.traits
    if not may_go_backward(traits):
        if wanted == BACKWARD:
            what = traits.weight_dtype if traits.weight_dtype.kind == "f" else "negative weights"
            raise InputError(
                f"`solve.direction` is `{BACKWARD}`, and the graph has {what}",
                hint="searches backward need integer weights of zero or more: remove `solve.direction`",
            )
        return selected
    assert output.words is not None, "they were selected now"
    if not selected.batches or not len(output.words):
        return selected
    n_reversed = 0 if stored.manifest.symmetric else traits.n_edges
    turned = kind.of(output, selected.batches, n_reversed)
    batches = cut(traits, np.unique(output.words), workflow.solve, turned.kept)
    backward = replace(selected, turned=Searched(batches, turned))
    if wanted == BACKWARD:
        return backward
    begun = begun_as(folder, [identity_of(workflow, stored, one) for one in (selected, backward)])
    if begun is None:
        return backward if _pays(workflow, stored, selected, backward, machine) else selected
    return backward if begun.get(DIRECTION) == BACKWARD else selected


def _turned(output: RowOutput) -> type[TurnedOutput] | None:
    """Return what a run backward stores for `output`; None if a run with this output has no targets to search from."""
    if isinstance(output, TargetDistances):
        return TurnedDistances
    return TurnedNearest if isinstance(output, NearestVertices) and output.words is not None else None


def begun_as(folder: RunFolder, identities: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the identity of the run in `folder`, if it is like one of `identities` and has committed batches."""
    if files.exists(folder.path(RUN_FILE)):
        stored = folder.read_run()["identity"]
    elif not (committed := folder.committed()):
        return None
    elif (found := folder.stored_identity()) is not None:
        stored = found
    else:  # the file is damaged, and any commit tells which run it is
        found_in = (_of_commit(folder, batch, identities) for batch in committed)
        return next(filter(None, found_in), None)
    is_like_one = any(all(stored.get(key) == one[key] for key in _SAME) for one in identities)
    return stored if is_like_one else None


def _of_commit(folder: RunFolder, batch: int, identities: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return which of `identities` committed `batch`; None if none did, or the commit is damaged."""
    of_digests = {commits.run_digest(identity): identity for identity in identities}
    with suppress(InputError):
        return of_digests.get(folder.commit(batch).run)
    return None


def _pays(
    workflow: Workflow,
    stored: StoredGraph,
    selected: Selected,
    backward: Selected,
    machine: Callable[[], Machine],
) -> bool:
    """Return whether the run is expected to take at most half of the time backward, and no path can be too long."""
    solve, scale = workflow.solve, stored.manifest.weights.scale
    traits = stored.manifest.traits if why_not_wanted(solve) is not None else known_traits(stored)
    one, other = (
        work_of(traits, batches, solve, output)
        for batches, output in ((selected.batches, selected.output), backward.searched)
    )
    if LEAST_GAIN * other.n_sources > one.n_sources:
        return False
    found = machine()
    chosen, *_ = choose_solver(solve.solver, one, found)
    if expected_s(chosen, one, found) < LEAST_S:
        return False
    # One process reads the parts, and writes the files.
    batches, turned = backward.searched
    assert isinstance(turned, TurnedOutput), "as `in_direction`"
    parts_bytes = turned.parts_bytes(batches, traits.weight_dtype)
    merge_s = WRITE_S_PER_BYTE * (parts_bytes + one.n_sources * one.source_bytes)
    is_reversed = bool(stored.manifest.symmetric)
    if not gains(solve.solver, one, other, found, is_reversed=is_reversed, more_s=merge_s):
        return False
    if traits.n_vertices * float(traits.max_weight) < float(largest_distance(traits.weight_dtype)) / 2:
        return True
    return fits_every_path(stored.graph(), solve_options(solve, scale=scale), is_symmetric=is_reversed)
