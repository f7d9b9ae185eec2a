"""All that a worker process imports for its first task. The fork server imports this module once for all workers.

Nothing here may start a thread of Python or use a GPU: neither survives a fork. pyarrow brings an allocator, jemalloc,
that has a thread. jemalloc has handlers for a fork, and a fork does without that thread.
"""

# ruff: noqa: E402, F401
import gc

# Imports make 250,000 objects that live on. Without collections the imports are faster. A frozen object is never looked
# at again, so its memory stays shared with the workers.
gc.disable()

from sssp_pipeline.base.lazy import leave_out_optional_packages

leave_out_optional_packages()

from sssp_pipeline.base.numba_cache import load_numba

load_numba()

import sssp_pipeline.base.numba_files
import sssp_pipeline.pipeline.solving.solve_task
import sssp_pipeline.pipeline.solving.workers.dask_workers
import sssp_pipeline.pipeline.solving.workers.local_cluster
import sssp_pipeline.pipeline.verification.vertices
from sssp_pipeline.kernels import SOLVERS

for name in SOLVERS:
    if SOLVERS.device_of(name) == "cpu":
        SOLVERS[name]

gc.freeze()
gc.enable()
