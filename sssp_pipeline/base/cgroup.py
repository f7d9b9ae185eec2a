"""Control groups (cgroups): the memory and the cores that a container, a pod or a SLURM job may use.

Dask reads the limits of the root group only. In a container that is the container's group. A SLURM job or a systemd
service has a group below the root. So this module reads every group from the group of this process up to the
root, and the smallest limit counts. `sys.maxsize` stands for no limit.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from math import ceil
from pathlib import Path

#: The folder of all groups.
ROOT = Path("/sys/fs/cgroup")
#: The file with the groups of this process.
OWN = Path("/proc/self/cgroup")

#: Folders of the controllers below `ROOT` in version 1. Version 2 has all controllers in `ROOT` itself.
_VERSION_1 = {"memory": ("memory",), "cpu": ("cpu", "cpu,cpuacct", "cpuacct,cpu")}
#: Version 1 writes a number near 2^63 where there is no limit.
_NO_LIMIT = 2**62
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
    limits = [(group, _limit(group)) for group in _groups("memory")]
    left = (max(0, limit - _used(group)) for group, limit in limits if limit < _NO_LIMIT)
    return min(left, default=sys.maxsize)


def core_limit() -> int:
    """Return the number of cores that the groups of this process allow, rounded up."""
    return min(
        (max(1, ceil(share)) for share in map(_cores, _groups("cpu")) if share > 0), default=sys.maxsize
    )


def _groups(controller: str) -> tuple[Path, ...]:
    """Return the folders of the groups of this process that may limit what `controller` controls."""
    try:
        return _folders(controller, OWN.read_text(), ROOT)
    except OSError:  # not Linux
        return ()


@lru_cache(maxsize=8)
def _folders(controller: str, own_groups: str, all_groups: Path) -> tuple[Path, ...]:
    """Return the folders below `all_groups`, where `OWN` has the text `own_groups`. Each call of the API asks."""
    found: list[Path] = []
    for line in own_groups.splitlines():
        _, controllers, own = line.split(":", 2)
        if not controllers:
            roots = [all_groups]
        elif controller in controllers.split(","):
            roots = [all_groups / folder for folder in _VERSION_1[controller]]
        else:
            continue
        for root in roots:
            # In a container the path may be the one on the host, which does not exist here. The root then counts.
            group = root / own.lstrip("/")
            found += [place for place in (group, *group.parents) if place.is_relative_to(root)]
    return tuple(place for place in found if place.is_dir())


def _limit(group: Path) -> int:
    names = _MEMORY_LIMITS + _SOFT_LIMITS * (group in (ROOT, ROOT / "memory"))
    return min((n for name in names if (n := _number(group, name)) > 0), default=sys.maxsize)


def _used(group: Path) -> int:
    """Return the bytes that a group uses. File contents that Linux can drop do not count."""
    try:
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        stat = {}
    used = max(_number(group, name) for name in _MEMORY_USED)
    return used - max(sum(int(stat.get(name, 0)) for name in names) for names in _DROPPABLE)


def _cores(group: Path) -> float:
    """Return how many cores a group may use; 0 for all."""
    try:
        quota, period = (group / "cpu.max").read_text().split()
        return int(quota) / int(period)
    except (OSError, ValueError):  # version 1, or no limit
        return _number(group, "cpu.cfs_quota_us") / max(_number(group, "cpu.cfs_period_us"), 1)


def _number(group: Path, name: str) -> int:
    """Return the number in a file of a group; 0 if the file is missing or has no number."""
    try:
        return int((group / name).read_text())
    except (OSError, ValueError):
        return 0
