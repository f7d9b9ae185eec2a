from dataclasses import replace

import numpy as np
import pytest

from sssp_pipeline.base.csr import GraphTraits, HierarchyTraits
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.answers.reductions import Reductions
from sssp_pipeline.kernels.answers.trip_sums import Trips, TripsOfRow, TripSumsAsked
from sssp_pipeline.kernels.contract.forecast import graph_device_bytes
from sssp_pipeline.kernels.contract.kept import EveryVertex, Nothing, Targets
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.pipeline.planning.choice import choose_solver, expected_s
from sssp_pipeline.pipeline.planning.hierarchy import leaves_weights
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.planning.plan import GpuShare, make_plan
from sssp_pipeline.pipeline.planning.work import (
    BATCH_BYTES,
    BATCH_SOURCES,
    WRITE_S_PER_BYTE,
    Work,
    batch_size,
    cut,
)
from sssp_pipeline.pipeline.results.folder.distance_files import DistanceFormat, SecondCost
from sssp_pipeline.pipeline.results.outputs.distance_outputs import AllDistances, TargetDistances
from sssp_pipeline.pipeline.results.outputs.metrics_output import MetricsAlone
from sssp_pipeline.workflow.models import Solve

FORM = DistanceFormat("long", None, "none", predecessors=False)


def traits(n_vertices=1000, dtype="uint32", low=1.0) -> GraphTraits:
    return GraphTraits(n_vertices, 3 * n_vertices, np.dtype(dtype), low, 9.0, 5.0, 1.0)


def plan(n_sources, solve=None, n_vertices=1000, dtype="uint32"):
    return planned(traits(n_vertices, dtype), n_sources, solve or Solve())


def planned(of_graph, n_sources, solve, machine=Machine(2, None), output=AllDistances(FORM)):  # noqa: B008
    sources = np.arange(n_sources, dtype=np.uint32)
    columns = "auto" if output.layout.has_columns else None
    return make_plan(of_graph, cut(of_graph, sources, solve, output.kept, columns), solve, output, machine)


def test_batches_are_many_enough_to_share_and_small_enough_to_hold():
    assert len(plan(64).batches) == 1  # 256 kB in all
    assert len(plan(64, n_vertices=2**18).batches) == 64
    assert len(plan(1024, n_vertices=2**18).batches) == 64
    large = plan(10_000, n_vertices=2**20)
    assert len(large.batches[0]) * 4 * 2**20 == BATCH_BYTES
    assert [len(b) for b in plan(3, n_vertices=2**30).batches] == [1, 1, 1]
    for n, size in ((0, "auto"), (1, "auto"), (1000, "auto"), (10, 3)):
        assert [s for b in plan(n, Solve(batch=size)).batches for s in b] == list(range(n))


def test_a_file_of_columns_has_as_many_as_memory_holds():
    def columns(n_sources, n_vertices, columns="auto", n_targets=None, batch="auto"):
        kept = EveryVertex() if n_targets is None else Targets(np.arange(n_targets, dtype=np.uint32))
        return batch_size(traits(n_vertices), n_sources, Solve(batch=batch), kept, columns)

    assert columns(8_192, 2**18) == 128
    assert columns(8_192, 24_000_000) == 1
    assert columns(8_192, 2**30) == 1
    assert columns(100_000, 2**18, n_targets=500) == 512
    assert columns(1_000, 2**18, n_targets=500) == 32  # 32 workers share them
    assert columns(1_000, 100) == 512
    assert columns(1_000, 2**18, batch=7) == 7
    assert columns(1_000, 24_000_000, 300) == 300
    assert columns(1_000, 2**18, None) == 16


