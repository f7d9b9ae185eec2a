"""Compiles the kernels of a solver, runs them on a graph, and compares the distances with `delta-stepping`.

    python benchmarks/lab.py near-far --graph ny --data FOLDER [--cache FOLDER] [--sources 64] [--rounds 5]
        [--kernel near_far_kernel] [--source-file my_near_far.cu] [--ncu]

docs/change-a-kernel.md walks through a change. `--graph` is the name of a graph of `graphs.py`, or a graph store.
`--source-file` is compiled in place of a file of the package, and timed in turns with it. `--ncu` runs one call under
Nsight Compute; where it is not installed, the command is printed.

The first table has a line for each kernel of the solver that was launched: registers, bytes spilled, and launches in
a call. The second table has the median microseconds of the device a source, and how many of the compared rows are
equal. Kernels have line numbers. Nothing is recorded in `results/`. The exit code is 1 if a row differs.

Without a GPU, all kernels are compiled and nothing is run.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, NoReturn

import numpy as np
import nvrtc
import psutil
from graphs import GRAPHS, checked_names, load
from sources import solved_by_cpu

from sssp_pipeline.base.csr import WEIGHT_DTYPES, CsrGraph
from sssp_pipeline.base.errors import InputError, SsspError, did_you_mean
from sssp_pipeline.kernels import SOLVERS, solver_named
from sssp_pipeline.kernels.contract.solver import SolveOptions, metrics_column
from sssp_pipeline.kernels.gpu.common.cuda.compile import (
    Kernel,
    Unit,
    changed_compilation,
    gpu_missing,
    kernel_options,
    warnings_in,
)
from sssp_pipeline.kernels.gpu.common.cuda.cupy_setup import ask_driver, first_line
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import MOST_EDGES_IN_32_BITS
from sssp_pipeline.kernels.gpu.common.solvers.gpu_solver import GpuSolver
from sssp_pipeline.pipeline.graph_store.loading import load_graph
from sssp_pipeline.pipeline.graph_store.store import read_manifest

#: Without a GPU, kernels are compiled for this one: H100 and H200.
HOPPER = 90
#: Launches that are profiled. With all counters, each of them runs about 40 times.
PROFILED = 8

Facts = dict[tuple[Unit, str], tuple[int, int]]


@dataclass(eq=False)
class Build:
    """The kernels of the package, or with another file in the place of one of them."""

    name: str
    #: The other file by the name of the file that it replaces.
    sources: dict[str, Path]
    #: Registers and bytes spilled by unit and kernel.
    facts: Facts = field(default_factory=dict)
    #: Launches in a call by unit and kernel; empty without a GPU.
    launches: Counter[tuple[Unit, str]] = field(default_factory=Counter)
    #: Microseconds of the device a source, for each round.
    us: list[float] = field(default_factory=list)
    n_equal: int = 0
    #: Where the first row that differs does.
    difference: str | None = None

    def used(self) -> AbstractContextManager[None]:
        """Return a block in which kernels are compiled from its files, with line numbers."""
        return changed_compilation(self.sources, lines=True)


@dataclass(frozen=True)
class Question:
    """The sources of a call, and true rows of some of them."""

    sources: np.ndarray
    #: (V,) by place in `sources`.
    rows: dict[int, np.ndarray]


def gpu_solver(name: str) -> GpuSolver:
    """Return the solver called `name`."""
    known = [name for name, solver in SOLVERS.items() if solver.device == "gpu"]
    if name not in known:
        what = f"solver `{name}` has no kernels on a GPU" if name in SOLVERS else f"unknown solver `{name}`"
        raise InputError(what, hint=f"{did_you_mean(name, known)}Solvers: {', '.join(known)}")
    return solver_named(name)


def chosen_units(solver: GpuSolver, kernel: str | None, file: Path | None, dtype: np.dtype) -> list[Unit]:
    """Return the units of `solver` that have `kernel`, or that `file` replaces; all without both."""
    units = list(dict.fromkeys(solver.units))
    if file is not None and not file.is_file():
        raise InputError(f"there is no file `{file}`", hint="--source-file is a .cu file")
    if kernel is not None:
        known = sorted({name for unit in units for name in unit.names(dtype)})
        units = [unit for unit in units if kernel in unit.names(dtype)]
        if not units:
            hint = f"{did_you_mean(kernel, known)}Kernels: {', '.join(known)}"
            raise InputError(f"`{solver.name}` has no kernel `{kernel}` for {dtype} weights", hint=hint)
    elif file is not None:
        stems = list(dict.fromkeys(unit.stem for unit in units))
        # `my_near_far.cu` replaces `near_far.cu`: the longest name that the file's name ends with.
        named = max((stem for stem in stems if file.stem.endswith(stem)), key=len, default=None)
        if named is None:
            raise InputError(
                f"`{file}` has the name of no file of `{solver.name}`",
                hint=f"let its name end with one of these, or add --kernel: {', '.join(f'{s}.cu' for s in stems)}",
            )
        units = [unit for unit in units if unit.stem == named]
    return units


def read_graph(given: argparse.Namespace, parser: argparse.ArgumentParser) -> CsrGraph:
    """Return the graph that was asked for, with weights of the type that was asked for."""
    if given.graph not in GRAPHS and Path(given.graph).is_dir():
        graph = load_graph(given.graph, read_manifest(given.graph))
    else:
        (name,) = checked_names(parser, given.graph, given.data)
        graph = load(name, given.data, given.cache)
    if given.dtype is None:
        return graph
    return CsrGraph(graph.row_offsets, graph.col_indices, graph.weights.astype(given.dtype)).check()


def picked_sources(graph: CsrGraph, count: int) -> np.ndarray:
    """Return `count` random vertices with edges, whose rows fit the host."""
    candidates = np.flatnonzero(np.diff(graph.row_offsets)).astype(np.uint32)
    if not 1 <= count <= len(candidates):
        raise InputError(
            f"there cannot be {count:,} sources",
            hint=f"--sources is 1 to {len(candidates):,}: vertices with edges",
        )
    room = psutil.virtual_memory().available // 2 // (graph.n_vertices * graph.weight_dtype.itemsize)
    if count > room:
        raise InputError(
            f"the rows of {count:,} sources take more than half of the free memory",
            hint=f"--sources up to {room:,} fit",
        )
    return np.random.default_rng(1).permutation(candidates)[:count]


def compile_units(build: Build, units: list[Unit], graph: CsrGraph, signed: bool, arch: int) -> None:
    """Fill the registers and spills of `build`."""

    def compiled(unit: Unit) -> nvrtc.Compiled:
        options = kernel_options(
            unit, graph.weight_dtype, wide_offsets=graph.n_edges > MOST_EDGES_IN_32_BITS, signed=signed
        )
        return nvrtc.compile_for(unit.source, f"{unit.stem}.cu", options, arch)

    with build.used(), ThreadPoolExecutor(os.cpu_count()) as threads:
        try:
            for unit, found in zip(units, threads.map(compiled, units), strict=True):
                if warned := warnings_in(found.log):
                    raise InputError(
                        f"{build.name}: `{unit.stem}.cu` compiles with warnings\n{warned[0]}",
                        hint="the package refuses a kernel with warnings",
                    )
                for name in unit.names(graph.weight_dtype):
                    if name not in found.registers:
                        raise InputError(
                            f"{build.name}: there is no kernel `{name}`",
                            hint=f"a file in the place of `{unit.stem}.cu` has all of its kernels",
                        )
                    build.facts[unit, name] = found.registers[name], found.spilled[name]
        except nvrtc.NotCompiledError as error:
            raise InputError(f"{build.name} does not compile\n{str(error).strip()}") from None


@contextmanager
def launches_counted(counted: Counter[tuple[Unit, str]]) -> Iterator[None]:
    """Count the launches of each kernel in the `with` block."""
    launch = Kernel.__call__

    def count_and_launch(kernel: Kernel, *args: Any, **kwargs: Any) -> None:
        counted[kernel.unit, kernel.name] += 1
        launch(kernel, *args, **kwargs)

    Kernel.__call__ = count_and_launch
    try:
        yield
    finally:
        Kernel.__call__ = launch


def call(build: Build, solver: GpuSolver, graph: CsrGraph, question: Question) -> float:
    """Solve, compare, and return the microseconds of the device a source."""
    with build.used():
        solution = solver.solve(graph, question.sources, SolveOptions())
    build.n_equal = 0
    for place, true in question.rows.items():
        row = solution.distances[place]
        if np.array_equal(row, true):
            build.n_equal += 1
        elif build.difference is None:
            vertex = int(np.flatnonzero(row != true)[0])
            build.difference = (
                f"from source {question.sources[place]} to vertex {vertex}: {row[vertex]}, and "
                f"`delta-stepping` finds {true[vertex]}"
            )
    return 1e6 * float(np.mean(metrics_column(solution.metrics, "solve_s")))


def run(builds: list[Build], solver: GpuSolver, graph: CsrGraph, question: Question, rounds: int) -> None:
    """Fill what the calls of `builds` give. They take turns, so that the clocks of the GPU are the same for all."""
    # What a solver keeps on the device belongs to a graph. A changed kernel may make it.
    graphs = [CsrGraph(graph.row_offsets, graph.col_indices, graph.weights) for _ in builds]
    for build, own in zip(builds, graphs, strict=True):
        with launches_counted(build.launches):
            call(build, solver, own, question)
    for _ in range(rounds):
        for build, own in zip(builds, graphs, strict=True):
            if build.difference is None:
                build.us.append(call(build, solver, own, question))


def print_table(lines: list[tuple[str, ...]], n_left: int) -> None:
    """Print lines of text in columns; the first `n_left` columns are aligned to the left."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (
            text.ljust(w) if i < n_left else text.rjust(w)
            for i, (text, w) in enumerate(zip(line, widths, strict=True))
        )
        print("  ".join(cells).rstrip())
    print()


