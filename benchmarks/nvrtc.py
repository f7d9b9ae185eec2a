"""NVIDIA's run-time compiler without a GPU, a driver or CuPy: as much of its C interface as tests and `lab.py` need.

What it made of a source is remembered in `.pytest_cache/nvrtc`, so a later run compiles only what has changed. A digest
of the source, its headers, the options and NVRTC's release is the name of each file. `make clean` removes the folder.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

#: What CuPy adds to the options of every kernel.
ADDED_BY_CUPY = ("--device-as-default-execution-space", "-ftz=true")
#: Where the results of earlier compilations are.
REMEMBERED = Path(__file__).parents[1] / ".pytest_cache" / "nvrtc"
#: The names of included headers; system headers are not included.
INCLUDED = re.compile(r'^#include "(.+)"', re.M)


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


class NotCompiledError(Exception):
    """A source does not compile; the text is the compiler's log."""


@dataclass(frozen=True)
class Compiled:
    """A binary's size, the compiler's whole log, and per kernel its registers and bytes spilled."""

    n_bytes: int
    log: str
    registers: dict[str, int]
    spilled: dict[str, int]


def compile_for(source: str, name: str, options: tuple[str, ...], arch: int) -> Compiled:
    """Return what is known of the binary of `source` for sm_`arch`; it raises `NotCompiledError`."""
    options = (*options, f"-arch=sm_{arch}", "--ptxas-options=-v")
    return Compiled(**_remembered(source, options, lambda: asdict(_compiled(source, name, options))))


def ptx_of(source: str, name: str, options: tuple[str, ...]) -> str:
    """Return the PTX of `source`; it raises `NotCompiledError`."""

    def make() -> str:
        with _program(source, name, options) as (program, _):
            return _text(library().nvrtcGetPTXSize, library().nvrtcGetPTX, program)

    return _remembered(source, options, make)


def _compiled(source: str, name: str, options: tuple[str, ...]) -> Compiled:
    with _program(source, name, options) as (program, log):
        size = ctypes.c_size_t()
        library().nvrtcGetCUBINSize(program, ctypes.byref(size))
    registers, spilled = {}, {}
    for part in log.split("Compiling entry function '")[1:]:
        kernel = part.split("'")[0]
        registers[kernel] = int(re.search(r"Used (\d+) registers", part)[1])
        spilled[kernel] = int(re.search(r"(\d+) bytes spill stores", part)[1])
    return Compiled(size.value, log, registers, spilled)


def _remembered(source: str, options: tuple[str, ...], make: Callable[[], Any]) -> Any:
    """Return what `make` returns, plain JSON, from an earlier run if nothing that it depends on has changed."""
    path = REMEMBERED / f"{_digest(source, options)}.json"
    if path.exists():
        return json.loads(path.read_text())
    made = make()
    REMEMBERED.mkdir(parents=True, exist_ok=True)
    written = path.with_suffix(f".{os.getpid()}")
    written.write_text(json.dumps(made))
    written.replace(path)
    return made


def _digest(source: str, options: tuple[str, ...]) -> str:
    """Return a digest of all that decides what NVRTC makes of `source`."""
    folders = [Path(option.removeprefix("-I")) for option in options if option.startswith("-I")]
    texts, headers = {"": source}, set(INCLUDED.findall(source))
    while headers:
        header = headers.pop()
        texts[header] = next(p for folder in folders if (p := folder / header).exists()).read_text()
        headers |= set(INCLUDED.findall(texts[header])) - texts.keys()
    # The digest of all sources would change with every source. The folders differ from checkout to checkout.
    # A macro that no text names changes nothing.
    words = set(re.findall(r"\w+", " ".join(texts.values()))) - {"SSSP_DIGEST"}
    macros = {o: o.removeprefix("-D").partition("=")[0] for o in options if o.startswith("-D")}
    deciding = [o for o in options if not o.startswith("-I") and (o not in macros or macros[o] in words)]
    parts = [sorted(texts.items()), deciding, ADDED_BY_CUPY, _release()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


@cache
def _release() -> list[str]:
    """Return NVRTC's release, and the file that it comes from with its size."""
    major, minor = ctypes.c_int(), ctypes.c_int()
    library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    path = Path(library()._name)
    return [f"{major.value}.{minor.value}", path.name, str(path.stat().st_size) if path.exists() else ""]


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
        if code != 0:
            raise NotCompiledError(log)
        yield program, log
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _text(get_size: ctypes._FuncPointer, get_text: ctypes._FuncPointer, program: ctypes.c_void_p) -> str:
    size = ctypes.c_size_t()
    get_size(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    get_text(program, text)
    return text.value.decode()
