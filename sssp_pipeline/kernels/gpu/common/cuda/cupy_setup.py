"""Whether a GPU can be used here, and if not, what is wrong and what to do; the only place that imports CuPy.

Four things must be installed and fit each other: NVIDIA's driver, a GPU that it sees, CuPy, and CUDA's compiler NVRTC,
which CuPy loads. They are checked in this order, and each check loads as little as possible. So a machine without a GPU
needs no CuPy, and a machine without CuPy says so at once.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.base.lazy import left_out

#: Oldest compute capability: `ld.acquire.gpu` and independent thread scheduling begin there.
OLDEST_CAPABILITY = (7, 0)

#: The oldest driver release for each CUDA release.
_DRIVER_FOR_CUDA = {12: " to 525 or later", 13: " to 580 or later"}
_CUDA_SUCCESS = 0
_CUDA_NO_DEVICE = 100
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76
#: The meaning of other error codes of cuInit, and what to do.
_DRIVER_FAULTS = {
    34: (
        "libcuda.so.1 is the CUDA toolkit's stub, not a driver",
        "take the toolkit's `stubs` folder out of LD_LIBRARY_PATH",
    ),
    802: ("the GPUs of this machine are not ready yet (error 802)", "start `nvidia-fabricmanager`"),
    803: (
        "the NVIDIA driver's library and its kernel module are of different releases (error 803)",
        "restart the machine; in a container, use the host's libcuda.so.1",
    ),
    804: (
        "this GPU does not take a newer libcuda.so.1 than its driver's (error 804)",
        "take the `compat` folder out of LD_LIBRARY_PATH, or update the driver",
    ),
}


_lock = threading.Lock()


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    `state` is "ok", "warning" (works, but not for everything), "absent" (fine unless it is needed) or "broken".
    """

    name: str
    state: str
    detail: str
    hint: str | None = None


@dataclass(frozen=True)
class Driver:
    """Answers of NVIDIA's driver. `code` is what cuInit returned.

    The rest describes the first GPU; it is 0 or "" without a GPU.
    """

    code: int
    n_devices: int = 0
    cuda: tuple[int, int] = (0, 0)
    name: str = ""
    capability: tuple[int, int] = (0, 0)


def ask_driver() -> Driver | None:
    """Return the driver's answers, or None if its library is missing."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    number = ctypes.c_int(0)

    def answer(function: str, *arguments: Any) -> int:
        getattr(driver, function)(ctypes.byref(number), *arguments)
        return number.value

    if (code := driver.cuInit(0)) != _CUDA_SUCCESS:
        return Driver(code)
    cuda = answer("cuDriverGetVersion")
    if (n_devices := answer("cuDeviceGetCount")) == 0:
        return Driver(code)
    name = ctypes.create_string_buffer(100)
    driver.cuDeviceGetName(name, len(name), 0)
    capability = tuple(answer("cuDeviceGetAttribute", a, 0) for a in (_CAPABILITY_MAJOR, _CAPABILITY_MINOR))
    return Driver(
        code,
        n_devices,
        (cuda // 1000, cuda % 1000 // 10),
        name.value.decode(),
        (capability[0], capability[1]),
    )


def prepare_gpu() -> threading.Thread:
    """Begin to load the driver and to make the context of the first GPU. Return the thread that does it.

    This takes 0.2 s, without Python's lock. CuPy uses the same context. Without a GPU or CuPy, nothing is made. A
    failure is left to the checks: they meet it again.
    """
    thread = threading.Thread(target=_make_context, name="sssp-gpu")
    thread.start()
    return thread


def _make_context() -> None:
    driver = ask_driver()
    if driver is not None and driver.n_devices and importlib.util.find_spec("cupy") is not None:
        ctypes.CDLL("libcuda.so.1").cuDevicePrimaryCtxRetain(ctypes.byref(ctypes.c_void_p()), 0)


def has_device_files() -> bool:
    """Return whether the kernel offers a GPU, whatever libraries there are."""
    return Path("/dev/nvidiactl").exists() or Path("/dev/dxg").exists()


def cupy_packages() -> list[tuple[str, str]]:
    """Return name and release of every installed CuPy package for CUDA 11 to 19."""
    found = []
    for name in ("cupy", *(f"cupy-cuda{cuda}x" for cuda in range(11, 20))):
        with suppress(importlib.metadata.PackageNotFoundError):
            found.append((name, importlib.metadata.version(name)))
    return found


def ask_cupy() -> str | None:
    """Return the error when CuPy looks for a GPU, or None."""
    try:
        with warnings.catch_warnings(), _without_cutensor():
            warnings.simplefilter("ignore")
            import cupy

            cupy.cuda.runtime.getDeviceCount()
    except Exception as error:
        return first_line(error)
    return None


@contextmanager
def _without_cutensor() -> Iterator[None]:
    """Hide cuTENSOR from CuPy, if this process leaves out packages that it does not use (`base/lazy.py`).

    To look for cuTENSOR, CuPy loads cuBLAS, which takes 0.07 s.
    """
    try:
        pathfinder: Any = importlib.import_module("cuda.pathfinder") if left_out else None
    except ImportError:
        pathfinder = None
    if pathfinder is None:
        yield
        return
    load = pathfinder.load_nvidia_dynamic_lib

    def load_others(name: str) -> Any:
        if name == "cutensor":
            raise pathfinder.DynamicLibNotFoundError(name)
        return load(name)

    pathfinder.load_nvidia_dynamic_lib = load_others
    try:
        yield
    finally:
        pathfinder.load_nvidia_dynamic_lib = load


def gpu_count() -> int:
    """Return how many GPUs this process may use."""
    if gpu_missing() is not None:
        return 0
    import cupy

    return int(cupy.cuda.runtime.getDeviceCount())


def ask_nvrtc() -> tuple[tuple[int, int], list[int]] | str:
    """Return NVRTC's release and the architectures it compiles for, such as 90; or its error."""
    import cupy

    try:
        return cupy.cuda.nvrtc.getVersion(), list(cupy.cuda.nvrtc.getSupportedArchs())
    except Exception as error:
        return first_line(error)


