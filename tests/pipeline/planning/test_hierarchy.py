"""Whether a run makes a hierarchy: by forecasts, on graphs whose sizes were measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sssp_pipeline.base.csr import GraphTraits, HierarchyTraits
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.kept import Nothing
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.hierarchy import costs, metis_processes
from sssp_pipeline.pipeline.planning.choice import choose_solver, has_hierarchy, refusals
from sssp_pipeline.pipeline.planning.hierarchy import leaves_weights, why_never, why_not
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.planning.work import Work, batch_size
from sssp_pipeline.pipeline.run.hierarchy_stage import leaves_weights_for, why_not_for
from sssp_pipeline.workflow.models import Solve

#: The forecasts are those with METIS.
pytestmark = pytest.mark.skipif(metis_processes.package() is None, reason="`pymetis` is not installed")

TWO_CORES = Machine(2, None, "no GPU")
GPU = Machine(16, 2**36)
MUCH = 2**40
#: Vertices, edges and skew; core, pairs and width; arcs and triangles (`benchmarks/results/hierarchy_auto.jsonl`).
MEASURED = {
    "ny": (264_346, 733_846, 1.12, 143_945, 481_374, 516, 1_287_335, 9_147_037),
    "ne": (1_524_453, 3_868_020, 1.14, 601_678, 1_959_878, 417, 5_743_667, 39_262_613),
    "road-1m": (1_000_000, 2_503_436, 1.11, 398_430, 1_262_932, 8_903, 5_319_604, 197_802_666),
    "road-150k": (150_000, 375_522, 1.11, 59_722, 189_284, 3_237, 660_468, 8_870_525),
    "delaunay": (262_144, 1_572_804, 1.05, 262_144, 1_572_804, 1_238, 7_157_086, 568_198_208),
    "grid-2048": (4_194_304, 10_063_336, 1.17, 1_385_128, 4_435_814, 829, 14_660_293, 339_736_540),
    "grid-1000": (1_000_000, 3_996_000, 1.0, 999_996, 3_995_992, 708, 38_000_000, 7_035_508_283),
    "mesh-1024": (1_048_576, 6_283_266, 1.02, 1_048_574, 6_283_258, 983, 45_000_000, 8_650_308_186),
    "cnr": (325_557, 3_216_152, 5.32, 222_143, 5_252_068, 21_301, 4_402_326, 156_815_613),
    "wave": (156_317, 2_118_662, 1.06, 156_317, 2_118_662, 7_390, 62_659_861, 52_889_073_852),
    "gnutella": (62_586, 147_892, 4.45, 24_876, 219_988, 11_998, 56_750_549, 188_032_465_917),
    "rmat-18": (262_144, 7_611_980, 43.0, 138_729, 7_541_168, 69_364, 514_184_452, 5_335_544_873_442),
    "lattice-3d": (
        2_097_152,
        12_484_608,
        1.0,
        2_097_152,
        12_484_608,
        10_308,
        1_946_311_763,
        10_590_612_531_107,
    ),
    "lattice-64": (262_144, 1_548_288, 1.0, 262_144, 1_548_288, 2_610, 115_190_613, 168_334_304_055),
    "lattice-32": (32_768, 190_464, 1.0, 32_768, 190_464, 658, 5_528_993, 1_977_821_967),
    "small-world": (
        1_048_576,
        10_485_760,
        1.0,
        1_048_576,
        10_485_746,
        369_697,
        17_986_845_983,
        894_523_534_999_101,
    ),
    "wing": (62_032, 243_088, 1.05, 61_950, 242_916, 600, 5_225_162, 1_240_654_290),
    "notredame": (325_729, 1_497_134, 30.0, 147_023, 1_808_292, 40_000, 6_095_701, 2_974_369_720),
}
#: What is known, in the order in which it is found out.
UNKNOWN, CORE, ORDERED, STORED = range(4)


def traits(name: str, known: int = UNKNOWN) -> GraphTraits:
    n_vertices, n_edges, skew, *core, n_arcs, n_triangles = MEASURED[name]
    hierarchy = HierarchyTraits(*core) if known >= CORE else None
    if known >= ORDERED:
        hierarchy = replace(hierarchy, n_arcs=n_arcs, n_triangles=n_triangles, is_completed=True)
    if known == STORED:
        hierarchy = replace(hierarchy, is_customized=True)
    return GraphTraits(n_vertices, n_edges, np.dtype("uint32"), 1.0, 1000.0, 500.0, skew, hierarchy)


def work(of_graph: GraphTraits, n_sources: int) -> Work:
    return Work(
        of_graph, SolveOptions(kept=Nothing()), n_sources, batch_size(of_graph, n_sources, Solve(), Nothing())
    )


def last_step(name: str, n_sources: int, machine: Machine = TWO_CORES) -> int:
    """Return how far a run on a graph goes."""
    for known in (UNKNOWN, CORE, ORDERED):
        if why_not(work(traits(name, known), n_sources), machine, MUCH) is not None:
            return known
    return STORED


@pytest.mark.parametrize(
    ("name", "n_sources", "step"),
    [
        # Graphs with small separators: from some hundred sources on.
        *((name, n, UNKNOWN) for name in ("ny", "ne", "road-1m", "delaunay", "grid-2048") for n in (1, 16, 64)),
        *((name, n, STORED) for name in ("ny", "ne", "road-1m", "road-150k", "grid-2048") for n in (512, 1024, 16_384)),
        *(("delaunay", n, STORED) for n in (1024, 16_384)),
        # Others: at most a look at the core, and only in a run that takes long.
        *((name, 1, UNKNOWN) for name in MEASURED),
        *((name, n, UNKNOWN) for name in ("rmat-18", "gnutella", "cnr") for n in (64, 256, 1024)),
        *((name, 4096, CORE) for name in ("lattice-3d", "lattice-64")),
        ("lattice-3d", 16_384, CORE),
        # Ten seconds for the triangles of large flat graphs are little in a long run.
        *((name, n, UNKNOWN) for name in ("grid-1000", "mesh-1024") for n in (64, 256)),
        *((name, 16_384, STORED) for name in ("grid-1000", "mesh-1024", "wing", "notredame")),
        *((name, 16_384, ORDERED) for name in ("rmat-18", "wave", "small-world")),
        # A web graph has hubs, and still small separators. Only a very long run finds out.
        ("cnr", 16_384, STORED),
    ],
)  # fmt: skip
def test_how_far_a_run_goes(name, n_sources, step):
    assert last_step(name, n_sources) == step


@pytest.mark.parametrize("name", MEASURED)
@pytest.mark.parametrize("n_sources", [16, 64, 256, 1024, 16_384, 2**20])
def test_a_hierarchy_that_is_not_made_costs_little(name, n_sources):
    """A step is taken for nothing only if it takes a small share of the run."""
    step = last_step(name, n_sources)
    if step == STORED or name in ("delaunay", "ny"):
        return
    of_graph = traits(name, CORE)
    spent_s = {UNKNOWN: 0.0, CORE: costs.core_s(of_graph), ORDERED: costs.order_s(of_graph)}[step]
    run_s = n_sources * 8e-9 * (of_graph.n_vertices + of_graph.n_edges) / 2**0.8
    assert spent_s <= 0.026 * run_s


def test_a_random_graph_with_few_edges_is_not_taken_for_roads():
    core = HierarchyTraits(299_996, 900_000, 60_216)
    cubic = GraphTraits(300_000, 900_000, np.dtype("uint32"), 1.0, 1000.0, 500.0, 1.0, core)
    assert why_not(work(cubic, 256), TWO_CORES, MUCH).startswith(
        "the graph does not look as if it had small separators"
    )


def test_the_reason_has_the_sources_and_the_times():
    reason = why_not(work(traits("ny"), 16), TWO_CORES, MUCH)
    assert reason.startswith("making a hierarchy does not pay for 16 sources: expected to take 0.")
    assert reason.endswith(" s without")
    reason = why_not(work(traits("rmat-18"), 1024), TWO_CORES, MUCH)
    assert reason == (
        "the graph does not look as if it had small separators, and to find out would take 0.3 s of about 17 s"
    )


def test_what_is_stored_is_used_from_few_sources_on():
    of_graph = traits("ny", STORED)
    assert has_hierarchy(of_graph)
    names = [choose_solver("auto", work(of_graph, n), TWO_CORES)[0].name for n in (1, 16, 1024)]
    assert names == ["parallel-delta-stepping", "phast", "phast"]
    assert why_not(work(of_graph, 1024), TWO_CORES, 0) is None  # nothing is made, so no memory is needed


def test_auto_takes_no_solver_whose_hierarchy_is_not_there():
    chosen, reason, others, _ = choose_solver("auto", work(traits("ny", ORDERED), 4096), TWO_CORES)
    assert chosen.name == "delta-stepping"
    assert "phast" not in others
    assert reason.endswith("; not phast: no hierarchy of the graph is stored")


def test_a_plan_may_count_on_a_hierarchy_that_the_run_will_make():
    planned = replace(work(traits("ny"), 4096), no_hierarchy=None)
    chosen, reason, *_ = choose_solver("auto", planned, TWO_CORES)
    assert chosen.name == "phast"
    assert ", delta-stepping 21 s" in reason


def test_more_cores_need_more_sources():
    # They share the search, and one of them makes the hierarchy.
    assert last_step("ny", 512) == STORED
    assert last_step("ny", 512, Machine(64, None, "no GPU")) == UNKNOWN


def test_a_gpu_takes_a_hierarchy_only_for_very_many_sources():
    assert last_step("ny", 16_384, GPU) == UNKNOWN
    assert last_step("ne", 1_500_000, GPU) == STORED
    assert choose_solver("auto", work(traits("ne", STORED), 1_500_000), GPU)[0].name == "phast-gpu"
    assert last_step("rmat-18", 250_000, GPU) < ORDERED


def test_what_can_never_be():
    ny, options = traits("ny"), SolveOptions()
    assert why_never(ny, options, MUCH) is None
    floats = replace(ny, weight_dtype=np.dtype("float32"))
    assert why_never(floats, options, MUCH).startswith("it adds weights in another order")
    assert why_never(ny, options, 10**8) == (
        "making a hierarchy takes about 301.5 MB of memory, and 100.0 MB are free"
    )


def test_what_is_too_large_is_refused_with_its_numbers():
    options = SolveOptions()
    assert why_never(traits("small-world", ORDERED), options, MUCH) == (
        "it would have 17,986,845,983 arcs, and 2,147,483,648 is the most that there may be"
    )
    cube = traits("lattice-3d", ORDERED)
    assert why_never(cube, options, MUCH) is None  # some hours
    longer = replace(cube, hierarchy=replace(cube.hierarchy, n_triangles=10**14))
    assert why_never(longer, options, MUCH) == (
        "the weights of its 1,946,311,763 arcs follow from 100,000,000,000,000 triangles, which would take about "
        "44 hours on a CPU, and at most 24 are allowed"
    )
    assert why_never(longer, options, MUCH, for_gpu=True) is None
    stored = replace(longer, hierarchy=replace(longer.hierarchy, is_customized=True))
    assert why_never(stored, options, 0) is None
    assert why_never(cube, options, 10**9) == (
        "its 1,946,311,763 arcs take about 7.8 GB of memory, and 1.0 GB are free"
    )
    assert why_never(cube, options, 10**10) == (
        "making a hierarchy takes about 95.2 GB of memory, and 10.0 GB are free"
    )
    assert why_never(cube, options, 5 * 10**10, for_gpu=True) is None


def test_a_gpu_computes_the_weights_of_arcs_itself():
    ne = work(traits("ne", ORDERED), 1_500_000)
    assert leaves_weights(ne, GPU)
    assert not leaves_weights(ne, TWO_CORES)
    assert has_hierarchy(ne.traits, SOLVERS["phast-gpu"])
    assert not has_hierarchy(ne.traits, SOLVERS["phast"])
    assert choose_solver("auto", ne, GPU)[0].name == "phast-gpu"
    # Where many triangles would take a CPU a minute, a GPU takes seconds.
    wave = traits("wave", ORDERED)
    assert costs.left_s(wave, on_gpu=True) < costs.left_s(wave) / 10


def test_a_gpu_whose_memory_is_too_small_is_refused():
    gnutella = work(traits("gnutella", ORDERED), 1024)
    assert "phast-gpu" not in refusals(gnutella, GPU)
    assert "GiB on the GPU" in refusals(gnutella, Machine(16, 2**30))["phast-gpu"]


def test_without_pymetis_one_is_made_where_it_pays_for_a_longer_order(monkeypatch):
    by_metis = costs.left_s(traits("ny"))
    monkeypatch.setattr(metis_processes, "package", lambda: None)
    assert by_metis < costs.left_s(traits("ny")) < 2 * by_metis
    assert why_not(work(traits("ny"), 16_384), TWO_CORES, MUCH) is None


def test_a_named_gpu_solver_is_refused_when_the_order_shows_that_its_memory_is_too_small():
    solve, small = Solve(solver="phast-gpu"), Machine(16, 2**30)
    counted, core = work(traits("gnutella", ORDERED), 64), work(traits("gnutella", CORE), 64)
    why_not_small, why_not_large = (why_not_for(solve, counted, machine) for machine in (small, GPU))
    assert why_not_small(core.traits) is None  # nothing is known yet
    assert why_not_large(counted.traits) is None
    with pytest.raises(
        InputError, match=r"solver `phast-gpu` cannot solve this: it needs 1\.\d GiB on the GPU, 1\.0"
    ):
        why_not_small(counted.traits)


@pytest.mark.parametrize(("solver", "leaves"), [("phast", False), ("phast-gpu", True), ("auto", True)])
def test_who_computes_the_weights_of_arcs(solver, leaves):
    of_graph = traits("ne", ORDERED)
    assert leaves_weights_for(Solve(solver=solver), work(of_graph, 1_500_000), GPU)(of_graph) is leaves
    assert not leaves_weights_for(Solve(hierarchy="build"), work(of_graph, 1_500_000), GPU)(of_graph)
