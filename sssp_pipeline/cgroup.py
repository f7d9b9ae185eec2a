"""The limits of this process's control groups (cgroups): what a container, a pod or a SLURM job may use.

Dask reads the same files of the root group only, which in a container is the container's own. A SLURM job or a systemd
service has a group further down, so here every group from this process's own up to the root counts, and the least
limit holds. `sys.maxsize` stands for no limit.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from math import ceil
from pathlib import Path

#: Where Linux shows the groups, and those of this process.
ROOT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")

#: Folders below `ROOT` of a controller in version 1, where each has its own; version 2 has one for all, `ROOT` itself.
_VERSION_1 = {"memory": ("memory",), "cpu": ("cpu", "cpu,cpuacct", "cpuacct,cpu")}
_MEMORY_LIMITS = ("memory.max", "memory.high", "memory.limit_in_bytes")
#: No limits, but Dask takes those of the root group for some, and holds its workers to them.
_SOFT_LIMITS = ("memory.low", "memory.soft_limit_in_bytes")
_MEMORY_USED = ("memory.current", "memory.usage_in_bytes")
#: Pages of files, which Linux drops before it kills a process for memory; version 1 names those of groups below apart.
_DROPPABLE = (("active_file", "inactive_file"), ("total_active_file", "total_inactive_file"))


def memory_limit() -> int:
    """Return the most bytes of memory that the groups of this process allow."""
    return min(map(_limit, _groups("memory")), default=sys.maxsize)


def memory_left() -> int:
    """Return how many more bytes of memory the groups of this process allow now."""
    return min((max(0, _limit(group) - _used(group)) for group in _groups("memory")), default=sys.maxsize)


def core_limit() -> int:
    """Return the most cores that the groups of this process give time on, a part of a core taken for a whole one."""
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
            # In a container the path may be that of the host, of which only the end is here: the root.
            group = root / own.lstrip("/")
            yield from (place for place in (group, *group.parents) if place.is_relative_to(root))


def _limit(group: Path) -> int:
    names = _MEMORY_LIMITS + _SOFT_LIMITS * (group in (ROOT, ROOT / "memory"))
    return min((n for name in names if (n := _number(group / name)) > 0), default=sys.maxsize)


def _used(group: Path) -> int:
    """Return the bytes that a group holds and that Linux cannot take back."""
    try:
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        stat = {}
    used = max(_number(group / name) for name in _MEMORY_USED)
    return used - max(sum(int(stat.get(name, 0)) for name in names) for names in _DROPPABLE)


def _cores(group: Path) -> float:
    """Return on how many cores a group gets time; 0 means on all."""
    try:
        quota, period = (group / "cpu.max").read_text().split()
        return int(quota) / int(period)
    except (OSError, ValueError):  # version 1, or no limit
        return _number(group / "cpu.cfs_quota_us") / max(_number(group / "cpu.cfs_period_us"), 1)


def _number(file: Path) -> int:
    """Return the number in `file`; 0 where there is no such file, or no number in it."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0
