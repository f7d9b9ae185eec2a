"""Imports point one way, and the command line loads nothing heavy."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable
from functools import cache
from graphlib import TopologicalSorter
from itertools import chain
from pathlib import Path

import pytest

import sssp_pipeline
from sssp_pipeline.kernels import SOLVERS

PACKAGE = Path(__file__).parents[1] / "sssp_pipeline"
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}
HEAVY = ("cupy", "dask", "distributed", "matplotlib", "numba", "pyarrow")

#: The layers, lowest first. A module belongs to the longest of these names that its name begins with. It imports from
#: its own layer and from those before it.
ORDER = (
    "base",
    *(
        "kernels.contract",
        "kernels.host",
        "kernels.answers",
        *(f"kernels.hierarchy.{name}" for name in ("dividing", "ordering", "completion", "sweeps")),
        "kernels.hierarchy",
        "kernels.cpu",
        "kernels.proofs",
    ),
    *("kernels.gpu.common", "kernels.gpu", "kernels"),
    *("storage", "workflow", "parquet"),
    *("pipeline.formats", "pipeline.graph_store", "pipeline.ingest"),
    *(f"pipeline.results.{name}" for name in ("folder", "layouts", "outputs", "answers")),
    *("pipeline.results", "pipeline.results.exports", "pipeline.results.report", "pipeline.planning"),
    *("pipeline.solving", "pipeline.verification", "pipeline.run"),
    *(f"api.{name}" for name in ("calls", "graphs", "distances", "answers", "runs")),
    *("networkx_backend", "bench", "commands", "cli"),
)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imported(path: Path) -> set[str]:
    """Return the full names of all that the module at `path` imports, at the top or inside a function."""
    found = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def place(name: str) -> str | None:
    """Return the entry of `ORDER` that `name`, a module or a member of one, belongs to; None if it is not ours."""
    if not name.startswith("sssp_pipeline."):
        return None
    inner = name.removeprefix("sssp_pipeline.") + "."
    return max((entry for entry in ORDER if inner.startswith(entry + ".")), key=len, default=None)


def our_modules(path: Path) -> set[str]:
    """Return the modules of this package that the module at `path` imports from."""
    names = {name for name in imported(path) if name.startswith("sssp_pipeline.")}
    return {name if name in MODULES else name.rpartition(".")[0] for name in names} - {"sssp_pipeline"}


def faults(rule: Callable[[str], Iterable[str]]) -> list[str]:
    """Return what `rule` finds wrong in each module."""
    return [f"{module} {fault}" for module in MODULES for fault in rule(module)]


def test_imports_point_down():
    def upward(module):
        own = place(module)
        if own is None and not MODULES[module].name.startswith("__"):
            yield "has no place in ORDER"
        for name in our_modules(MODULES[module]) if own else ():
            there = place(name)
            if there != own and ORDER.index(there) > ORDER.index(own):
                yield f"imports upward: {name}"

    assert faults(upward) == []


def test_no_file_is_read_as_a_dataset():
    # A thread of Arrow may drop the last reference to a dataset when Python has already ended, and then aborts it.
    def reads(module):
        if "read_table(" in MODULES[module].read_text(encoding="utf-8"):
            yield "calls `read_table`: use `pq.ParquetFile(…).read()`"

    assert faults(reads) == []


def test_no_modules_import_each_other_in_a_circle():
    graph = {module: our_modules(path) - {module} for module, path in MODULES.items()}
    # `static_order` raises a `CycleError` that names the circle.
    assert set(TopologicalSorter(graph).static_order()) == graph.keys()


#: The modules, or the folders, that may import a library; all others may not.
USERS = {
    # `doctor` names the installed fsspec, it opens nothing.
    "fsspec": ("storage.filesystems", "storage.local_files", "pipeline.planning.machine"),
    "dask": ("pipeline.solving.workers.",),
    # `sp.run` and the conductor name the type of `client`, and do not import it.
    "distributed": ("pipeline.solving.workers.", "pipeline.run.conductor", "api.runs.workflows"),
    "cupy": ("kernels.gpu.common.cuda.cupy_setup",),
    "pyarrow": ("pipeline.", "parquet.", "storage.", "api.", "base."),
    # Inside of the methods that return what they make.
    **dict.fromkeys(("pandas", "polars", "scipy", "xarray"), ("api.distances.distances",)),
    "matplotlib": ("bench.figures",),
    "typer": ("cli", "commands."),
    "rich": ("cli", "commands."),
}


def test_each_library_has_its_place():
    def misplaced(module):
        name = module.removeprefix("sssp_pipeline.")
        for library in {each.partition(".")[0] for each in imported(MODULES[module])} & USERS.keys():
            if not any(
                name.startswith(user) if user.endswith(".") else name == user for user in USERS[library]
            ):
                yield f"imports {library}"

    assert faults(misplaced) == []


def test_every_package_that_is_imported_is_declared():
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    given = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    declared = {re.match(r"[A-Za-z0-9-]+", line)[0].lower().replace("-", "_") for line in given}
    roots = {name.partition(".")[0] for path in MODULES.values() for name in imported(path)}
    roots -= {*sys.stdlib_module_names, "sssp_pipeline"}
    # Packages that have another name, or that come with a declared one.
    named = {"yaml": "pyyaml", "llvmlite": "numba", "markupsafe": "jinja2", "pydantic_core": "pydantic"}
    named |= {"cupy": "cupy_cuda12x", "kr8s": "dask_kubernetes"}
    assert {named.get(root, root) for root in roots} <= declared


def test_only_the_command_line_prints():
    def prints(module):
        for node in ast.walk(parsed(MODULES[module])):
            is_print = isinstance(node, ast.Call) and ast.unparse(node.func) == "print"
            is_stream = isinstance(node, ast.Attribute) and ast.unparse(node) in ("sys.stdout", "sys.stderr")
            if is_print or is_stream:
                yield f"line {node.lineno} prints"

    command_line = {f"sssp_pipeline.{name}" for name in ("cli", "commands.session", "commands.console")}
    assert [fault for fault in faults(prints) if fault.partition(" ")[0] not in command_line] == []


#: All that a run on a stored graph has imported when it begins to solve, on a CPU or on a GPU. A kernel of the CPU
#: loads numba when it is called.
RUNS = "import sssp_pipeline.pipeline.run.conductor, sssp_pipeline.pipeline.solving.workers.local"
#: What ingests, reads files of vertices, verifies, or writes the report.
NOT_BEFORE_IT_SOLVES = tuple(
    f"sssp_pipeline.pipeline.{name}"
    for name in (
        *("ingest.new_graph", "ingest.tasks", "formats.detect", "formats.parsing", "formats.vertex_files"),
        *("verification", "results.report", "results.exports", "graph_store.exports.graph_export"),
    )
)

#: What serves other places than this machine's files, and other runs than those of one process.
NOT_HERE = (
    *("asyncio", "fsspec", "multiprocessing", "psutil", "urllib.request"),
    "sssp_pipeline.kernels.gpu.common.cuda.compile",
)
#: The modules of all solvers.
OF_SOLVERS = tuple(type(solver).__module__ for solver in SOLVERS.values())

#: What a run on a GPU calls on the host to write rows whose vertices are all reached: the tables of the device, the
#: corrections of its checksums, and a chunk.
ROWS_OF_A_GPU = """
import zlib, numpy as np
from sssp_pipeline.kernels.contract.row_facts import RowFacts
from sssp_pipeline.kernels.gpu.common.rows.facts_on_device import _tables
from sssp_pipeline.kernels.host.crc32 import correct_segments
from sssp_pipeline.pipeline.results.folder.distance_files import DistanceFormat
from sssp_pipeline.pipeline.results.layouts.rows import Rows
_tables(4)
rows, of_bits = np.arange(20, dtype=np.uint32).reshape(2, 10), np.zeros((2, 1), np.uint32)
n_present = np.full((2, 1), 10, np.uint32)
sums = np.array([[zlib.crc32(row.tobytes(), 2**32 - 1) ^ (2**32 - 1)] for row in rows], np.uint32)
correct_segments(of_bits, n_present, 10, 10, 32)
facts = RowFacts(rows[:, :1], rows[:, -1:], sums, n_present, of_bits, np.zeros((2, 1), np.uint32))
form = DistanceFormat("long", None, "none", predecessors=False)
page = b"".join(Rows.of(rows, form, facts).chunk(slice(1, 2), slice(0, 10)).buffers)
assert rows[1].tobytes() in page
"""

#: Packages of extras that are installed with the tests.
OF_EXTRAS = ("aiohttp", "bokeh", "cryptography", "h5py", "matplotlib", "osmium", "shapely", "zarr")

CALLS = """
import numpy, sssp_pipeline as sp
sp.dijkstra(numpy.ones((2, 2)))
sp.solve(numpy.ones((2, 2)), 0).numpy()
"""


def loaded(program: str, names: Iterable[str]) -> str:
    """Return which of the modules `names` a program loads, as text."""
    probe = f"import sys\n{program}\nprint([m for m in {names!r} if m in sys.modules])"
    command = [sys.executable, "-c", probe]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()


@pytest.mark.parametrize(
    ("program", "absent"),
    [
        ("import sssp_pipeline", HEAVY),
        ("import sssp_pipeline.cli", HEAVY),
        ("import sssp_pipeline.workflow.yaml_file", HEAVY),
        ("import sssp_pipeline.kernels.registry", ("cupy", "numba", "dask", "pyarrow", "fsspec")),
        (RUNS, ("cupy", "numba", "pyarrow.compute", "dask", "distributed", "jinja2", *NOT_BEFORE_IT_SOLVES)),
        (RUNS, (*NOT_HERE, *OF_SOLVERS)),
        (ROWS_OF_A_GPU, ("cupy", "numba", "dask", *NOT_HERE[:-1])),
        (CALLS, ("cupy", "dask", "distributed", "polars", "networkx", "fsspec", *OF_EXTRAS)),
    ],
    ids=[
        *("package", "command line", "workflow", "kernels", "a run on a stored graph", "another solver"),
        *("rows of a GPU", "a call in memory"),
    ],
)
def test_loads_nothing_that_it_does_not_need(program, absent):
    assert loaded(program, absent) == "[]"


def test_every_name_of_the_package_is_there():
    for name in sssp_pipeline._MODULES:
        assert getattr(sssp_pipeline, name).__doc__
        assert name in dir(sssp_pipeline)
    with pytest.raises(AttributeError, match="no attribute 'sove'"):
        sssp_pipeline.sove  # noqa: B018


#: What takes longest to import. Typer itself imports pydantic.
SLOW = (
    *("cffi", "coverage", "dask", "distributed", "numba", "numpy", "pandas", "pyarrow", "pyarrow.parquet"),
    *("scipy", "yaml"),
)
EDGES = "0 1 5\n1 2 6\n2 0 1\n"


def loaded_by(folder: Path, *words: str, names: tuple[str, ...] = SLOW) -> tuple[int, set[str]]:
    """Return the exit code of a command, and which of the modules `names` it loads."""
    program = (
        "import sys, sssp_pipeline.cli as cli\n"
        "def end(code):\n"
        f"    open('loaded', 'w').write(' '.join(m for m in {names!r} if m in sys.modules))\n"
        "    raise SystemExit(code)\n"
        "cli.end_process = end\n"
        "cli.main()\n"
    )
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, set((folder / "loaded").read_text().split())


def test_a_missing_file_is_told_before_anything_slow_is_loaded(tmp_path):
    assert loaded_by(tmp_path, "run", "nowhere.yaml") == (2, set())
    assert loaded_by(tmp_path, "run", "nowhere.txt", "--from", "1", "--out", "r") == (2, set())
    (tmp_path / "w.yaml").write_text("graph: {input: no.txt}\nsources: {all: true}\noutput: {path: r}\n")
    assert loaded_by(tmp_path, "run", "w.yaml") == (2, {"yaml"})


@pytest.mark.medium
def test_a_small_run_and_a_look_at_it_load_what_they_use(tmp_path):
    (tmp_path / "edges.txt").write_text(EDGES)
    (tmp_path / "coverage.py").touch()
    # The first run on a machine compiles, which loads SciPy.
    assert loaded_by(tmp_path, "run", "edges.txt", "--from", "0", "--out", "first")[0] == 0
    code, slow = loaded_by(tmp_path, "run", "edges.txt", "--from", "0", "--out", "results")
    assert code == 0
    # pandas, SciPy, cffi and coverage can be imported here. numba and pyarrow would import them.
    assert slow == {"numba", "numpy", "pyarrow", "pyarrow.parquet", "yaml"}
    assert loaded_by(tmp_path, "run", "edges.txt", "--from", "1", "--out", "third", names=OF_EXTRAS) == (
        0,
        set(),
    )
    assert loaded_by(tmp_path, "inspect", "results") == (0, set())
    (store,) = (path.name for path in tmp_path.glob("edges-graph-*"))
    assert loaded_by(tmp_path, "inspect", store) == (0, set())


@pytest.mark.medium
def test_a_run_imports_the_solvers_that_it_considers(tmp_path, monkeypatch):
    names = (*NOT_HERE, *OF_SOLVERS)
    (tmp_path / "edges.txt").write_text(EDGES)
    words = ("run", "edges.txt", "--from", "0", "--set", "verify=off", "--set", "report=false")
    # Only the first run of a graph ingests it.
    assert loaded_by(tmp_path, *words, "--out", "first")[0] == 0
    chosen = ("--set", "solve.solver=dijkstra")
    assert loaded_by(tmp_path, *words, *chosen, "--out", "second", names=names) == (
        0,
        {"sssp_pipeline.kernels.cpu.dijkstra"},
    )
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # a GPU solver is not considered without a GPU
    code, modules = loaded_by(tmp_path, *words, "--out", "third", names=names)
    assert code == 0
    assert modules == {name for name in OF_SOLVERS if ".cpu." in name}


#: Runs the command line with a solver that calls no kernel of the CPU, as those on a GPU, on a graph of one vertex.
WITHOUT_KERNELS = """
import sys
import sssp_pipeline.cli as cli
from sssp_pipeline.kernels.contract.solver import SourceMetrics
from sssp_pipeline.kernels.host.solver import WholeCalls
from sssp_pipeline.kernels.registry import SOLVERS
class Alone(WholeCalls):
    name, device, summary = "alone", "cpu", "one vertex"
    forecast = SOLVERS["dijkstra"].forecast
    def _fill_rows(self, call):
        call.distances[:] = 0
        facts = dict.fromkeys(("vertices_processed", "reached"), 1) | dict.fromkeys(("edges_relaxed", "teps"), 0)
        facts |= {"max_distance": 0, "mean_distance": 0.0}
        return [SourceMetrics(source=s, solver=self.name, solve_s=1e-6, **facts) for s in call.sources.tolist()]
