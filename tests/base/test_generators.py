import zlib
from inspect import signature

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import csr_from_edges, unreached_distance
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.generators import (
    GENERATORS,
    IN_PARTS,
    dense,
    grid,
    hashed_weights,
    mesh,
    path,
    random_edges,
    rmat,
    road_like,
    small_world,
    star,
)
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.solver import SolveOptions

#: The parameters of a small graph, and the digest of its edges from seed 1. Results made from these graphs are compared
#: from one machine and release to the next.
SMALL = {
    "dense": ({"vertices": 60}, 285944644),
    "grid": ({"rows": 30, "cols": 40, "keep": 0.6}, 1265248333),
    "mesh": ({"rows": 30, "cols": 40}, 441834438),
    "path": ({"vertices": 5000}, 2639786753),
    "random": ({"vertices": 500, "edge_factor": 8}, 3745066366),
    "rmat": ({"scale": 9, "edge_factor": 8}, 1173982426),
    "road": ({"vertices": 5000}, 16579776),
    "small-world": ({"vertices": 1000, "near": 3, "far": 0.1}, 3328473469),
    "star": ({"vertices": 5000}, 569674403),
}


def digest(made):
    return zlib.crc32(made.weights.tobytes(), zlib.crc32(made.dst.tobytes(), zlib.crc32(made.src.tobytes())))


@pytest.mark.parametrize("name", GENERATORS)
def test_edges_depend_only_on_the_seed_and_are_the_same_everywhere(name):
    given, expected = SMALL[name]
    made, again, other = (GENERATORS[name](**given, seed=seed) for seed in (1, 1, 4))
    assert digest(made) == digest(again) == expected != digest(other)
    assert made.src.dtype == made.dst.dtype == made.weights.dtype == np.uint32
    assert max(made.src.max(), made.dst.max()) < made.n_vertices
    assert all(given.default is not given.empty for given in signature(GENERATORS[name]).parameters.values())


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("random", {"vertices": 20_000, "edge_factor": 17, "seed": 5}, 1632842590),
        ("rmat", {"scale": 14, "edge_factor": 17, "seed": 5}, 3135232960),
    ],
)
def test_edges_that_are_made_in_parts_are_the_same(name, given, expected):
    made, in_parts = GENERATORS[name](**given), IN_PARTS[name](**given)
    assert digest(made) == expected
    assert (in_parts.n_vertices, in_parts.n_edges) == (made.n_vertices, made.n_edges)
    assert signature(IN_PARTS[name]) == signature(GENERATORS[name]).replace(return_annotation="EdgesInParts")
    for first, end in (
        (0, 1),
        (250_000, 270_000),
        (65_530, 140_000),
        (7, 7),
        (made.n_edges - 3, made.n_edges),
    ):
        for ours, whole in zip(in_parts.some_ends(first, end), made.some_ends(first, end), strict=True):
            assert_array_equal(ours, whole, strict=True)
        assert_array_equal(in_parts.some_weights(first, end), made.weights[first:end], strict=True)


def pairs(made):
    return made.src.astype(np.int64) * made.n_vertices + made.dst


@pytest.mark.parametrize("name", ["grid", "mesh", "path", "road", "small-world", "star"])
def test_edges_run_both_ways_at_the_same_weight(name):
    made = GENERATORS[name](**SMALL[name][0])
    half = len(made.src) // 2
    assert_array_equal(made.src[:half], made.dst[half:])
    assert_array_equal(made.dst[:half], made.src[half:])
    assert_array_equal(made.weights[:half], made.weights[half:])
    if name != "small-world":
        assert len(np.unique(pairs(made))) == len(made.src)


def test_path_star_and_dense_have_their_edges_and_no_others():
    assert set(pairs(path(vertices=4)).tolist()) == {
        0 * 4 + 1,
        1 * 4 + 2,
        2 * 4 + 3,
        1 * 4,
        2 * 4 + 1,
        3 * 4 + 2,
    }
    assert set(pairs(star(vertices=4)).tolist()) == {1, 2, 3, 1 * 4, 2 * 4, 3 * 4}
    made = dense(vertices=5)
    assert len(made.src) == 20 == len(np.unique(pairs(made)))
    assert (made.src != made.dst).all()
    for alone in (path(vertices=1), star(vertices=1), dense(vertices=1), mesh(rows=1, cols=1)):
        assert (alone.n_vertices, len(alone.src)) == (1, 0)


def test_mesh_is_triangles_cut_along_the_shorter_diagonal():
    made = mesh(rows=20, cols=30)
    assert len(made.src) == 2 * (19 * 30 + 20 * 29 + 19 * 29)
    east, north = made.coordinates
    straight = np.hypot(east[made.src] - east[made.dst], north[made.src] - north[made.dst])
    assert_array_equal(made.weights, np.rint(100 * straight))
    drawn = set(pairs(made).tolist())
    for corner in range(19 * 30):
        if corner % 30 == 29:
            continue
        falling, rising = (corner, corner + 31), (corner + 1, corner + 30)
        lengths = [np.hypot(east[a] - east[b], north[a] - north[b]) for a, b in (falling, rising)]
        kept = falling if lengths[0] <= lengths[1] else rising
        assert ({a * 600 + b for a, b in (falling, rising)} & drawn) == {kept[0] * 600 + kept[1]}


def test_random_edges_are_spread_evenly():
    made = random_edges(vertices=1000, edge_factor=50)
    degrees = np.bincount(made.src, minlength=1000)
    assert len(made.src) == 50_000
    assert 20 < degrees.min() <= degrees.max() < 90
    assert made.dst.max() == 999


