"""Distances of many pairs: pairs in a second, and the memory of a pair.

    python benchmarks/pairs.py [--side 320] [--searched 200] [--pairs 1000000,10000000] [--backward] [--run]
        [--north-east FOLDER] [--others 200000]

The graph is made: a grid of side x side vertices with random weights. With `--north-east` it is the roads of the
north-eastern USA in a folder of real graphs. The pairs are in a Parquet file, so they take no memory before the call.
Their sources are some vertices and their targets are any, or `--others` of them, or with `--backward` the other way
round. Each number of pairs has a process of its own, which has made a small call before. `bytes_a_pair` is by how much
the call raised the peak of its memory, `peak_bytes`, divided by the number of pairs. It includes the rows of the
searches under way. `solve_s` is the time of `sp.solve` with `delta-stepping` from `solved` of the searched vertices to
all vertices, which makes at most 1 GiB of distances. Some distances of pairs are compared with it; if one differs, the
program ends. `--run` measures a run on a stored graph, with its verification and its files, in place of a call from
Python. The ends in its files are compared with those of all pairs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import graphs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as ss
from record import record

import sssp_pipeline as sp
from sssp_pipeline.pipeline.results.outputs.pairs_output import GROUP_ROWS


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


def north_east(folder: Path) -> ss.csr_array:
    graph = graphs.north_east(folder)
    return ss.csr_array((graph.weights, graph.col_indices, graph.row_offsets), (graph.n_vertices,) * 2)


def write_pairs(url: Path, n_pairs: int, others: np.ndarray, searched: np.ndarray, *, backward: bool) -> None:
    """Write pairs of which one end is `searched`, a row group at a time."""
    generator = np.random.default_rng(n_pairs)
    names = ["target", "source"] if backward else ["source", "target"]
    schema = pa.schema([("source", pa.int64()), ("target", pa.int64())])
    with pq.ParquetWriter(url, schema) as writer:
        for first in range(0, n_pairs, GROUP_ROWS):
            n = min(GROUP_ROWS, n_pairs - first)
            ends = generator.choice(searched, n), generator.choice(others, n)
            writer.write_table(
                pa.table(dict(zip(names, ends, strict=True))).select(schema.names).cast(schema)
            )


def memory_kib(name: str) -> int:
    """Return a number of this process's memory that the kernel of Linux knows."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def rows_of(urls: Iterable[Path]) -> Iterator[pa.Table]:
    """Yield the rows of Parquet files, a row group at a time."""
    for url in urls:
        with pq.ParquetFile(url) as file:
            yield from (file.read_row_group(i) for i in range(file.num_row_groups))


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
    return next(rows_of([path / "distances" / "pairs-00000.parquet"]))["distance"]


def check_order(url: Path) -> None:
    """End the program if the files of the run have other ends of pairs than `url`, or another order."""
    path = url.with_name(f"run-of-{pq.read_metadata(url).num_rows}")
    written = rows_of(sorted((path / "distances").glob("pairs-*.parquet")))
    for given, found in zip(rows_of([url]), written, strict=True):
        if not given.equals(found.select(given.schema.names)):
            raise SystemExit("the files of the run do not have the pairs in their order")


def measure(given: argparse.Namespace, n_pairs: int) -> None:
    """Print and store the line of one number of pairs."""
    graph = grid(given.side) if given.north_east is None else north_east(given.north_east)
    measured = from_run if given.run else sp.distances_of_pairs
    n_vertices = graph.shape[0]
    generator = np.random.default_rng(2)
    searched = generator.permutation(n_vertices)[: given.searched]
    others = generator.permutation(n_vertices)[: given.others]
    with tempfile.TemporaryDirectory() as folder:
        url = Path(folder) / "pairs.parquet"
        write_pairs(url, 1000, others, searched, backward=given.backward)
        measured(graph, url)
        write_pairs(url, n_pairs, others, searched, backward=given.backward)
        before = memory_kib("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        began = time.perf_counter()
        found = measured(graph, url)
        pairs_s = time.perf_counter() - began
        peak = memory_kib("VmHWM")
        if given.run:
            check_order(url)
        some = next(rows_of([url])).slice(0, 10_000)
    solved = searched[: max(1, 2**30 // (4 * n_vertices))]
    began = time.perf_counter()
    turned = graph.T.tocsr() if given.backward else graph
    matrix = sp.solve(turned, solved, metrics=False, solver="delta-stepping").numpy()
    solve_s = time.perf_counter() - began
    place = np.full(n_vertices, -1)
    place[solved] = np.arange(len(solved))
    ends = [some[name].to_numpy() for name in ("source", "target")]
    rows, columns = ends[::-1] if given.backward else ends
    is_solved = place[rows] >= 0
    distances = found[: len(rows)].to_numpy()[is_solved]
    if not np.array_equal(distances, matrix[place[rows], columns][is_solved]):
        raise SystemExit("distances of pairs differ from those of `delta-stepping`")
    record(
        "pairs",
        vertices=n_vertices,
        edges=graph.nnz,
        searched=len(searched),
        others=len(others),
        direction="backward" if given.backward else "forward",
        measured="run" if given.run else "call",
        pairs=n_pairs,
        pairs_s=pairs_s,
        pairs_per_s=n_pairs / pairs_s,
        bytes_a_pair=1024 * (peak - before) / n_pairs,
        peak_bytes=1024 * peak,
        compared=len(distances),
        solved=len(solved),
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
    parser.add_argument("--north-east", type=Path, metavar="FOLDER", help="a folder with pace16-NE.gr.xz")
    parser.add_argument("--others", type=int, help="different vertices of the other side; all by default")
    given = parser.parse_args()
    numbers = [int(word) for word in given.pairs.split(",")]
    if len(numbers) == 1:
        measure(given, numbers[0])
        return
    for number in numbers:
        subprocess.run([sys.executable, __file__, *sys.argv[1:], f"--pairs={number}"], check=True)


if __name__ == "__main__":
    main()
