"""Settings of the Dask clusters that are started for a run."""

from __future__ import annotations

from sssp_pipeline.pipeline.machine import profiler_may_deadlock
from sssp_pipeline.workflow.cluster import Cluster

#: Only processes of the same machine or pod can connect to this address.
LOOPBACK = "127.0.0.1"
#: Dask settings of schedulers and workers. A task that kills its worker fails at once: only the driver can tell the
#: batch that kills from the batches beside it. A worker that is silent for `worker-ttl` counts as dead.
SETTINGS = {
    "distributed.scheduler.allowed-failures": 0,
    "distributed.scheduler.worker-ttl": "60s",
    **({"distributed.worker.profile.enabled": False} if profiler_may_deadlock() else {}),
}
#: Shell lines with the setting of workers that a shell starts on another machine.
WITHOUT_PROFILER = (
    ["export DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED=False"] if profiler_may_deadlock() else []
)
#: Threads of a worker in a job or pod with a GPU: one solves, one writes and one waits. A task of one batch writes on
#: its own thread, so there is one more.
_GPU_THREADS = 4


def threads_of(spec: Cluster, gpus: int) -> int:
    """Return how many threads a worker in a job or pod with `gpus` GPUs has."""
    if spec.threads_per_worker != "auto":
        return spec.threads_per_worker
    return _GPU_THREADS if gpus else 1