def test_a_sample_over_a_hierarchy_has_batches_enough_for_an_error():
    def size(n_sources, n_vertices=2**18, squares=True):
        kept = Reductions(paths=PathSumsAsked(squares=squares, on_hierarchy=True), facts=False)
        return batch_size(traits(n_vertices), n_sources, Solve(), kept)

    assert [size(n) for n in (100, 1_000, 4_096, 20_000, 262_144)] == [64, 64, 256, 1_024, 4_096]
    assert {-(-n // size(n)) for n in range(1_024, 16_385, 5)} == {16}
    assert size(4_096, n_vertices=1_000) == 256
    assert [size(n, squares=False) for n in (100, 4_096)] == [1_024, 1_024]


def test_a_batch_of_trips_has_at_least_128_sources():
    trips = Trips(*(np.empty(0, dtype) for dtype in ("u4", "i8", "u4", "f8")), None)
    for is_divided, size in ((False, 128), (True, 32)):
        kept = TripsOfRow(trips, TripSumsAsked(is_divided=is_divided))
        assert batch_size(traits(2**18), 500, Solve(), kept) == size


def test_what_is_written_counts_as_bytes_and_time():
    assert plan_to(0, n_sources=1000).expected_s < plan(1000, Solve(solver="dijkstra"), 2**18).expected_s
    assert plan(8, Solve(predecessors=True)).written_bytes == 2 * plan(8).written_bytes


def plan_to(n_targets, n_sources, n_vertices=2**18, solver="dijkstra", layout="long"):
    form = replace(FORM, layout=layout)
    targets = np.arange(n_targets, dtype=np.uint32)
    output = TargetDistances.of(form, targets) if n_targets else MetricsAlone(form)
    machine = Machine(2, None if solver == "dijkstra" else 2**37)
    return planned(traits(n_vertices), n_sources, Solve(solver=solver), machine, output)


def test_few_distances_are_few_bytes_and_batches_hold_many_sources():
    made = plan_to(100, n_sources=64_000)
    assert {len(b) for b in made.batches} == {1000}
    assert made.written_bytes == 64_000 * 100 * (4 + 4)
    wide = plan_to(100, n_sources=64_000, layout="wide")
    assert wide.written_bytes == 100 * 4 * (64_000 + len(wide.batches))
    # The distances kept of a batch, and the row that a CPU solver holds.
    assert made.batch_bytes == 1000 * 100 * 4 + 4 * 2**18
    assert (
        plan_to(2**18, n_sources=64_000).batches[0].nbytes == plan(64_000, n_vertices=2**18).batches[0].nbytes
    )
    assert len(plan_to(1, n_sources=64).batches) == 64  # a source takes as long as with all its distances


def test_second_costs_take_memory_and_time():
    costs = tuple(SecondCost(name, name, "uint64", None) for name in ("km", "toll"))
    solve = Solve(solver="dijkstra", batch=10, along=("km", "toll"))
    plain = planned(traits(2**18), 100, Solve(solver="dijkstra", batch=10))
    form = replace(FORM, along=costs)
    whole = planned(traits(2**18), 100, solve, output=AllDistances(form))
    assert whole.written_bytes == (4 + 2 * 8) / 4 * plain.written_bytes
    # The edges by their ends, with weights and costs; the costs of a batch, what is held of a row, and 8 rows to scan.
    assert whole.graph_bytes == plain.graph_bytes + (2 * 8 + 4 + 8) * 3 * 2**18 + 8 * (2**18 + 1)
    assert whole.batch_bytes == plain.batch_bytes + 10 * 2 * 8 * 2**18 + (12 + 8 * 4) * 2**18
    assert whole.expected_s > plain.expected_s
    targets = TargetDistances.of(form, np.arange(7, dtype=np.uint32))
    few = planned(traits(2**18), 100, solve, output=targets)
    # The whole rows of a batch, and their costs.
    assert few.batch_bytes == 10 * 7 * 20 + 4 * 2**18 + (12 + 8 * 4) * 2**18 + 10 * (4 + 16) * 2**18
    more = planned(traits(2**18), 100, solve.model_copy(update={"batch": 50}), output=targets)
    # Whole rows of 32 MiB at a time.
    assert more.batch_bytes == 50 * 7 * 20 + 4 * 2**18 + (12 + 8 * 4) * 2**18 + 2**25 * (4 + 16) // 4
    large = planned(traits(2**23), 100, solve, output=targets)
    assert large.batch_bytes == 10 * 7 * 20 + 4 * 2**23 + (12 + 8 * 4) * 2**23 + 8 * (4 + 16) * 2**23
    assert whole.batches_per_call == few.batches_per_call == 1


def test_without_distances_a_batch_is_bounded_by_its_sources():
    made = plan_to(0, n_sources=10**6)
    assert (len(made.batches[0]), made.written_bytes) == (BATCH_SOURCES, 0)
    assert made.batch_bytes == 4 * 2**18
    assert len(plan_to(0, n_sources=64).batches) == 64


@pytest.mark.parametrize(
    ("batch", "n_sources", "n_vertices", "joined"),
    [
        (1, 2000, 64, 1),
        (1, 2001, 64, 2),
        (1, 20_000, 64, 10),
        (3, 20_000, 64, 12),
        (1, 100_000, 2**14, 16),  # 1 MiB
        (1, 100_000, 2**20, 1),
        (64, 100_000, 2**14, 64),
    ],
)
def test_thousands_of_small_batches_share_files(batch, n_sources, n_vertices, joined):
    batches = plan(n_sources, Solve(batch=batch), n_vertices).batches
    assert {len(some) for some in batches[:-1]} | {max(len(some) for some in batches)} == {joined}


def test_calls_without_distances_hold_as_many_sources_as_the_solver_gains_from():
    made = plan_to(0, n_sources=10_000, solver="adds-slots")
    assert made.batches_per_call * len(made.batches[0]) == 7 * 157  # 1,024 sources are on their way together
    assert made.work.batches_of_one_gpu(7) == 16  # a fourth of the run
    assert plan_to(0, n_sources=264_346, solver="adds-slots").batches_per_call == 1
    assert made.batch_bytes == 0  # the rows stay on the GPU


#: Vertices, edges, skew and levels of graphs that were measured; large ones are not searched for their levels.
NY, NE = (264_346, 733_846, 1.1, 503.0), (1_524_453, 3_868_020, 1.2, 2166.0)
GRID = (16_777_216, 40_250_094, 1.2)
PATH, NARROW = (65_536, 131_070, 1.0, 48_961.0), (262_144, 1_032_128, 1.0, 5_986.0)
WAVE, CNR = (156_317, 2_118_662, 1.1, 45.5), (325_557, 3_216_152, 5.3, 12.2)
RMAT_20, RMAT_22 = (1_048_576, 16_777_216, 120.0, 3.0), (4_194_304, 67_108_864, 230.0)
RMAT_24 = (16_777_216, 268_435_456, 450.0)
H200 = Machine(cores=16, gpu_free_bytes=139 * 2**30)
NO_DRIVER = Machine(2, None, "no NVIDIA driver (libcuda.so.1)")


def work(size=(1000, 3000, 1.0), n_sources=64, batch=32, dtype="uint32", low=1.0) -> Work:
    n_vertices, n_edges, skew, *levels = size
    of_graph = GraphTraits(
        n_vertices, n_edges, np.dtype(dtype), low, 9.0, 5.0, skew, levels=levels[0] if levels else None
    )
    return Work(of_graph, SolveOptions(), n_sources, batch)


def refused(name, some, machine=NO_DRIVER) -> tuple[str, str]:
    """Return message and hint of the error that the choice raises."""
    with pytest.raises(InputError) as caught:
        choose_solver(name, some, machine)
    return caught.value.message, caught.value.hint


@pytest.mark.parametrize(
    ("size", "n_sources", "solver"),
    [
        (NY, 10_000, "adds-slots"),
        (NE, 10_000, "adds-slots"),
        (GRID, 10_000, "adds-slots"),  # a call has room for 128 rows
        (WAVE, 10_000, "adds-slots"),
        (PATH, 10_000, "adds-slots"),
        (RMAT_20, 10_000, "adds-lanes"),
        (RMAT_22, 10_000, "adds-lanes"),
        (RMAT_22, 2, "frontier-bellman-ford"),
        (GRID, 2, "adds"),
    ],
)
def test_auto_on_a_gpu_goes_by_the_graph_and_how_many_sources_share_it(size, n_sources, solver):
    few_cores = Machine(cores=4, gpu_free_bytes=139 * 2**30)
    chosen, reason, *_ = choose_solver("auto", work(size, n_sources, batch=1), few_cores)
    assert chosen.name == solver
    assert reason.startswith("expected to take ")
    assert sum(f", {name} " in reason for name in SOLVERS if name != solver) == 3


def test_auto_does_not_consider_exhibits_but_takes_one_that_is_named():
    exhibits = {name for name, solver in SOLVERS.items() if solver.is_exhibit}
    assert exhibits == {"bellman-ford", "work-efficient", "adaptive-threads"}
    chosen, reason, others, _ = choose_solver("auto", work(CNR, n_sources=1, batch=1), H200)
    assert not exhibits & {chosen.name, *others}
    left_out = "not bellman-ford nor work-efficient nor adaptive-threads: it reproduces a paper, and others are as fast"
    assert left_out in reason
    assert {choose_solver(name, work(CNR), H200)[0].name for name in exhibits} == exhibits


def test_auto_starts_no_gpu_for_what_the_cores_do_meanwhile():
    assert choose_solver("auto", work(NY, n_sources=16, batch=1), H200)[0].name == "delta-stepping"
    assert choose_solver("auto", work(n_sources=1000), H200)[0].name == "delta-stepping"
    four_cores = Machine(cores=4, gpu_free_bytes=139 * 2**30)
    assert choose_solver("auto", work(GRID, 1, 1), four_cores)[0].name == "parallel-delta-stepping"


@pytest.mark.parametrize(
    ("size", "n_sources", "batch", "cores", "solver"),
    [
        (NY, 1, 1, 2, "parallel-delta-stepping"),
        (RMAT_20, 1, 1, 16, "parallel-delta-stepping"),
        (NY, 8, 8, 2, "parallel-delta-stepping"),  # a batch is one thread's
        (NY, 1, 1, 1, "delta-stepping"),
        (NY, 2, 1, 2, "delta-stepping"),
        (NY, 16, 1, 16, "delta-stepping"),
        (RMAT_20, 4096, 8, 16, "delta-stepping"),
        ((10_000, 40_000, 1.0), 1, 1, 16, "delta-stepping"),  # too small to share
    ],
)
def test_cores_share_a_source_where_there_are_too_few_sources(size, n_sources, batch, cores, solver):
    some = work(size, n_sources, batch)
    chosen, _, others, _ = choose_solver("auto", some, Machine(cores, None))
    assert chosen.name == solver
    # What cores take for a source each says nothing of what they take together.
    is_shared = {name: some.of_a_call(name).is_shared for name in (solver, *others)}
    assert set(is_shared.values()) == {solver == "parallel-delta-stepping"}


def test_sources_that_take_all_cores_are_solved_one_after_another():
    shared = SOLVERS["parallel-delta-stepping"]
    alone = shared.forecast(work(RMAT_20).traits, 1)
    for cores in (1, 2, 16):
        machine = Machine(cores, None)
        wall_s = expected_s(shared, work(RMAT_20, 64, 1), machine)
        written_s = 64 * 4 * RMAT_20[0] * WRITE_S_PER_BYTE / cores**0.8
        assert wall_s == pytest.approx(64 * alone.wall_s(cores) + written_s)
    assert alone.wall_s(1) == alone.source_s
    assert alone.wall_s(10**6) == alone.wall_s(alone.most_cores)


def test_a_call_takes_as_many_batches_as_the_solver_gains_from():
    ny = work(NY, n_sources=10_000, batch=31)
    assert {ny.batches_per_call(name) for name in ("delta-stepping", "near-far", "adds")} == {1}
    assert ny.batches_per_call("adds-slots") == 34  # 1,024 sources
    assert ny.batches_of_one_gpu(34) == 34  # while one call is solved, the rows of another are copied
    assert work(NY, n_sources=10_000, batch=1).batches_per_call("near-far") == 8
    assert work(NY, n_sources=124, batch=31).batches_per_call("adds-slots") == 1  # four calls rather than one
    assert work(NY, n_sources=0, batch=1).batches_per_call("adds-slots") == 1
    assert replace(ny, options=SolveOptions(predecessors=True)).batches_per_call("adds-slots") == 1
    along = replace(work(NY, n_sources=128, batch=2), cost_dtypes=(np.dtype(np.float64),))
    assert [along.batches_per_call(name) for name in ("delta-stepping", "phast", "adds-slots")] == [1, 8, 8]


def test_a_gpu_sums_second_costs_of_integers_in_large_calls():
    plain = work(NY, n_sources=4096, batch=64)
    integers, floats = (
        replace(plain, cost_dtypes=(np.dtype(d), np.dtype("uint64"))) for d in ("int64", "float64")
    )
    assert [w.batches_per_call("adds-slots") for w in (plain, integers, floats)] == [16, 16, 1]
    # A row of New York took 69 us on an H200, and 2.6 ms on a core.
    took = [expected_s(SOLVERS["adds-slots"], w, H200) / 4096 for w in (plain, integers, floats)]
    assert took[0] < took[1] < took[0] + 350e-6 < took[2]
    n_vertices, n_edges = NY[:2]
    assert integers.kept_fixed_bytes == graph_device_bytes(plain.traits) + 2 * 8 * n_edges
    assert integers.kept_device_bytes == (2 * 2 * 8 + 12) * n_vertices + 24 * -(-n_vertices // 4)
    assert floats.kept_fixed_bytes == floats.kept_device_bytes == 0
    targets = replace(integers, options=SolveOptions(kept=Targets(np.arange(1000))))
    assert expected_s(SOLVERS["adds-slots"], targets, H200) / 4096 < took[0] + 20e-6
    assert targets.kept_device_bytes == 2 * (4000 + 2 * 8 * 1000) + 12 * n_vertices + 24 * 1000
    zero = replace(integers, traits=replace(integers.traits, min_weight=0.0))
    assert zero.batches_per_call("adds-slots") == 1
    assert expected_s(SOLVERS["near-far"], integers, H200) > expected_s(SOLVERS["near-far"], plain, H200)


def test_second_costs_that_a_gpu_sums_take_no_rows_of_the_host():
    form = replace(FORM, along=(SecondCost("km", "km", "uint64", None),))
    solve = Solve(solver="adds-slots", batch=10, along=("km",))
    on_gpu = planned(traits(2**18), 100, solve, H200, output=AllDistances(form))
    assert on_gpu.batch_bytes == 10 * (4 + 8) * 2**18
    single = planned(
        traits(2**18), 100, Solve(solver="near-far", batch=10, along=("km",)), H200, output=AllDistances(form)
    )
    assert single.batch_bytes > on_gpu.batch_bytes


def test_auto_without_a_gpu_says_what_it_passed_over():
    chosen, reason, *_ = choose_solver("auto", work(NY, n_sources=4096), NO_DRIVER)
    assert chosen.name == "delta-stepping"
    assert reason.startswith("expected to take 22 s, parallel-delta-stepping 32 s, dijkstra 71 s, ")
    assert reason.endswith(
        "; not the GPU solvers: no NVIDIA driver (libcuda.so.1)"
        "; not bits: it takes equal weights above 0, and they go from 1.0 to 9.0"
        "; not phast: no hierarchy of the graph is stored"
    )


@pytest.mark.parametrize(
    ("size", "skew", "n_sources", "expected"),
    [
        ((36_692, 367_662), 14.0, 36_692, "bits"),  # Email-Enron
        ((36_692, 367_662), 14.0, 4, "parallel-delta-stepping"),
        ((325_729, 1_497_134), 22.8, 512, "bits"),  # NotreDame
        ((156_317, 2_118_662), 1.1, 512, "bits"),  # the mesh `wave`
        ((264_346, 733_846), 1.1, 512, "delta-stepping"),  # New York
        ((50, 100), 1.0, 50, "delta-stepping"),
    ],
)
def test_auto_takes_bits_if_equal_weights_share_enough(size, skew, n_sources, expected):
    of_graph = GraphTraits(*size, np.dtype("uint32"), 1.0, 1.0, 1.0, skew)
    chosen, *_ = choose_solver("auto", planned(of_graph, n_sources, Solve()).work, NO_DRIVER)
    assert chosen.name == expected


@pytest.mark.parametrize(
    ("size", "skew", "n_sources", "largest", "expected"),
    [
        ((2**20, 2**24), 4.5, 4096, 1.0, "bits-gpu"),
        ((2**20, 2**24), 4.5, 4096, 9.0, "adds-slots"),
        ((2**20, 2**24), 4.5, 1, 1.0, "parallel-delta-stepping"),
    ],
)
def test_auto_takes_bits_gpu_if_weights_are_equal(size, skew, n_sources, largest, expected):
    of_graph = GraphTraits(*size, np.dtype("uint32"), 1.0, largest, 1.0, skew)
    made = planned(of_graph, n_sources, Solve(), output=MetricsAlone(FORM))
    assert choose_solver("auto", made.work, H200)[0].name == expected


def test_auto_leaves_rows_that_a_cutoff_shortens_to_searches_that_list_what_they_reach():
    enron = GraphTraits(36_692, 367_662, np.dtype("uint32"), 1.0, 1.0, 1.0, 14.0)
    for output, expected in ((AllDistances(FORM), "delta-stepping"), (MetricsAlone(FORM), "bits")):
        made = planned(enron, 5000, Solve(cutoff=2), output=output)
        chosen, reason, *_ = choose_solver("auto", made.work, NO_DRIVER)
        assert chosen.name == expected
        assert ("not bits: it makes whole rows, and a cutoff may leave little" in reason) == (
            expected != "bits"
        )


def test_phast_is_planned_with_its_preparation_and_memory():
    many = work(NY, n_sources=4096)
    phast, _, others, _ = choose_solver("phast", many, NO_DRIVER)
    assert (phast.name, others) == ("phast", ())
    forecast = phast.forecast(many.traits, 4096)
    assert expected_s(phast, many, NO_DRIVER) > forecast.start_s
    plans = [planned(many.traits, 4096, Solve(solver=s), NO_DRIVER) for s in ("delta-stepping", "phast")]
    assert plans[1].graph_bytes - plans[0].graph_bytes == forecast.host_bytes
    of_batch = forecast.call_bytes // plans[1].batches_per_call
    assert plans[1].batch_bytes - plans[0].batch_bytes == of_batch


def test_a_graph_too_large_for_the_gpu_is_left_to_the_cpu():
    small = Machine(cores=16, gpu_free_bytes=2**29)
    chosen, reason, *_ = choose_solver("auto", work(GRID, n_sources=10_000), small)
    assert chosen.name == "delta-stepping"
    assert "; not near-far nor adds" in reason
    assert ": it needs 0.8 GiB on the GPU, 0.5 are free; not adds-slots" in reason
    message, hint = refused("near-far", work(GRID), small)
    assert message == "solver `near-far` cannot solve this: it needs 0.8 GiB on the GPU, 0.5 are free"
    assert "delta-stepping, " in hint


@pytest.mark.parametrize(
    ("size", "solver", "batch", "measured_ms"),
    [
        # benchmarks/results: many_sources.jsonl, gpu_solvers.jsonl (four of near-far), papers.jsonl and solvers.jsonl
        (NY, "adds", 1, 2.02),
        (GRID, "adds", 1, 17.2),
        (CNR, "adds", 1, 0.672),
        (RMAT_24, "adds", 1, 8.84),
        (PATH, "adds", 1, 73.6),
        (NARROW, "adds", 1, 16.9),
        (NY, "near-far", 1, 7.35),
        (RMAT_24, "near-far", 1, 33.4),
        (NY, "near-far", 64, 0.746),
        (WAVE, "near-far", 64, 0.175),
        (CNR, "near-far", 16, 0.308),
        (RMAT_24, "near-far", 64, 17.7),
        (PATH, "near-far", 1, 187),
        (NARROW, "near-far", 1, 34.3),
        (NY, "adds-slots", 1, 10.8),
        (NY, "adds-slots", 64, 0.203),
        (NY, "adds-slots", 1024, 0.0176),
        (NE, "adds-slots", 1024, 0.125),
        (GRID, "adds-slots", 64, 2.02),
        (GRID, "adds-slots", 256, 1.49),
        (WAVE, "adds-slots", 1024, 0.0428),
        (CNR, "adds-slots", 1024, 0.0577),
        (RMAT_20, "adds-slots", 1024, 0.743),
        (RMAT_24, "adds-slots", 16, 84.9),
        (PATH, "adds-slots", 256, 0.279),
        (NARROW, "adds-slots", 256, 0.173),
        (RMAT_20, "adds-lanes", 16, 0.253),
        (RMAT_20, "adds-lanes", 1024, 0.0679),
        (RMAT_24, "adds-lanes", 64, 0.812),
        (NY, "delta-stepping", 1, 9.18),
        (WAVE, "delta-stepping", 1, 14.7),
        (NY, "dijkstra", 1, 32.4),
        (WAVE, "dijkstra", 1, 47.1),
    ],
)
def test_forecasts_are_within_a_factor_of_two_of_measurements(size, solver, batch, measured_ms):
    assert 0.5 < 1e3 * SOLVERS[solver].forecast(work(size).traits, batch).source_s / measured_ms < 2


def test_the_forecast_of_a_web_graph_is_as_far_off_as_it_says():
    lanes = SOLVERS["adds-lanes"].forecast(work(CNR).traits, 1024)
    assert 1 < 0.288e-3 / lanes.source_s < lanes.off_by  # benchmarks/results/many_sources.jsonl


@pytest.mark.parametrize(
    ("size", "cores", "measured_ms"),
    [
        # benchmarks/results/solvers.jsonl: a grid and R-MAT 18, too
        (NY, 2, 6.76),
        (WAVE, 2, 9.63),
        ((1_000_000, 3_996_000, 1.0), 2, 28.1),
        ((262_144, 7_611_980, 60.0), 2, 32.0),
        # parallel_cpu.jsonl: a larger grid and a random graph, too
        (NY, 16, 9.49),
        (WAVE, 16, 8.46),
        ((4_194_304, 10_063_336, 1.1), 16, 39.6),
        (RMAT_20, 16, 34.2),
        (RMAT_22, 16, 82.3),
        ((1_048_576, 8_388_577, 1.1), 16, 19.6),
    ],
)
def test_what_cores_take_for_a_source_is_within_a_factor_of_two(size, cores, measured_ms):
    expected_s = SOLVERS["parallel-delta-stepping"].forecast(work(size).traits, 1).wall_s(cores)
    assert 0.5 < 1e3 * expected_s / measured_ms < 2


@pytest.mark.parametrize("name", SOLVERS)
def test_every_solver_has_a_forecast(name):
    found = SOLVERS[name].forecast(work().traits, 10)
    assert found.source_s > 0
    assert (found.source_bytes > 0) == (SOLVERS[name].device == "gpu")


def test_the_plan_tells_what_a_gpu_must_hold():
    ny = work(NY).traits
    made = planned(ny, 10_000, Solve(solver="near-far"), H200)
    assert made.gpu == GpuShare(139 * 2**30, 4 * 264_347 + 8 * 733_846, 0, 264_346 * 25 + 733_846 // 16, 8)
    small = Machine(16, made.gpu.graph_bytes + 20 * 10**6)
    made = planned(ny, 10_000, Solve(solver="near-far"), small)
    assert made.gpu.sources_at_once == 3
    assert planned(ny, 10_000, Solve(solver="dijkstra"), H200).gpu is None


def test_copies_of_edges_leave_memory_for_fewer_sources():
    solver, hubs = "frontier-bellman-ford", work((2**20, 2**24, 100.0)).traits
    gpu = planned(hubs, 1000, Solve(solver=solver), H200).gpu
    copies = SOLVERS[solver].forecast(hubs, 8).optional_bytes
    assert copies == 2 * gpu.graph_bytes
    assert SOLVERS[solver].forecast(replace(hubs, degree_skew=1.0), 8).optional_bytes == 0
    without = gpu.graph_bytes + gpu.fixed_bytes
    for free, n in ((2 * copies, copies // gpu.source_bytes), (2 * copies - 1, 8)):
        assert planned(hubs, 1000, Solve(solver=solver), Machine(16, without + free)).gpu.sources_at_once == n


def test_the_plan_counts_the_memory_of_answers():
    plain = work(NY, n_sources=4096)
    amounts = np.zeros((2, plain.traits.n_vertices), np.int64)
    kept = Reductions((500, 1000), amounts, harmonic=True)
    reduced = replace(plain, options=SolveOptions(kept=kept))
    assert reduced.source_bytes == 8 * (6 + 2 * 3)
    assert reduced.kept_fixed_bytes == 2 * 2 * 8 * plain.traits.n_vertices
    assert reduced.kept_device_bytes == 2 * (reduced.source_bytes + 8 * 259)
    # A GPU that just holds the graph and one source of `near-far` has no room for the amounts.
    one = SOLVERS["near-far"].forecast(plain.traits, 1)
    just = graph_device_bytes(plain.traits) + one.fixed_bytes + one.source_bytes
    machine = Machine(cores=16, gpu_free_bytes=just)
    assert choose_solver("near-far", replace(plain, options=SolveOptions(kept=Nothing())), machine)
    assert refused("near-far", reduced, machine)[0].startswith(
        "solver `near-far` cannot solve this: it needs"
    )


def of_paths(size, n_sources, batch, **asked):
    """Return work that sums along the paths of `n_sources` and keeps nothing else."""
    kept = Reductions(paths=PathSumsAsked(**asked), facts=False)
    plain = work(size, n_sources=n_sources)
    return replace(plain, options=SolveOptions(kept=kept), batch=batch)


@pytest.mark.parametrize(
    ("size", "n_sources", "batch", "asked", "least_s", "most_s"),
    [
        # `sp.betweenness` took 23.8, 11.2 and 3.1 s on an H200.
        (NY, 264_346, 4096, {}, 20, 30),
        (NE, 16_384, 256, {"squares": True}, 8, 15),
        (RMAT_20, 4096, 128, {"squares": True}, 2, 6),
    ],
)
def test_a_gpu_sums_along_the_paths_of_many_sources(size, n_sources, batch, asked, least_s, most_s):
    summed = of_paths(size, n_sources, batch, **asked)
    chosen, *_ = choose_solver("auto", summed, H200)
    assert chosen.device == "gpu"
    assert least_s < expected_s(chosen, summed, H200) < most_s
    without_gpu, *_ = choose_solver("auto", summed, Machine(16, None))
    assert without_gpu.device == "cpu"


def test_one_gpu_sums_half_of_the_rows_in_a_call():
    summed = of_paths(RMAT_20, 4096, 128, edges=True)
    assert summed.n_batches == 32
    assert (per_call := summed.batches_per_call("adds-lanes")) == 8
    assert summed.batches_of_one_gpu(per_call) == 16


def test_sums_along_rows_have_fewer_parts():
    def size(n_sources, **asked):
        kept = Reductions(paths=PathSumsAsked(**asked), facts=False)
        return batch_size(work(RMAT_20).traits, n_sources, Solve(), kept)

    assert [size(n) for n in (100, 1000, 4096, 16_384, 10**6)] == [32, 32, 128, 512, 4096]
    assert size(10**5, on_hierarchy=True) == 1563  # 64 batches


def test_sums_along_paths_take_memory_of_the_gpu():
    summed = of_paths(NY, 4096, 4096, edges=True)
    n_vertices, n_edges = summed.traits.n_vertices, summed.traits.n_edges
    n_places = n_vertices + n_edges
    words = 16 * n_places
    packing = 16 * min(2**20, n_places) + n_places // 8
    assert summed.kept_fixed_bytes == 2 * (words + packing + 4 * n_edges)
    assert summed.kept_device_bytes == 2 * (8 * 8 + 24 * n_vertices + 4 * -(-n_edges // 32))
    one = SOLVERS["adds-slots"].forecast(summed.traits, 1)
    just = graph_device_bytes(summed.traits) + one.fixed_bytes + one.source_bytes + 2 * words
    assert "GiB on the GPU" in refused("adds-slots", summed, Machine(16, just))[0]
    # On the host a batch of a GPU has its sums, and no scratch memory.
    kept = summed.options.kept
    assert kept.held_part_bytes(summed.traits, "gpu") == words
    assert kept.held_part_bytes(summed.traits, "cpu") == words + 44 * n_vertices + 8 * n_edges


NY_ARCS = HierarchyTraits(1_263_110, 9_310_562, is_completed=True, is_customized=True)


def test_sums_over_a_hierarchy_on_a_gpu_take_time_and_memory():
    asked = {"edges": True, "on_hierarchy": True, "on_gpu": True}
    summed = of_paths(NY, 264_346, 4096, **asked).with_hierarchy(NY_ARCS)
    chosen, *_ = choose_solver("auto", summed, H200)
    assert chosen.name == "phast-gpu"
    # `sp.betweenness` took 4.1 s on an H200, with the kernel compiled.
    assert 3 < expected_s(chosen, summed, H200) < 12
    assert refused("phast", summed, H200)[1] == "these can: phast-gpu"
    on_cpu = of_paths(NY, 264_346, 4096, **{**asked, "on_gpu": False}).with_hierarchy(NY_ARCS)
    assert choose_solver("auto", on_cpu, H200)[0].name == "phast"
    # The CPU weighs the arcs, whatever solver sums.
    with_order = replace(NY_ARCS, is_customized=False)
    assert not leaves_weights(summed.with_hierarchy(with_order), H200)
    assert expected_s(chosen, summed.with_hierarchy(with_order), H200) > expected_s(chosen, summed, H200)
    # A call has two batches, so that all multiprocessors have sources.
    assert summed.batches_per_call("phast-gpu") == 2
    assert on_cpu.batches_per_call("phast") == 1
    without = replace(summed, options=SolveOptions())
    assert summed.kept_fixed_bytes - without.kept_fixed_bytes == 104 * 1_263_110 + 560 * 264_346
    one = SOLVERS["phast-gpu"].forecast(summed.traits, 1)
    just = graph_device_bytes(summed.traits) + one.fixed_bytes + one.source_bytes + 10**8
    assert "GiB on the GPU" in refused("phast-gpu", summed, Machine(16, just))[0]


def test_negative_floats_are_for_solvers_that_take_them():
    negative = work(dtype="float32", low=-3)
    solver, reason, *_ = choose_solver("auto", negative, Machine(2, None))
    assert solver.name == "queue-bellman-ford"
    why_not = "it needs weights of zero or more, and the smallest is -3; floats cannot be reweighted without rounding"
    assert f" nor dijkstra: {why_not}" in reason
    message, hint = refused("dijkstra", negative)
    assert message == f"solver `dijkstra` cannot solve this: {why_not}"
    assert "queue-bellman-ford" in hint


def test_negative_integers_are_reweighted():
    negative = work(NY, dtype="int32", low=-3, n_sources=1000)
    for name in ("auto", "delta-stepping"):
        solver, reason, *_ = choose_solver(name, negative, Machine(2, None))
        assert solver.name == "delta-stepping"
        assert reason.endswith("; on reweighted edges, as some weights are negative")
    assert choose_solver("queue-bellman-ford", negative, Machine(2, None))[1] == "asked for"
    plans = [
        planned(negative.traits, 9, Solve(solver=name)) for name in ("delta-stepping", "queue-bellman-ford")
    ]
    assert plans[0].graph_bytes == plans[1].graph_bytes + 12 * 733_846 + 21 * 264_346
    positive = expected_s(solver, work(NY, dtype="int32", n_sources=1000), Machine(2, None))
    assert expected_s(solver, negative, Machine(2, None)) > positive


def test_a_trace_needs_a_solver_that_records_one():
    traced = replace(work(), options=SolveOptions(trace_every_us=10))
    others, why_not = (
        [name for name in SOLVERS if name != "adds"],
        "it records no trace, and trace_every_us is 10",
    )
    for name in others:
        message = f"solver `{name}` cannot solve this: {why_not}"
        assert refused(name, traced, H200) == (message, "these can: adds")
    solver, reason, *_ = choose_solver("auto", traced, H200)
    assert solver.name == "adds"
    assert reason.endswith(f"; not {' nor '.join(others)}: {why_not}")
    on_cpu = ", ".join(name for name in SOLVERS if SOLVERS.device_of(name) == "cpu")
    assert refused("auto", traced) == (
        f"no solver can solve this: the GPU solvers: no NVIDIA driver (libcuda.so.1); {on_cpu}: {why_not}",
        "leave out `solve.trace_every_us`, or see what `sssp-pipeline doctor` says of the GPU",
    )


def test_an_unknown_solver_gets_a_suggestion():
    assert refused("dikstra", work()) == (
        "unknown solver `dikstra`",
        "did you mean `dijkstra`? Solvers: " + ", ".join(sorted(SOLVERS)),
    )
