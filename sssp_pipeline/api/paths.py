"""Shortest paths: the predecessors that lead from a source to every vertex, or to some targets alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sssp_pipeline.csr import NO_VERTEX


@dataclass(frozen=True, eq=False)
class PathTree:
    """Shortest paths from one source."""

    #: (n,) ascending vertices on the paths; None if the tree has every vertex.
    vertices: np.ndarray | None
    #: (n,) or (V,) uint32, the predecessor of each; `NO_VERTEX` for the source and for unreached vertices.
    predecessors: np.ndarray

    @classmethod
    def to_targets(cls, predecessors: np.ndarray, targets: np.ndarray) -> PathTree:
        """Return the paths to `targets` (T,), from the `predecessors` (V,) of all vertices."""
        is_on_path = np.zeros(len(predecessors), bool)
        ends = np.unique(targets)
        while len(ends):
            is_on_path[ends] = True
            before = np.unique(predecessors[ends])
            before = before[before != NO_VERTEX]
            ends = before[~is_on_path[before]]
        vertices = np.flatnonzero(is_on_path)
        return cls(vertices, predecessors[vertices])

    def before(self, vertex: int) -> int:
        """Return the predecessor of a vertex of the tree."""
        place = vertex if self.vertices is None else np.searchsorted(self.vertices, vertex)
        return int(self.predecessors[place])

    def path(self, source: int, vertex: int) -> list[int]:
        """Return the vertices from `source` to `vertex`, both included; empty if `vertex` is unreached."""
        if vertex != source and self.before(vertex) == NO_VERTEX:
            return []
        path = [vertex]
        while path[-1] != source:
            path.append(self.before(path[-1]))
        return path[::-1]
