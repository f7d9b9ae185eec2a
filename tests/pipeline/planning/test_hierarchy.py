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
from sssp_pipeline.kernels.hierarchy.completion import costs
from sssp_pipeline.kernels.hierarchy.ordering import metis_processes
from sssp_pipeline.pipeline.planning import hierarchy
from sssp_pipeline.pipeline.planning.choice import choose_solver, has_hierarchy, refusals
from sssp_pipeline.pipeline.planning.hierarchy import leaves_weights, look_at, why_never, why_not
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.planning.work import Work, batch_size
from sssp_pipeline.pipeline.run.hierarchy_stage import leaves_weights_for, why_not_for
from sssp_pipeline.workflow.models import Solve

#: The forecasts are those with METIS.
pytestmark = pytest.mark.skipif(metis_processes.package() is None, reason="`pymetis` is not installed")

TWO_CORES = Machine(2, None, "no GPU")
GPU = Machine(16, 2**36)
MUCH = 2**40
#: Vertices, edges and skew; width; arcs and triangles (`benchmarks/results/hierarchy_order.jsonl`).
MEASURED = {
    "ny": (264_346, 733_846, 1.12, 295, 1_287_335, 9_147_037),
    "ne": (1_524_453, 3_868_020, 1.14, 2_168, 5_743_667, 39_262_613),
    "road-1m": (1_000_000, 2_503_436, 1.11, 464, 5_319_604, 197_802_666),
    "road-150k": (150_000, 375_522, 1.11, 222, 660_468, 8_870_525),
    "delaunay": (262_144, 1_572_804, 1.05, 645, 7_157_086, 568_198_208),
    "grid-2048": (4_194_304, 10_063_336, 1.17, 5_498, 14_660_293, 339_736_540),
    "grid-1000": (1_000_000, 3_996_000, 1.0, 725, 38_000_000, 7_035_508_283),
    "mesh-1024": (1_048_576, 6_283_266, 1.02, 1_082, 45_000_000, 8_650_308_186),
    "cnr": (325_557, 3_216_152, 5.32, 422, 4_402_326, 156_815_613),
    "wave": (156_317, 2_118_662, 1.06, 2_445, 62_659_861, 52_889_073_852),
    "gnutella": (62_586, 147_892, 4.45, 1_819, 56_750_549, 188_032_465_917),
    "rmat-18": (262_144, 7_611_980, 43.0, 53_769, 514_184_452, 5_335_544_873_442),
    "lattice-3d": (2_097_152, 12_484_608, 1.0, 11_865, 1_946_311_763, 10_590_612_531_107),
    "lattice-64": (262_144, 1_548_288, 1.0, 3_968, 115_190_613, 168_334_304_055),
    "lattice-32": (32_768, 190_464, 1.0, 966, 5_528_993, 1_977_821_967),
    "small-world": (1_048_576, 10_485_760, 1.0, 96_006, 17_986_845_983, 894_523_534_999_101),
    "wing": (62_032, 243_088, 1.05, 947, 5_225_162, 1_240_654_290),
    "notredame": (325_729, 1_497_134, 30.0, 758, 6_095_701, 2_974_369_720),
}
#: What is known, in the order in which it is found out.
UNKNOWN, LOOKED, ORDERED, STORED = range(4)


def traits(name: str, known: int = UNKNOWN) -> GraphTraits:
    n_vertices, n_edges, skew, width, *counted = MEASURED[name]
    hierarchy = HierarchyTraits(*counted, is_completed=True, is_customized=known == STORED)
    return GraphTraits(
        n_vertices,
        n_edges,
        np.dtype("uint32"),
        1.0,
        1000.0,
        500.0,
        skew,
        hierarchy if known >= ORDERED else None,
        width=width if known == LOOKED else None,
    )


def work(of_graph: GraphTraits, n_sources: int) -> Work:
    return Work(
        of_graph, SolveOptions(kept=Nothing()), n_sources, batch_size(of_graph, n_sources, Solve(), Nothing())
    )


def last_step(name: str, n_sources: int, machine: Machine = TWO_CORES) -> int:
    """Return how far a run on a graph goes."""
    for known in (UNKNOWN, LOOKED, ORDERED):
        if why_not(work(traits(name, known), n_sources), machine, MUCH) is not None:
            return known
    return STORED