def print_kernels(builds: list[Build], kernel: str | None) -> None:
    lines: list[tuple[str, ...]] = [("kernel", "build", "registers", "spilled", "launches", "compiled with")]
    has_run = any(build.launches for build in builds)
    for unit, name in builds[0].facts:
        for build in builds:
            n = build.launches[unit, name]
            if kernel == name or (kernel is None and (n or not has_run)):
                macros = " ".join(f"{macro.removeprefix('SSSP_')}={value}" for macro, value in unit.macros)
                numbers = (*map(str, build.facts[unit, name]), str(n) if has_run else "-")
                lines.append((name, build.name, *numbers, macros))
    print_table([(*line[:2], line[5], *line[2:5]) for line in lines], n_left=3)


def print_calls(builds: list[Build], n_compared: int) -> None:
    lines: list[tuple[str, ...]] = [("build", "µs a source", "rows equal", "")]
    for build in builds:
        us = f"{median(build.us):.2f}" if build.us else "not timed"
        ratio = ""
        if build is not builds[0] and build.us and builds[0].us:
            ratio = f"{median(build.us) / median(builds[0].us):.3f} of {builds[0].name}"
        lines.append((build.name, us, f"{build.n_equal} of {n_compared}", ratio))
    print_table(lines, n_left=1)


