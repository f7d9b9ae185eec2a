"""Lines as a bench on some machine would have written them."""

from __future__ import annotations

from typing import Any

from sssp_pipeline.bench.lines import Circumstances, GraphFacts, Line, Timing

ON = Circumstances(
    date="2026-01-02T03:04:05+00:00",
    commit="abcdef0123",
    dirty=False,
    machine={"cpu": "some CPU", "cores": 4, "memory_bytes": 1, "gpu": "some GPU, 1.2"},
    versions={},
)
#: Name: vertices, edges, mean degree, diameter.
GRAPHS = {"road": (1000, 2500, 2.5, 700), "web": (5000, 80_000, 16.0, 9)}


def facts(name: str, content: str = "x") -> GraphFacts:
    n_vertices, n_edges, mean_degree, diameter = GRAPHS[name]
    return GraphFacts(
        name=name,
        content=content,
        n_vertices=n_vertices,
        n_edges=n_edges,
        weight_dtype="uint32",
        min_weight=1,
        max_weight=100,
        mean_degree=mean_degree,
        max_degree=99,
        degree_deviation=1.5,
        diameter_hops=diameter,
    )


def timing(ms: float, work: float = 1.0, runs: int = 2) -> Timing:
    return Timing(
        ms=[[ms] * runs],
        median_ms=ms,
        mean_ms=2 * ms,
        reached=[1000],
        vertices_processed=[1000 * work],
        edges_relaxed=[5000.0],
        mteps=5 / ms,
        supersteps=None,
        filter_share=None,
        flushed_bytes=0,
    )


def line(
    graph: str, solver: str, /, ms: float | None = None, work: float = 1.0, runs: int = 2, **other: Any
) -> Line:
    """Return a line of a graph and a solver; without `ms` one that is not measured."""
    measured = ms is not None
    given = {
        "bench": "made",
        "baseline": "near-far",
        "subject": "adds",
        "on": ON,
        "graph": facts(graph),
        "solver": solver,
        "device": "cpu" if solver == "dijkstra" else "gpu",
        "options": {},
        "changed": {},
        "together": 1,
        "asked": "asked",
        "state": "measured" if measured else "unsupported",
        "sources": [3],
        "checked_by": "delta-stepping" if measured else None,
        "runs_asked": 2,
        "timing": timing(ms, work, runs) if measured else None,
    }
    return Line(**(given | other))


def switched(graph: str, ms: float, **changed: Any) -> Line:
    """Return a line of a solver with two options."""
    options = {"edge_classes": True, "virtual_warps": "auto", "sorts": False} | changed
    return line(graph, "frontier-bellman-ford", ms, 3.0, options=options, changed=changed)


LINES = [
    line("road", "near-far", 10, 1.5),
    line("road", "adds", 4, 3.0),
    line("road", "dijkstra", 40, 1.0),
    switched("road", 20),
    switched("road", 50, edge_classes=False),
    switched("road", 25, virtual_warps=8),
    switched("road", 16, sorts=True),
    switched("road", 60, edge_classes=False, virtual_warps=8),
    line("web", "near-far", 1, 2.0),
    line("web", "adds", 2, 1.0, runs=1),
    line("web", "dijkstra", reason="it takes no hubs"),
    switched("web", 0.5),
]
