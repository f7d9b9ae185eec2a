"""Reductions and nearest vertices of rows on a GPU are the words that the host makes of the same rows, bit for bit.

`tests/kernels/answers/test_reductions.py` and `test_nearest.py` compare the words of the host with NumPy.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import WEIGHT_DTYPES, GraphTraits, unreached_distance
from sssp_pipeline.base.generators import grid, rmat
from sssp_pipeline.kernels import SOLVERS, solver_named
from sssp_pipeline.kernels.answers.nearest import NearestOfRow
from sssp_pipeline.kernels.answers.reductions import LOWER, MAGNITUDE, REACHED, UPPER, Reductions
from sssp_pipeline.kernels.contract.over_sources import OverSources
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.common.cuda.compile import cupy_module
from sssp_pipeline.kernels.gpu.common.rows.device_rows import _SUMMARY
from sssp_pipeline.kernels.gpu.common.rows.kept_on_device import over_sources_on_device, reduction_on_device
from sssp_pipeline.kernels.gpu.common.rows.lane_rows import LaneRows
from sssp_pipeline.kernels.gpu.common.rows.reduce import StagedAmounts
from sssp_pipeline.kernels.gpu.phast_gpu.device_hierarchy import INFINITIES
from sssp_pipeline.kernels.host.accumulator import Accumulator

pytestmark = pytest.mark.gpu

EVERY_DTYPE = pytest.mark.parametrize("dtype", WEIGHT_DTYPES, ids=lambda dtype: dtype.name)
#: Rows and vertices: one segment, a part of one, and more than 1,024 segments, whose sums take two levels.
SHAPES = pytest.mark.parametrize(
    "shape", [(1, 1), (3, 31), (5, 1024), (5, 1025), (300, 5000), (2, 300_001), (1, 2_200_000)], ids=str
)


def rows_of(shape, dtype, order="random"):
    """Distances with ties and unreached vertices; each row has a source. Those of many rows fit 16 bits."""
    generator = np.random.default_rng(shape[1])
    rows = generator.integers(0, 10**6 if shape[0] < 300 else 30_000, shape)
    if order != "random":
        rows = np.sort(rows, axis=1)[:, :: -1 if order == "falling" else 1]
    rows = (rows / 10 if dtype.kind == "f" else rows).astype(dtype)
    if order == "random":
        rows[generator.random(shape) < 0.3] = unreached_distance(dtype)
        rows[:, shape[1] // 2] = 0
    return rows


def on_host(kept, rows):
    words = np.empty((len(rows), kept.n_columns(rows.shape[1])), np.uint64)
    for row, into in zip(rows, words, strict=True):
        kept.reduce(row, into)
    return words


def summaries_of(rows):
    """The `Summary` of each row, as `summary.cu` makes it."""
    words = on_host(Reductions(), rows)
    found = np.zeros(len(rows), _SUMMARY)
    fields = {"reached": REACHED, "max_distance": MAGNITUDE, "sum_lower": LOWER, "sum_upper": UPPER}
    for name, word in fields.items():
        found[name] = words[:, word]
    return cupy_module().asarray(found.view(np.uint8))


def by_place(rows, lane_bits):
    """The same rows as `LaneRows`, with vertices at random places; other lanes have distances that must not count."""
    cupy = cupy_module()
    n_rows, n_vertices = rows.shape
    n_lanes = -(-n_rows // 32) * 32
    limit = INFINITIES[lane_bits]
    places = np.random.default_rng(7).permutation(n_vertices).astype(np.uint32)
    words = np.full((n_vertices, n_lanes), 1, f"u{lane_bits // 8}")
    words[places, :n_rows] = np.where(rows == unreached_distance(rows.dtype), limit, rows.astype(np.uint64)).T
    return LaneRows(cupy.asarray(words), cupy.asarray(places), limit, n_lanes, n_rows)


def in_each_layout(rows):
    """Yield the bits of their words by place, or 0, and the rows on the device."""
    yield 0, cupy_module().asarray(rows.view(f"u{rows.itemsize}"))
    if rows.dtype.kind != "f" and rows.shape[1] < 10**6:
        reached = rows[rows != unreached_distance(rows.dtype)]
        yield from (
            (bits, by_place(rows, bits))
            for bits, most in INFINITIES.items()
            if bits == 64 or reached.max() < most
        )


def assert_same_on_device(kept, rows):
    summaries = summaries_of(rows)
    expected = on_host(kept, rows)
    for lane_bits, on_device in in_each_layout(rows):
        if lane_bits and not kept.takes_lanes:
            continue
        reduce = reduction_on_device(kept, len(rows), rows.shape[1], rows.dtype, lane_bits)
        for n_rows in (len(rows), 1, len(rows)):  # memory of an earlier call is used again
            found = reduce(on_device[:n_rows], summaries).get()
            assert_array_equal(found, expected[:n_rows])


@EVERY_DTYPE
@SHAPES
@pytest.mark.parametrize(
    ("radii", "n_amounts", "harmonic"),
    [((), 0, False), ((), 0, True), ((0, 777), 0, False), ((0, 5e4, 5e4, 1e9), 2, True)],
    ids=["facts", "harmonic", "within", "all"],
)
def test_reductions(dtype, shape, radii, n_amounts, harmonic):
    amounts = np.random.default_rng(0).integers(-(10**9), 10**12, (n_amounts, shape[1]))
    kept = Reductions(radii, amounts if n_amounts else None, harmonic=harmonic)
    assert_same_on_device(kept, rows_of(shape, dtype))


@EVERY_DTYPE
@SHAPES
def test_amounts_of_32_bits(dtype, shape):
    amounts = np.full((2, shape[1]), (2**32 - 1) // shape[1])  # the sum of a row is just below 2^32
    amounts[1, 0] += 2**32 - 1 - int(np.sum(amounts[1]))
    assert StagedAmounts(amounts).dtype == np.uint32
    kept = Reductions((0, 5e4, 1e30), amounts)
    for _ in range(2):  # the second reduction takes the amounts that the first one converted
        assert_same_on_device(kept, rows_of(shape, dtype))
    amounts[1, 0] += 1
    assert StagedAmounts(amounts).dtype == np.int64
    assert_same_on_device(Reductions((0, 5e4, 1e30), amounts), rows_of(shape, dtype))


@EVERY_DTYPE
@SHAPES
@pytest.mark.parametrize("order", ["random", "rising"])
@pytest.mark.parametrize(
    ("bounds", "shares"),
    [
        ((0, 10, 5e4, 1e30), ()),
        ((777, 778), (0.5,)),
        (tuple(np.linspace(0, 1e6, 1025).tolist()), tuple(np.linspace(0, 1, 32).round(15).tolist())),
        ((), (0, 1e-18, 0.07, 0.5, 0.999999999999, 1)),
    ],
    ids=["histogram", "one", "most", "quantiles"],
)
def test_histograms_and_quantiles(dtype, shape, order, bounds, shares):
    rows = rows_of(shape, dtype, order)
    assert_same_on_device(Reductions((), None, False, bounds, shares), rows)
    assert_same_on_device(Reductions((99,), None, True, bounds, shares), rows)


def test_quantiles_of_the_largest_and_of_equal_distances():
    for dtype in WEIGHT_DTYPES:
        largest = np.finfo(dtype).max if dtype.kind == "f" else np.iinfo(dtype).max - 1
        rows = np.array(
            [[0, largest, 1, largest], [0, 0, 0, 0], [0, *[unreached_distance(dtype)] * 3]], dtype
        )
        assert_same_on_device(Reductions(bounds=(0, 1), shares=(0, 0.25, 0.5, 0.51, 1)), rows)


@EVERY_DTYPE
@SHAPES
@pytest.mark.parametrize(
    "over",
    [
        OverSources(),
        OverSources(nearest=True),
        OverSources(False, True),
        OverSources(True, True, (0, 777, 5e4)),
    ],
    ids=["reached_by", "nearest", "sums", "all"],
)
def test_what_is_kept_over_sources(dtype, shape, over):
    cupy = cupy_module()
    rows = rows_of(shape, dtype)
    sources = np.random.default_rng(2).permutation(len(rows)).astype(np.uint32)
    traits = GraphTraits(shape[1], shape[1], dtype, 0, 1000, 1, 1)
    expected = Accumulator(over, traits)
    expected.clear()
    for row, source in zip(rows, sources, strict=True):
        expected.add(row, int(source))
    cut = len(rows) // 2
    for lane_bits, bits in in_each_layout(rows):
        on_device = over_sources_on_device(over, traits, sources, lane_bits)
        for _ in range(2):  # the second time begins anew
            if cut:
                on_device.add(bits[:cut], 0)
            on_device.add(bits[cut:], cut)
            words = on_device.take()
            cupy.cuda.get_current_stream().synchronize()
            assert_array_equal(words, expected.words)


def test_reductions_with_as_many_radii_as_a_workflow_may_have():
    amounts = np.random.default_rng(0).integers(0, 10**6, (3, 70_000))
    kept = Reductions(tuple(np.linspace(0, 1e6, 32).tolist()), amounts, harmonic=True)
    assert_same_on_device(kept, rows_of((4, 70_000), np.dtype("uint32")))


@EVERY_DTYPE
@SHAPES
@pytest.mark.parametrize("k", [1, 10, 1024])
@pytest.mark.parametrize("n_targets", [None, 0, 500])
def test_nearest(dtype, shape, k, n_targets):
    targets = None if n_targets is None else np.random.default_rng(k).integers(0, shape[1], n_targets)
    assert_same_on_device(NearestOfRow(k, targets).checked(shape[1]), rows_of(shape, dtype))


@EVERY_DTYPE
@pytest.mark.parametrize("order", ["rising", "falling"])
@pytest.mark.parametrize("k", [1, 10, 1000, 1024])
def test_nearest_of_sorted_rows(dtype, order, k):
    assert_same_on_device(NearestOfRow(k), rows_of((3, 40_000), dtype, order))


def test_nearest_where_all_distances_are_equal():
    assert_same_on_device(NearestOfRow(100), np.full((2, 30_000), 7, np.uint32))


@pytest.mark.parametrize(
    ("solver", "dtype"),
    [
        pytest.param(solver, dtype, id=f"{dtype}-{name}")
        for dtype in map(np.dtype, ("uint32", "float32", "uint64", "float64"))
        for name, solver in SOLVERS.items()
        if solver.device == "gpu"
        and solver.supports(GraphTraits(2, 1, dtype, 1, 2, 1, 1), SolveOptions()) is None
    ],
)
def test_every_solver_keeps_the_words_of_a_cpu(solver, dtype):
    for made in (rmat(scale=13), grid(120, 120, keep=0.7)):
        graph = made.graph(dtype)
        sources = np.random.default_rng(1).integers(0, graph.n_vertices, 200)
        amounts = np.arange(graph.n_vertices)[np.newaxis] % 17
        for kept in (
            Reductions((5, 900), amounts, harmonic=True),
            NearestOfRow(10),
            NearestOfRow(10, sources[:50]),
        ):
            options = SolveOptions(kept=kept)
            expected = solver_named("delta-stepping").solve(graph, sources, options).distances
            assert_array_equal(solver.solve(graph, sources, options).distances, expected)
