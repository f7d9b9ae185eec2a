"""Distances of many pairs: pairs in a second, and the memory of a pair.

    python benchmarks/pairs.py [--side 320] [--searched 200] [--pairs 1000000,10000000] [--backward] [--run]

The graph is made: a grid of side x side vertices with random weights. The pairs are in a Parquet file, so they take no
memory before the call. Their sources are some vertices and their targets are any, or with `--backward` the other way
round. Each number of pairs has a process of its own, which has made a small call before. `bytes_a_pair` is by how much
the call raised the peak of its memory, divided by the number of pairs. It includes the rows of the searches under way.
`solve_s` is the time of `sp.solve` from the searched vertices to all vertices, which makes the matrix. Some distances
are compared with it; if one differs, the program ends. `--run` measures a run on a stored graph, with its verification
and its files, in place of a call from Python.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as ss
from record import record

import sssp_pipeline as sp


def grid(side: int) -> ss.csr_array:
    """Return a grid in which every edge has its reverse, with another weight."""
    generator = np.random.default_rng(1)
    vertex = np.arange(side * side).reshape(side, side)
    ends = np.concatenate([
        np.stack([vertex[:, :-1].ravel(), vertex[:, 1:].ravel()]),
        np.stack([vertex[:-1].ravel(), vertex[1:].ravel()]),
    ], axis=1)  # fmt: skip
    src, dst = np.concatenate([ends, ends[::-1]], axis=1)
    weights = generator.integers(1, 1000, len(src)).astype(np.uint32)
    return ss.csr_array((weights, (src, dst)), (side * side, side * side))


def write_pairs(url: Path, n_pairs: int, n_vertices: int, searched: np.ndarray, *, backward: bool) -> None:
    """Write pairs of which one end is `searched`, a million at a time."""
    generator = np.random.default_rng(n_pairs)
    names = ["target", "source"] if backward else ["source", "target"]
    schema = pa.schema([("source", pa.int64()), ("target", pa.int64())])
    with pq.ParquetWriter(url, schema) as writer:
        for first in range(0, n_pairs, 10**6):
            n = min(10**6, n_pairs - first)
            ends = generator.choice(searched, n), generator.integers(0, n_vertices, n)
            writer.write_table(
                pa.table(dict(zip(names, ends, strict=True))).select(schema.names).cast(schema)
            )


def memory_kib(name: str) -> int:
    """Return a number of this process's memory that the kernel of Linux knows."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def from_run(graph: ss.csr_array, url: Path) -> pa.ChunkedArray:
    """Return the first distances of a run of the pairs in `url`, which writes its folder next to them."""
    edges = graph.tocoo()
    columns = {
        "source": edges.row.astype(np.int64),
        "target": edges.col.astype(np.int64),
        "weight": edges.data,
    }
    if not (stored := url.with_name("edges.parquet")).exists():
        pq.write_table(pa.table(columns), stored)
        sp.ingest(stored, url.with_name("graph"))
    path = url.with_name(f"run-of-{pq.read_metadata(url).num_rows}")
    sp.run({
        "graph": {"input": str(stored), "store": str(url.with_name("graph"))},
        "output": {"path": str(path), "distances": "pairs", "pairs": str(url)},
    })  # fmt: skip
    return pq.ParquetFile(path / "distances" / "pairs-00000.parquet").read_row_group(0)["distance"]


def measure(side: int, n_searched: int, n_pairs: int, *, backward: bool, is_run: bool) -> None:
    """Print and store the line of one number of pairs."""
    graph, measured = grid(side), from_run if is_run else sp.distances_of_pairs
    n_vertices = graph.shape[0]
    searched = np.random.default_rng(2).permutation(n_vertices)[:n_searched]
    with tempfile.TemporaryDirectory() as folder:
        url = Path(folder) / "pairs.parquet"
        write_pairs(url, 1000, n_vertices, searched, backward=backward)
        measured(graph, url)
        write_pairs(url, n_pairs, n_vertices, searched, backward=backward)
        before = memory_kib("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        began = time.perf_counter()
        found = measured(graph, url)
        pairs_s = time.perf_counter() - began
        peak = memory_kib("VmHWM")
        some = pq.ParquetFile(url).read_row_group(0).slice(0, 10_000)
    began = time.perf_counter()
    matrix = sp.solve(graph.T.tocsr() if backward else graph, searched, metrics=False).numpy()
    solve_s = time.perf_counter() - began
    place = np.full(n_vertices, -1)
    place[searched] = np.arange(n_searched)
    ends = [some[name].to_numpy() for name in ("source", "target")]
    rows, columns = ends[::-1] if backward else ends
    if not np.array_equal(found[: len(rows)].to_numpy(), matrix[place[rows], columns]):
        raise SystemExit("distances of pairs differ from those of the matrix")
    record(
        "pairs",
        vertices=n_vertices,
        edges=graph.nnz,
        searched=n_searched,
        direction="backward" if backward else "forward",
        measured="run" if is_run else "call",
        pairs=n_pairs,
        pairs_s=pairs_s,
        pairs_per_s=n_pairs / pairs_s,
        bytes_a_pair=1024 * (peak - before) / n_pairs,
        solve_s=solve_s,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--side", type=int, default=320, help="the graph has as many vertices as its square")
    parser.add_argument("--searched", type=int, default=200, help="different vertices of the smaller side")
    parser.add_argument("--pairs", default="1000000,10000000", help="numbers of pairs")
    parser.add_argument("--backward", action="store_true", help="the smaller side are the targets")
    parser.add_argument("--run", action="store_true", help="measure a run in place of a call")
    given = parser.parse_args()
    numbers = [int(word) for word in given.pairs.split(",")]
    if len(numbers) == 1:
        measure(given.side, given.searched, numbers[0], backward=given.backward, is_run=given.run)
        return
    options = [f"--side={given.side}", f"--searched={given.searched}"]
    options += ["--backward"] * given.backward + ["--run"] * given.run
    for number in numbers:
        subprocess.run([sys.executable, __file__, f"--pairs={number}", *options], check=True)


if __name__ == "__main__":
    main()
