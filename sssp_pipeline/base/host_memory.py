"""The memory of this machine, within the limits of a container or a job."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from sssp_pipeline.base import cgroup

#: The memory of the machine, as Linux shows it.
MEMINFO = Path("/proc/meminfo")


def memory_bytes() -> int:
    """Return the bytes of memory that the machine and the limits of this process allow."""
    limits = [_machine_bytes("MemTotal"), cgroup.memory_limit()]
    with suppress(ImportError):  # not Windows
        import resource

        # Dask applies this limit to its workers as well.
        limits.append(resource.getrlimit(resource.RLIMIT_RSS)[1])
    return min(limit for limit in limits if limit > 0)


def free_memory_bytes() -> int:
    """Return the bytes of memory that this process may still take."""
    return min(_machine_bytes("MemAvailable"), cgroup.memory_left())


def _machine_bytes(name: str) -> int:
    """Return "MemTotal" or "MemAvailable" of the machine."""
    try:
        lines = MEMINFO.read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))
    except (OSError, StopIteration):  # not Linux
        import psutil

        memory = psutil.virtual_memory()
        return int(memory.total if name == "MemTotal" else memory.available)