def test_a_small_world_is_a_ring_with_a_few_edges_anywhere():
    ring = small_world(vertices=1000, near=3, far=0.0)
    steps = (ring.dst.astype(int) - ring.src) % 1000
    assert set(steps.tolist()) == {1, 2, 3, 997, 998, 999}
    made = small_world(vertices=1000, near=3, far=0.1)
    assert 0.07 < (made.dst != ring.dst)[:3000].mean() < 0.13


def test_hashed_weights_depend_on_the_two_ends_alone():
    src, dst = np.array([3, 7, 3, 10_000]), np.array([7, 3, 8, 10_000])
    assert hashed_weights(src, dst, 1000).tolist() == hashed_weights(dst, src, 1000).tolist()
    assert len(set(hashed_weights(src, dst, 1000).tolist())) == 3
    assert hashed_weights(src, dst, 1).tolist() == [1, 1, 1, 1]
    many = hashed_weights(np.arange(10_000), np.arange(10_000) + 1, 10)
    assert (np.bincount(many.astype(int), minlength=11)[1:] > 800).all()


def test_grid_keeps_its_share_of_the_lattice():
    whole = grid(rows=50, cols=70)
    assert whole.n_vertices == 3500
    assert len(whole.src) == 2 * (49 * 70 + 50 * 69)
    steps = np.abs(whole.src.astype(int) - whole.dst.astype(int))
    assert set(steps.tolist()) == {1, 70}
    assert (whole.weights.min(), whole.weights.max()) == (1, 1000)
    part = grid(rows=50, cols=70, keep=0.6)
    assert 0.57 < len(part.src) / len(whole.src) < 0.63
    assert np.isin(pairs(part), pairs(whole)).all()
    assert len(grid(rows=50, cols=70, keep=0).src) == 0


def test_rmat_is_skewed_and_permuted():
    made = rmat(scale=12, edge_factor=16)
    assert (made.n_vertices, len(made.src)) == (4096, 16 * 4096)
    assert (made.weights.min(), made.weights.max()) == (1, 100)
    degrees = np.bincount(made.src, minlength=4096)
    # Without the permutation vertex 0 has the largest degree by far, and the even vertices most edges.
    assert degrees.max() > 20 * degrees.mean()
    assert degrees.argmax() != 0
    assert 0.4 < degrees[::2].sum() / degrees.sum() < 0.6
    assert len(np.unique(pairs(made))) < len(made.src)


@pytest.mark.parametrize("vertices", [1, 2, 3, 10, 5000])
def test_road_is_connected_and_as_large_as_asked(vertices):
    made = road_like(vertices=vertices)
    assert made.n_vertices == vertices
    graph = csr_from_edges(made.src, made.dst, made.weights, vertices)
    distances = SOLVERS["dijkstra"].solve(graph, np.array([vertices // 2]), SolveOptions()).distances
    assert (distances != unreached_distance(distances.dtype)).all()


def test_road_lengths_are_metres_between_its_crossings():
    made = road_like(vertices=20_000)
    assert 2.4 < len(made.src) / made.n_vertices < 2.6
    east, north = made.coordinates
    assert east.shape == north.shape == (20_000,)
    straight = np.hypot(east[made.src] - east[made.dst], north[made.src] - north[made.dst])
    assert (made.weights >= np.maximum(1, straight - 0.5)).all()
    assert (made.weights <= np.maximum(1, 1.3 * straight + 0.5)).all()
    assert made.weights.max() > 2500


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("road", {"vertices": 0}, "generator `road`: vertices is 0"),
        ("road", {"vertices": 2.5}, "generator `road`: vertices is 2.5"),
        ("road", {"seed": 0.5}, "seed is 0.5"),
        ("grid", {"rows": 0}, "generator `grid`: rows is 0"),
        ("grid", {"rows": 2**17, "cols": 2**17}, "generator `grid`: cols is 131072"),
        ("grid", {"keep": 1.5}, "generator `grid`: keep is 1.5"),
        ("grid", {"keep": float("nan")}, "generator `grid`: keep is nan"),
        ("rmat", {"scale": 32}, "generator `rmat`: scale is 32"),
        ("rmat", {"edge_factor": -1}, "generator `rmat`: edge_factor is -1"),
        ("random", {"vertices": 0}, "generator `random`: vertices is 0"),
        ("random", {"seed": 0.5}, "seed is 0.5"),
        ("rmat", {"seed": 0.5}, "seed is 0.5"),
        ("random", {"edge_factor": -1}, "generator `random`: edge_factor is -1"),
        ("small-world", {"vertices": 0}, "generator `small-world`: vertices is 0"),
        ("small-world", {"vertices": 4, "near": 4}, "generator `small-world`: near is 4"),
        ("small-world", {"far": -0.1}, "generator `small-world`: far is -0.1"),
        ("mesh", {"cols": 0}, "generator `mesh`: cols is 0"),
        ("path", {"vertices": 0}, "generator `path`: vertices is 0"),
        ("star", {"vertices": 0}, "generator `star`: vertices is 0"),
        ("dense", {"vertices": 2**17}, "generator `dense`: vertices is 131072"),
    ],
)
def test_impossible_parameters_are_named(name, given, message):
    with pytest.raises(InputError) as caught:
        IN_PARTS.get(name, GENERATORS[name])(**given)
    assert caught.value.message == message
