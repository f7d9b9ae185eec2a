"""A large graph from files to distances: seconds, MB/s, edges/s and peak memory of each step.

    python benchmarks/large.py [--scale 26] [--edge-factor 16] [--sources 16] [--solver auto] [--undirected]
        [--folder .bench/large] [--memory auto] [--parts 64] [--keep]

1. `generate` writes an R-MAT graph as text to `--parts` files on all cores: 20 bytes an edge. The default has
   1.07 * 10^9 edges: 21 GB of text, 9 GB of graph store, and as much in the cache of the machine for `run`
   (`SSSP_GRAPH_CACHE`).
2. `ingest` is `sssp-pipeline ingest`.
3. `run` is `sssp-pipeline run` from random sources, with metrics alone and `verify: sample`.

Each step is a line. The peak memory is that of the largest process; mapped files count. At the end all files are
removed; with `--keep` the text stays, and a later call does not generate it again.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numba
import numpy as np
from ingest import measured
from record import record

from sssp_pipeline.kernels.host.kernel_threads import usable_cores

#: Edges that are made and written at a time.
BLOCK_EDGES = 1 << 18
#: The most bytes of a line: two ids of 10 digits, a weight of 3, two spaces and the line end.
LINE_BYTES = 26
LARGEST_WEIGHT = 100


@numba.njit(inline="always")
def mixed(x: np.uint64) -> np.uint64:
    """Return the bits of `x` mixed, as SplitMix64 does (Steele, Lea, Flood, OOPSLA 2014)."""
    x = (x + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@numba.njit(inline="always")
def renamed(vertex: np.uint64, scale: int) -> np.uint64:
    """Return another number below 2^scale: multiplications by odd numbers and shifts are a permutation."""
    mask, half = (np.uint64(1) << np.uint64(scale)) - np.uint64(1), np.uint64((scale + 1) // 2)
    for factor in (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)):
        vertex = (vertex * factor) & mask
        vertex ^= vertex >> half
    return vertex


@numba.njit(inline="always")
def put_number(value: np.uint64, end: int, text: np.ndarray) -> int:
    """Write the digits of `value` to `text` from `end` on; return where they end."""
    n_digits, rest = 1, value // np.uint64(10)
    while rest:
        n_digits, rest = n_digits + 1, rest // np.uint64(10)
    for i in range(n_digits - 1, -1, -1):
        text[end + i] = np.uint8(48) + np.uint8(value % np.uint64(10))
        value //= np.uint64(10)
    return end + n_digits


@numba.njit(nogil=True)
def put_edges(first: int, last: int, scale: int, text: np.ndarray) -> int:
    """Write the lines of the edges [first, last) of the R-MAT graph to `text`; return how many bytes they are.

    The quadrants have the probabilities 0.57, 0.19, 0.19 and 0.05. Each hash decides two levels.
    """
    end = 0
    low = np.uint64(0xFFFFFFFF)
    right, down, both = np.uint64(0.57 * 2**32), np.uint64(0.76 * 2**32), np.uint64(0.95 * 2**32)
    for edge in range(first, last):
        counter = np.uint64(edge) << np.uint64(5)
        src = dst = drawn = np.uint64(0)
        for level in range(scale):
            drawn = mixed(counter | np.uint64(level // 2)) if level % 2 == 0 else drawn >> np.uint64(32)
            r = drawn & low
            goes_down = np.uint64(r >= down)
            goes_right = np.uint64(r >= right) ^ goes_down | np.uint64(r >= both)
            src = src << np.uint64(1) | goes_down
            dst = dst << np.uint64(1) | goes_right
        weight = np.uint64(1) + mixed(counter | np.uint64(31)) % np.uint64(LARGEST_WEIGHT)
        end = put_number(renamed(src, scale), end, text)
        text[end] = 32
        end = put_number(renamed(dst, scale), end + 1, text)
        text[end] = 32
        end = put_number(weight, end + 1, text)
        text[end] = 10
        end += 1
    return end


def generate(folder: Path, scale: int, n_edges: int, n_parts: int) -> int:
    """Write the edges to `n_parts` files of `folder`, several at a time; return the bytes of all."""
    bounds = np.linspace(0, n_edges, n_parts + 1).astype(int).tolist()

    def write(part: int) -> int:
        text = np.empty(BLOCK_EDGES * LINE_BYTES, np.uint8)
        with (folder / f"edges-{part:04d}.txt").open("wb", buffering=0) as file:
            for first in range(bounds[part], bounds[part + 1], BLOCK_EDGES):
                n_bytes = put_edges(first, min(first + BLOCK_EDGES, bounds[part + 1]), scale, text)
                left = memoryview(text[:n_bytes].data)
                while left:
                    left = left[file.write(left) :]
            return file.tell()

    with ThreadPoolExecutor(usable_cores()) as pool:
        return sum(pool.map(write, range(n_parts)))


def workflow_of(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    return {
        "graph": {
            "input": str(folder / "edges-*.txt"),
            "directed": not given.undirected,
            "memory": given.memory,
            "store": str(folder / "graph"),
        },
        "sources": {"random": {"count": given.sources, "seed": 7, "min_reach": 1000}},
        "solve": {"solver": given.solver},
        "output": {"path": str(folder / "run"), "distances": "none"},
        "verify": "sample",
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=int, choices=range(10, 33), default=26, metavar="10…32")
    parser.add_argument("--edge-factor", type=int, default=16)
    parser.add_argument("--undirected", action="store_true", help="each edge has both directions")
    parser.add_argument("--sources", type=int, default=16)
    parser.add_argument("--solver", default="auto")
    parser.add_argument("--memory", default="auto", help="graph.memory, such as 2GiB")
    parser.add_argument("--parts", type=int, default=64)
    parser.add_argument("--folder", type=Path, default=Path(".bench/large"))
    parser.add_argument("--keep", action="store_true", help="keep the text for a later call")
    given = parser.parse_args()
    n_edges = given.edge_factor << given.scale
    facts = {"graph": f"rmat-{given.scale}", "edge_factor": given.edge_factor, "n_edges_listed": n_edges}
    if given.undirected:
        facts["undirected"] = True
    folder = given.folder / f"rmat-{given.scale}-{given.edge_factor}"
    folder.mkdir(parents=True, exist_ok=True)
    done, workflow = folder / "generated.json", folder / "large.yaml"
    for old in ("graph", "run"):
        shutil.rmtree(folder / old, ignore_errors=True)
    if not done.exists():
        put_edges(0, 1, given.scale, np.empty(LINE_BYTES, np.uint8))  # compiles it
        began, cpu = time.perf_counter(), time.process_time()
        n_bytes = generate(folder, given.scale, n_edges, given.parts)
        wall_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
        done.write_text(json.dumps(n_bytes))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        used = {"wall_s": round(wall_s, 3), "cpu_s": round(cpu_s, 3), "peak_bytes": peak}
        _record(
            facts, "generate", used, n_edges, text_bytes=n_bytes, mb_per_s=round(n_bytes / wall_s / 1e6, 1)
        )
    text_bytes = json.loads(done.read_text())
    workflow.write_text(
        json.dumps(workflow_of(given, folder))
    )  # JSON is YAML, and its quotes are always right
    command = [sys.executable, "-m", "sssp_pipeline.cli"]

    used, printed = measured([*command, "ingest", str(workflow), "--json"])
    manifest = json.loads(printed)
    facts |= {key: manifest[key] for key in ("n_vertices", "n_edges")}
    store_bytes = sum(file.stat().st_size for file in (folder / "graph").rglob("*.parquet"))
    rate = round(text_bytes / used["wall_s"] / 1e6, 1)
    _record(facts, "ingest", used, n_edges, text_bytes=text_bytes, mb_per_s=rate, store_bytes=store_bytes)
    used, printed = measured([*command, "run", str(workflow), "--json"])
    ran = json.loads(printed)
    solve_s = ran["timings"]["solve"]
    _record(
        facts,
        "run",
        used,
        manifest["n_edges"] * given.sources,
        solver=ran["solver"],
        solver_reason=ran["solver_reason"],
        n_sources=ran["sources"],
        timings={key: round(s, 3) for key, s in ran["timings"].items()},
        thread_s={key: round(s, 3) for key, s in ran["thread_s"].items()},
        solve_edges_per_s=round(manifest["n_edges"] * given.sources / solve_s),
        verified_sources=ran["verify"]["checked_sources"],
    )
    if given.keep:
        shutil.rmtree(folder / "graph")
        shutil.rmtree(folder / "run")
    else:
        shutil.rmtree(folder)


def _record(facts: dict[str, Any], step: str, used: dict[str, Any], n_edges: int, **more: Any) -> None:
    rate = round(n_edges / used["wall_s"])
    record("large", step=step, **facts, cores=len(os.sched_getaffinity(0)), **used, edges_per_s=rate, **more)


if __name__ == "__main__":
    main()
