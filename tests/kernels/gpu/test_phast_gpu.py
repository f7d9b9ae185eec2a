"""What is special to `phast-gpu`: lanes of every number, chunks of every kind, and words of every width."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import NO_VERTEX, csr_from_edges, unreached_distance
from sssp_pipeline.base.errors import DeadlineError
from sssp_pipeline.base.generators import grid, path, road_like, star
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.answers.nearest import NearestOfRow
from sssp_pipeline.kernels.answers.reductions import Reductions
from sssp_pipeline.kernels.contract.kept import EveryVertex, Nothing, Targets
from sssp_pipeline.kernels.contract.over_sources import OverSources
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import device_graph
from sssp_pipeline.kernels.gpu.phast_gpu import device_hierarchy as of_device
from sssp_pipeline.kernels.gpu.phast_gpu import host_hierarchy as of_host
from sssp_pipeline.kernels.gpu.phast_gpu import phast_gpu
from sssp_pipeline.kernels.gpu.phast_gpu.device_hierarchy import INFINITIES, device_hierarchy, lanes_for
from sssp_pipeline.kernels.gpu.phast_gpu.host_hierarchy import TILE_TYPE, HostHierarchy, host_hierarchy
from sssp_pipeline.kernels.gpu.phast_gpu.needed_tiles import needed_tiles
from sssp_pipeline.kernels.hierarchy.completion.arc_completion import completion_of
from sssp_pipeline.kernels.hierarchy.completion.chunks import TILE, cut
from sssp_pipeline.kernels.hierarchy.shared import shared_hierarchy
from sssp_pipeline.kernels.hierarchy.sweeps.region import no_distance_above

TOLD = ("source", "reached", "max_distance", "mean_distance")


def with_weights(made, weights):
    return replace(made, weights=np.broadcast_to(weights, made.src.shape)).graph()


def assert_as_on_a_cpu(graph, sources, cutoff=None):
    targets = np.random.default_rng(3).integers(0, graph.n_vertices, 9)
    for kept in (EveryVertex(), Targets(targets), Nothing()):
        options = SolveOptions(kept=kept, cutoff=cutoff)
        found, expected = (
            SOLVERS[name].solve(graph, sources, options) for name in ("phast-gpu", "delta-stepping")
        )
        assert_array_equal(found.distances, expected.distances)
        for name in TOLD:
            assert [getattr(m, name) for m in found.metrics] == [getattr(m, name) for m in expected.metrics]
        edges = [[round(m.teps * m.solve_s) for m in s.metrics] for s in (found, expected)]
        assert edges[0] == edges[1]
        alone = SOLVERS["phast-gpu"].solve(graph, sources, replace(options, metrics=False))
        assert_array_equal(alone.distances, expected.distances)


# ---- without a GPU ----


@pytest.mark.parametrize("n", [1, 31, 32, 33, 96, 97, 128, 129, 384, 385, 1000, 1024])
def test_lanes_hold_the_sources_and_few_more(n):
    lanes = lanes_for(n)
    assert n <= lanes < n + 128
    assert lanes % 32 == 0
    assert lanes_for(n - 1) <= lanes
    assert lanes <= 1.5 * n or lanes in (32, 64)
    pairs = lanes_for(n, 2)
    assert lanes_for(n - 1, 2) <= pairs == 2 * lanes_for((n + 1) // 2)


@pytest.mark.parametrize("made", [road_like(5000), grid(30, 40), star(200), path(1)])
def test_tiles_cover_every_place_once(made):
    host = HostHierarchy(completion := completion_of(made.graph()), cut(completion))
    tiles = host.tiles
    places = [
        place
        for first, n in zip(tiles["first_place"].tolist(), tiles["n_rows"].tolist(), strict=True)
        for place in range(first, first + n)
    ]
    assert places == list(range(completion.n_vertices))
    assert tiles["n_rows"].max() <= TILE
    words = tiles["matrix"] + np.uint64(TILE) * tiles["n_boundary"]
    assert words.max() <= host.words_before[0][-1]


def with_small_chunks(monkeypatch, least_share, least_front=6):
    """Have chunks so small that small graphs have long chains of them, and fronts."""
    hierarchy, sizes = (
        "sssp_pipeline.kernels.gpu.phast_gpu.host_hierarchy",
        "sssp_pipeline.kernels.hierarchy.completion.chunks",
    )
    limits = {"LEAST_FRONT": least_front, "LEAST_SHARE": least_share, "LEAST_WORDS": 0}
    for name, value in limits.items():
        monkeypatch.setattr(f"{hierarchy}.{name}", value)
    for name, value in (("MOST_TOP", 16), ("MOST_OWN", 8), ("MOST_LOW", 4)):
        monkeypatch.setattr(f"{sizes}.{name}", value)


@pytest.mark.parametrize("made", [road_like(5000), grid(60, 80), star(200), path(1)])
@pytest.mark.parametrize("least_front", [0, 6, 10**6])
def test_bands_have_every_chunk_between_the_top_and_the_last_band_once(made, least_front, monkeypatch):
    with_small_chunks(monkeypatch, 2, least_front)
    host = HostHierarchy(completion := completion_of(made.graph()), chunks := cut(completion))
    swept, done = host.swept_above(host.tiles), chunks.chunk_of == 0
    for band in swept.bands:
        fronts = swept.fronts[band.first_front : band.end_front]
        sizes = host.shapes["n_boundary"][fronts]
        assert (band.boundary.total, band.boundary.most) == (sizes.sum(), sizes.max(initial=0))
        assert np.all(sizes >= least_front)
        others = np.unique(swept.tiles["chunk"][band.first : band.first_of_fronts])
        assert np.all(host.shapes["n_boundary"][others] < least_front)
        assert_array_equal(np.unique(swept.tiles["chunk"][band.first_of_fronts : band.end]), fronts)
        assert band.most_boundary == host.shapes["n_boundary"][[*fronts, *others]].max()
        here = np.concatenate([fronts, others])
        boundaries = [chunks.boundary[slice(*chunks.boundary_offsets[c : c + 2])] for c in here]
        assert all(done[boundary].all() for boundary in boundaries)
        mine = np.isin(chunks.chunk_of, here)
        assert not done[mine].any()
        done |= mine
    assert_array_equal(done, chunks.chunk_of < chunks.first_low)
    assert len(swept.tiles) == host.n_tiles[1 : chunks.first_low].sum()
    assert swept.end_place == (chunks.first_places[swept.fronts[-1] + 1] if len(swept.fronts) else 0)


@pytest.mark.parametrize("made", [road_like(5000), grid(60, 80), star(200), path(1)])
@pytest.mark.parametrize("share", [0.05, 0.3])
def test_sources_climb_together_over_chunks_that_many_vertices_are_below(made, share, monkeypatch):
    completion = completion_of(made.graph())
    assert HostHierarchy(completion, cut(completion)).shared.bands == []  # they read little there
    with_small_chunks(monkeypatch, share)
    host = HostHierarchy(completion, chunks := cut(completion))
    n_below, parents, chunk_of = np.zeros(chunks.n_chunks, int), completion.parents, chunks.chunk_of
    for v in range(completion.n_vertices):  # counted once for each chunk on the way up
        seen = set()
        while v != NO_VERTEX:
            seen.add(int(chunk_of[v]))
            v = int(parents[v])
        n_below[list(seen)] += 1
    is_shared = n_below >= share * completion.n_vertices
    is_shared[0] = True
    is_shared[chunks.first_low :] = False
    assert_array_equal(host.is_shared, is_shared)
    assert_array_equal(host.shared.fronts, np.flatnonzero(is_shared))
    shapes = host.shapes[is_shared]
    for first, end, most_boundary, own in host.shared.bands:
        assert most_boundary == shapes["n_boundary"][first:end].max()
        assert own == (shapes["n_own"][first:end].max(), shapes["n_own"][first:end].sum())
    assert sum(own.total for *_, own in host.shared.bands) == shapes["n_own"].sum()


@pytest.mark.parametrize("made", [road_like(5000), grid(30, 40), star(200), path(1)])
@pytest.mark.parametrize("n", [1, 3, 40, 5000])
@pytest.mark.parametrize("least_front", [6, 10**6])
def test_tiles_for_targets_are_those_that_their_rows_follow_from(made, n, least_front, monkeypatch):
    with_small_chunks(monkeypatch, 2, least_front)
    host = HostHierarchy(completion := completion_of(made.graph()), cut(completion))
    tiles, chunks, n_vertices = host.tiles, host.chunks, completion.n_vertices
    places = np.random.default_rng(n).integers(0, n_vertices, min(n, n_vertices)).astype(np.uint32)
    found = needed_tiles(host, host.tiles, places)
    swept = found.swept

    first_place, needed, waiting = tiles["first_place"], set(), set(host.tiles_of_places[places].tolist())
    while waiting:
        tile = waiting.pop()
        needed.add(tile)
        chunk = tiles["chunk"][tile]
        boundary = chunks.places[chunks.boundary[slice(*chunks.boundary_offsets[chunk : chunk + 2])]]
        waiting |= set(host.tiles_of_places[boundary].tolist()) - needed
    of_chunks = {tile: int(tiles["chunk"][tile]) for tile in sorted(needed)}
    is_front = (host.shapes["n_boundary"] >= least_front) & (np.arange(chunks.n_chunks) < chunks.first_low)
    assert swept.fronts.tolist() == sorted({c for c in of_chunks.values() if is_front[c]} - {0})
    band_of = np.searchsorted(chunks.bands, range(chunks.n_chunks), side="right")
    taken = sorted((int(band_of[c]), bool(is_front[c]), tile) for tile, c in of_chunks.items() if c > 0)
    others = [tile for *_, tile in taken]
    assert_array_equal(swept.tiles["matrix"], tiles["matrix"][others])
    for first, end, of in (("first_front", "end_front", swept.fronts), ("first", "end", swept.tiles)):
        ends = [0, *(getattr(band, end) for band in swept.bands)]
        assert [getattr(band, first) for band in swept.bands] == ends[:-1]
        assert ends[-1] == len(of)

    # Rows have memory of their own, and targets lead to theirs.
    n_upper = int(chunks.first_places[chunks.first_low])
    memory = {place: place for place in range(n_upper)}
    for tile, kept in zip(others, swept.tiles, strict=True):
        is_low = tiles["chunk"][tile] >= chunks.first_low
        assert is_low or kept["first_place"] == first_place[tile]
        for i in range(kept["n_rows"]):
            memory[int(first_place[tile]) + i] = int(kept["first_place"]) + i
    assert sorted(memory.values()) == list(range(found.n_rows))
    assert found.places.tolist() == [memory[place] for place in places.tolist()]


@pytest.mark.parametrize("made", [road_like(5000), grid(60, 80), star(200), path(1)])
@pytest.mark.parametrize(("most_compared", "most_places"), [(5, 2**32), (512, 2**32), (512, 1500)])
def test_tiles_have_room_for_the_boundaries_of_their_chunks(made, most_compared, most_places, monkeypatch):
    with_small_chunks(monkeypatch, 2)
    monkeypatch.setattr(of_host, "MOST_COMPARED", most_compared)
    monkeypatch.setattr(of_host, "MOST_PLACES", most_places)
    host = HostHierarchy(completion := completion_of(made.graph()), cut(completion))
    tiles, n_own = host.own_boundaries
    moved, end = ["first_boundary", "matrix"], 0
    for tile, of_chunk in zip(tiles, host.tiles, strict=True):
        after = len(host.chunks.boundary) + end + int(of_chunk["n_boundary"])
        if of_chunk["n_boundary"] <= most_compared and after <= most_places:
            assert tile["first_boundary"] == len(host.chunks.boundary) + end
            assert tile["matrix"] == int(host.words_before[0][-1]) + int(TILE) * end
            end += int(tile["n_boundary"])
        else:
            assert tile[moved] == of_chunk[moved]
    assert n_own == end
    others = [name for name in TILE_TYPE.names if name not in moved]
    assert_array_equal(tiles[others], host.tiles[others])


def test_chunks_whose_tiles_need_little_are_no_fronts(monkeypatch):
    with_small_chunks(monkeypatch, 2)
    host = HostHierarchy(completion := completion_of(grid(60, 80).graph()), cut(completion))
    tiles = host.tiles.copy()
    top, *fronts = np.flatnonzero(host.fronts_of(tiles))
    some, others = fronts[::2], fronts[1::2]
    tiles["n_boundary"][np.isin(tiles["chunk"], some)] = 1
    tiles["n_boundary"][np.isin(tiles["chunk"], others)] -= 1
    assert top == 0
    assert len(some) > 1
    assert_array_equal(np.flatnonzero(host.fronts_of(tiles)), [top, *others])
    assert_array_equal(host.swept_above(tiles).fronts, others)


def test_floats_are_refused_with_the_solvers_that_take_them():
    graph = grid(3, 3).graph("float64")
    told = SOLVERS["phast-gpu"].supports(graph.traits, SolveOptions())
    assert told is not None
    assert "`adds-slots` takes floats" in told


# ---- with a GPU ----

ROAD = road_like(20_000).graph()


def bits_of(graph):
    """The bits of a word of the hierarchy of `graph`."""
    return device_hierarchy(device_graph(graph), host_hierarchy(graph)).bits


@pytest.fixture
def shortest_bits():
    """The bits of the shortest words that this device takes."""
    return 16 if of_device.may_be_short() else 32


@pytest.mark.gpu
@pytest.mark.parametrize("n", [1, 2, 4, 5, 8, 9, 31, 32, 33, 64, 65, 96, 97, 129, 400, 1024, 1100])
def test_lanes_of_every_number(n):
    assert_as_on_a_cpu(ROAD, np.random.default_rng(n).integers(0, ROAD.n_vertices, n))


@pytest.mark.gpu
@pytest.mark.parametrize("kept", [EveryVertex(), Nothing(), Targets(np.array([7, 5000]))])
@pytest.mark.parametrize("n", [1, 32, 400])
def test_calls_that_follow_each_other_with_other_sources(kept, n):
    graph = road_like(20_000).graph()
    rng = np.random.default_rng(4)
    for _ in range(5):  # from the third on, they are one launch
        sources = rng.integers(0, graph.n_vertices, n)
        found, expected = (
            SOLVERS[name].solve(graph, sources, SolveOptions(kept=kept)) for name in ("phast-gpu", "dijkstra")
        )
        assert_array_equal(found.distances, expected.distances)
        assert [m.mean_distance for m in found.metrics] == [m.mean_distance for m in expected.metrics]
    launches = device_hierarchy(device_graph(graph), host_hierarchy(graph)).launches
    assert any(sequence.graph is not None for sequence in launches._sequences.values())


@pytest.mark.gpu
@pytest.mark.parametrize("n", [1, 3, 76])
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("cutoff", [None, 0, 3000])
def test_roads_whose_directions_differ(dtype, cutoff, n):
    made = road_like(4000)
    keep = np.random.default_rng(1).random(len(made.src)) < 0.93
    graph = csr_from_edges(
        made.src[keep],
        made.dst[keep],
        (made.weights[keep] + np.arange(keep.sum()) % 7).astype(dtype),
        made.n_vertices,
    )
    assert_as_on_a_cpu(graph, np.arange(0, 4000, 53)[:n], cutoff)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "made", [path(3000), star(700), grid(60, 60), grid(70, 70, keep=0.55), grid(1, 1), path(2)]
)
def test_trees_meshes_and_many_components(made):
    assert_as_on_a_cpu(made.graph(), np.arange(made.n_vertices)[:: max(1, made.n_vertices // 70)])


@pytest.mark.gpu
@pytest.mark.parametrize("cutoff", [None, 400])
@pytest.mark.parametrize("n", [1, 4, 100, 130, 500])
@pytest.mark.parametrize(("dtype", "share"), [("uint32", 0.05), ("uint64", 0.3), ("uint32", 2)])
def test_large_fronts(n, cutoff, dtype, share, monkeypatch):
    with_small_chunks(monkeypatch, share)
    monkeypatch.setattr(phast_gpu, "LEAST_PART", 8)
    made = grid(40, 60)
    graph = with_weights(made, made.weights.astype(dtype))
    assert_as_on_a_cpu(graph, np.random.default_rng(n).integers(0, graph.n_vertices, n), cutoff)


@pytest.mark.gpu
@pytest.mark.parametrize("n", [1, 3])
def test_fronts_of_targets_that_change_from_call_to_call(n, monkeypatch):
    with_small_chunks(monkeypatch, 2, least_front=2)
    monkeypatch.setattr(phast_gpu, "LEAST_PART", 8)
    graph = grid(24, 24, keep=0.7).graph()
    rng = np.random.default_rng(n)
    for _ in range(60):  # some have as many fronts as an earlier call, with other boundaries
        kept = Targets(rng.choice(graph.n_vertices, n, replace=False))
        options = SolveOptions(kept=kept, metrics=False)
        found, expected = (
            SOLVERS[name].solve(graph, np.array([0, 300]), options) for name in ("phast-gpu", "dijkstra")
        )
        assert_array_equal(found.distances, expected.distances)


@pytest.mark.gpu
@pytest.mark.parametrize("is_directed", [False, True])
@pytest.mark.parametrize("weights", ["as made", "some are 0"])
def test_a_tile_leaves_out_what_a_way_over_the_rest_of_its_boundary_replaces(
    is_directed, weights, monkeypatch
):
    with_small_chunks(monkeypatch, 2, 10**6)
    monkeypatch.setattr(of_device, "LEAST_BITS", 32)
    made = road_like(400)
    keep = np.random.default_rng(1).random(len(made.src)) < (0.9 if is_directed else 1)
    lengths = made.weights[keep] if weights == "as made" else made.weights[keep] % 3 // 2
    graph = csr_from_edges(made.src[keep], made.dst[keep], lengths, made.n_vertices)
    host = host_hierarchy(graph)
    on_device = device_hierarchy(device_graph(graph), host)
    distances = SOLVERS["dijkstra"].solve(graph, np.arange(400), SolveOptions()).distances.astype(np.int64)
    distances[distances == unreached_distance(graph.weight_dtype)] = INFINITIES[32]
    by_place = np.empty_like(distances)
    by_place[np.ix_(on_device.host_places, on_device.host_places)] = distances
    words, boundary = on_device.from_boundary.get().astype(np.int64), on_device.boundary.get()
    n_left_out = 0
    for tile in on_device.host_tiles:
        whole = host.tiles[host.tiles_of_places[tile["first_place"]]]
        (ways, places), (of_chunk, all_places) = (
            (
                words[int(t["matrix"]) :][: 8 * t["n_boundary"]].reshape(-1, 8),
                boundary[t["first_boundary"] :][: t["n_boundary"]],
            )
            for t in (tile, whole)
        )
        listed = [all_places.tolist().index(place) for place in places]
        assert listed == sorted(listed)
        assert_array_equal(ways, of_chunk[listed])
        over_others = by_place[np.ix_(all_places, places)][:, :, None] + ways
        assert np.all(over_others.min(axis=1, initial=INFINITIES[32]) <= of_chunk)
        n_left_out += len(all_places) - len(places)
    assert n_left_out > 0


@pytest.mark.gpu
def test_zero_weights():
    made = road_like(3000)
    assert_as_on_a_cpu(with_weights(made, made.weights % 3 // 2), np.arange(0, 3000, 61))


@pytest.mark.gpu
@pytest.mark.parametrize(("weight", "bits"), [(16, 16), (17, 16), (40, 32), (2**21, 32), (2**22, 64)])
@pytest.mark.parametrize("cutoff", [None, 2000])
def test_words_have_the_bits_that_distances_may_need(weight, bits, cutoff, shortest_bits):
    graph = with_weights(path(1000), weight)
    assert bits_of(graph) == max(bits, shortest_bits)
    assert_as_on_a_cpu(graph, np.arange(0, 1000, 37), cutoff)


@pytest.mark.gpu
@pytest.mark.parametrize("longest", [INFINITIES[16] - 2, INFINITIES[16] - 1, INFINITIES[16]])
@pytest.mark.parametrize("dtype", ["uint32", "int64"])
def test_the_longest_distance_of_a_word_of_16_bits(longest, dtype, shortest_bits):
    """Two vertices: so the bound of all distances is the length of the longest one."""
    graph = csr_from_edges(np.array([0, 1]), np.array([1, 0]), np.array([longest, 0], dtype), 3)
    fits = longest < INFINITIES[16]
    assert bits_of(graph) == (max(16, shortest_bits) if fits else 8 * graph.weight_dtype.itemsize)
    assert_as_on_a_cpu(graph, np.arange(3))


@pytest.mark.gpu
@pytest.mark.parametrize("cutoff", [None, 60])
@pytest.mark.parametrize("n", [1, 33, 65, 130, 300, 500, 1024])
@pytest.mark.parametrize(("dtype", "share"), [("uint32", 0.05), ("uint64", 0.3), ("int32", 2)])
@pytest.mark.parametrize("keep", [1, 0.6])
def test_fronts_with_words_of_16_bits(n, cutoff, dtype, share, keep, monkeypatch, shortest_bits):
    with_small_chunks(monkeypatch, share)
    monkeypatch.setattr(phast_gpu, "LEAST_PART", 8)
    made = grid(40, 60, keep=keep)
    graph = with_weights(made, (made.weights % 20).astype(dtype))
    assert bits_of(graph) == max(16, shortest_bits)
    assert_as_on_a_cpu(graph, np.random.default_rng(n).integers(0, graph.n_vertices, n), cutoff)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["uint32", "int64"])
@pytest.mark.parametrize(
    ("weight", "n_apart", "is_short"), [(200, 0, True), (1000, 0, False), (200, 50, False), (100, 400, False)]
)
def test_a_search_tells_that_distances_are_short(weight, n_apart, is_short, dtype, shortest_bits):
    # A lattice, and a path that the search does not reach. From the root to a corner are 39 to 78 edges.
    lattice, apart = grid(40, 40), path(n_apart) if n_apart else None
    tails, heads = lattice.src, lattice.dst
    if apart is not None:
        tails, heads = np.append(tails, 1600 + apart.src), np.append(heads, 1600 + apart.dst)
    n = 1600 + n_apart
    graph = csr_from_edges(tails, heads, np.full(len(tails), weight, dtype), n)
    assert no_distance_above(shared_hierarchy(graph)) > INFINITIES[16]
    longer = 64 if dtype == "int64" else 32
    assert bits_of(graph) == (16 if is_short and shortest_bits == 16 else longer)
    assert_as_on_a_cpu(graph, np.arange(0, n, 37))


@pytest.mark.gpu
def test_roads_are_not_searched_for_a_bound(monkeypatch, shortest_bits):
    def search(making, bound):
        raise AssertionError("a search of roads takes many rounds")

    monkeypatch.setattr(of_device._Making, "_bound_by_search", search)
    roads = road_like(3000)
    assert bits_of(with_weights(roads, 10 * roads.weights)) == 32
    if shortest_bits == 16:
        with pytest.raises(AssertionError, match="many rounds"):
            bits_of(with_weights(grid(40, 40), 200))


@pytest.mark.gpu
@pytest.mark.parametrize("bits", [16, 32, 64])
def test_words_have_as_many_bits_as_are_asked_for(bits, monkeypatch, shortest_bits):
    monkeypatch.setattr(of_device, "LEAST_BITS", bits)
    graph = with_weights(grid(30, 30), 3)
    assert bits_of(graph) == max(bits, shortest_bits)
    assert_as_on_a_cpu(graph, np.arange(0, 900, 7))


@pytest.mark.gpu
def test_a_tree_that_is_too_deep_for_shared_memory(monkeypatch):
    monkeypatch.setattr(phast_gpu, "_SHARED_BYTES", 0)
    assert_as_on_a_cpu(ROAD, np.arange(0, 20_000, 777))


def kinds_of_answers(n_vertices, radius):
    amounts = np.random.default_rng(1).integers(0, 1000, (2, n_vertices))
    radii = (radius / 4, radius)
    return {
        "the summary alone": Reductions(),
        "harmonic": Reductions(harmonic=True),
        "within": Reductions(radii),
        "amounts": Reductions(radii, amounts),
        "amounts of 64 bits": Reductions(radii, amounts - 500),
        "histogram": Reductions(bounds=tuple(np.linspace(0, 2 * radius, 21).tolist())),
        "histogram of most buckets": Reductions(bounds=tuple(np.linspace(0, radius, 1025).tolist())),
        "over sources": Reductions(over_sources=OverSources(True, True, radii)),
        "quantiles": Reductions(radii, shares=(0.1, 0.5)),
        "nearest": NearestOfRow(7),
        "nearest targets": NearestOfRow(7, np.arange(n_vertices)[::97]),
        "all": Reductions(radii, amounts, True, (0, radius), (), OverSources(True, True, radii)),
    }


ANSWERS = list(kinds_of_answers(1, 1))


def assert_answered_as_by_dijkstra(graph, sources, kept, cutoff=None, ends=None):
    ends = ends or [len(sources)]
    options = SolveOptions(kept=kept, cutoff=cutoff)
    found, expected = (
        list(SOLVERS[name].solve_parts(graph, sources, options, ends)) for name in ("phast-gpu", "dijkstra")
    )
    assert len(found) == len(expected) == len(ends)
    for part, true in zip(found, expected, strict=True):
        assert_array_equal(part.distances, true.distances)
        assert (part.over_sources is None) == (kept.over_sources is None)
        assert_array_equal(part.over_sources, true.over_sources)
        for name in TOLD:
            assert [getattr(m, name) for m in part.metrics] == [getattr(m, name) for m in true.metrics]


@pytest.mark.gpu
@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("n", [1, 33, 400])
@pytest.mark.parametrize("cutoff", [None, 9000])
def test_answers_of_sources_of_every_number(name, n, cutoff):
    sources = np.random.default_rng(n).integers(0, ROAD.n_vertices, n)
    kept = kinds_of_answers(ROAD.n_vertices, 20_000)[name]
    assert_answered_as_by_dijkstra(ROAD, sources, kept, cutoff)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint64"])
@pytest.mark.parametrize("bits", [16, 32, 64])
def test_answers_with_words_of_every_width(name, dtype, bits, monkeypatch):
    monkeypatch.setattr(of_device, "LEAST_BITS", bits)
    graph = grid(60, 60, keep=0.6).graph(dtype)  # several components
    kept = kinds_of_answers(graph.n_vertices, 300)[name]
    assert_answered_as_by_dijkstra(graph, np.arange(0, 3600, 37), kept)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ANSWERS)
def test_answers_where_words_are_wider_than_distances(name):
    graph = with_weights(path(3000), 2**20)
    assert bits_of(graph) == 64
    kept = kinds_of_answers(graph.n_vertices, 2**30)[name]
    assert_answered_as_by_dijkstra(graph, np.arange(0, 3000, 37), kept)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ANSWERS)
def test_answers_of_several_device_batches_and_parts(name):
    graph = road_like(3000).graph()
    sources = np.random.default_rng(1).integers(0, graph.n_vertices, 2300)
    kept = kinds_of_answers(graph.n_vertices, 9000)[name]
    assert_answered_as_by_dijkstra(graph, sources, kept, ends=[7, 900, 1500, 1501, 2300])


@pytest.mark.gpu
def test_rows_that_are_reduced_by_place_are_not_written():
    on_device = device_graph(ROAD)
    n_bytes = {}
    for name, kept in kinds_of_answers(ROAD.n_vertices, 20_000).items():
        options = SolveOptions(kept=kept)
        search = SOLVERS["phast-gpu"].start_batch(ROAD, on_device, options, 64)
        has_rows, has_targets = name in ("quantiles", "nearest"), name == "nearest targets"
        assert search.lane_bits == (0 if has_rows or has_targets else bits_of(ROAD))
        needs = SOLVERS["phast-gpu"].needs(ROAD, on_device, options, 64)
        assert needs.has_rows == has_rows
        n_bytes[name] = needs.bytes_a_source
    assert n_bytes["the summary alone"] < n_bytes["harmonic"] / 3
    assert n_bytes["harmonic"] == n_bytes["within"]


@pytest.mark.gpu
def test_twenty_repeats_give_the_same_metrics():
    sources = np.arange(0, 20_000, 31)
    options = SolveOptions(kept=Nothing())
    first, *others = (SOLVERS["phast-gpu"].solve(ROAD, sources, options).metrics for _ in range(20))
    for other in others:
        assert [[getattr(m, name) for m in other] for name in TOLD] == [
            [getattr(m, name) for m in first] for name in TOLD
        ]


@pytest.mark.gpu
def test_a_preparation_past_the_deadline_is_an_error_and_leaves_the_gpu():
    graph, late = grid(40, 40).graph(), SolveOptions(preparation_s=1e-9)
    told = (
        "^`phast-gpu` took longer for the preparation of the graph than `solve.deadline_s` allows, 1e-09 s$"
    )
    for _ in range(2):
        with pytest.raises(DeadlineError, match=told):
            SOLVERS["phast-gpu"].solve(graph, np.array([3]), late)
    assert_as_on_a_cpu(graph, np.array([3]))
    SOLVERS["phast-gpu"].solve(graph, np.array([3]), late)  # the graph is prepared


@pytest.mark.gpu
def test_compiling_takes_nothing_of_the_limit_of_a_preparation(monkeypatch):
    load = of_device.load_kernels

    def load_late(*args, **options):
        time.sleep(0.5)
        return load(*args, **options)

    monkeypatch.setattr(of_device, "load_kernels", load_late)
    graph = grid(9, 9).graph()
    found = SOLVERS["phast-gpu"].solve(graph, np.array([3]), SolveOptions(preparation_s=0.4))
    true = SOLVERS["dijkstra"].solve(graph, np.array([3]), SolveOptions())
    assert_array_equal(found.distances, true.distances)
