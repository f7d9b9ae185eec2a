"""Compilation of kernels for this GPU; no other module compiles.

CuPy compiles a `.cu` file with NVRTC and caches the binary on disk. The binary depends on the types, which every kernel
takes as `-D` macros, and on the sources. CuPy's cache ignores included headers, so the options hold a digest of all
sources.

The tests compile with NVRTC and without CuPy. They use only `Unit` and `kernel_options`.
"""

from __future__ import annotations

import hashlib
import io
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from sssp_pipeline.base.compile_notice import compilation_began
from sssp_pipeline.base.csr import unreached_distance
from sssp_pipeline.base.error_text import Either, Text
from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.kernels.gpu.common.cuda.cupy_setup import cupy_module as cupy_module
from sssp_pipeline.kernels.gpu.common.cuda.cupy_setup import first_line
from sssp_pipeline.kernels.gpu.common.cuda.cupy_setup import gpu_missing as gpu_missing

_GPU = Path(__file__).parents[2]
#: The `.cu` files by name without suffix.
SOURCES = {path.stem: path for path in _GPU.rglob("*.cu")}
#: Files in the place of these, and more options of NVRTC; `changed_compilation` sets both.
_changed: dict[str, Path] = {}
_more_options: tuple[str, ...] = ()

#: The option that keeps line numbers in a binary, which does not change its instructions.
_LINES = "-lineinfo"
_MULTIPROCESSORS = 16
#: CuPy reads a binary from its cache in less time than this. After that, it must be compiling.
_COMPILES_S = 1.0

_lock = threading.Lock()
#: For each module that was asked for, a lock for the threads that want it. CuPy and NVRTC take several threads, each
#: with a program of its own.
_locks: dict[tuple[Any, ...], threading.Lock] = {}


@dataclass(frozen=True)
class Unit:
    """One `.cu` file compiled in one way."""

    #: The file's name without `.cu`.
    stem: str
    #: Names of its kernels, `extern "C"`.
    kernels: tuple[str, ...]
    #: Pairs of a macro's name and a number, in addition to the macros for the types.
    macros: tuple[tuple[str, int], ...] = ()
    #: Whether blocks of a kernel wait for each other, so that all must be resident at once.
    cooperative: bool = False
    #: Names of the kernels that are there for floating weights only.
    of_floats: tuple[str, ...] = ()
    #: The lowest compute capability that it compiles for, such as 90 for 9.0.
    least_arch: int = 0

    def names(self, dtype: np.dtype) -> tuple[str, ...]:
        """Return the names of its kernels for weights of `dtype`."""
        return self.kernels + (self.of_floats if dtype.kind == "f" else ())

    @property
    def source(self) -> str:
        path = _changed.get(self.stem, SOURCES[self.stem])
        text = path.read_text(encoding="utf-8")
        # CuPy compiles a temporary file. So the lines are told where they come from, if anyone asks.
        return f'#line 1 "{path}"\n{text}' if _LINES in _more_options else text


#: What `load_ahead` has begun, by device.
_begun: set[tuple[int, Unit, np.dtype]] = set()


@cache
def sources_digest() -> str:
    """Return a digest of every kernel source and header."""
    digest = hashlib.sha256()
    files = [*_GPU.rglob("*.cu*")]
    for changed in _changed.values():
        files += [changed, *changed.parent.glob("*.cuh")]
    for path in sorted(files):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@cache
def kernel_options(
    unit: Unit, dtype: np.dtype, *, wide_offsets: bool = False, signed: bool = False
) -> tuple[str, ...]:
    """Return NVRTC's options for `unit` over weights of `dtype`.

    Row offsets take 64 bits if `wide_offsets`; weights may be negative if `signed`.
    """
    bits = int(unreached_distance(dtype).view(f"u{dtype.itemsize}"))
    defined = {
        "SSSP_FLOATING": f"{int(dtype.kind == 'f')}",
        "SSSP_BITS": f"{8 * dtype.itemsize}",
        "SSSP_SIGNED": f"{int(signed)}",
        "SSSP_UNREACHED": f"0x{bits:x}ull",
        "SSSP_OFFSET_BITS": "64" if wide_offsets else "32",
        "SSSP_DIGEST": f"0x{sources_digest()}ull",
        **{name: str(value) for name, value in unit.macros},
    }
    macros = (f"-D{name}={value}" for name, value in defined.items())
    folders = [SOURCES[unit.stem].parent, _GPU / "common" / "headers"]
    if unit.stem in _changed:
        folders.insert(0, _changed[unit.stem].parent)
    return ("-std=c++17", *(f"-I{folder}" for folder in folders), *macros, *_more_options)


@contextmanager
def changed_compilation(sources: Mapping[str, Path], *, lines: bool) -> Iterator[None]:
    """Compile other files in the `with` block, for experiments such as `benchmarks/lab.py`.

    Parameters
    ----------
    sources
        The files, by the name without `.cu` of the package's file that each replaces. Headers in the same folder come
        before those of the package.
    lines
        Whether binaries have line numbers, for a profiler.
    """
    global _changed, _more_options
    before = _changed, _more_options
    try:
        _changed, _more_options = dict(sources), (_LINES,) if lines else ()
        _forget_options()
        yield
    finally:
        _changed, _more_options = before
        _forget_options()


