"""Control groups (cgroups): the memory and the cores that a container, a pod or a SLURM job may use.

Dask reads the limits of the root group only. In a container that is the container's group. A SLURM job or a systemd
service has a group below the root. So this module reads every group from the group of this process up to the
root, and the smallest limit counts. `sys.maxsize` stands for no limit.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from math import ceil
from pathlib import Path

#: The folder of all groups.
ROOT = Path("/sys/fs/cgroup")
#: The file with the groups of this process.
OWN = Path("/proc/self/cgroup")

#: Folders of the controllers below `ROOT` in version 1. Version 2 has all controllers in `ROOT` itself.
_VERSION_1 = {"memory": ("memory",), "cpu": ("cpu", "cpu,cpuacct", "cpuacct,cpu")}
_MEMORY_LIMITS = ("memory.max", "memory.high", "memory.limit_in_bytes")
#: These are not limits. But Dask treats the values of the root group as limits, and applies them to its workers.
_SOFT_LIMITS = ("memory.low", "memory.soft_limit_in_bytes")
_MEMORY_USED = ("memory.current", "memory.usage_in_bytes")
#: Cached pages of files. Linux drops them before it kills a process for memory. In version 1, the names with `total_`
#: include the groups below.
_DROPPABLE = (("active_file", "inactive_file"), ("total_active_file", "total_inactive_file"))


def memory_limit() -> int:
    """Return the most bytes of memory that the groups of this process allow."""
    return min(map(_limit, _groups("memory")), default=sys.maxsize)


def memory_left() -> int:
    """Return how many more bytes of memory the groups of this process allow now."""
    return min((max(0, _limit(group) - _used(group)) for group in _groups("memory")), default=sys.maxsize)


def core_limit() -> int:
    """Return the number of cores that the groups of this process allow, rounded up."""
    return min(
        (max(1, ceil(share)) for share in map(_cores, _groups("cpu")) if share > 0), default=sys.maxsize
    )


def _groups(controller: str) -> Iterator[Path]:
    """Yield the folders of the groups of this process that may limit what `controller` controls."""
    try:
        lines = OWN.read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, own = line.split(":", 2)
        if not controllers:
            roots = [ROOT]
        elif controller in controllers.split(","):
            roots = [ROOT / folder for folder in _VERSION_1[controller]]
        else:
            continue
        for root in roots:
            # In a container the path may be the one on the host, which does not exist here. The root then counts.
            group = root / own.lstrip("/")
            yield from (place for place in (group, *group.parents) if place.is_relative_to(root))


def _limit(group: Path) -> int:
    names = _MEMORY_LIMITS + _SOFT_LIMITS * (group in (ROOT, ROOT / "memory"))
    return min((n for name in names if (n := _number(group / name)) > 0), default=sys.maxsize)


def _used(group: Path) -> int:
    """Return the bytes that a group uses. File contents that Linux can drop do not count."""
    try:
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        stat = {}
    used = max(_number(group / name) for name in _MEMORY_USED)
    return used - max(sum(int(stat.get(name, 0)) for name in names) for names in _DROPPABLE)


def _cores(group: Path) -> float:
    """Return how many cores a group may use; 0 for all."""
    try:
        quota, period = (group / "cpu.max").read_text().split()
        return int(quota) / int(period)
    except (OSError, ValueError):  # version 1, or no limit
        return _number(group / "cpu.cfs_quota_us") / max(_number(group / "cpu.cfs_period_us"), 1)


def _number(file: Path) -> int:
    """Return the number in `file`; 0 if the file is missing or has no number."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0
