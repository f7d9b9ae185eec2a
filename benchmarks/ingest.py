"""Ingest of a generated text edge list: MB/s of text and peak memory, each in a process of its own.

python benchmarks/ingest.py [--mb 1000] [--folder .bench] [--memory 2GiB] [--ids integer] [--pack gzip] [--repeats 3]

`--parsers` reads the same plain text with Polars and DuckDB too, which do no more than to parse it into columns.
"""

from __future__ import annotations

import argparse
import compileall
import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from record import record

import sssp_pipeline

#: Bytes of a line: two ids of up to eight digits, a weight of up to three, white space.
BYTES_A_LINE = 19.2
EDGES_A_VERTEX = 10
#: What a program of its own does with the file `sys.argv[1]`.
PARSERS = {
    "polars": "import polars, sys; polars.read_csv(sys.argv[1], separator=' ', has_header=False)",
    "duckdb": "import duckdb, sys; duckdb.read_csv(sys.argv[1], sep=' ', header=False).create('edges')",
}


def write_edge_list(
    path: Path, megabytes: int, ids: str = "integer", edges_a_vertex: int = EDGES_A_VERTEX
) -> int:
    """Write a text edge list of about that size, skewed like a social graph; return its number of lines.

    `ids` are "integer", from 0 on, "sparse", of 62 bits, or "string".
    """
    n_edges = int(megabytes * 1e6 / BYTES_A_LINE)
    n_vertices = n_edges // edges_a_vertex
    rng = np.random.default_rng(1)
    options = pacsv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
    kind = {"integer": pa.uint32(), "sparse": pa.uint64(), "string": pa.string()}[ids]
    schema = pa.schema([("src", kind), ("dst", kind), ("weight", pa.uint32())])
    with pacsv.CSVWriter(path, schema, write_options=options) as writer:
        for begin in range(0, n_edges, 2**20):
            n = min(2**20, n_edges - begin)
            # Squaring a uniform number makes low ids popular; the multiplication scatters them over all ids.
            popular = (rng.random(n) ** 2 * n_vertices).astype(np.uint64) * 2654435761 % n_vertices
            ends = (popular.astype(np.uint32), rng.integers(0, n_vertices, n, np.uint32))
            columns = (*(_named(end, ids) for end in ends), pa.array(rng.integers(1, 1000, n, np.uint32)))
            writer.write_table(pa.table(list(columns), schema=schema))
    return n_edges


def _named(numbers: np.ndarray, ids: str) -> pa.Array:
    if ids == "integer":
        return pa.array(numbers)
    scattered = pa.array(numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(2))
    if ids == "sparse":
        return scattered
    return pc.binary_join_element_wise("v", pc.cast(scattered, pa.string()), "")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=int, default=1000)
    parser.add_argument("--folder", type=Path, default=Path(".bench"))
    parser.add_argument("--memory", default="auto", help="graph.memory, such as 2GiB")
    parser.add_argument("--ids", choices=["integer", "sparse", "string"], default="integer")
    parser.add_argument("--edges-a-vertex", type=int, default=EDGES_A_VERTEX)
    parser.add_argument("--pack", choices=["none", "gzip"], default="none")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--parsers", action="store_true", help="measure Polars and DuckDB too")
    given = parser.parse_args()
    # An installed package has byte code. Without it, each process compiles the modules that it imports: 0.3 s.
    compileall.compile_dir(Path(sssp_pipeline.__file__).parent, quiet=1)
    given.folder.mkdir(exist_ok=True)
    text = given.folder / f"edges-{given.mb}-{given.ids}-{given.edges_a_vertex}.txt"
    if not text.exists():
        write_edge_list(text, given.mb, given.ids, given.edges_a_vertex)
    packed = text
    if given.pack == "gzip":
        packed = text.with_suffix(".txt.gz")
        if not packed.exists():
            with text.open("rb") as plain, gzip.open(packed, "wb", compresslevel=6) as out:
                shutil.copyfileobj(plain, out, 1 << 20)
    for _ in range(given.repeats):
        measure_ingest(given, text, packed)
        for name in PARSERS if given.parsers else ():
            measure(f"parse with {name}", text, [sys.executable, "-c", PARSERS[name], str(text)], pack="none")


def measure_ingest(given: argparse.Namespace, text: Path, packed: Path) -> None:
    """Ingest the file `packed`, and record the rate in bytes of `text`."""
    workflow, store = given.folder / "ingest.yaml", given.folder / "ingest-graph"
    # JSON is YAML, and its quotes are always right.
    workflow.write_text(
        json.dumps(
            {
                "graph": {"input": str(packed), "store": str(store), "memory": given.memory},
                "sources": {"all": True},
                "output": {"path": str(given.folder / "unused")},
            }
        )
    )
    shutil.rmtree(store, ignore_errors=True)
    command = [sys.executable, "-m", "sssp_pipeline.cli", "ingest", str(workflow), "--json"]
    measure("ingest", text, command, memory=given.memory, ids=given.ids, pack=given.pack)
    shutil.rmtree(store)


def measured(command: list[str]) -> tuple[dict[str, Any], str]:
    """Run `command`, and return its seconds and the peak memory of its largest process, and what it printed."""
    # The peak of all ended children is the highest of them: a process between has one child alone.
    between = (
        "import json, resource, subprocess, sys, time\n"
        "began = time.perf_counter()\n"
        "done = subprocess.run(sys.argv[1:], check=True, stdout=subprocess.PIPE, text=True)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(json.dumps([time.perf_counter() - began, used.ru_maxrss * 1024, used.ru_utime + used.ru_stime]))\n"
        "print(done.stdout)"
    )
    done = subprocess.run(
        [sys.executable, "-c", between, *command], check=True, stdout=subprocess.PIPE, text=True
    )
    first, _, answer = done.stdout.partition("\n")
    wall_s, peak_bytes, cpu_s = json.loads(first)
    return {"wall_s": round(wall_s, 3), "cpu_s": round(cpu_s, 3), "peak_bytes": peak_bytes}, answer


def measure(what: str, text: Path, command: list[str], **facts: Any) -> None:
    """Run `command`, and record its rate and its peak memory."""
    used, answer = measured(command)
    if what == "ingest":
        manifest = json.loads(answer)
        facts |= {key: manifest[key] for key in ("n_vertices", "n_edges")}
        facts["csr_bytes"] = 8 * (manifest["n_vertices"] + 1) + 8 * manifest["n_edges"]
    size = text.stat().st_size
    rate = round(size / used["wall_s"] / 1e6, 1)
    record("ingest", what=what, **facts, input_bytes=size, **used, mb_per_s=rate)


if __name__ == "__main__":
    main()
