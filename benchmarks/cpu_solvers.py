"""The CPU solvers beside SciPy: `sssp-pipeline bench run cpu_solvers.yaml` with SciPy's Dijkstra as the solver `scipy`.

    python benchmarks/cpu_solvers.py [--output FOLDER] [--graph NAME] …

The options are those of `bench run`. The time of `scipy` includes writing its row in the type of the weights.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.cli import app
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.forecast import Forecast, core_s
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu.cpu_solver import CpuSolver
from sssp_pipeline.kernels.host.search import Search


class ScipySearch(Search):
    """SciPy's Dijkstra over one matrix."""

    def __init__(self, matrix: csr_matrix) -> None:
        self._matrix = matrix

    def run(self, distances: np.ndarray, source: int) -> tuple[int, int]:
        row = dijkstra(self._matrix, indices=source)
        is_reached = np.isfinite(row)
        distances[is_reached] = row[is_reached]
        return int(is_reached.sum()), 0


class Scipy(CpuSolver):
    """SciPy's Dijkstra as a solver."""

    name = "scipy"
    summary = "SciPy's Dijkstra, in float64"

    def start(self, graph: CsrGraph, options: SolveOptions) -> Search:
        index = np.int32 if graph.n_edges < 2**31 else np.int64
        arrays = (
            graph.weights.astype(np.float64),
            graph.col_indices.astype(index),
            graph.row_offsets.astype(index),
        )
        return ScipySearch(csr_matrix(arrays, shape=(graph.n_vertices, graph.n_vertices)))

    def forecast(self, traits: GraphTraits, n_sources: int) -> Forecast:
        return Forecast(core_s(100.0, traits))


def main() -> None:
    SOLVERS[Scipy.name] = Scipy()
    app(["bench", "run", str(Path(__file__).with_suffix(".yaml")), *sys.argv[1:]])


if __name__ == "__main__":
    main()