def gpu_findings() -> tuple[Finding, Finding, Finding]:
    """Return the findings about driver and GPU, CuPy, and NVRTC. Only the first call of a process checks."""
    with _lock:  # the threads of a worker call this at once
        return _look()


@cache
def _look() -> tuple[Finding, Finding, Finding]:
    driver = ask_driver()
    gpu = _check_driver(driver)
    packages = cupy_packages()
    if driver is None or gpu.state != "ok":
        installed = ", ".join(f"{name} {release}" for name, release in packages) or "not installed"
        untried = "not tried without a GPU"
        return gpu, Finding("cupy", "absent", f"{installed}; {untried}"), Finding("nvrtc", "absent", untried)
    cupy = _check_cupy(driver, packages)
    if cupy.state != "ok":
        return gpu, cupy, Finding("nvrtc", "absent", "not tried without CuPy")
    return gpu, cupy, _check_nvrtc(driver, packages[0][0])


def gpu_missing() -> str | None:
    """Return why no solver can use a GPU here, or None when one can."""
    fault = _fault()
    return fault.detail if fault else None


def cupy_module() -> Any:
    """Return the module `cupy`.

    Raises
    ------
    SsspError
        There is no usable GPU, or CuPy or NVRTC is missing or does not match; the message says which.
    """
    if (fault := _fault()) is not None:
        raise SsspError(fault.detail, hint=fault.hint or "`sssp-pipeline doctor` shows what is missing")
    import cupy

    return cupy


def first_line(error: BaseException) -> str:
    """Return the first line of an error that has text: CuPy's import errors begin with a line of `=`."""
    lines = [line.strip() for line in str(error).splitlines()]
    telling = [line for line in lines if line.strip("=")]
    if "Original error:" in telling[:-1]:
        return telling[telling.index("Original error:") + 1]
    return telling[0] if telling else type(error).__name__


def _fault() -> Finding | None:
    return next((finding for finding in gpu_findings() if finding.state != "ok"), None)


