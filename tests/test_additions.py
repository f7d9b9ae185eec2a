"""A format, a solver and an output are each one class or function and one entry in a registry.

The three here are toys. A workflow file uses them from the first byte read to the verdict, as it would use any other.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sssp_pipeline.base.errors import InputError, RefutedError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.forecast import Forecast
from sssp_pipeline.kernels.contract.kept import KeptOfRow
from sssp_pipeline.kernels.cpu.cpu_solver import CpuSolver
from sssp_pipeline.kernels.host.search import Search
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk, EdgeList
from sssp_pipeline.pipeline.formats.parsing.declared import declared_reading
from sssp_pipeline.pipeline.results.distance_files import opened
from sssp_pipeline.pipeline.results.outputs import RowOutput
from sssp_pipeline.pipeline.run.completed_run import verify_run
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.pipeline.run.inspect import describe
from sssp_pipeline.pipeline.run.plan_facts import describe_plan
from sssp_pipeline.storage.files import open_read
from sssp_pipeline.workflow.registries import FORMATS, OUTPUTS, code_of
from sssp_pipeline.workflow.yaml_file import load_workflow

# ---- the toy format: `0 -> 1 takes 5` ----


def open_arrows(urls, options):
    del options
    edges = []
    for url in urls:
        with open_read(url) as file:
            edges += [line.split() for line in file.read().decode().splitlines()]

    def read(n_threads):
        del n_threads
        source, target, weight = (np.array([int(edge[i]) for edge in edges]) for i in (0, 2, 4))
        yield EdgeChunk(source, target, weight)

    return EdgeList(declared_reading("arrows", "ids are integers"), has_weights=True, read=read)


# ---- the toy solver: relax every edge until nothing changes ----


class Sweeps(Search):
    def __init__(self, graph):
        self._src = np.repeat(np.arange(graph.n_vertices), np.diff(graph.row_offsets))
        self._graph = graph

    def run(self, distances, source):
        limit, n_sweeps = distances[source], 0
        distances[source] = 0
        while True:
            n_sweeps += 1
            is_open = distances[self._src] < limit
            lowered = distances.copy()
            candidates = distances[self._src[is_open]] + self._graph.weights[is_open]
            np.minimum.at(lowered, self._graph.col_indices[is_open], candidates)
            if (lowered == distances).all():
                return n_sweeps * len(distances), n_sweeps * self._graph.n_edges
            distances[:] = lowered


class SweepSolver(CpuSolver):
    name = "sweeps"
    summary = "Relaxes every edge until nothing changes"

    def start(self, graph, options):
        return Sweeps(graph)

    def forecast(self, traits, n_sources):
        return Forecast(1e-3)


# ---- the toy output: how many vertices are within a distance of 10 ----

RADIUS = 10


@dataclass(frozen=True)
class CountWithin(KeptOfRow):
    def n_columns(self, n_vertices):
        return 1

    def dtype(self, weight_dtype):
        return np.dtype(np.int64)

    def reduce(self, row, into):
        into[0] = np.count_nonzero(row <= RADIUS)

    def on_device(self, n_rows, n_vertices, weight_dtype, lane_bits=0):
        raise NotImplementedError


class Nearby(RowOutput):
    name = "nearby"
    judged = "number of vertices nearby"
    kept = CountWithin()

    def write(self, handle, sources, solution, ids):
        counts = pa.array(solution.distances[:, 0])
        pq.write_table(pa.table({"source": ids.originals(sources), "nearby": counts}), handle)

    def read(self, stored, places, ids, dtype):
        with opened(stored[0]) as file:
            for row in file.read().take(places).to_pylist():
                yield row["source"], row["nearby"]

    def difference(self, source, stored, true, ids):
        count = int(true.distances[0, 0])
        return None if stored == count else f"source `{source}`: stored {stored} nearby, true {count}"


# ---- one entry each ----

EDGES = "\n".join(
    f"{v} -> {w} takes {4 + (7 * v + w) % 9}" for v in range(40) for w in (v + 1, (3 * v) % 40) if w < 40
)
WORKFLOW = """\
graph: {input: edges.arrows, format: arrows, store: graph}
sources: {all: true}
solve: {solver: sweeps, batch: 7}
output: {path: run, distances: nearby}
"""


@pytest.fixture
def toys(monkeypatch, tmp_path):
    monkeypatch.setitem(FORMATS, "arrows", f"{__name__}:open_arrows")
    monkeypatch.setitem(SOLVERS, "sweeps", SweepSolver())
    monkeypatch.setitem(OUTPUTS, "nearby", f"{__name__}:Nearby")
    monkeypatch.chdir(tmp_path)
    Path("edges.arrows").write_text(EDGES)
    Path("w.yaml").write_text(WORKFLOW)


def true_counts() -> list[int]:
    """Return for each vertex how many are within the radius, by the method of Floyd and Warshall."""
    distances = np.full((40, 40), 10**6)
    np.fill_diagonal(distances, 0)
    for line in EDGES.splitlines():
        source, _, target, _, weight = line.split()
        distances[int(source), int(target)] = min(distances[int(source), int(target)], int(weight))
    for v in range(40):
        distances = np.minimum(distances, distances[:, v : v + 1] + distances[v])
    return np.count_nonzero(distances <= RADIUS, axis=1).tolist()


@pytest.mark.usefixtures("toys")
def test_a_toy_format_solver_and_output_run_end_to_end(recorded_anew):
    workflow = load_workflow("w.yaml")
    plan = describe_plan(workflow, 0, Quiet())
    assert (plan["solver"], plan["batches"], plan["written_bytes"]) == ("sweeps", 6, 40 * 8)
    folder, record = run(workflow, Quiet())
    assert record["identity"]["output"] == "nearby"
    assert (record["solver"], record["verify"]["refuted"]) == ("sweeps", None)
    stored = pq.read_table("run/distances").to_pydict()
    assert stored == {"source": list(range(40)), "nearby": true_counts()}
    assert describe("run")["sources"] == 40
    assert "number of vertices nearby" in Path("run/report.html").read_text()
    assert run(workflow, Quiet())[1] == record  # nothing is left to do

    table = pq.read_table(folder.batch_path(0))
    wrong = table.set_column(1, "nearby", pa.array([c + 1 for c in table["nearby"].to_pylist()]))
    pq.write_table(wrong, folder.batch_path(0))
    recorded_anew(folder)
    first = true_counts()[0]
    with pytest.raises(RefutedError, match=f"^source `0`: stored {first + 1} nearby, true {first}$"):
        verify_run("run", None, "sample", Quiet())


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(
    "setting", ["verify=certificate", "solve.predecessors=true", "output.targets={ids: [1]}"]
)
def test_what_needs_whole_rows_is_refused_for_a_toy_output(setting):
    with pytest.raises(InputError, match=r"`output\.distances"):
        load_workflow("w.yaml", [setting])


@pytest.mark.medium
@pytest.mark.usefixtures("toys")
def test_an_interrupted_run_of_a_toy_output_goes_on(monkeypatch):
    workflow = load_workflow("w.yaml")
    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr("sssp_pipeline.pipeline.run.conductor.finish_run", failing)
        run(workflow, Quiet())
    Path("run/distances/batch-00002.parquet").unlink()
    _, record = run(workflow, Quiet())
    assert record["verify"]["refuted"] is None
    assert pq.read_table("run/distances")["nearby"].to_pylist() == true_counts()


def failing(*_, **__):
    raise RuntimeError("the power failed")


def test_every_entry_names_code_that_is_there():
    assert all(callable(code_of(entry)) for entry in FORMATS.values())
    assert all(code_of(entry).name == name for name, entry in OUTPUTS.items())
