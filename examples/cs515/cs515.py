"""The program that the CS 515 assignment asks for: an edge list in, `<vertex>:<distance>` lines and two times out.

The README beside this file lists the options and what each one is in a workflow.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sssp_pipeline.base.csr import GraphTraits, unreached_distance
from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.kernels import solver_named
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.contract.tunable import Value
from sssp_pipeline.kernels.gpu.common.cuda.cupy_setup import gpu_missing
from sssp_pipeline.kernels.host.solver import Solver
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.ingest.into_store import ingest
from sssp_pipeline.pipeline.planning.machine import cpu_name, gpu_name, this_machine
from sssp_pipeline.pipeline.planning.plan import make_plan
from sssp_pipeline.pipeline.planning.work import cut
from sssp_pipeline.pipeline.results.folder.distance_files import DistanceFormat
from sssp_pipeline.pipeline.results.outputs.distance_outputs import AllDistances
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.graph import Graph
from sssp_pipeline.workflow.models import Solve

SOLVERS = {"bmf": "bellman-ford", "tpe": "work-efficient"}
SYNC = {"incore": "in-core", "outcore": "out-of-core"}
#: The flags of the options that belong to a solver.
FLAGS = {
    "sync": "--sync",
    "order": "--order",
    "segment_minimum": "--segment-minimum",
    "block_size": "--bsize",
    "block_count": "--bcount",
}
#: The distance of a vertex that is not reached, as in the assignment's listing 1.
UNREACHED = "inf"
LINES_PER_WRITE = 2**18


def command_line() -> argparse.ArgumentParser:
    """Return the parser of the assignment's options, with one dash or two."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("-input", "--input", required=True, help="path or URL of the edge list")
    parser.add_argument("-output", "--output", required=True, help="path or URL of the distances")
    parser.add_argument(
        "-method",
        "--method",
        required=True,
        choices=[*SOLVERS, "opt"],
        help="bmf: `bellman-ford`; tpe: `work-efficient`; opt: the solver that `auto` chooses, GPU or CPU",
    )
    parser.add_argument("-sync", "--sync", choices=SYNC, help="bmf and tpe: in-core or out-of-core")
    parser.add_argument(
        "-bsize", "--bsize", dest="block_size", type=int, help="bmf and tpe: threads of a block"
    )
    parser.add_argument(
        "-bcount",
        "--bcount",
        dest="block_count",
        type=int,
        help="bmf and tpe: blocks; without it as many as fit",
    )
    parser.add_argument(
        "--order", choices=["source", "destination"], help="bmf: the end that orders the edges"
    )
    parser.add_argument(
        "--segment-minimum",
        action="store_true",
        default=None,
        help="bmf by destination and out-of-core: segmented scan",
    )
    parser.add_argument("--source", type=int, default=0, help="id of the vertex to start from, 0 by default")
    return parser


def solver_options(given: argparse.Namespace) -> dict[str, Value]:
    """Return the options of a solver that were given."""
    options = {name: getattr(given, name) for name in FLAGS}
    if given.sync:
        options["sync"] = SYNC[given.sync]
    return {name: value for name, value in options.items() if value is not None}


def check(method: str, options: dict[str, Value]) -> None:
    """Raise `InputError` if options contradict each other or the method, or if the GPU that it needs is missing."""
    if method == "opt":
        if options:
            raise InputError(
                f"`--method opt` does not go with {', '.join(f'`{FLAGS[name]}`' for name in options)}",
                hint="it chooses the solver that is expected to finish first, with its own defaults",
            )
        return
    solver_named(SOLVERS[method], options)
    if (reason := gpu_missing()) is not None:
        raise InputError(
            f"`--method {method}` needs a GPU: {reason}",
            hint="`--method opt` chooses the fastest solver on this machine; without a GPU that is a CPU solver",
        )


def chosen_solver(method: str, options: dict[str, Value], traits: GraphTraits, sources: np.ndarray) -> Solver:
    """Return the solver of `method` for a graph with `traits`."""
    if method != "opt":
        return solver_named(SOLVERS[method], options)
    output = AllDistances(DistanceFormat("long", None, "none", predecessors=False))
    batches = cut(traits, sources, Solve(), output.kept)
    return solver_named(make_plan(traits, batches, Solve(), output, this_machine()).solver)


def solve_file(given: argparse.Namespace) -> list[str]:
    """Write the distances to `given.output`; return the two lines with the times.

    Raises
    ------
    InputError
        An argument cannot be used; the output file is not changed.
    SsspError
        The search failed.
    """
    options = solver_options(given)
    check(given.method, options)
    with tempfile.TemporaryDirectory(prefix="sssp-cs515-") as store:
        # Every edge is kept, because the times are those of the whole file.
        spec = Graph(input=given.input, ids="integer", self_loops="keep", duplicates="keep-all")
        stored = StoredGraph(store, ingest(spec, store, Quiet())[0].first)
        graph, ids = stored.graph(), stored.ids
    sources = np.array(ids.vertices([given.source], "source"))
    solver = chosen_solver(given.method, options, graph.traits, sources)
    solution = solver.solve(graph, sources, SolveOptions())
    write_distances(given.output, ids.column(), solution.distances[0])
    (metrics,) = solution.metrics
    filter_s = metrics.filter_s or 0.0
    device = f"CPU [{cpu_name()}]" if solver.device == "cpu" else f"GPU [{gpu_model()}]"
    return [
        f"The total {what} kernel time on {device} is {1e3 * seconds:.3f} milli-seconds"
        for what, seconds in (("computation", metrics.solve_s - filter_s), ("filtering", filter_s))
    ]


def write_distances(url: str, ids: pa.Array, distances: np.ndarray) -> None:
    """Write a line `<vertex>:<distance>` for each of `ids` (V,); the file is written whole or not at all."""
    unreached = unreached_distance(distances.dtype)
    with files.open_atomic(url) as file:
        for first in range(0, len(distances), LINES_PER_WRITE):
            part = distances[first : first + LINES_PER_WRITE]
            texts = pa.array(part, mask=part == unreached).cast(pa.string()).fill_null(UNREACHED)
            vertices = ids.slice(first, len(part)).cast(pa.string())
            lines = pc.binary_join_element_wise(vertices, texts, ":")
            file.write(("\n".join(lines.to_pylist()) + "\n").encode())


def gpu_model() -> str:
    """Return the name of the GPU without its driver."""
    return (gpu_name() or "unknown").partition(",")[0]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the program; exit codes are those of `sssp-pipeline`."""
    given = command_line().parse_args(arguments)
    try:
        print("\n".join(solve_file(given)))
    except SsspError as error:
        hint = f"\n\nhint: {error.hint}" if error.hint else ""
        print(f"error: {error.message}{hint}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