def profiler_command(arguments: list[str], kernels: list[str]) -> list[str]:
    """Return the command that runs one call with the same arguments under Nsight Compute."""
    again = [argument for argument in arguments if argument != "--ncu"]
    return [
        *("ncu", "--clock-control", "none", "--set", "full", "--import-source", "yes"),
        *("--kernel-name", f"regex:^({'|'.join(kernels)})$", "--launch-count", str(PROFILED)),
        *(sys.executable, str(Path(__file__).resolve()), *again, "--one-build", "--rounds", "0"),
    ]


def profile(command: list[str]) -> None:
    """Replace this process by `command`; if the profiler is not installed, print the command."""
    if shutil.which(command[0]) is None:
        print(shlex.join(command))
        print("not run: `ncu` (NVIDIA Nsight Compute) is not on the PATH", file=sys.stderr)
        return
    print(shlex.join(command), file=sys.stderr)
    os.execvp(command[0], command)


def architecture(given: int | None) -> int:
    """Return the compute capability to compile for, 90 for 9.0. If none is given, it is that of the GPU."""
    if nvrtc.library() is None:
        raise SsspError("NVRTC, CUDA's compiler, is not found", hint="pip install nvidia-cuda-nvrtc-cu12")
    driver = ask_driver()
    major, minor = driver.capability if driver is not None else (0, 0)
    arch = given or 10 * major + minor or HOPPER
    if arch not in (known := nvrtc.architectures()):
        raise InputError(f"NVRTC does not compile for sm_{arch}", hint=f"--arch is one of {known}")
    return arch


