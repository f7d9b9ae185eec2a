import numpy as np
import pytest

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk
from sssp_pipeline.pipeline.ingest.weight_types import WeightRange, WeightType, default_weight, scaled
from sssp_pipeline.workflow.graph import Weights


@pytest.mark.parametrize(
    ("values", "dtype", "smallest"),
    [
        *(([0, 255], dtype, "uint8") for dtype in ("int64", "uint64")),
        *(([1, 2**53 + 1], dtype, "uint64") for dtype in ("int64", "uint64")),
        ([7, 2**40], "int64", "uint64"),
        ([-1, 100], "int64", "int16"),
        *(([-1, most], "int64", "int64") for most in (2**32 - 1, 2**32, 2**53 + 1)),
        ([-(2**63), 2**63 - 1], "int64", "int64"),
    ],
)
def test_integers_come_back_as_they_are_in_the_smallest_type(values, dtype, smallest):
    kept = WeightRange().add(np.array(values, dtype))
    assert (kept.tolist(), kept.dtype) == (values, smallest)


def seen(*chunks) -> WeightRange:
    weights = WeightRange()
    for chunk in chunks:
        weights.add(np.array(chunk))
    return weights


@pytest.mark.parametrize(
    ("chunks", "wanted"),
    [
        ([[0]], "uint32"),
        ([[1, 2**32 - 2]], "uint32"),
        ([[1, 2**32 - 1]], "uint64"),
        ([[-1, 2**31 - 2]], "int32"),
        ([[-1, 2**31 - 1]], "int64"),
        ([[-(2**31)]], "int32"),
        ([[-(2**31) - 1]], "int64"),
        ([[80300.0, 80301.0]], "uint32"),
        ([[80300.0], [7]], "uint32"),
        ([[0.5, 2**24]], "uint32 of 1/10"),
        ([[0.5], [2**24 + 1]], "uint32 of 1/10"),
        ([[0.5], [-(2**24) - 1]], "int32 of 1/10"),
        ([[0.5, 2.0**31]], "uint64 of 1/10"),
        ([[0.1], [0.25], [7]], "uint32 of 1/100"),
        ([[0.25], [0.1], [7]], "uint32 of 1/100"),
        ([[0.000000001, 4.0]], "uint32 of 1/1000000000"),
        ([[0.0000000001]], "float64"),  # ten places
        ([[0.1], [2.0**52 / 10]], "uint64 of 1/10"),
        ([[0.1], [2**52]], "float64"),  # the scaled weight would have too many digits
        ([[2**52], [0.1]], "float64"),
        ([[2.0**52 + 2]], "float64"),
        ([[2.0**127]], "float64"),
        ([[1e-39]], "float64"),
        ([[0.1 + 0.2]], "float64"),
        ([[1 / 3]], "float64"),
        ([[-0.0, 0.5]], "uint32 of 1/10"),
        ([[0.0, 1.0]], "uint32"),
    ],
)
@pytest.mark.parametrize("order", [1, -1])
def test_the_type_is_the_smallest_that_holds_every_weight(chunks, wanted, order):
    found = str(seen(*chunks[::order]).type_of(Weights(), None))
    assert found.split(":")[0] == wanted
    assert ("sums are rounded" in found) == ("float" in wanted)


def test_weights_that_were_rounded_are_not_scaled():
    weights = WeightRange()
    weights.add(np.array([0.1]), are_rounded=True)
    assert weights.type_of(Weights(), None).dtype == "float64"
    other = seen([0.1])
    other.merge(weights)
    assert other.type_of(Weights(), None).dtype == "float64"


@pytest.mark.parametrize(
    ("dtype", "factor", "given", "wanted"),
    [
        ("uint32", 10, [0.1, 7.0], [1, 70]),
        ("int64", 10**9, [-0.000000001], [-1]),
        ("uint32", 1000, [1, 2], [1000, 2000]),
        ("uint32", 1, [80300.0], [80300]),
        ("float32", 1, [2**24 + 1], [2**24]),
    ],
)
def test_weights_as_they_are_stored(dtype, factor, given, wanted):
    found = WeightType(np.dtype(dtype), None, "", factor).stored(np.array(given))
    assert (found.dtype, found.tolist()) == (dtype, wanted)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_typed_column_keeps_its_type(dtype):
    found = seen([0.5]).type_of(Weights(), np.dtype(dtype))
    assert (found.dtype, found.scale) == (dtype, None)


@pytest.mark.parametrize("integer", [2**53 + 1, -(2**53) - 1, 2**62 + 1])
@pytest.mark.parametrize("order", [1, -1])
def test_no_integer_is_rounded_beside_decimals(integer, order):
    chunks = [[0.5], [7, integer]][::order]
    with pytest.raises(InputError) as caught:
        seen(*chunks).type_of(Weights(), None)
    assert f"{integer}" in caught.value.message
    assert "graph.weights.dtype: float64" in caught.value.hint
    assert seen(*chunks).type_of(Weights(dtype="float64"), None).dtype == "float64"
    assert seen([0.5], [2**60]).type_of(Weights(), None).dtype == "float64"  # exact


def test_no_integer_type_holds_both():
    with pytest.raises(InputError) as caught:
        seen([-1], np.array([2**64 - 1], np.uint64)).type_of(Weights(), None)
    assert caught.value.hint


def chunk_of(*weights) -> EdgeChunk:
    ends = np.arange(len(weights))
    return EdgeChunk(ends, ends + 1, np.array(weights))


@pytest.mark.parametrize(
    ("weights", "scale", "wanted"),
    [
        ([0.1, 0.2, 0.3], 10, [1, 2, 3]),
        ([1.005, -2.675], 1000, [1005, -2675]),
        ([5, -7, 0], 1000, [5000, -7000, 0]),
        ([2**52 / 1000], 1000, [2**52]),
        ([0.000000001], 10**9, [1]),
    ],
)
def test_scaled_weights_are_integers(weights, scale, wanted):
    found = scaled(chunk_of(*weights), 0, scale, "`e.txt`")
    assert (found.dtype, found.tolist()) == (np.int64, wanted)


@pytest.mark.parametrize("weight", [0.0001, 1.00001, 2.0**53, 1e300, 2**50, -(2**50)])
def test_what_scaling_would_round_is_refused(weight):
    with pytest.raises(InputError) as caught:
        scaled(chunk_of(*([1, weight] if isinstance(weight, int) else [0.5, weight])), 10, 1000, "`e.txt`")
    assert caught.value.message.startswith("`e.txt`: edge 12, from `1` to `2`: weight ")
    assert "graph.weights.scale" in caught.value.hint


def test_the_default_weight_is_scaled_too():
    assert default_weight(Weights(default=1.5, scale=1000)).tolist() == [1500]
    with pytest.raises(InputError):
        default_weight(Weights(default=0.0001, scale=1000))
