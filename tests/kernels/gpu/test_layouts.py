"""The memory layouts and the constants that Python repeats are those of the compiled CUDA code.

Each `.cu` file is compiled with two more tables behind it: the address of every field, and the values of `sizeof` and
of constants. Both are read from the PTX.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from dataclasses import dataclass, field
from types import ModuleType

import numpy as np
import pytest

from sssp_pipeline.base.csr import NO_VERTEX
from sssp_pipeline.kernels import SOLVERS, gpu
from sssp_pipeline.kernels.answers import distribution, nearest, path_sums, reductions
from sssp_pipeline.kernels.contract import over_sources
from sssp_pipeline.kernels.contract.solver import TRACE
from sssp_pipeline.kernels.gpu.adds import adds, hub_chunks
from sssp_pipeline.kernels.gpu.adds_lanes import adds_lanes
from sssp_pipeline.kernels.gpu.adds_slots import adds_slots
from sssp_pipeline.kernels.gpu.bits_gpu import device_bits
from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, kernel_options
from sssp_pipeline.kernels.gpu.common.rows import (
    device_rows,
    distribution_on_device,
    facts_on_device,
    lane_rows,
    nearest_on_device,
    over_sources_on_device,
    path_sums_on_device,
    reduce,
    second_costs_on_device,
)
from sssp_pipeline.kernels.gpu.common.solvers import gpu_solver, pausing
from sssp_pipeline.kernels.gpu.frontier_bellman_ford import edge_classes, frontier_bellman_ford
from sssp_pipeline.kernels.gpu.near_far import near_far
from sssp_pipeline.kernels.gpu.papers.adaptive_threads import adaptive_threads
from sssp_pipeline.kernels.gpu.papers.bellman_ford import bellman_ford
from sssp_pipeline.kernels.gpu.papers.work_efficient import work_efficient
from sssp_pipeline.kernels.gpu.path_sweep import path_sweep_on_device
from sssp_pipeline.kernels.gpu.phast_gpu import device_hierarchy, host_hierarchy, phast_gpu
from sssp_pipeline.kernels.hierarchy.completion import chunks
from sssp_pipeline.workflow.reduce import MOST_BUCKETS, MOST_QUANTILES

#: Fields that stand in a struct within the struct.
BARRIER = {"arrived": "barrier.arrived", "poison": "barrier.poison"}
PAST_DEADLINE = {"kPastDeadline": gpu_solver.PAST_DEADLINE, "sizeof(BarrierWords)": pausing._BARRIER_BYTES}


@dataclass(frozen=True)
class Mirrored:
    """What Python repeats of one compiled unit.

    Attributes
    ----------
    unit
        What is compiled.
    records
        The NumPy type of each struct, by the struct's name.
    numbers
        The value of each C++ expression.
    paths
        The C++ name of each field whose NumPy name differs.
    """

    unit: Unit
    records: dict[str, np.dtype] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=lambda: BARRIER)


def same_names(module: ModuleType, names: str) -> dict[str, int]:
    """Return constants of `module` by their C++ names: `kMostChain` is `MOST_CHAIN` or `_MOST_CHAIN` there."""
    in_python = {name: re.sub("(?<=.)(?=[A-Z])", "_", name[1:]).upper() for name in names.split()}
    of = vars(module)
    return {name: int(of[other] if other in of else of[f"_{other}"]) for name, other in in_python.items()}


def unit_of(solver: str) -> Unit:
    return next(unit for unit in SOLVERS[solver].units if unit.stem == solver.replace("-", "_"))


def lanes(*, narrow: bool) -> Mirrored:
    n_lanes = 64 if narrow else 32
    numbers = same_names(adds_lanes, "kPushChunk kPushShare kNoSource") | {"kLanes": n_lanes}
    if narrow:
        numbers["kLaneLimit"] = adds_lanes._NARROW_LIMIT
    unit = SOLVERS["adds-lanes"].unit(narrow=narrow)
    return Mirrored(unit, {"State": adds_lanes._state(n_lanes)}, numbers | PAST_DEADLINE, BARRIER)


def climbs(bits: int) -> Mirrored:
    return Mirrored(
        phast_gpu.climb_unit(bits),
        {
            "Call": phast_gpu._CALL,
            "Chunk": host_hierarchy._CHUNK,
            "Tile": host_hierarchy.TILE_TYPE,
            "Climbed": phast_gpu._CLIMBED,
            "Summary": device_rows._SUMMARY,
        },
        {
            "sizeof(Segment)": phast_gpu._SEGMENT_BYTES,
            "kMostEntries": max(chunks.MOST_TOP, chunks.MOST_OWN),
            "kMostThreads": phast_gpu._BLOCKS_OF_FEW[0],
            "kSeedBlock": phast_gpu._BLOCKS_OF_FEW[1],
        }
        | same_names(chunks, "kTile kMostLow kMostOwn")
        | same_names(phast_gpu, "kTopBlocks"),
    )


def front_rows(bits: int) -> Mirrored:
    return Mirrored(
        phast_gpu.front_rows_unit(bits),
        {"Call": phast_gpu._CALL},
        {"kFrontBlock": phast_gpu._BLOCK, "kRows": phast_gpu._FRONT_ROWS, "kAcross": phast_gpu._FRONT_ACROSS},
    )


def fronts(bits: int) -> Mirrored:
    return Mirrored(
        device_hierarchy.fronts_unit(bits),
        {"Matrices": device_hierarchy._MATRICES, "Longest": device_hierarchy._LONGEST},
        {
            "kTile": int(chunks.TILE),
            "kPanelBlock": device_hierarchy._PANEL,
            "kSide": device_hierarchy._SIDE,
            "kUpdateBlock": device_hierarchy._BLOCK,
            "kCloseBlock": device_hierarchy._CLOSE_BLOCKS[bits == 64],
            "kMostOwn": chunks.MOST_OWN,
        },
    )


def sweeps(bits: int) -> Mirrored:
    return Mirrored(
        phast_gpu.sweep_unit(bits, cutoff=False),
        {},
        {
            "kSweepBlock": phast_gpu._BLOCK,
            "kRowsBlock": phast_gpu._BLOCK,
            "kLanesSide": phast_gpu._LANES_SIDE[bits],
            "kNoVertex": NO_VERTEX,
            "kInfinity": device_hierarchy.INFINITIES[bits],
            "kShortInfinity": device_hierarchy.INFINITIES[16],
        }
        | same_names(phast_gpu, "kSide"),
    )


REDUCED = reductions.Reductions((1, 2, 3), np.zeros((2, 5), np.int64), harmonic=True)
SQUARES, NO_SQUARES = (path_sums.PathSumsAsked(squares=squares) for squares in (True, False))
OVER = over_sources.OverSources(nearest=True, sums=True, radii=(1, 2))

MIRRORED = {
    "adaptive-threads": Mirrored(
        unit_of("adaptive-threads"), {"State": adaptive_threads._STATE}, PAST_DEADLINE
    ),
    "adds": Mirrored(
        unit_of("adds"),
        {"Tuning": adds._TUNING, "Report": adds._REPORT, "Trace": adds._MOMENT},
        same_names(hub_chunks, "kHubEdges kChunkEdges")
        | same_names(adds, "kMostChain kBuckets kPageEntries kSegments kMostHeads kFlagsEach")
        | same_names(adds, "kPoolExhausted kDeadline kInvariant")
        | {"kStalled": min(adds._POISON), "kIndexSpent": max(adds._POISON)},
    ),
    "adds-lanes": lanes(narrow=False),
    "adds-lanes-narrow": lanes(narrow=True),
    "adds-slots": Mirrored(
        unit_of("adds-slots"),
        {"Progress": adds_slots._PROGRESS, "Counts": adds_slots._COUNTS},
        {
            "kPacked": adds_slots._PACKED_EDGES,
            "sizeof(Entry) / sizeof(distance_bits)": 2,
            "sizeof(PackedRow) / (sizeof(word32) + sizeof(distance_bits))": adds_slots._PACKED_EDGES,
        },
    ),
    "bellman-ford": Mirrored(
        unit_of("bellman-ford"), {"State": bellman_ford._BellmanFordSearch.state_type}, PAST_DEADLINE
    ),
    "bits-gpu": Mirrored(
        unit_of("bits-gpu"),
        {"Call": device_bits.CALL, "State": device_bits.STATE},
        {"kLanes": SOLVERS["bits-gpu"]._settings(1).n_lanes} | PAST_DEADLINE,
    ),
    "distribution": Mirrored(
        distribution_on_device.distribution_unit(),
        {"Summary": device_rows._SUMMARY},
        same_names(distribution_on_device, "kCounters kAhead")
        | same_names(distribution, "kUnit")
        | {"kThreads": distribution_on_device._BLOCK}
        | {"kMostShares": MOST_QUANTILES, "kMostLimits": MOST_BUCKETS + 1},
    ),
    "edge-classes": Mirrored(
        edge_classes.EDGE_CLASSES,
        numbers={
            "kIntoLeaf": edge_classes._INTO_LEAF,
            "kSingle + 1": edge_classes._CLASSES,
            "kTargetMask + 1": edge_classes.MOST_VERTICES,
        },
    ),
    "frontier-bellman-ford": Mirrored(
        unit_of("frontier-bellman-ford"), {"State": frontier_bellman_ford._STATE}, PAST_DEADLINE
    ),
    "near-far": Mirrored(
        unit_of("near-far"),
        {"State": near_far._STATE},
        same_names(near_far, "kHubEdges kChunkEdges") | PAST_DEADLINE,
    ),
    "nearest": Mirrored(
        nearest_on_device.NEAREST,
        numbers={"kThreads": nearest_on_device._BLOCK, "kMost": nearest.MOST_NEAREST, "kNoVertex": NO_VERTEX},
    ),
    "over-sources": Mirrored(
        over_sources_on_device.over_sources_unit(2, 3, nearest=True),
        numbers=same_names(over_sources, "kReachedBy kNearest")
        | {
            "kSum": OVER.first_sum(),
            "kWithin": OVER.first_within(np.dtype("float64")),
            "kWords": OVER.n_words(np.dtype("float64")),
            "kNoVertex": NO_VERTEX,
        },
    ),
    "second-costs": Mirrored(
        second_costs_on_device.SECOND_COSTS,
        {"Call": second_costs_on_device._CALL},
        {"kMostThreads": max(second_costs_on_device._THREADS), "kNone": NO_VERTEX},
    ),
    "path-sums": Mirrored(
        path_sums_on_device.path_sums_unit(SQUARES),
        {"Call": path_sums_on_device._CALL},
        {
            "kMostThreads": max(path_sums_on_device._THREADS),
            "kWords": SQUARES.n_words,
            "kPlacesABlock": path_sums_on_device._PLACES_A_BLOCK,
        },
    ),
    "path-sums-without-squares": Mirrored(
        path_sums_on_device.path_sums_unit(NO_SQUARES), numbers={"kWords": NO_SQUARES.n_words}
    ),
    **{f"phast-gpu-climb-{bits}": climbs(bits) for bits in (16, 32, 64)},
    **{f"phast-gpu-front-rows-{bits}": front_rows(bits) for bits in (16, 32, 64)},
    **{f"phast-gpu-fronts-{bits}": fronts(bits) for bits in (32, 64)},
    **{f"phast-gpu-{bits}": sweeps(bits) for bits in (16, 32, 64)},
    "reduce-lanes": Mirrored(
        reduce.reduce_unit(3, 2, 64, 32),
        {"Rows": lane_rows._ROWS},
        {"kMostThreads / 32 * kTogether": reduce._BLOCKS["reduce_kernel"][1][1], "kRowsOfWarp": 32},
    ),
    "harmonic-lanes": Mirrored(
        reduce.harmonic_unit(64),
        {"Rows": lane_rows._ROWS},
        {"kMostThreads": reduce._BLOCKS["harmonic_partials_kernel"][1][0]},
    ),
    "reduce": Mirrored(
        reduce.reduce_unit(3, 2, 64),
        {"Summary": device_rows._SUMMARY},
        same_names(reductions, "kSegment kReached kLargest kMagnitude kLower kUpper kHarmonic kWithin")
        | {"kWithin + kRadii * (1 + kAmounts)": REDUCED.n_columns(5)},
    ),
    "row-facts": Mirrored(
        facts_on_device.ROW_FACTS,
        {"Facts": facts_on_device._FACTS},
        {"kThreads": facts_on_device._BLOCK, "sizeof(Tables)": facts_on_device._tables(4).nbytes},
    ),
    "path_sweep": Mirrored(
        path_sweep_on_device.PATH_SWEEP,
        {"PathArcs": path_sweep_on_device._ARCS, "PathCall": path_sweep_on_device._CALL},
    ),
    "summary": Mirrored(device_rows.SUMMARY, {"Summary": device_rows._SUMMARY}),
    "work-efficient": Mirrored(
        unit_of("work-efficient"), {"State": work_efficient._WorkEfficientSearch.state_type}, PAST_DEADLINE
    ),
}

#: The kind of a type, as NumPy names it. Only a floating type holds one half.
KIND = """
template <class T> constexpr int test_kind = static_cast<T>(0.5f) != T(0) ? 'f' : static_cast<T>(-1) < T(0) ? 'i' : 'u';
template <class T, int n> constexpr int test_kind<T[n]> = test_kind<T>;
template <class T> constexpr int test_kind<T*> = 'u';
"""


def probed(
    nvrtc: ModuleType, unit: Unit, dtype: np.dtype, fields: list[tuple[str, str]], expressions: list[str]
):
    """Return the offset, size and kind of each (struct, field), and the value of each C++ expression."""
    structs = list(dict.fromkeys(struct for struct, _ in fields))
    numbers = []
    for struct, path in fields:
        member = f"static_cast<{struct}*>(nullptr)->{path}"
        numbers += [f"sizeof({member})", f"test_kind<decltype({member})>"]
    tables = {
        "const void* const test_addresses": [f"&test_{struct}.{path}" for struct, path in fields],
        "const unsigned long long test_numbers": numbers + expressions,
    }
    source = "\n".join(
        [
            unit.source,
            KIND,
            *(f"__device__ {struct} test_{struct};" for struct in structs),
            *(f'extern "C" __device__ {name}[] = {{{", ".join(of)}}};' for name, of in tables.items() if of),
        ]
    )
    # Without optimisation the layouts are the same, and compiled in a quarter of the time.
    options = (*kernel_options(unit, dtype), "-arch=compute_80", "-G")
    ptx = nvrtc.ptx_of(source, f"{unit.stem}.cu", options)
    offsets = [
        int(plus or 0) for plus in re.findall(r"generic\(test_\w+\)(?:\+(\d+))?", table(ptx, "addresses"))
    ]
    # The compiler leaves out the zeros at the end of a table of bytes.
    values = bytes(map(int, table(ptx, "numbers").split(",")))
    values = np.frombuffer(values.ljust(8 * (len(numbers) + len(expressions)), b"\0"), np.uint64).tolist()
    found = values[: len(numbers)]
    kinds = [chr(kind) for kind in found[1::2]]
    return list(zip(offsets, found[::2], kinds, strict=True)), values[len(numbers) :]


def table(ptx: str, name: str) -> str:
    """Return what stands between the braces of a table in the PTX; nothing if there is no such table."""
    found = re.search(rf"\btest_{name}\[\d+\] = \{{(.*?)\}};", ptx)
    return found[1] if found else ""


@pytest.mark.medium
@pytest.mark.parametrize("dtype", ["uint32", "float64"])
@pytest.mark.parametrize("name", MIRRORED)
def test_python_repeats_what_the_compiler_laid_out(nvrtc, name, dtype):
    mirrored, dtype = MIRRORED[name], np.dtype(dtype)
    fields, expected = [], []
    for struct, record in mirrored.records.items():
        for field_name, (type_, offset, *_) in record.fields.items():
            fields.append((struct, mirrored.paths.get(field_name, field_name)))
            expected.append((offset, type_.itemsize, type_.base.kind))
    sizes = {f"sizeof({struct})": record.itemsize for struct, record in mirrored.records.items()}
    numbers = sizes | mirrored.numbers
    laid_out, values = probed(nvrtc, mirrored.unit, dtype, fields, list(numbers))
    assert dict(zip(fields, laid_out, strict=True)) == dict(zip(fields, expected, strict=True))
    assert dict(zip(numbers, values, strict=True)) == numbers


def test_every_record_of_a_gpu_solver_is_compared():
    compared = {record for mirrored in MIRRORED.values() for record in mirrored.records.values()}
    for module in pkgutil.walk_packages(gpu.__path__, f"{gpu.__name__}."):
        module = importlib.import_module(module.name)
        classes = [cls for _, cls in inspect.getmembers(module, inspect.isclass)]
        for holder in (module, *classes):
            records = [v for v in vars(holder).values() if isinstance(v, np.dtype) and v.names]
            assert {record for record in records if record is not TRACE} <= compared, holder
