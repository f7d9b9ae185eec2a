from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.generators import GENERATORS


def test_the_edges_are_those_of_the_generator(read):
    made = GENERATORS["road"](vertices=500, seed=3)
    found = read("generated:road?vertices=500&seed=3", block_bytes=1600)
    assert (found.reading.format, found.reading.ids) == ("generated", "integer")
    assert (found.edge_list.n_vertices, found.edge_list.first_id) == (500, 0)
    assert found.edge_list.weight_dtype == made.weights.dtype
    assert found.n_chunks > 5
    assert_array_equal(found.src, made.src.astype(np.int64), strict=True)
    assert_array_equal(found.dst, made.dst.astype(np.int64), strict=True)
    assert_array_equal(found.weights, made.weights, strict=True)
    x, y = found.edge_list.coordinates()
    assert_array_equal(np.stack([x, y]), np.stack(made.coordinates))


def test_edges_made_in_parts_are_those_of_the_generator(read):
    made = GENERATORS["rmat"](scale=8, edge_factor=5, seed=3)
    found = read("generated:rmat?scale=8&edge_factor=5&seed=3", block_bytes=1600)
    assert found.n_chunks == 13
    assert_array_equal(found.src, made.src.astype(np.int64), strict=True)
    assert_array_equal(found.dst, made.dst.astype(np.int64), strict=True)
    assert_array_equal(found.weights, made.weights, strict=True)


def test_without_weights_and_coordinates(read):
    found = read("generated:rmat?scale=5&edge_factor=4", weight_column="none")
    assert not found.edge_list.has_weights
    assert len(found.src) == 4 * 2**5
    assert found.edge_list.coordinates() is None


def test_a_parameter_may_be_a_decimal(read):
    made = GENERATORS["grid"](rows=10, cols=10, keep=0.5)
    assert_array_equal(read("generated:grid?rows=10&cols=10&keep=0.5").src, made.src)


@pytest.mark.parametrize(
    ("url", "problem", "hint"),
    [
        (
            "generated:raod",
            "unknown generator `raod`",
            "did you mean `road`? Generators: dense, grid, mesh, path, random, rmat, road, small-world, star",
        ),
        (
            "generated:road?vertexes=5",
            "unknown parameter `vertexes`",
            "did you mean `vertices`? Parameters: vertices, seed",
        ),
        ("generated:road?seed=x", "`x` is not a value for `seed`", "parameters are numbers"),
        ("generated:road?seed=1&seed=2", "`seed` is given twice", "give each parameter once"),
    ],
)
def test_faults(refused, url, problem, hint):
    assert refused(url) == (f"`{url}`: {problem}", hint)


def test_not_with_another_input(refused, write):
    assert refused("generated:road", write("e", "1 2\n")) == (
        "`generated:road` cannot be read together with another input",
        "name one generated graph",
    )


def test_options_that_do_not_fit(refused):
    assert refused("generated:road", format="csv") == (
        "`generated:road` is a generated graph, not a file in format csv",
        "remove `graph.format`",
    )
    assert refused("generated:road", coordinates="r.co") == (
        "coordinates are given in `r.co`, but a generated edge list has its own or none",
        "remove `graph.coordinates`",
    )
    message, _ = refused("generated:road", weight_column="length")
    assert message.endswith("`osm`, `parquet` and `tntp`, not `generated`")
