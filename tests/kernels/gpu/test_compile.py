"""Every kernel compiles, without a warning, for every GPU we name, on a machine that has none.

All combinations would take many minutes. So every unit is compiled with half of the types for one architecture, and
with one type for each other one. The sources of the kernels decide which half, so another change compiles the others.
The types rotate, and their widths alternate: of two neighbours one gets 32 bits, the other 64. Of a file with many
units, each unit is compiled with a third of the types, and a third of the units for each other architecture.
`SSSP_EVERY_KERNEL=1` compiles all of these too.
`make test` compiles at most one type for the usual, the oldest and the newest architecture. `make test-slow` compiles
the rest.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
from contextlib import suppress
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sssp_pipeline.base.csr import WEIGHT_DTYPES
from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.gpu.common.cuda import compile
from sssp_pipeline.kernels.gpu.common.cuda.compile import (
    Unit,
    changed_compilation,
    kernel_options,
    load_ahead,
    load_kernels,
    warnings_in,
)
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import UPLOAD
from sssp_pipeline.kernels.gpu.common.rows.device_rows import SUMMARY
from sssp_pipeline.kernels.gpu.common.rows.distribution_on_device import distribution_unit
from sssp_pipeline.kernels.gpu.common.rows.facts_on_device import ROW_FACTS
from sssp_pipeline.kernels.gpu.common.rows.gather import GATHER
from sssp_pipeline.kernels.gpu.common.rows.nearest_on_device import NEAREST
from sssp_pipeline.kernels.gpu.common.rows.over_sources_on_device import over_sources_unit
from sssp_pipeline.kernels.gpu.common.rows.path_sums_on_device import path_sums_unit
from sssp_pipeline.kernels.gpu.common.rows.reduce import harmonic_unit, reduce_unit
from sssp_pipeline.kernels.gpu.common.rows.second_costs_on_device import SECOND_COSTS
from sssp_pipeline.kernels.gpu.common.solvers.gpu_solver import GpuSolver
from sssp_pipeline.kernels.gpu.path_sweep.path_sweep_on_device import PATH_SWEEP
from sssp_pipeline.kernels.gpu.phast_gpu import phast_gpu
from sssp_pipeline.kernels.host.solver import tuned

#: Bytes a thread: some words that a loop needs once cost nothing that can be measured.
MOST_SPILLED = 64
#: Rows of 4,096 sources spill more, and still take half as long for a source as those of 1,024 (one H200).
MOST_SPILLED_BY_WIDE_ROWS, WIDE_ROWS = 384, ("SSSP_WORDS_EACH", 4)
#: Edge numbers of 64 bits need more registers.
MOST_SPILLED_BY_WIDE_OFFSETS = 256
#: Several types are compiled for the first. sm_70 only while NVRTC 12 compiles for it. Neighbours have similar code:
#: all registers were the same for sm_86 and sm_89.
ARCHITECTURES = (90, 70, 75, 80, 86, 89, 100, 120)
#: `make test` compiles for these.
HOPPER, OLDEST, NEWEST = 90, 75, 120
#: A file with as many units or more is compiled in thirds. Its units differ in macros.
MANY_UNITS = 3
#: These get kernels for more edges than 32 bits count. As neighbours, they get each unit that is compiled in thirds.
WIDE = (86, 89, 100)
ON_GPU = [s for s in SOLVERS.values() if isinstance(s, GpuSolver)]
#: As a workflow may ask for them: radii, amounts, bits of an amount, bits of a lane.
REDUCE_OF = (
    *((0, 0, 64, 0), (2, 0, 64, 0), (3, 2, 64, 0), (3, 2, 32, 0), (8, 1, 64, 0), (8, 1, 32, 0)),
    *((0, 0, 64, 64), (3, 2, 64, 32), (3, 2, 64, 16), (8, 1, 64, 64), (8, 1, 32, 32)),
)
REDUCE = [
    *(reduce_unit(*of) for of in REDUCE_OF),
    *(harmonic_unit(lane_bits) for lane_bits in (0, 16, 32, 64)),
]
#: Radii, limbs, nearest sources, bits of a lane. Three limbs are for floats, and fit every type.
OVER_SOURCES_OF = ((0, 0, False, 0), (0, 0, True, 0), (3, 3, True, 0))
OVER_SOURCES_OF += ((0, 0, False, 64), (3, 3, True, 16), (3, 3, True, 32), (3, 3, True, 64))
OVER_SOURCES = [over_sources_unit(r, n, nearest=near, lane_bits=bits) for r, n, near, bits in OVER_SOURCES_OF]
DISTRIBUTION = [distribution_unit(lane_bits) for lane_bits in (0, 16, 32, 64)]
PATH_SUMS = [
    path_sums_unit(PathSumsAsked(squares=squares, is_weighted=weighted))
    for squares, weighted in product((False, True), repeat=2)
]
COMMON = [PATH_SWEEP, *PATH_SUMS, SECOND_COSTS, UPLOAD, SUMMARY, GATHER, ROW_FACTS, NEAREST]
COMMON += [*DISTRIBUTION, *REDUCE, *OVER_SOURCES]
UNITS = list(dict.fromkeys([*COMMON, *(unit for solver in ON_GPU for unit in solver.units)]))
ON_SIGNED = list(dict.fromkeys(unit for solver in ON_GPU if solver.takes_negative for unit in solver.units))
#: Each for weights of zero or more, and for negative ones if its solver takes them.
VARIANTS = [
    *((unit, dtype, False) for unit in UNITS for dtype in WEIGHT_DTYPES),
    *((unit, dtype, True) for unit in ON_SIGNED for dtype in WEIGHT_DTYPES if dtype.kind != "u"),
]


def other_units():
    """Yield what solvers compile for the values of their options, the defaults aside."""
    for solver in SOLVERS.values():
        for option in solver.tunables:
            limits = (option.least, option.most) if option.least <= option.most <= 2**20 else ()
            for value in (*option.choices, *limits):
                with suppress(InputError):  # some values need another option's
                    yield from getattr(tuned(solver, {option.name: value}), "units", ())


DIGEST = int(compile.sources_digest(), 16)
OTHER_UNITS = [unit for unit in dict.fromkeys(other_units()) if unit not in UNITS]


def compiled(nvrtc, unit, dtype, arch, **options):
    return nvrtc.compile_for(unit.source, f"{unit.stem}.cu", kernel_options(unit, dtype, **options), arch)


def write_down(dtype, arch, result):
    """Append registers and bytes spilled to the file that `SSSP_REGISTERS` names, a JSON line for each kernel."""
    if (path := os.environ.get("SSSP_REGISTERS")) is None:
        return
    with Path(path).open("a") as file:
        for kernel, registers in result.registers.items():
            line = {"kernel": kernel, "dtype": dtype.name, "arch": arch, "registers": registers}
            file.write(json.dumps(line | {"bytes_spilled": result.spilled[kernel]}) + "\n")


def is_left_out(unit, dtype_number, arch):
    """Return whether other units of the same file have this type, or this architecture, in place of `unit`."""
    of_file = [other for other in UNITS if other.stem == unit.stem and other.least_arch <= arch]
    if os.environ.get("SSSP_EVERY_KERNEL"):
        return False
    if len(of_file) < MANY_UNITS:
        mixed = dtype_number + dtype_number // 2  # so that each half has types of 32 bits and of 64
        return arch == HOPPER and (UNITS.index(unit) + mixed + DIGEST) % 2 != 0
    number = dtype_number if arch == HOPPER else ARCHITECTURES.index(arch)
    return (of_file.index(unit) - number) % 3 != 0


def combinations():
    """Return the variants for one architecture, and one type of each for the other ones, less what is left out."""
    found = []
    for unit, dtype, signed in VARIANTS:
        types = [other for unit_of, other, signed_of in VARIANTS if (unit_of, signed_of) == (unit, signed)]
        types = sorted(types, key=lambda other: (other.kind, other.itemsize))
        for i, arch in enumerate(ARCHITECTURES):
            is_first = (types.index(dtype) - UNITS.index(unit) - i) % len(types) == 0
            if arch < unit.least_arch or (arch != HOPPER and not is_first):
                continue
            if is_left_out(unit, types.index(dtype), arch):
                continue
            is_slow = not is_first or arch not in (HOPPER, OLDEST, NEWEST)
            marks = [pytest.mark.slow if is_slow else pytest.mark.medium]
            macros = "".join(f"-{value}" for _, value in unit.macros) if unit in REDUCE else ""
            name = f"{unit.stem}{macros}-{dtype}{'-signed' * signed}-{arch}"
            found.append(pytest.param(unit, dtype, signed, arch, marks=marks, id=name))
    return found


def with_types(units, dtypes):
    """Return every unit with every type: `make test` compiles one type, `make test-slow` the others."""
    return [
        pytest.param(
            unit,
            np.dtype(dtype),
            marks=pytest.mark.medium if (i + j) % len(dtypes) == 0 else pytest.mark.slow,
            id=f"{unit.stem}{dict(unit.macros)}-{dtype}",
        )
        for i, unit in enumerate(units)
        for j, dtype in enumerate(dtypes)
    ]


COMBINATIONS = combinations()


@pytest.mark.medium
@pytest.mark.parametrize(("unit", "dtype", "signed", "arch"), COMBINATIONS)
def test_every_unit_compiles_without_a_warning(nvrtc, unit, dtype, signed, arch):
    if arch not in nvrtc.architectures():
        pytest.skip(f"this NVRTC does not compile for sm_{arch}")
    result = compiled(nvrtc, unit, dtype, arch, signed=signed, wide_offsets=arch in WIDE)
    assert not warnings_in(result.log), result.log
    assert result.n_bytes > 0
    if unit != UPLOAD or dtype.itemsize == 4:
        assert set(result.registers) == set(unit.names(dtype))
    write_down(dtype, arch, result)
    most = MOST_SPILLED_BY_WIDE_OFFSETS if arch in WIDE else MOST_SPILLED
    most = MOST_SPILLED_BY_WIDE_ROWS if WIDE_ROWS in unit.macros else most
    assert max(result.spilled.values(), default=0) <= most, f"{unit.stem} spills: {result.spilled}"


@pytest.mark.parametrize(("unit", "dtype"), with_types(OTHER_UNITS, ("float32", "int64")))
def test_every_option_compiles_without_a_warning(nvrtc, unit, dtype):
    result = compiled(nvrtc, unit, dtype, HOPPER)
    assert not warnings_in(result.log), result.log
    assert max(result.spilled.values()) <= MOST_SPILLED, f"{unit.macros} spills: {result.spilled}"


@pytest.mark.medium
@pytest.mark.parametrize("name", ["adds", "adds-slots", "near-far"])
def test_the_clock_that_runs_back_in_tests_compiles(nvrtc, name):
    unit, dtype = SOLVERS[name].units[0], np.dtype("uint32")
    options = (*kernel_options(unit, dtype), "-DSSSP_CLOCK_RUNS_BACK=1")
    result = nvrtc.compile_for(unit.source, f"{unit.stem}.cu", options, HOPPER)
    assert not warnings_in(result.log), result.log
    assert "#if SSSP_CLOCK_RUNS_BACK" in (compile._GPU / "common/headers/memory_order.cuh").read_text()


def test_another_file_is_compiled_in_a_block_only_with_its_own_headers_first(tmp_path):
    unit, dtype = SOLVERS["near-far"].units[0], np.dtype("uint32")
    usual, file = kernel_options(unit, dtype), tmp_path / "near_far.cu"
    file.write_text("// changed\n", encoding="utf-8")
    found = []
    for header in ("// one\n", "// two\n"):
        (tmp_path / "piles.cuh").write_text(header, encoding="utf-8")
        with changed_compilation({"near_far": file}, lines=True):
            found.append(kernel_options(unit, dtype))
            assert unit.source == f'#line 1 "{file}"\n// changed\n'
    folders = [option for option in found[0] if option.startswith("-I")]
    assert folders == [f"-I{tmp_path}", *(option for option in usual if option.startswith("-I"))]
    assert "-lineinfo" in found[0]
    # The digest is a part of the options: CuPy's cache does not see headers.
    assert len({usual, *found}) == 3
    assert kernel_options(unit, dtype) == usual
    assert unit.source == compile.SOURCES["near_far"].read_text(encoding="utf-8")


@pytest.mark.medium
def test_a_binary_with_line_numbers_has_the_same_registers_and_names_the_file(nvrtc):
    unit, dtype = SOLVERS["near-far"].units[0], np.dtype("uint32")
    usual = compiled(nvrtc, unit, dtype, HOPPER)
    with changed_compilation({}, lines=True):
        assert compiled(nvrtc, unit, dtype, HOPPER).registers == usual.registers
        options = (*kernel_options(unit, dtype), "-arch=compute_90")
        ptx = nvrtc.ptx_of(unit.source, "other.cu", options)
    assert f'.file\t1 "{compile.SOURCES["near_far"]}"' in ptx


def test_only_what_changed_is_compiled_again(nvrtc, tmp_path, monkeypatch):
    monkeypatch.setattr(nvrtc, "REMEMBERED", tmp_path / "remembered")
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "outer.cuh").write_text('#include "inner.cuh"\n')
        (tmp_path / folder / "inner.cuh").write_text("// one\n")
    source = '#include "outer.cuh"\n#ifdef X\n#endif\nextern "C" __global__ void empty_kernel() {}'

    def made(*options, folder="a", arch=75):
        """Return how many results are remembered after a compilation."""
        given = (f"-I{tmp_path / folder}", *options)
        found = nvrtc.compile_for(source, "empty.cu", given, arch)
        assert found.registers.keys() == {"empty_kernel"}
        return len(list((tmp_path / "remembered").iterdir()))

    assert [made(), made(), made("-DSSSP_DIGEST=1"), made("-DNOT_NAMED=1"), made(folder="b")] == [1] * 5
    assert [made("-DX=1"), made(arch=80), made()] == [2, 3, 3]
    (tmp_path / "a" / "inner.cuh").write_text("// two\n")
    assert [made(), made(folder="b")] == [4, 4]


def test_a_warning_is_seen(nvrtc, tmp_path, monkeypatch):
    source = tmp_path / "careless.cu"
    source.write_text('extern "C" __global__ void careless_kernel() { int unused = 3; }')
    monkeypatch.setitem(compile.SOURCES, "careless", source)
    result = compiled(nvrtc, Unit("careless", ("careless_kernel",)), np.dtype("uint32"), 75)
    assert "declared but never referenced" in warnings_in(result.log)[0]
    assert result.registers.keys() == {"careless_kernel"}


@pytest.mark.parametrize("solver", ON_GPU, ids=lambda solver: solver.name)
def test_every_invariant_that_a_kernel_cites_is_defined(solver):
    texts = [path.read_text() for path in compile.SOURCES[solver.name.replace("-", "_")].parent.glob("*.cu*")]
    defined = {found for text in texts for found in re.findall(r"^//\s+([IF]\d)\. ", text, re.MULTILINE)}
    if solver.name == "adds":
        design = (Path(__file__).parents[3] / "docs/design/0002-adds-queue.md").read_text()
        defined = set(re.findall(r"^\| ([IF]\d+)\b", design, re.MULTILINE))
    assert {found for text in texts for found in re.findall(r"\b([IF]\d)\b", text)} == defined


def test_the_types_and_the_unit_decide_the_options():
    unit = Unit("near_far", (), (("SSSP_THREADS", 64),))
    float32 = kernel_options(unit, np.dtype("float32"))
    assert {"-DSSSP_FLOATING=1", "-DSSSP_BITS=32", "-DSSSP_UNREACHED=0x7f800000ull"} <= set(float32)
    assert {"-DSSSP_OFFSET_BITS=32", "-DSSSP_THREADS=64"} <= set(float32)
    int64 = kernel_options(unit, np.dtype("int64"), wide_offsets=True)
    assert {"-DSSSP_FLOATING=0", "-DSSSP_BITS=64", "-DSSSP_UNREACHED=0x7fffffffffffffffull"} <= set(int64)
    assert "-DSSSP_OFFSET_BITS=64" in int64


def test_an_edited_header_changes_the_options(tmp_path, monkeypatch):
    compile.sources_digest.cache_clear()
    before = compile.sources_digest()
    copied = shutil.copytree(compile._GPU, tmp_path / "gpu")
    monkeypatch.setattr(compile, "_GPU", copied)
    try:
        compile.sources_digest.cache_clear()
        assert compile.sources_digest() == before
        with (copied / "common/headers/relax.cuh").open("a") as file:
            file.write("// more\n")
        compile.sources_digest.cache_clear()
        assert compile.sources_digest() != before
    finally:
        compile.sources_digest.cache_clear()


class FakeCupy:
    """As much of CuPy as loads a module. `compile` waits until `together` threads compile, or a time has passed."""

    def __init__(self, together: int) -> None:
        self.compiled: list[tuple[str, ...]] = []
        meeting, cupy = threading.Barrier(together), self

        class RawModule:
            def __init__(self, *, options, **_):
                self.options = options

            def compile(self, log_stream):
                cupy.compiled.append(self.options)
                meeting.wait(60)
                if "-DSSSP_FAULT=1" in self.options:
                    raise RuntimeError("no such device")

            def get_function(self, name):
                return SimpleNamespace(num_regs=1, local_size_bytes=0)

        class CompileException(Exception):
            pass

        self.RawModule = RawModule
        current = id(self)  # another device in each test, since what is loaded stays loaded
        self.cuda = SimpleNamespace(
            Device=lambda number=current: FakeDevice(number),
            compiler=SimpleNamespace(CompileException=CompileException),
        )


class FakeDevice:
    def __init__(self, number: int) -> None:
        self.id = number

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


@pytest.fixture
def fake_cupy(monkeypatch):
    """Return a function that replaces CuPy."""

    def replace(together: int) -> FakeCupy:
        cupy = FakeCupy(together)
        monkeypatch.setattr(compile, "cupy_module", lambda: cupy)
        return cupy

    return replace


def units_of(*macros: str) -> list[Unit]:
    return [Unit("near_far", ("kernel",), ((name, 1),)) for name in macros]


def test_units_are_compiled_at_the_same_time_and_each_once(fake_cupy):
    cupy, units, dtype = fake_cupy(together=3), units_of("A", "B", "C"), np.dtype("uint32")
    load_ahead(units, dtype)
    load_ahead(units, dtype)
    for unit in units:
        assert load_kernels(unit, dtype).keys() == {"kernel"}
    assert len(cupy.compiled) == 3


def test_an_error_of_a_unit_that_is_loaded_ahead_is_raised_where_it_is_needed(fake_cupy):
    fake_cupy(together=1)
    (unit,) = units_of("SSSP_FAULT")
    load_ahead([unit], np.dtype("uint32"))
    for _ in range(2):
        with pytest.raises(SsspError, match="cannot be compiled for this GPU: no such device"):
            load_kernels(unit, np.dtype("uint32"))


@pytest.mark.parametrize("dtype", ["uint32", "float32", "int64", "float64"])
def test_units_are_loaded_ahead_for_types_that_have_their_kernels(dtype, monkeypatch):
    loaded = []
    monkeypatch.setattr(phast_gpu, "load_ahead", lambda units, _: loaded.extend(units))
    phast_gpu.load_for_calls(np.dtype(dtype), 64, cutoff=False, are_short=False)
    assert (UPLOAD in loaded) == (np.dtype(dtype).itemsize == 4)