def _check_driver(driver: Driver | None) -> Finding:
    def found(state: str, detail: str, hint: str) -> Finding:
        return Finding("gpu", state, detail, hint)

    if driver is None:
        if has_device_files():
            return found(
                "broken",
                "the GPU's device files are here, but not the NVIDIA driver's library (libcuda.so.1)",
                "start the container with `--gpus all` and NVIDIA_DRIVER_CAPABILITIES=compute,utility",
            )
        return found(
            "absent",
            "no NVIDIA driver (libcuda.so.1)",
            "the CPU solvers need none; a GPU needs NVIDIA's driver",
        )
    if driver.code == _CUDA_NO_DEVICE or (driver.code == _CUDA_SUCCESS and driver.n_devices == 0):
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if visible is not None:
            return found(
                "absent",
                f"CUDA_VISIBLE_DEVICES is `{visible}` and hides every GPU",
                "unset it, or give it the number of a GPU as `nvidia-smi -L` lists them",
            )
        return found("absent", "the NVIDIA driver sees no GPU", "`nvidia-smi` and `dmesg` show why")
    if driver.code != _CUDA_SUCCESS:
        unknown = (f"the NVIDIA driver answers error {driver.code} to cuInit", "`nvidia-smi` shows more")
        return found("broken", *_DRIVER_FAULTS.get(driver.code, unknown))
    if driver.capability < OLDEST_CAPABILITY:
        return found(
            "broken",
            f"the GPU ({driver.name}) has compute capability {_dotted(driver.capability)}, the kernels need "
            f"{_dotted(OLDEST_CAPABILITY)}",
            "use the CPU solvers, or a GPU from 2017 (Volta) on",
        )
    more = f" and {driver.n_devices - 1} more" if driver.n_devices > 1 else ""
    return Finding(
        "gpu",
        "ok",
        f"{driver.name}{more}, compute capability {_dotted(driver.capability)}, driver for CUDA {_dotted(driver.cuda)}",
    )


def _check_cupy(driver: Driver, packages: list[tuple[str, str]]) -> Finding:
    def broken(detail: str, hint: str) -> Finding:
        return Finding("cupy", "broken", detail, hint)

    extra = f"pip install 'sssp-pipeline[{'cuda13' if driver.cuda >= (13, 0) else 'gpu'}]'"
    if not packages:
        return Finding("cupy", "absent", "there is a GPU, but CuPy is not installed", extra)
    again = f"pip uninstall -y {' '.join(name for name, _ in packages)}; then {extra}"
    installed = ", ".join(f"{name} {release}" for name, release in packages)
    if len(packages) > 1:
        return broken(f"several CuPy packages overwrite each other's files: {installed}", again)
    wanted = _cuda_of(packages[0][0])
    if wanted is not None and driver.cuda < (wanted, 0):
        older = f", or: {again}" if driver.cuda >= (12, 0) else ""
        return broken(
            f"{installed} needs a driver for CUDA {wanted}.0, this one is for {_dotted(driver.cuda)}",
            f"update the NVIDIA driver{_DRIVER_FOR_CUDA.get(wanted, '')}{older}",
        )
    if (error := ask_cupy()) is not None:
        return broken(f"{installed} does not work here: {error}", again)
    return Finding("cupy", "ok", installed)


def _check_nvrtc(driver: Driver, package: str) -> Finding:
    def broken(detail: str, hint: str) -> Finding:
        return Finding("nvrtc", "broken", detail, hint)

    answer = ask_nvrtc()
    cuda = _cuda_of(package) or driver.cuda[0]
    library = "nvidia-cuda-nvrtc-cu12" if cuda == 12 else "nvidia-cuda-nvrtc"
    if isinstance(answer, str):
        return broken(
            f"NVRTC, CUDA's compiler, cannot be loaded: {answer}",
            f"pip install '{library}=={cuda}.*', or install the CUDA {cuda} toolkit",
        )
    release, architectures = answer
    known = [divmod(architecture, 10) for architecture in sorted(architectures)]
    compiles = f"NVRTC {_dotted(release)} compiles for compute capability {_dotted(known[0])} to {_dotted(known[-1])}"
    other = f"{compiles}, this GPU has {_dotted(driver.capability)}"
    if driver.capability > known[-1]:
        return broken(other, f"pip install -U '{library}=={cuda}.*', or install a newer CUDA {cuda} toolkit")
    if driver.capability < known[0]:
        return broken(other, f"pip uninstall -y {package}; then pip install 'sssp-pipeline[cuda12]'")
    return Finding("nvrtc", "ok", compiles)


def _cuda_of(package: str) -> int | None:
    """Return the CUDA release that a CuPy package is built with, or None if its name does not say."""
    digits = package.removeprefix("cupy-cuda")[:2]
    return int(digits) if digits.isdigit() else None


def _dotted(release: tuple[int, int]) -> str:
    return f"{release[0]}.{release[1]}"