SOLVERS["alone"] = Alone()
cli.end_process = print
sys.argv[1:] = ["run", "w.yaml", "-q"]
cli.main()
"""


@pytest.mark.medium
def test_a_run_loads_numba_only_if_it_calls_a_kernel_of_the_cpu(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.txt").write_text("7 7 5\n")
    (tmp_path / "w.yaml").write_text(
        "graph: {input: edges.txt, format: text}\nsources: {all: true}\nsolve: {solver: alone}\n"
        "output: {path: r, distances: none}\nverify: 'off'\nreport: false\n"
    )
    ingest = [sys.executable, "-m", "sssp_pipeline.cli", "ingest", "w.yaml", "-q"]
    subprocess.run(ingest, timeout=120, check=True)
    names = ("numba", "scipy", "pandas", *NOT_BEFORE_IT_SOLVES)
    assert loaded(WITHOUT_KERNELS, names).splitlines() == ["0", "[]"]
    assert (tmp_path / "r" / "run.json").exists()


def test_the_package_offers_its_names_and_no_others():
    assert dir(sssp_pipeline) == sorted(sssp_pipeline.__all__)
    offered = {name: getattr(sssp_pipeline, name) for name in dir(sssp_pipeline)}
    assert {"solve", "InputError", "__version__"} < offered.keys()
    assert not {"Any", "annotations", "import_module", "TYPE_CHECKING"} & offered.keys()


#: What solves, and what writes and checks distances.
AFTER_INGEST = (
    *("kernels.registry", "kernels.contract.solver", "kernels.cpu", "kernels.gpu", "kernels.hierarchy"),
    *("pipeline.planning", "pipeline.planning.machine", "pipeline.results", "pipeline.verification"),
    *("pipeline.run.conductor", "pipeline.run.checks"),
    *("pipeline.solving.dispatch", "pipeline.solving.workers.interface"),
)


@pytest.mark.medium
def test_an_ingest_loads_no_solver_and_no_results(tmp_path):
    names = (*SLOW, "pyarrow.compute", *(f"sssp_pipeline.{name}" for name in AFTER_INGEST))

    def ingest(file: str) -> set[str]:
        code, loaded = loaded_by(tmp_path, "ingest", file, "--from", "1", "--out", "results", names=names)
        assert code == 0
        return loaded

    for file in ("first.txt", "second.txt"):  # the first ingest on a machine compiles, which loads SciPy
        (tmp_path / file).write_text("1 2 3\n5 7 4\n")  # a table of ids, which Arrow might convert by pandas
        loaded = ingest(file)
    assert loaded == {"numba", "numpy", "pyarrow", "pyarrow.parquet", "yaml"}
    assert ingest(file) == {"numpy", "pyarrow", "yaml"}, "the graph is in the store"
