"""Machine: the hardware and the installed software of this machine, for plans, run.json and `doctor`."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from sssp_pipeline import __version__
from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.base.host_memory import memory_bytes
from sssp_pipeline.base.progress import plural
from sssp_pipeline.kernels.contract.forecast import GPU_START_S
from sssp_pipeline.kernels.gpu.common.cuda.cupy_setup import Finding, gpu_findings, gpu_missing
from sssp_pipeline.kernels.host.kernel_threads import usable_cores

_PACKAGES = ("numpy", "numba", "pyarrow", "dask", "distributed", "fsspec")
#: Packages that only GPUs need.
_GPU_PACKAGES = ("cupy-cuda12x", "cupy-cuda13x", "dask-cuda")
#: The schemes of places, each with its package and with the extra that installs the package. `http` is only read.
_STORAGE = (
    ("http", "aiohttp", "http"),
    ("s3", "s3fs", "s3"),
    ("gs", "gcsfs", "gcs"),
    ("abfs", "adlfs", "azure"),
)


def profiler_may_deadlock(release: tuple[int, ...] = sys.version_info[:3]) -> bool:
    """Return whether Dask's profiler may deadlock a worker on this Python, or on `release`.

    The profiler may read the frames of a thread while that thread starts or ends
    (https://github.com/python/cpython/issues/106883).
    """
    return release < (3, 11, 9) or (3, 12) <= release < (3, 12, 3)


@cache
def cpu_name() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()  # runs a program


@dataclass(frozen=True)
class Machine:
    """The hardware that a run may use, of this machine or of all machines of a cluster."""

    #: The number of cores of all machines.
    cores: int
    #: The smallest free memory of any GPU; None without a usable GPU.
    gpu_free_bytes: int | None
    #: Why there is no usable GPU, if there is none.
    no_gpu: str = "no GPU"
    #: The number of GPUs that the run uses.
    n_gpus: int = 1
    #: Seconds to prepare a GPU for the first source.
    gpu_start_s: float = GPU_START_S


def this_machine() -> Machine:
    """Return the hardware of this machine with its first GPU; imports CuPy only if there is a GPU.

    A GPU that this process has used already need not be prepared.
    """
    if (reason := gpu_missing()) is not None:
        return Machine(usable_cores(), None, reason)
    from sssp_pipeline.kernels.gpu.common.cuda.compile import has_loaded_kernels
    from sssp_pipeline.kernels.gpu.common.graphs.device_graph import obtainable_bytes

    start_s = 0.0 if has_loaded_kernels() else GPU_START_S
    return Machine(usable_cores(), obtainable_bytes(), gpu_start_s=start_s)


def hardware() -> dict[str, Any]:
    """Return the processor, the cores and bytes of memory that this process may use, and the GPU or None."""
    return {"cpu": cpu_name(), "cores": usable_cores(), "memory_bytes": memory_bytes(), "gpu": gpu_name()}


@cache
def versions() -> dict[str, str]:
    """Return the releases of Python and of the installed packages that may influence a result."""
    found = {"python": platform.python_version(), "sssp-pipeline": __version__}
    for name in (*_PACKAGES, *_GPU_PACKAGES):
        with suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


@cache
def gpu_name() -> str | None:
    """Return name and driver of the first NVIDIA GPU; None if there is none."""
    if shutil.which("nvidia-smi") is None:
        return None
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.splitlines()[0].strip() if answer.returncode == 0 and answer.stdout.strip() else None


def diagnose() -> list[Finding]:
    """Return the findings of all checks, for `doctor`: what works, what does not, and what to do about it."""
    return [
        _check_python(),
        Finding("packages", "ok", ", ".join(f"{name} {version}" for name, version in versions().items())),
        _check_compiler(),
        *gpu_findings(),
        _check_kernels(),
        _check_storage(),
        _check_temporary(),
    ]


def _check_python() -> Finding:
    release = platform.python_version()
    if not profiler_may_deadlock():
        return Finding("python", "ok", release)
    return Finding(
        "python",
        "warning",
        f"{release}: a Dask worker that you start may hang while Dask profiles it",
        "use Python 3.11.9, 3.12.3 or later, or start workers with DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED=False",
    )


def _check_compiler() -> Finding:
    import numba

    from sssp_pipeline.base.numba_digests import damaged_files

    @numba.njit
    def successor(x):  # type: ignore[no-untyped-def]
        return x + 1

    works = successor(41) == 42
    detail = f"compiles for {cpu_name()}, {usable_cores()} cores"
    if damaged := damaged_files():
        detail += f"; {plural(len(damaged), 'file')} of its cache damaged, to be compiled again: {damaged[0]}"
    return Finding("numba", "ok" if works else "broken", detail)


def _check_kernels() -> Finding:
    """Compile the smallest kernel and load it, which works only if driver, CuPy and NVRTC match."""
    if gpu_missing() is not None:
        return Finding("kernels", "absent", "not tried: this needs a driver, a GPU, CuPy and NVRTC")
    from sssp_pipeline.kernels.gpu.common.cuda.compile import load_kernels
    from sssp_pipeline.kernels.gpu.common.rows.device_rows import SUMMARY

    try:
        kernels = load_kernels(SUMMARY, np.dtype("uint32"))
    except SsspError as error:
        return Finding("kernels", "broken", error.message, "report this together with the output of `doctor`")
    blocks = kernels["summary_kernel"].resident_blocks(256)
    return Finding("kernels", "ok", f"compiled by NVRTC; {blocks} blocks of 256 threads fit the GPU at once")


def _check_storage() -> Finding:
    import fsspec

    usable, missing = ["local files"], []
    for scheme, package, extra in _STORAGE:
        if importlib.util.find_spec(package) is not None:
            usable.append(scheme)
        else:
            missing.append(extra)
    return Finding(
        "storage",
        "ok",
        f"fsspec {fsspec.__version__} opens {', '.join(usable)}",
        f"more with the extras {', '.join(missing)}" if missing else None,
    )


def _check_temporary() -> Finding:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    return Finding(
        "temporary",
        "ok",
        f"{folder} has {free / 2**30:.1f} GiB free",
        "ingest needs up to 16 bytes an edge there, twice that if it adds reverses",
    )
