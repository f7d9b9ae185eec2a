"""Isochrones on the roads of New York, on one thread: milliseconds of processor time of an area, by its limit.

    python benchmarks/isochrones.py --data FOLDER [--sources 20] [--limits 100000,200000,400000] [--buffer-m 100]

The graph has travel times. An area is measured twice from each source: the first time the tree still makes the groups
that it needs, the second time it has them all. Ingest and search are not timed.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import shapely
from record import record

import sssp_pipeline as sp
from sssp_pipeline.pipeline.results.exports.areas.reached_area import ReachedAreas


def timed(areas: ReachedAreas, rows: np.ndarray, limit: float) -> tuple[float, list[shapely.Geometry]]:
    """Return the mean milliseconds of processor time of an area, and the areas."""
    began = time.process_time()
    found = [areas.around(row, limit) for row in rows]
    return 1e3 * (time.process_time() - began) / len(rows), found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("SSSP_TEST_DATA"))
    parser.add_argument("--sources", type=int, default=20)
    parser.add_argument("--limits", default="100000,200000,400000")
    parser.add_argument("--buffer-m", type=float, default=100)
    given = parser.parse_args()
    if given.data is None:
        parser.error("name the folder of the graphs: --data")
    with tempfile.TemporaryDirectory() as folder:
        edges, positions = (given.data / f"USA-road-{name}" for name in ("t.NY.gr.gz", "d.NY.co.gz"))
        store = sp.ingest(edges, folder, coordinates=positions)
        graph, lon_lat = store.graph(), store.lon_lat()
        sources = np.random.default_rng(1).choice(graph.n_vertices, given.sources, replace=False)
        rows = sp.solve(store, store.ids.originals(sources).to_pylist()).numpy()
    for limit in map(int, given.limits.split(",")):
        began = time.process_time()
        areas = ReachedAreas(graph, lon_lat, given.buffer_m)
        prepared_ms = 1e3 * (time.process_time() - began)
        first_ms, _ = timed(areas, rows, limit)
        again_ms, found = timed(areas, rows, limit)
        record(
            "isochrones",
            graph="ny-times",
            vertices=graph.n_vertices,
            edges=graph.n_edges,
            sources=given.sources,
            limit=limit,
            buffer_m=given.buffer_m,
            vertices_within=float(np.mean(np.sum(rows <= limit, axis=1))),
            corners=float(np.mean(shapely.get_num_coordinates(found))),
            prepared_cpu_ms=prepared_ms,
            first_cpu_ms=first_ms,
            again_cpu_ms=again_ms,
        )


if __name__ == "__main__":
    main()
