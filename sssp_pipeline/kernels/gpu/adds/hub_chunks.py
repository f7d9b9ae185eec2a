"""The chunks into which `adds` cuts the rows of hubs (`adds_worker.cuh`), listed once for each device graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.kernels.gpu.common.cuda.compile import cupy_module
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph
from sssp_pipeline.kernels.host.kept_with_graph import kept_with_graph

#: As in `adds_worker.cuh`. A hub has more than `HUB_EDGES` edges. A chunk has at most `CHUNK_EDGES`.
HUB_EDGES, CHUNK_EDGES = 128, 128


@dataclass(frozen=True, eq=False)
class HubChunks:
    """The chunks of a graph's hubs, on one device; never written to."""

    #: (n_chunks, 2) uint32 on the device: the vertex of each chunk, and its number within the vertex. One unused row
    #: if `n_chunks` is 0.
    chunks: Any
    #: (n_hubs,) uint32 on the device: the hubs in ascending order. Not empty either.
    vertices: Any
    #: (n_hubs,) uint32 on the device: the first chunk of each hub. Not empty either.
    firsts: Any
    n_chunks: int
    n_hubs: int

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments of the search kernel for them."""
        return np.uint32(self.n_chunks), self.chunks, self.vertices, self.firsts, np.uint32(self.n_hubs)


@kept_with_graph
def hub_chunks(on_device: DeviceGraph, graph: CsrGraph) -> HubChunks:
    """Return the chunks of `graph` on the device of its copy `on_device`."""
    del on_device
    lists = listed_chunks(graph)
    # A kernel needs an address even for an empty list.
    chunks, vertices, firsts = (
        cupy_module().asarray(part if len(part) else np.zeros((1, 2), np.uint32)) for part in lists
    )
    return HubChunks(chunks, vertices, firsts, len(lists[0]), len(lists[1]))


def listed_chunks(graph: CsrGraph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return `chunks`, `vertices` and `firsts` of `HubChunks`, in host memory and empty where there is no hub."""
    hubs = np.flatnonzero(np.diff(graph.row_offsets) > HUB_EDGES)
    n_chunks = -(-(graph.row_offsets[hubs + 1] - graph.row_offsets[hubs]) // CHUNK_EDGES)
    firsts = np.cumsum(n_chunks) - n_chunks
    vertices = np.repeat(hubs, n_chunks)
    numbers = np.arange(len(vertices)) - np.repeat(firsts, n_chunks)
    chunks = np.stack([vertices, numbers], axis=1)
    return chunks.astype(np.uint32), hubs.astype(np.uint32), firsts.astype(np.uint32)
