"""NVIDIA's run-time compiler without a GPU, a driver or CuPy: as much of its C interface as the tests need."""

from __future__ import annotations

import ctypes
import importlib.util
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

#: What CuPy adds to the options of every kernel.
ADDED_BY_CUPY = ("--device-as-default-execution-space", "-ftz=true")


@cache
def library() -> ctypes.CDLL | None:
    """Return NVRTC from a wheel of this environment, or the system's; None if there is none."""
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(p) for p in spec.submodule_search_locations] if spec else []
    wheels = [f for folder in folders for f in sorted(folder.glob("*/lib/libnvrtc.so.1[23]"))]
    for name in [*map(str, wheels), "libnvrtc.so.12", "libnvrtc.so.13"]:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def architectures() -> list[int]:
    """Return the compute capabilities that NVRTC compiles for, 90 for sm_90."""
    count = ctypes.c_int()
    library().nvrtcGetNumSupportedArchs(ctypes.byref(count))
    found = (ctypes.c_int * count.value)()
    library().nvrtcGetSupportedArchs(found)
    return list(found)


@dataclass(frozen=True)
class Compiled:
    """A binary's size, the compiler's whole log, and per kernel its registers and bytes spilled."""

    n_bytes: int
    log: str
    registers: dict[str, int]
    spilled: dict[str, int]


def compile_for(source: str, name: str, options: tuple[str, ...], arch: int) -> Compiled:
    """Return the binary of `source` for sm_`arch`; an error of the compiler fails the test with its log."""
    with _program(source, name, (*options, f"-arch=sm_{arch}", "--ptxas-options=-v")) as (program, log):
        size = ctypes.c_size_t()
        library().nvrtcGetCUBINSize(program, ctypes.byref(size))
    registers, spilled = {}, {}
    for part in log.split("Compiling entry function '")[1:]:
        kernel = part.split("'")[0]
        registers[kernel] = int(re.search(r"Used (\d+) registers", part)[1])
        spilled[kernel] = int(re.search(r"(\d+) bytes spill stores", part)[1])
    return Compiled(size.value, log, registers, spilled)


def ptx_of(source: str, name: str, options: tuple[str, ...]) -> str:
    """Return the PTX of `source`; an error of the compiler fails the test with its log."""
    with _program(source, name, options) as (program, _):
        return _text(library().nvrtcGetPTXSize, library().nvrtcGetPTX, program)


@contextmanager
def _program(source: str, name: str, options: tuple[str, ...]) -> Iterator[tuple[ctypes.c_void_p, str]]:
    """Give the compiled program and the compiler's log."""
    nvrtc, program = library(), ctypes.c_void_p()
    options = (*options, *ADDED_BY_CUPY)
    encoded = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
    created = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), name.encode(), 0, None, None)
    assert created == 0
    try:
        code = nvrtc.nvrtcCompileProgram(program, len(options), encoded)
        log = _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program)
        assert code == 0, log
        yield program, log
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _text(get_size: ctypes._FuncPointer, get_text: ctypes._FuncPointer, program: ctypes.c_void_p) -> str:
    size = ctypes.c_size_t()
    get_size(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    get_text(program, text)
    return text.value.decode()
