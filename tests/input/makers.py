"""Which function makes an input of each format."""

from __future__ import annotations

import random
from collections.abc import Callable

import line_mutations
import mutations
import pbf_mutations
from mutations import Input

#: What makes an input of each format.
MAKERS: dict[str, Callable[[random.Random], Input]] = {
    "text": mutations.text,
    "csv": mutations.csv,
    "dimacs": mutations.dimacs,
    "galois": mutations.galois,
    "matrix-market": mutations.matrix_market,
    "metis": mutations.metis,
    "tntp": mutations.tntp,
    "osm": mutations.osm,
    "osm-pbf": pbf_mutations.pbf,
    "geoparquet": line_mutations.geoparquet,
    "geopackage": line_mutations.geopackage,
    "parquet": mutations.parquet,
    "scipy-npz": mutations.npz,
    "graphml": mutations.graphml,
    "neo4j": mutations.neo4j,
    "networkx": mutations.networkx,
}


def made(format_name: str, seed: int, number: int) -> Input:
    """Return input `number` of a format; the same one always."""
    return MAKERS[format_name](random.Random(f"{format_name} {seed} {number}"))
