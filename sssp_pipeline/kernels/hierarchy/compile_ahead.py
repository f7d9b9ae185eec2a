"""Compiles what follows the completion, in a process of its own, while this one makes the completion.

numba compiles one kernel at a time in a process, and half of the kernels of a hierarchy belong to customization and
sweeps. A child compiles these for a graph of one edge, and leaves the machine code in numba's cache. The completion of
this graph is written below, so the child needs no kernel that makes one.

    python -P -m sssp_pipeline.kernels.hierarchy.compile_ahead DTYPE

If the child fails, nothing is lost: this process compiles what the cache lacks.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from sssp_pipeline.base.csr import NO_VERTEX, CsrGraph
from sssp_pipeline.base.lazy import leave_out_optional_packages
from sssp_pipeline.base.numba_cache import cached_signatures
from sssp_pipeline.kernels.hierarchy import sweep
from sssp_pipeline.kernels.hierarchy.arc_completion import Completion
from sssp_pipeline.kernels.hierarchy.customization import customize
from sssp_pipeline.kernels.hierarchy.region import Region
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.kernels.host.search_graph import as_searched


@contextmanager
def compiling_ahead(graph: CsrGraph) -> Iterator[Callable[[], None]]:
    """Have a child compile for the weights of `graph` during the block, which waits for it at its end.

    No child is started if the cache has the last of these kernels, or if this process has one core. The block gets a
    function that stops the child: what it compiles is not needed after all.
    """
    if usable_cores() < 2 or is_compiled(graph):
        yield lambda: None
        return
    module, dtype = "sssp_pipeline.kernels.hierarchy.compile_ahead", graph.weight_dtype.name
    with subprocess.Popen(
        [sys.executable, "-P", "-m", module, dtype],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for this process, which ends the child
    ) as child:
        try:
            yield child.kill
        except BaseException:
            child.kill()
            raise


def is_compiled(graph: CsrGraph) -> bool:
    """Return whether numba's cache has the kernel that copies distances of the type that `graph` is searched in."""
    searched = as_searched(graph, graph.weights).dtype.name
    return any(signature[0].dtype.name == searched for signature in cached_signatures(sweep._copy))


def compile_for(dtype: np.dtype) -> None:
    """Compile the kernels of customization and of sweeps for weights of type `dtype`."""
    one_edge = CsrGraph(np.array([0, 1, 1]), np.array([1], np.uint32), np.ones(1, dtype))
    completion = Completion(
        ranks=np.array([0, 1], np.uint32),
        parents=np.array([1, NO_VERTEX], np.uint32),
        arc_offsets=np.array([0, 1, 1], np.uint64),
        arc_heads=np.array([1], np.uint32),
        n_triangles=0,
    )
    hierarchy = customize(completion, one_edge)
    swept = sweep.Sweep(hierarchy, Region.whole(hierarchy, np.array([1, 0], np.uint32)))
    swept.reserve(1)
    unreached = swept.dtype.type(np.iinfo(swept.dtype).max)
    swept.run(np.array([0], np.uint32), unreached)
    swept.copy(unreached, unreached, 0, np.empty((1, 2), swept.dtype))


if __name__ == "__main__":
    leave_out_optional_packages()
    compile_for(np.dtype(sys.argv[1]))
