"""What this machine is and what is installed on it, for run.json and `doctor`."""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_PACKAGES = ("sssp-pipeline", "numpy", "numba", "pyarrow", "dask", "distributed", "fsspec")
#: Those that are there only for a GPU.
_GPU_PACKAGES = ("cupy-cuda12x", "cupy-cuda13x", "dask-cuda")


@cache
def cpu_name() -> str:
    """Return the processor's name as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def usable_cores() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1


def hardware() -> dict[str, Any]:
    """Return processor, cores this process may use, bytes of memory, and the GPU (None without one)."""
    import psutil

    return {
        "cpu": cpu_name(),
        "cores": usable_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "gpu": gpu_name(),
    }


def versions() -> dict[str, str]:
    """Return the releases of Python and of the packages that matter to a result, of those installed."""
    found = {"python": platform.python_version()}
    for name in (*_PACKAGES, *_GPU_PACKAGES):
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


@cache
def gpu_name() -> str | None:
    """Return name and driver of the first NVIDIA GPU, or None where there is none."""
    if shutil.which("nvidia-smi") is None:
        return None
    asked = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.splitlines()[0].strip() if answer.returncode == 0 and answer.stdout.strip() else None


@dataclass(frozen=True)
class Check:
    """One thing `doctor` looked at: `state` is "ok", "absent" (fine unless it is needed) or "broken"."""

    name: str
    state: str
    detail: str
    hint: str | None = None


def diagnose() -> list[Check]:
    """Return what works here, what does not, and what to do about it."""
    looks: list[Callable[[], Check]] = [
        _check_packages,
        _check_compiler,
        _check_driver,
        _check_cupy,
        _check_kernels,
        _check_storage,
        _check_temporary,
    ]
    return [look() for look in looks]


def _check_packages() -> Check:
    found = versions()
    return Check("packages", "ok", ", ".join(f"{name} {version}" for name, version in found.items()))


def _check_compiler() -> Check:
    import numba

    @numba.njit
    def successor(x):  # type: ignore[no-untyped-def]
        return x + 1

    works = successor(41) == 42
    return Check("numba", "ok" if works else "broken", f"compiles for {cpu_name()}, {usable_cores()} cores")


def _check_driver() -> Check:
    if gpu := gpu_name():
        return Check("gpu", "ok", gpu)
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Check(
            "gpu", "absent", "no NVIDIA driver: libcuda.so.1 is not there", "the CPU solvers need none"
        )
    code = driver.cuInit(0)
    if code:
        return Check(
            "gpu",
            "broken",
            f"the NVIDIA driver answers error {code} to cuInit",
            "look at what nvidia-smi says",
        )
    return Check("gpu", "ok", "an NVIDIA driver, but no nvidia-smi to name the GPU")


def _check_cupy() -> Check:
    found = [f"{d.name} {d.version}" for d in importlib.metadata.distributions() if d.name.startswith("cupy")]
    if not found:
        return Check("cupy", "absent", "not installed", "for a GPU: pip install 'sssp-pipeline[gpu]'")
    if len(found) > 1:
        return Check("cupy", "broken", "several: " + ", ".join(found), "keep the one for your CUDA release")
    try:
        import cupy

        return Check("cupy", "ok", f"{found[0]}, {cupy.cuda.runtime.getDeviceCount()} GPUs")
    except Exception as error:
        return Check(
            "cupy",
            "broken" if gpu_name() else "absent",
            f"{found[0]}: {error}",
            "match CuPy, driver and CUDA release",
        )


def _check_kernels() -> Check:
    """Compile the smallest kernel and ask for its registers: that takes driver, CuPy and NVRTC that match."""
    from sssp_pipeline.errors import SsspError
    from sssp_pipeline.kernels._compile import gpu_missing, load_kernels
    from sssp_pipeline.kernels._gpu import SUMMARY

    if (reason := gpu_missing()) is not None:
        return Check("kernels", "broken" if gpu_name() else "absent", reason, "the CPU solvers need none")
    import numpy as np

    try:
        kernels = load_kernels(SUMMARY, np.dtype("uint32"))
    except SsspError as error:
        return Check("kernels", "broken", error.message, "match CuPy, driver and CUDA release")
    blocks = kernels["summary_kernel"].resident_blocks(256)
    return Check("kernels", "ok", f"compiled by NVRTC; {blocks} blocks of 256 threads fit the GPU at once")


def _check_storage() -> Check:
    import fsspec

    extras = {"s3": "s3fs", "gs": "gcsfs", "abfs": "adlfs"}
    able = ["file"]
    for scheme, package in extras.items():
        try:
            importlib.metadata.version(package)
            able.append(scheme)
        except importlib.metadata.PackageNotFoundError:
            continue
    return Check(
        "storage",
        "ok",
        f"fsspec {fsspec.__version__} reads http, reads and writes " + ", ".join(able),
        _extras_hint(able),
    )


def _extras_hint(able: list[str]) -> str | None:
    missing = [
        extra for scheme, extra in (("s3", "s3"), ("gs", "gcs"), ("abfs", "azure")) if scheme not in able
    ]
    return f"more with the extras {', '.join(missing)}" if missing else None


def _check_temporary() -> Check:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    return Check(
        "temporary",
        "ok",
        f"{folder} has {free / 2**30:.1f} GiB free",
        "ingest needs up to 24 bytes an edge there",
    )