def _forget_options() -> None:
    sources_digest.cache_clear()
    kernel_options.cache_clear()


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel ready on the current device."""

    unit: Unit
    #: As in the source, where it is `extern "C"`.
    name: str
    #: CuPy's function object, which keeps its module alive.
    function: Any
    #: Registers of each thread.
    registers: int
    #: Bytes of local memory of each thread; above zero, registers are spilled.
    local_bytes: int

    def __call__(self, grid: int, block: int, args: tuple, shared_bytes: int = 0) -> None:
        """Launch on the current stream; arguments are NumPy scalars, device arrays, or None for a null pointer.

        A block gets `shared_bytes` of dynamic shared memory.

        NOTE: CuPy shrinks the grid of a cooperative launch that does not fit, and only warns. So the grid comes from
        `resident_blocks`, and the kernel gets the number of blocks as an argument.
        """
        self.function(
            (grid,), (block,), tuple(np.uintp(0) if a is None else a for a in args), shared_mem=shared_bytes
        )

    def resident_blocks(self, block: int) -> int:
        """Return how many blocks of `block` threads the whole device can hold at once.

        Raises
        ------
        SsspError
            Not even one block fits; a cooperative launch would hang.
        """
        cupy = cupy_module()
        # The driver's functions need a context on this thread. A call of the runtime makes one.
        cupy.cuda.runtime.free(0)
        per_sm = cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(
            self.function.kernel.ptr, block, 0
        )
        device = cupy.cuda.Device().id
        n_blocks = per_sm * cupy.cuda.runtime.deviceGetAttribute(_MULTIPROCESSORS, device)
        if n_blocks == 0:
            raise SsspError(
                f"`{self.name}` with {block} threads a block does not fit this GPU",
                hint=Text(
                    Either("set fewer threads a block among `solve.options`, or "), "take another solver"
                ),
            )
        return n_blocks


def load_kernels(
    unit: Unit, dtype: np.dtype, *, wide_offsets: bool = False, signed: bool = False
) -> dict[str, Kernel]:
    """Return the kernels of `unit`, by name, for the current device, compiled once in a process.

    `kernel_options` explains the other arguments.

    Raises
    ------
    SsspError
        There is no GPU or CuPy, NVRTC is missing or too old for the GPU, or the source does not compile.
    """
    cupy = cupy_module()
    options = kernel_options(unit, dtype, wide_offsets=wide_offsets, signed=signed)
    module = cupy.cuda.Device().id, unit, unit.names(dtype), options
    with _lock:
        of_module = _locks.setdefault(module, threading.Lock())
    with of_module:
        return _load(*module)


def load_ahead(units: Iterable[Unit], dtype: np.dtype) -> None:
    """Begin to load the kernels of `units` for the current device, each in a thread of its own, once in a process.

    NVRTC compiles without Python's lock. Who needs the kernels calls `load_kernels`, which waits for this thread and
    raises its errors.
    """
    device = cupy_module().cuda.Device().id
    for unit in units:
        with _lock:
            is_begun = (device, unit, dtype) in _begun
            _begun.add((device, unit, dtype))
        if not is_begun:
            threading.Thread(target=_load_on, args=(device, unit, dtype), name="sssp-compile").start()


def _load_on(device: int, unit: Unit, dtype: np.dtype) -> None:
    with suppress(Exception), cupy_module().cuda.Device(device):
        load_kernels(unit, dtype)


def has_loaded_kernels() -> bool:
    """Return whether this process has used a GPU."""
    return _load.cache_info().currsize > 0


@cache
def _load(device: int, unit: Unit, names: tuple[str, ...], options: tuple[str, ...]) -> dict[str, Kernel]:
    del device  # a module belongs to the device it was loaded on
    cupy = cupy_module()
    log = io.StringIO()
    # CuPy does not say whether it found the binary in its cache.
    slow = threading.Timer(_COMPILES_S, compilation_began)
    slow.daemon = True
    slow.start()
    try:
        module = cupy.RawModule(
            code=unit.source, options=options, backend="nvrtc", enable_cooperative_groups=unit.cooperative
        )
        module.compile(log_stream=log)
        functions = {name: module.get_function(name) for name in names}
        kernels = {
            name: Kernel(unit, name, f, f.num_regs, f.local_size_bytes) for name, f in functions.items()
        }
    except (cupy.cuda.compiler.CompileException, RuntimeError, OSError) as error:
        raise SsspError(
            f"`{unit.stem}.cu` cannot be compiled for this GPU: {first_line(error)}",
            hint="`sssp-pipeline doctor` shows whether driver, CuPy and NVRTC fit each other",
        ) from error
    finally:
        slow.cancel()
    if warned := warnings_in(log.getvalue()):
        raise SsspError(
            f"`{unit.stem}.cu` compiles with warnings: {warned[0]}",
            hint="report a bug with this message; until then take another solver",
        )
    return kernels


def warnings_in(log: str) -> list[str]:
    """Return the warnings in NVRTC's log, except the one that 12.9 prints for every GPU older than sm_75."""
    lines = [line.strip() for line in log.splitlines() if "warning" in line.lower()]
    return [line for line in lines if "Architectures prior to" not in line]
