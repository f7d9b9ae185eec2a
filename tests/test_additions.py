"""A format, a solver and an output are each one new file and one line in a registry.

The three here are toys. The format has a key of its own in `graph`, and the output has one in `output`. A process of
its own makes the three entries before anything reads the registries, then runs a command as a user does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.workflow.registries import FORMATS, OUTPUTS, code_of

pytestmark = pytest.mark.medium

#: The format: `0 -> 1 takes 5`, where `graph.arrow` may be another word than `->`.
ARROWS = '''
import numpy as np
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk, InputEdges
from sssp_pipeline.pipeline.formats.parsing.declared import declared_reading
from sssp_pipeline.storage.files import open_read
from sssp_pipeline.workflow.section import OwnKeys, Text

class ArrowKeys(OwnKeys):
    """The keys of `graph` that only arrows have."""

    arrow: Text = "->"
    """The word between source and target."""

def open_arrows(urls, options):
    edges = []
    for url in urls:
        with open_read(url) as file:
            edges += [line.split() for line in file.read().decode().splitlines()]
    assert all(edge[1] == options.own["arrow"] for edge in edges)

    def read(n_threads):
        source, target, weight = (np.array([int(edge[i]) for edge in edges]) for i in (0, 2, 4))
        yield EdgeChunk(source, target, weight)

    return InputEdges(declared_reading("arrows", "ids are integers"), has_weights=True, read=read)
'''
#: The solver: relax every edge until nothing changes.
SWEEPS = """
import numpy as np
from sssp_pipeline.kernels.contract.forecast import Forecast
from sssp_pipeline.kernels.cpu.cpu_solver import CpuSolver
from sssp_pipeline.kernels.host.search import Search

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
"""
#: The output: how many vertices are within `output.radius`.
NEARBY = '''
from dataclasses import dataclass
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sssp_pipeline.kernels.contract.kept import KeptOfRow
from sssp_pipeline.pipeline.results.folder.distance_files import opened
from sssp_pipeline.pipeline.results.outputs.outputs import RowOutput
from sssp_pipeline.workflow.section import OwnKeys, Positive

class RadiusKeys(OwnKeys):
    """The keys of `output` that only `distances: nearby` has."""

    radius: Positive | None = None
    """Vertices at most this far are counted."""

@dataclass(frozen=True)
class CountWithin(KeptOfRow):
    radius: int

    def n_columns(self, n_vertices):
        return 1

    def dtype(self, weight_dtype):
        return np.dtype(np.int64)

    def reduce(self, row, into):
        into[0] = np.count_nonzero(row <= self.radius)

    def on_device(self, n_rows, n_vertices, weight_dtype, lane_bits=0):
        raise NotImplementedError

@dataclass(frozen=True, eq=False)
class Nearby(RowOutput):
    radius: int = 0
    name = "nearby"
    judged = "number of vertices nearby"

    @classmethod
    def chosen(cls, form, spec, choose):
        return cls(form, radius=spec.own["radius"])

    @classmethod
    def recorded(cls, form, identity, n_targets):
        return cls(form, radius=identity["radius"])

    def identity(self):
        return super().identity() | {"radius": self.radius}

    @property
    def kept(self):
        return CountWithin(self.radius)

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
'''
#: The lines, each in the place where the registry has its others.
PROGRAM = """
from sssp_pipeline.workflow.registries import FORMATS, OUTPUTS, Format, OutputKind
FORMATS["arrows"] = Format("arrows:open_arrows", own_keys="arrows:ArrowKeys", begins=rb"[0-9]+ \\S+ [0-9]+ takes")
OUTPUTS["nearby"] = OutputKind("nearby:Nearby", own_keys="nearby:RadiusKeys", example="radius: 10")
from sssp_pipeline.kernels import SOLVERS
from sweeps import SweepSolver
SOLVERS["sweeps"] = SweepSolver()
from sssp_pipeline.cli import main
main()
"""
RADIUS = 10
EDGES = "\n".join(
    f"{v} => {w} takes {4 + (7 * v + w) % 9}" for v in range(40) for w in (v + 1, (3 * v) % 40) if w < 40
)
WORKFLOW = f"""\
graph: {{input: edges.arrows, arrow: "=>", store: graph}}
sources: {{all: true}}
solve: {{solver: sweeps, batch: 7}}
output: {{path: run, distances: nearby, radius: {RADIUS}}}
"""


@pytest.fixture
def toys(tmp_path, monkeypatch):
    """A function that runs a command with the toys and returns its exit code, its output and its messages."""
    monkeypatch.chdir(tmp_path)
    files = {"arrows.py": ARROWS, "sweeps.py": SWEEPS, "nearby.py": NEARBY, "program.py": PROGRAM}
    for name, text in {**files, "edges.arrows": EDGES, "w.yaml": WORKFLOW}.items():
        Path(name).write_text(text)

    def run(*words: str) -> tuple[int, str, str]:
        command = [sys.executable, "program.py", *words]
        plain = os.environ | {"NO_COLOR": "1", "COLUMNS": "400"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=plain)
        return done.returncode, done.stdout, done.stderr

    return run


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


def test_a_toy_format_solver_and_output_run_end_to_end(toys, recorded_anew):
    code, _, told = toys("run", "w.yaml")
    assert code == 0, told
    record = json.loads(Path("run/run.json").read_text())
    assert (record["identity"]["output"], record["identity"]["radius"]) == ("nearby", RADIUS)
    assert (record["solver"], record["verify"]["refuted"]) == ("sweeps", None)
    stored = pq.read_table("run/distances").to_pydict()
    assert stored == {"source": list(range(40)), "nearby": true_counts()}
    assert "number of vertices nearby" in Path("run/report.html").read_text()
    code, _, told = toys("run", "w.yaml")  # nothing is left to do
    assert code == 0, told
    assert json.loads(Path("run/run.json").read_text()) == record

    (file, *_) = sorted(Path("run/distances").iterdir())
    table = pq.ParquetFile(file).read()
    others = pa.array([count + 1 for count in table["nearby"].to_pylist()])
    pq.write_table(table.set_column(1, "nearby", others), file)
    recorded_anew(RunFolder("run"))
    first = true_counts()[0]
    code, _, told = toys("verify", "run")
    assert code == 3, told
    assert f"source `0`: stored {first + 1} nearby, true {first}" in told


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("verify=certificate", "which `output.distances: nearby` does not write"),
        ("solve.predecessors=true", "`output.distances: nearby` leaves no place for predecessors"),
        (
            "output.targets={ids: [1]}",
            "`output.targets` goes with `output.distances: full`, not with `nearby`",
        ),
        ("output.layout=wide", "`output.layout` goes with `output.distances: full`, not with `nearby`"),
        ("output.radius=null", "`output.distances: nearby` needs `output.radius`"),
        ("output.distances=full", "`output.radius` goes with `output.distances: nearby`, not with `full`"),
        ("output.radius=-1", "`output.radius` is `-1`, wanted an integer above 0 or `null`"),
        ("graph.format=csv", "`graph.arrow` belongs to format `arrows`, not `csv`"),
        ("graph.header=true", "`graph.header` belongs to formats `text`, `csv` and `matrix`, not `arrows`"),
    ],
)
def test_what_does_not_go_together(toys, setting, text):
    code, _, told = toys("run", "w.yaml", "--set", setting)
    assert code == 2, told
    assert text in told


def test_every_entry_names_code_that_is_there():
    assert all(callable(code_of(known.opens)) for known in FORMATS.values())
    assert all(callable(code_of(known.sniffs)) for known in FORMATS.values() if known.sniffs)
    assert all(code_of(kind.stores).name == name for name, kind in OUTPUTS.items())
