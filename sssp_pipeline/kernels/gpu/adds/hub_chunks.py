"""The chunks into which `adds` cuts long rows: listed once, kept like the graph on its device (`adds_worker.cuh`)."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.csr import CsrGraph
from sssp_pipeline.kernels.gpu.common.compile import cupy_module
from sssp_pipeline.kernels.gpu.common.device_graph import DeviceGraph

#: As in `adds_worker.cuh`: longer rows are cut into chunks of this many edges.
HUB_EDGES, CHUNK_EDGES = 128, 128


@dataclass(frozen=True, eq=False)
class HubChunks:
    """The chunks of a graph's long rows, on one device; never written to.

    Attributes
    ----------
    chunks
        (C, 2) uint32, the vertex and the number of each chunk; one row if there are none, since a kernel wants an
        address.
    vertices, firsts
        (H,) uint32, the hubs in ascending order and the first chunk of each; one row likewise.
    n_chunks, n_hubs
        C and H.
    """

    chunks: Any
    vertices: Any
    firsts: Any
    n_chunks: int
    n_hubs: int


_resident: weakref.WeakKeyDictionary[DeviceGraph, HubChunks] = weakref.WeakKeyDictionary()
_lock = threading.RLock()


def hub_chunks(graph: CsrGraph, on_device: DeviceGraph) -> HubChunks:
    """Return the chunks of `graph` on the device of `on_device`; the second call finds them there."""
    with _lock:
        if on_device not in _resident:
            lists = listed_chunks(graph)
            chunks, vertices, firsts = (
                cupy_module().asarray(part if len(part) else np.zeros((1, 2), np.uint32)) for part in lists
            )
            _resident[on_device] = HubChunks(chunks, vertices, firsts, len(lists[0]), len(lists[1]))
        return _resident[on_device]


def listed_chunks(graph: CsrGraph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the chunks of long rows, (C, 2) uint32 of vertex and number, the hubs, and each hub's first chunk."""
    hubs = np.flatnonzero(np.diff(graph.row_offsets) > HUB_EDGES)
    n_chunks = -(-(graph.row_offsets[hubs + 1] - graph.row_offsets[hubs]) // CHUNK_EDGES)
    firsts = np.cumsum(n_chunks) - n_chunks
    vertices = np.repeat(hubs, n_chunks)
    numbers = np.arange(len(vertices)) - np.repeat(firsts, n_chunks)
    return (
        np.stack([vertices, numbers], axis=1).astype(np.uint32),
        hubs.astype(np.uint32),
        firsts.astype(np.uint32),
    )
