"""The course's assignment: an edge list in, `<vertex>:<distance>` lines and two kernel times out.

`docs/guides/cs515.md` tells which of its options is what here.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sssp_pipeline.csr import GraphTraits, unreached_distance
from sssp_pipeline.errors import InputError
from sssp_pipeline.kernels import solver_named
from sssp_pipeline.kernels.gpu.common.cupy_setup import gpu_missing
from sssp_pipeline.kernels.options import Value
from sssp_pipeline.kernels.solver import SolveOptions, Solver
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.ingest.stage import ingest
from sssp_pipeline.pipeline.machine import cpu_name, gpu_name, this_machine
from sssp_pipeline.pipeline.planning.plan import Work, choose_solver
from sssp_pipeline.pipeline.storage import files
from sssp_pipeline.progress import Progress
from sssp_pipeline.workflow import models as workflow

Method = Literal["bmf", "tpe", "opt"]
Sync = Literal["incore", "outcore"]
Order = Literal["source", "destination"]

#: Stands for the distance of a vertex that is not reached, as in the assignment's listing 1.
UNREACHED = "inf"

_SOLVERS = {"bmf": "bellman-ford", "tpe": "work-efficient"}
_SYNC = {"incore": "in-core", "outcore": "out-of-core"}
#: The command's names of the solvers' options.
_FLAGS = {
    "sync": "--sync",
    "order": "--order",
    "segment_minimum": "--segment-minimum",
    "block_size": "--bsize",
    "block_count": "--bcount",
}
#: Lines that are made and written at a time.
_LINES = 2**18


@dataclass(frozen=True)
class Variant:
    """Which implementation, set up how; what is None or False is the solver's own default.

    Attributes
    ----------
    method
        `bmf`, Bellman-Ford; `tpe`, to-process edges; `opt`, the solver that is expected to be done first, GPU or CPU.
    sync, order, segment_minimum, block_size, block_count
        Options of those solvers; `opt` takes none.
    """

    method: Method
    sync: Sync | None = None
    order: Order | None = None
    segment_minimum: bool = False
    block_size: int | None = None
    block_count: int | None = None

    def options(self) -> dict[str, Value]:
        """Return what is given, as options of a solver."""
        asked: dict[str, Value | None] = {
            "sync": _SYNC[self.sync] if self.sync else None,
            "order": self.order,
            "segment_minimum": self.segment_minimum or None,
            "block_size": self.block_size,
            "block_count": self.block_count,
        }
        return {name: value for name, value in asked.items() if value is not None}

    def check(self) -> None:
        """Raise `InputError` if options contradict each other or the method, or it needs a GPU that is not there."""
        options = self.options()
        if self.method == "opt":
            if options:
                raise InputError(
                    f"`--method opt` does not go with {', '.join(f'`{_FLAGS[name]}`' for name in options)}",
                    hint="it takes the solver that is expected to be done first, as that is",
                )
            return
        solver_named(_SOLVERS[self.method], options)
        if (reason := gpu_missing()) is not None:
            raise InputError(
                f"`--method {self.method}` needs a GPU: {reason}",
                hint="`--method opt` takes the fastest solver there is, without a GPU one on the CPU",
            )

    def solver(self, traits: GraphTraits) -> Solver:
        """Return the solver for such a graph."""
        if self.method != "opt":
            return solver_named(_SOLVERS[self.method], self.options())
        return choose_solver("auto", Work(traits, SolveOptions(), 1, 1), this_machine())[0]


def solve_file(url: str, source: int, variant: Variant, output: str, progress: Progress) -> tuple[str, str]:
    """Write the distances from `source` in the edge list at `url` to `output`; return the two lines of times.

    Raises
    ------
    InputError
        Something given cannot be used; `output` is as it was before.
    SsspError
        The search failed.
    """
    variant.check()
    with tempfile.TemporaryDirectory(prefix="sssp-cs515-") as store:
        # Every edge counts: what is dropped would be missing in the times.
        spec = workflow.Graph(input=url, ids="integer", self_loops="keep", duplicates="keep-all")
        manifest, _ = ingest(spec, store, progress)
        stored = StoredGraph(store, manifest)
        graph, ids = stored.graph(), stored.ids
    (vertex,) = ids.vertices([source], "source")
    progress.stage("solve")
    solver = variant.solver(graph.traits)
    solution = solver.solve(graph, np.array([vertex]), SolveOptions())
    progress.stage("write distances")
    write_distances(output, ids.column(), solution.distances[0])
    (metrics,) = solution.metrics
    filter_s = metrics.filter_s or 0.0
    device = f"CPU [{cpu_name()}]" if solver.device == "cpu" else f"GPU [{_gpu()}]"
    times = {"computation": metrics.solve_s - filter_s, "filtering": filter_s}
    computing, filtering = (
        f"The total {what} kernel time on {device} is {1e3 * seconds:.3f} milli-seconds"
        for what, seconds in times.items()
    )
    return computing, filtering


def write_distances(url: str, ids: pa.Array, distances: np.ndarray) -> None:
    """Write a line `<vertex>:<distance>` for each of `ids` (V,), whole or not at all; raises as `open_atomic`.

    Parameters
    ----------
    distances
        (V,), of the weights' type; unreached ones become `UNREACHED`.
    """
    unreached = unreached_distance(distances.dtype)
    with files.open_atomic(url) as file:
        for first in range(0, len(distances), _LINES):
            some = distances[first : first + _LINES]
            shown = pa.array(some, mask=some == unreached).cast(pa.string()).fill_null(UNREACHED)
            vertices = ids.slice(first, len(some)).cast(pa.string())
            lines = pc.binary_join_element_wise(vertices, shown, ":")
            file.write(("\n".join(lines.to_pylist()) + "\n").encode())


def _gpu() -> str:
    """Return the GPU's name, without its driver."""
    return (gpu_name() or "unknown").partition(",")[0]
