"""What a control group allows: in groups of this machine where root may make some, and in files made up here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import dask.system
import distributed.system
import psutil
import pytest

from sssp_pipeline.base import cgroup, host_memory
from sssp_pipeline.base.host_memory import free_memory_bytes, memory_bytes
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.ingest.memory import Memory
from sssp_pipeline.pipeline.planning.machine import hardware

MB = 2**20
#: No limit, in version 1.
UNLIMITED = "9223372036854771712"


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """Return what makes up the files of this process's groups, for Dask too; this machine has 64 cores and 64 GiB."""
    root, own = tmp_path / "cgroup", tmp_path / "own"

    def make(own_lines: str, files: dict[str, str]) -> None:
        own.write_text(own_lines)
        for name, text in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text + "\n")

    def open_made_up(path, *mode):
        path = path.replace("/sys/fs/cgroup", str(root)).replace("/proc/self/cgroup", str(own))
        return Path(path).open(*mode)

    monkeypatch.setattr(cgroup, "ROOT", root)
    monkeypatch.setattr(cgroup, "OWN", own)
    for module in (distributed.system, dask.system):
        monkeypatch.setattr(module, "open", open_made_up, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    monkeypatch.setattr(psutil.Process, "cpu_affinity", lambda _: list(range(64)))
    memory = psutil.virtual_memory()._replace(total=64 * 1024 * MB, available=60 * 1024 * MB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(f"MemTotal:       {64 * 2**20} kB\nMemFree:  1 kB\nMemAvailable:   {60 * 2**20} kB\n")
    monkeypatch.setattr(host_memory, "MEMINFO", meminfo)
    return make


GB_64 = 64 * 1024
#: The groups of a container, whose root is its own group. The numbers are what may be used of 64 GiB, in MiB, and of
#: 64 cores.
CONTAINERS = {
    "version 2": ({"memory.max": str(3 * MB), "memory.high": "max", "cpu.max": "250000 100000"}, 3, 3),
    "version 2, no limits": ({"memory.max": "max", "cpu.max": "max 100000"}, GB_64, 64),
    "version 2, to be slowed down above": ({"memory.max": "max", "memory.high": str(2 * MB)}, 2, 64),
    "version 2, reserved": ({"memory.max": "max", "memory.low": str(2 * MB)}, 2, 64),
    "version 2, a part of a core": ({"memory.max": "max", "cpu.max": "1000 100000"}, GB_64, 1),
    "version 1": (
        {
            "memory/memory.limit_in_bytes": str(5 * MB),
            "cpu,cpuacct/cpu.cfs_quota_us": "400000",
            "cpu,cpuacct/cpu.cfs_period_us": "100000",
        },
        5,
        4,
    ),
    "version 1, as Docker shows it": (
        {
            "memory/memory.limit_in_bytes": UNLIMITED,
            "memory/memory.soft_limit_in_bytes": str(7 * MB),
            "cpuacct,cpu/cpu.cfs_quota_us": "-1",
            "cpuacct,cpu/cpu.cfs_period_us": "100000",
        },
        7,
        64,
    ),
}
#: The groups of the process. Docker shows the path on the host, on which the container cannot look.
OWN = {
    "version 1": "9:memory:/\n5:cpu,cpuacct:/\n1:name=systemd:/",
    "version 1, as Docker shows it": "9:cpuacct,cpu:/docker/f00\n4:memory:/docker/f00\n0::/docker/f00",
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_in_a_container_it_is_what_dask_takes(groups, container):
    files, memory, cores = CONTAINERS[container]
    groups(OWN.get(container, "0::/"), files)
    assert memory_bytes() == distributed.system.memory_limit() == memory * MB
    assert usable_cores() == dask.system.cpu_count() == cores


JOBS = {
    "version 2": (
        "0::/system.slice/job_7/step_0",
        {
            "system.slice/memory.low": str(MB),  # a promise, and no limit
            "system.slice/job_7/memory.max": str(4 * MB),
            "system.slice/job_7/memory.current": str(3 * MB),
            "system.slice/job_7/memory.stat": f"anon {MB}\nactive_file {MB // 2}\ninactive_file {MB // 4}",
            "system.slice/job_7/cpu.max": "200000 100000",
            "system.slice/job_7/step_0/memory.max": "max",
            "system.slice/job_7/step_0/cpu.max": "max 100000",
        },
    ),
    "version 1": (
        "4:memory:/slurm/job_7/step_0\n3:cpuacct,cpu:/slurm/job_7/step_0\n0::/",
        {
            "memory/memory.limit_in_bytes": UNLIMITED,
            "memory/slurm/job_7/memory.limit_in_bytes": str(4 * MB),
            "memory/slurm/job_7/memory.usage_in_bytes": str(3 * MB),
            "memory/slurm/job_7/memory.stat": f"total_active_file {MB // 2}\ntotal_inactive_file {MB // 4}",
            "memory/slurm/job_7/step_0/memory.limit_in_bytes": UNLIMITED,
            "cpu,cpuacct/slurm/job_7/cpu.cfs_quota_us": "200000",
            "cpu,cpuacct/slurm/job_7/cpu.cfs_period_us": "100000",
        },
    ),
}


@pytest.mark.parametrize("job", JOBS)
def test_in_a_job_the_groups_above_count_too(groups, job):
    groups(*JOBS[job])
    assert memory_bytes() == 4 * MB
    assert free_memory_bytes() == 4 * MB - (3 * MB - 3 * MB // 4)  # pages of files can be dropped
    assert usable_cores() == 2
    assert (hardware()["memory_bytes"], hardware()["cores"]) == (4 * MB, 2)


def test_without_groups_it_is_the_machine(groups, monkeypatch):
    assert (memory_bytes(), free_memory_bytes(), usable_cores()) == (64 * 1024 * MB, 60 * 1024 * MB, 64)
    with monkeypatch.context() as other_system:
        other_system.setattr(host_memory, "MEMINFO", Path("missing"))
        assert (memory_bytes(), free_memory_bytes()) == (64 * 1024 * MB, 60 * 1024 * MB)
    groups("0::/", {"memory.max": str(100 * MB), "memory.current": str(40 * MB)})
    assert Memory.of("auto", 2).n_bytes == 30 * MB, "ingest takes half of what the group leaves"
    assert Memory.of("16 MB", 2).n_bytes == 16 * 10**6


PROBE = """\
from sssp_pipeline.base.host_memory import free_memory_bytes, memory_bytes
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
print(memory_bytes(), usable_cores(), free_memory_bytes())
from distributed.system import MEMORY_LIMIT
from dask.system import CPU_COUNT
print(MEMORY_LIMIT, CPU_COUNT)
"""
#: What a container runtime does: the group becomes the root of what is seen at the usual place.
CONTAINED = {
    1: "mount -t tmpfs none /sys/fs/cgroup && cd /sys/fs/cgroup && mkdir memory cpu,cpuacct && "
    "mount -t cgroup -o memory none memory && mount -t cgroup -o cpu none cpu,cpuacct && cd /",
    2: "mount -t cgroup2 none /sys/fs/cgroup",
}


class Group:
    """A group of this machine with 1 GiB and one core; `version` of the groups, and its `folders`."""

    def __init__(self, version: int, folders: list[Path]) -> None:
        self.version, self.folders = version, folders

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a shell command in this group."""
        joined = "".join(f"echo $$ > {folder}/cgroup.procs && " for folder in self.folders)
        return subprocess.run(["sh", "-c", joined + command], capture_output=True, text=True, check=False)


@pytest.fixture
def group() -> Iterator[Group]:
    """A real group; the test is skipped, with the reason, where none can be made."""
    name = f"sssp-test-{uuid.uuid4().hex[:8]}"
    limits = {1: {}, 2: {cgroup.ROOT / name: {"memory.max": str(2**30), "cpu.max": "100000 100000"}}}
    limits[1][cgroup.ROOT / "memory" / name] = {"memory.limit_in_bytes": str(2**30)}
    limits[1][cgroup.ROOT / "cpu" / name] = {"cpu.cfs_quota_us": "100000", "cpu.cfs_period_us": "100000"}
    version = 2 if (cgroup.ROOT / "cgroup.controllers").exists() else 1
    try:
        for folder, files in limits[version].items():
            if not folder.parent.joinpath("cgroup.procs").exists():
                pytest.skip(f"no control groups at {folder.parent}")
            folder.mkdir()
            for file, text in files.items():
                (folder / file).write_text(text)
        yield Group(version, list(limits[version]))
    except PermissionError as error:
        pytest.skip(f"control groups cannot be made: {error}")
    finally:
        for folder in limits[version]:
            if folder.exists():
                folder.rmdir()


def numbers(done: subprocess.CompletedProcess[str]) -> list[int]:
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


@pytest.mark.medium
def test_in_a_real_group(group):
    probe = f"exec {sys.executable} -c '{PROBE}'"
    memory, cores, free, dask_memory, _ = numbers(group.run(probe))
    assert (memory, cores) == (2**30, 1)
    assert 2**29 < free < 2**30
    assert dask_memory > memory  # Dask does not see the group of a job


@pytest.mark.medium
def test_in_a_real_container(group):
    contained = f"exec unshare --cgroup --mount sh -c '{CONTAINED[group.version]} && exec \"$@\"' sh "
    if (tried := group.run(contained + "true")).returncode:
        pytest.skip(f"`unshare`: {tried.stderr}")
    probe = f"{contained} {sys.executable} -c '{PROBE}'"
    memory, cores, free, dask_memory, dask_cores = numbers(group.run(probe))
    assert (memory, cores) == (dask_memory, dask_cores) == (2**30, 1)
    assert 2**29 < free < 2**30


@pytest.mark.medium
def test_a_run_in_a_real_group_ends_with_an_error_before_it_is_killed(group, tmp_path):
    edges = tmp_path / "edges.mtx"
    edges.write_text("%%MatrixMarket matrix coordinate integer general\n150000000 150000000 1\n1 2 3\n")
    words = f"run {edges} --from 1 --out {tmp_path / 'run'}"
    done = group.run(f"exec {sys.executable} -m sssp_pipeline.cli {words}")
    assert done.returncode == 2, done.stderr
    told = r"error: 1 worker of .* would take \d\.\d GiB of memory, and this run may use 1\.0 GiB"
    assert re.search(told, done.stderr)