@pytest.mark.parametrize(
    ("name", "n_sources", "step"),
    [
        # Graphs with small separators: from some hundred sources on.
        *((name, n, UNKNOWN) for name in ("ny", "ne", "road-1m", "delaunay", "grid-2048") for n in (1, 16, 64)),
        *((name, n, STORED) for name in ("ny", "ne", "road-1m", "road-150k", "grid-2048") for n in (512, 1024, 16_384)),
        *(("delaunay", n, STORED) for n in (4096, 16_384)),
        # Others: at most a look, and only in a run that takes long.
        *((name, 1, UNKNOWN) for name in MEASURED),
        *((name, n, UNKNOWN) for name in ("rmat-18", "gnutella", "cnr") for n in (64, 256)),
        *((name, n, LOOKED) for name in ("rmat-18", "gnutella") for n in (1024, 16_384)),
        *((name, n, LOOKED) for name in ("lattice-64", "small-world") for n in (1024, 16_384)),
        ("lattice-3d", 4096, LOOKED),
        # Ten seconds for the triangles of large flat graphs are little in a long run.
        *((name, 64, UNKNOWN) for name in ("grid-1000", "mesh-1024")),
        *((name, 16_384, STORED) for name in ("grid-1000", "mesh-1024", "wing", "notredame")),
        # A web has hubs, and still small separators.
        *(("cnr", n, STORED) for n in (1024, 16_384)),
        # The look expects a third of the triangles.
        ("wave", 16_384, ORDERED),
        # There may be an eighth of the triangles, and to know takes less than a hundredth of the run.
        *((name, 2**20, ORDERED) for name in ("gnutella", "lattice-3d")),
        ("lattice-3d", 16_384, ORDERED),
    ],
)  # fmt: skip
def test_how_far_a_run_goes(name, n_sources, step):
    assert last_step(name, n_sources) == step


@pytest.mark.parametrize("name", MEASURED)
@pytest.mark.parametrize("n_sources", [16, 64, 256, 1024, 16_384, 2**20])
def test_an_order_that_is_for_nothing_costs_little(name, n_sources):
    if last_step(name, n_sources) == ORDERED:
        of_graph = traits(name, LOOKED)
        run_s = n_sources * 8e-9 * (of_graph.n_vertices + of_graph.n_edges) / 2**0.8
        assert costs.order_s(of_graph) <= 0.015 * run_s


@pytest.mark.parametrize("name", MEASURED)
def test_a_look_tells_triangles_up_to_a_factor(name):
    expected = costs.expected_size(traits(name, LOOKED))[1]
    assert MEASURED[name][-1] / 35 <= expected <= 35 * MEASURED[name][-1]


def test_a_random_graph_with_few_edges_is_not_taken_for_roads():
    cubic = GraphTraits(300_000, 900_000, np.dtype("uint32"), 1.0, 1000.0, 500.0, 1.0, width=32_727)
    assert why_not(work(cubic, 4096), TWO_CORES, MUCH).startswith("separators have about 32,727 vertices")


def test_a_look_takes_a_small_share_of_the_run_and_ends_where_nothing_can_pay(monkeypatch):
    looks = []
    monkeypatch.setattr(hierarchy, "width_of", lambda *given: looks.append(given) or 7)
    for n_sources in (64, 256, 2**30):
        assert look_at(None, work(traits("rmat-18"), n_sources), TWO_CORES) == 7
    (_, steps, width), (_, more_steps, more_width), (_, most_steps, _) = looks
    assert more_steps == pytest.approx(4 * steps, rel=0.1)
    assert more_width == pytest.approx(4 ** (1 / 3) * width, rel=0.1)
    assert most_steps == costs.MOST_STEPS
    # A GPU makes more of the same time.
    widths = [costs.width_of_triangles(10.0, on_gpu=on_gpu) for on_gpu in (False, True)]
    assert widths == [1657, 17100]


def test_the_reason_has_the_sources_and_the_times():
    reason = why_not(work(traits("ny"), 16), TWO_CORES, MUCH)
    assert reason.startswith("making a hierarchy does not pay for 16 sources: expected to take 0.")
    assert reason.endswith(" s without")
    reason = why_not(work(traits("gnutella", LOOKED), 1024), TWO_CORES, MUCH)
    assert reason == (
        "separators have about 1,819 vertices, as a look shows: making a hierarchy does not pay for 1,024 sources: "
        "expected to take 15 s with it, of which 15 s make it, and 1.2 s without"
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


@pytest.mark.parametrize(
    ("name", "step"),
    [
        *((name, STORED) for name in ("cnr", "wing", "delaunay", "grid-1000", "wave")),
        *((name, LOOKED) for name in ("rmat-18", "small-world")),
        ("lattice-3d", ORDERED),  # it has more arcs than its width tells
    ],
)
def test_a_look_decides_for_a_gpu_by_its_own_rates(name, step):
    assert last_step(name, 2**20, GPU) == step


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
        "61 hours on a CPU, and at most 24 are allowed"
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
    counted = work(traits("gnutella", ORDERED), 64)
    why_not_small, why_not_large = (
        why_not_for(solve, counted, machine, lambda: pytest.fail("nothing looks")) for machine in (small, GPU)
    )
    assert why_not_small(traits("gnutella")) is None  # nothing is known yet
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
