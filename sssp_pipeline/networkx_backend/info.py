"""What NetworkX reads about our backend when it is imported; `networkx_backend` has the backend itself.

`import networkx` loads this module, so it imports nothing.
"""

from __future__ import annotations

from typing import Any

#: The name of the backend in calls and in the configuration of NetworkX.
NAME = "sssp_pipeline"

#: The functions of NetworkX that the backend has.
FUNCTIONS = (
    *("dijkstra_path", "dijkstra_path_length"),
    *("single_source_dijkstra", "single_source_dijkstra_path", "single_source_dijkstra_path_length"),
    *("multi_source_dijkstra", "multi_source_dijkstra_path", "multi_source_dijkstra_path_length"),
    *("all_pairs_dijkstra", "all_pairs_dijkstra_path", "all_pairs_dijkstra_path_length"),
    *("bellman_ford_path", "bellman_ford_path_length", "single_source_bellman_ford"),
    *("single_source_bellman_ford_path", "single_source_bellman_ford_path_length"),
    *("all_pairs_bellman_ford_path", "all_pairs_bellman_ford_path_length"),
    *("eccentricity", "diameter", "radius", "center", "periphery"),
    *("closeness_centrality", "harmonic_centrality", "average_shortest_path_length"),
    *("betweenness_centrality", "betweenness_centrality_subset", "edge_betweenness_centrality"),
)


def get_info() -> dict[str, Any]:
    """Return the entry of NetworkX's `backend_info`: its functions, and what their docstrings say of the backend."""
    return {
        "backend_name": NAME,
        "project": "sssp-pipeline",
        "package": "sssp_pipeline",
        "short_summary": "Exact shortest paths on all cores or on a GPU.",
        "functions": {name: {} for name in FUNCTIONS},
    }
