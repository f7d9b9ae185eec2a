"""The memory of this machine, within the limits of a container or a job."""

from __future__ import annotations

from contextlib import suppress

from sssp_pipeline.base import cgroup


def memory_bytes() -> int:
    """Return the bytes of memory that the machine and the limits of this process allow."""
    import psutil

    limits = [psutil.virtual_memory().total, cgroup.memory_limit()]
    with suppress(ImportError):  # not Windows
        import resource

        # Dask applies this limit to its workers as well.
        limits.append(resource.getrlimit(resource.RLIMIT_RSS)[1])
    return min(limit for limit in limits if limit > 0)


def free_memory_bytes() -> int:
    """Return the bytes of memory that this process may still take."""
    import psutil

    return min(psutil.virtual_memory().available, cgroup.memory_left())
