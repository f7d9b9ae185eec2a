"""Weights with decimals: which are exact, which are refused, with a comma, and to be scaled."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk
from sssp_pipeline.pipeline.formats.parsing import faults
from sssp_pipeline.pipeline.formats.parsing.line_reader import float64_fault
from sssp_pipeline.pipeline.ingest.weight_types import WeightRange, scaled
from sssp_pipeline.workflow.graph import Weights

INEXACT_HINT = "set `graph.weights.dtype: float64` to round it, or scale the weights down"
KINDS = pytest.mark.parametrize(("name", "between"), [("e.txt", " "), ("e.csv", ";")])


def rows(between: str, *weights: str) -> str:
    return "".join(between.join((str(i), str(i + 1), w)) + "\n" for i, w in enumerate(weights))


# ---- exact or refused


@KINDS
@pytest.mark.parametrize(
    "weights",
    [
        ("0.5", "16777217"),
        ("0.1", "0.2"),
        ("9007199254740992", "0.5"),
        ("0.1234567890123456789", "3"),
        ("1e2", "-0.0"),
    ],
)
def test_decimals_are_float64(write, read, name, between, weights):
    found = read(write(name, rows(between, *weights)))
    assert_array_equal(found.weights, np.array([float(w) for w in weights]), strict=True)


@KINDS
@pytest.mark.parametrize("integer", ["9007199254740993", "-9007199254740993", str(2**64 + 1), "5" * 300])
def test_integers_that_decimals_would_round(write, read, refused, name, between, integer):
    file = write(name, rows(between, "0.5", integer))
    shown = integer if len(integer) <= 60 else refused(file)[0].split("`")[3]
    assert integer.startswith(shown.removesuffix("..."))
    assert refused(file) == (
        f"`{name}` line 2: weight `{shown}` is an integer that no type holds exactly beside the other weights",
        INEXACT_HINT,
    )
    for dtype in ("float32", "float64"):
        assert read(file, weight_dtype=dtype).weights.tolist() == [0.5, float(integer)]


@KINDS
@pytest.mark.parametrize("weight", ["0", "-0.0", "0e5", "0.000", "0e-400", ".0", "+0."])
def test_zero_is_zero(write, read, name, between, weight):
    assert read(write(name, rows(between, "0.5", weight))).weights.tolist() == [0.5, 0]


# ---- a comma


@KINDS
def test_a_decimal_comma(write, read, name, between):
    weights = ["1,5", "-2,25", "7", ",5", "1,", "1,5e2", "0,1234567890123456789"]
    found = read(write(name, rows(between, *weights)), decimal="comma")
    wanted = np.array([float(w.replace(",", ".")) for w in weights])
    assert_array_equal(found.weights, wanted, strict=True)


def test_a_decimal_comma_may_be_a_delimiter(write, read, refused):
    name = write("e.csv", "1;2;1,5\n3;4;2,5\n")
    assert refused(name)[1] == (
        "set `graph.delimiter` to the one that is meant, and `graph.decimal: comma` if 1,5 is a number"
    )
    assert read(name, decimal="comma").rows() == [(1, 2, 1.5), (3, 4, 2.5)]


# ---- to be scaled


@pytest.mark.parametrize(
    ("text", "scale", "fault"),
    [
        ("0.123", 1000, None),
        ("0.1234", 1000, faults.NOT_SCALED),
        ("123456789012.12300", 1000, None),
        ("123456789012.12301", 1000, faults.NOT_SCALED),
        ("4503599627370.4961", 1000, faults.NOT_SCALED),
        ("0.12300000000000000000000000001", 1000, faults.NOT_SCALED),
        ("0.12300000000000000000000000000", 1000, None),
        ("1230e-4", 1000, None),
        ("1.5E+3", 10, None),
        ("1e-100", 1000, faults.NOT_SCALED),
        ("1e30", 1000, None),
        ("0.000", 10, None),
        ("1e-400", 1000, faults.UNDERFLOW),
        ("1e400", 1000, faults.NOT_FINITE),
    ],
)
def test_what_scaling_would_lose(text, scale, fault):
    assert float64_fault(text, float(text), False, scale) == fault
    assert float64_fault("-" + text, -float(text), False, scale) == fault


@pytest.mark.medium
@KINDS
@given(
    st.lists(
        st.tuples(
            st.integers(-(2**60), 2**60), st.integers(0, 20), st.sampled_from(["", "0", "e0", "000000000000"])
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([10, 1000, 10**6, 10**9]),
)
@settings(deadline=None, max_examples=60)
def test_scaled_weights_are_exact_or_refused(tmp_path_factory, read, name, between, parts, scale):
    texts = [f"{Decimal(n).scaleb(-places):f}" for n, places, _ in parts]
    texts = [
        t + more if "." in t or more == "e0" else t for t, (_, _, more) in zip(texts, parts, strict=True)
    ]
    path = tmp_path_factory.mktemp("scaled") / name
    path.write_text(rows(between, *texts))
    wanted = [Fraction(Decimal(text)) * scale for text in texts]
    try:
        chunk = read(path, scale=scale, **({"delimiter": ";"} if between == ";" else {}))
        found = scaled(EdgeChunk(chunk.src, chunk.dst, chunk.weights), 0, scale, name).tolist()
    except InputError:
        assert any(w.denominator > 1 or abs(w) > 2**52 for w in wanted) or any(
            abs(n) > 2**53 for n, *_ in parts
        )
        return
    assert found == wanted


# ---- the type of the weights


@pytest.mark.parametrize(
    ("weights", "wanted"),
    [
        (("1", "2"), "uint32"),
        (("1", "80300.0"), "uint32"),
        (("1", "0.1"), "uint32 of 1/10"),
        (("16777217", "0.50"), "uint32 of 1/10"),
        (("1", "2.500000000000000000e+00"), "uint32 of 1/10"),
        (("1", "0.1000000000000000055"), "float64"),  # its float64 is that of 0.1
        (("1", "0.30000000000000004"), "float64"),
        (("1", "4503599627370496.5"), "float64"),
        (("1e39", "0.5"), "float64"),
        (("1e-40", "0.5"), "float64"),
    ],
)
@KINDS
@pytest.mark.parametrize("is_one_chunk", [False, True])
def test_the_type_that_keeps_all_weights_exact(write, opened, name, between, weights, wanted, is_one_chunk):
    seen = WeightRange()
    for texts in [weights] if is_one_chunk else [weights[:1], weights[1:]]:
        file = write(name, rows(between, *texts))
        for chunk in opened(file, delimiter=between if between == ";" else "auto").chunks():
            seen.add(chunk.weights, are_rounded=chunk.is_rounded)
    assert str(seen.type_of(Weights(), None)).split(":")[0] == wanted