def work(given: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Do what was asked for, and return the exit code."""
    solver = gpu_solver(given.solver)
    arch = architecture(given.arch)
    graph = read_graph(given, parser)
    dtype = graph.weight_dtype
    signed = graph.traits.min_weight < 0 and solver.takes_negative
    units = chosen_units(solver, given.kernel, given.source_file, dtype)
    units = [unit for unit in units if unit.least_arch <= arch]
    builds = [Build("package", {})]
    if given.source_file is not None:
        changed = Build(given.source_file.name, {units[0].stem: given.source_file.resolve()})
        builds = [changed] if given.one_build else [*builds, changed]
    if (reason := solver.supports(graph.traits, SolveOptions())) is not None:
        raise InputError(f"`{solver.name}` cannot solve this: {reason}", hint="take another graph or --dtype")
    sources = picked_sources(graph, given.sources)
    for build in builds:
        compile_units(build, units, graph, signed, arch)
    if given.ncu:
        names = [given.kernel] if given.kernel else sorted({name for _, name in builds[0].facts})
        profile(profiler_command(sys.argv[1:], names))
        return 0
    print(
        f"{solver.name} on {given.graph}: {graph.n_vertices:,} vertices, {graph.n_edges:,} edges, {dtype}; "
        f"{len(sources):,} sources; sm_{arch}\n"
    )
    if (missing := gpu_missing()) is not None:
        print_kernels(builds, given.kernel)
        print(f"compiled and not run: {missing}", file=sys.stderr)
        return 0
    places = sorted({round(p) for p in np.linspace(0, len(sources) - 1, max(given.compared, 1)).tolist()})
    solved = solved_by_cpu(graph, sources[places])
    rows = {place: solution.distances[0] for place, solution in zip(places, solved, strict=True)}
    try:
        run(builds, solver, graph, Question(sources, rows), given.rounds)
    except RuntimeError as error:
        if not type(error).__name__.startswith("CUDA"):
            raise
        hint = f"`compute-sanitizer python {shlex.join(sys.argv)}` shows where"
        raise SsspError(f"the GPU reports {first_line(error)}", hint=hint) from None
    print_kernels(builds, given.kernel)
    print_calls(builds, len(rows))
    return verdict(builds, given.kernel)


def verdict(builds: list[Build], kernel: str | None) -> int:
    """Print what makes the tables worthless, and return the exit code."""
    for build in builds:
        if build.difference is not None:
            print(f"error: {build.name} is wrong {build.difference}", file=sys.stderr)
        if not any(build.launches[unit, name] for unit, name in build.facts if kernel in (None, name)):
            what = f"`{kernel}`" if kernel else "no kernel of this file"
            print(f"error: {build.name}: {what} was not launched, so nothing was compared", file=sys.stderr)
            return 1
    return int(any(build.difference for build in builds))


def fail(error: SsspError) -> NoReturn:
    print(f"error: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"\nhint: {error.hint}", file=sys.stderr)
    sys.exit(error.exit_code)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("solver", help="one with kernels on a GPU")
    parser.add_argument("--graph", required=True, help="a name of `graphs.py`, or a graph store")
    parser.add_argument("--data", type=Path, default=os.environ.get("SSSP_TEST_DATA"))
    parser.add_argument("--cache", type=Path, help="folder in which prepared graphs are kept")
    parser.add_argument("--dtype", choices=[d.name for d in WEIGHT_DTYPES], help="of the weights")
    parser.add_argument("--sources", type=int, default=64)
    parser.add_argument("--compared", type=int, default=16, help="rows to compare with `delta-stepping`")
    parser.add_argument("--rounds", type=int, default=5, help="timed calls, after one to warm up")
    parser.add_argument("--kernel", help="show this kernel, whether it is launched or not")
    parser.add_argument("--source-file", type=Path, help="compile this in place of a file of the package")
    parser.add_argument("--one-build", action="store_true", help="run only --source-file, not the package")
    parser.add_argument("--arch", type=int, help="compile for this GPU, 90 for sm_90")
    parser.add_argument("--ncu", action="store_true", help="run one call under Nsight Compute")
    given = parser.parse_args()
    try:
        sys.exit(work(given, parser))
    except SsspError as error:
        fail(error)


if __name__ == "__main__":
    main()
