"""Exact shortest paths from many sources over big graphs, on GPUs and CPUs, with Parquet in and out.

`docs/guides/python.md` shows each function. They are imported on first access, so the import itself is light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sssp_pipeline.api.answers.answers import nearest as nearest
    from sssp_pipeline.api.answers.answers import reduce as reduce
    from sssp_pipeline.api.answers.answers import reduce_per_vertex as reduce_per_vertex
    from sssp_pipeline.api.answers.betweenness import betweenness as betweenness
    from sssp_pipeline.api.answers.flows import flows as flows
    from sssp_pipeline.api.answers.pairs import distances_of_pairs as distances_of_pairs
    from sssp_pipeline.api.distances.distances import Distances as Distances
    from sssp_pipeline.api.distances.like_scipy import dijkstra as dijkstra
    from sssp_pipeline.api.distances.solving import solve as solve
    from sssp_pipeline.api.graphs.graphs import PreparedGraph as PreparedGraph
    from sssp_pipeline.api.graphs.graphs import open_store as open_store
    from sssp_pipeline.api.graphs.graphs import prepare as prepare
    from sssp_pipeline.api.runs.stored_run import StoredRun as StoredRun
    from sssp_pipeline.api.runs.stored_run import open_run as open_run
    from sssp_pipeline.api.runs.workflows import ingest as ingest
    from sssp_pipeline.api.runs.workflows import run as run
    from sssp_pipeline.api.runs.workflows import run_each as run_each
    from sssp_pipeline.base.errors import InputError as InputError
    from sssp_pipeline.base.errors import SsspError as SsspError

__version__ = "0.2.0"

#: The names that each module gives, in the order of the page about them: calls on a graph, stores and runs, errors.
_NAMES = {
    "api.distances.solving": ("solve",),
    "api.distances.distances": ("Distances",),
    "api.answers.pairs": ("distances_of_pairs",),
    "api.answers.answers": ("nearest", "reduce", "reduce_per_vertex"),
    "api.answers.betweenness": ("betweenness",),
    "api.answers.flows": ("flows",),
    "api.distances.like_scipy": ("dijkstra",),
    "api.graphs.graphs": ("prepare", "PreparedGraph", "open_store"),
    "api.runs.workflows": ("ingest", "run", "run_each"),
    "api.runs.stored_run": ("open_run", "StoredRun"),
    "base.errors": ("SsspError", "InputError"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}
__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
