"""Facts about rows on the device, against NumPy and zlib."""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import unreached_distance
from sssp_pipeline.kernels.contract import row_facts
from sssp_pipeline.kernels.gpu.common.rows import facts_on_device
from sssp_pipeline.kernels.host.crc32 import appended

pytestmark = pytest.mark.gpu


#: Values of a segment in these tests, unless a test says otherwise.
SEGMENT = 992


def found(rows: np.ndarray, *, packs: bool) -> tuple[np.ndarray, row_facts.RowFacts]:
    """Return `rows` as they are on the device after the search for facts, and the facts with their bits."""
    cupy = pytest.importorskip("cupy")
    finder = facts_on_device.FactsOnDevice(len(rows) + 1, rows.shape[1], rows.dtype, packs=packs)
    on_device = cupy.asarray(rows.view(f"u{rows.itemsize}"))
    facts = finder.launch(on_device)
    cupy.cuda.get_current_stream().synchronize()
    bits = finder.bits[: len(rows)].get() if packs else None
    return on_device.get().view(rows.dtype), replace(facts(), bits=bits)


def rows_of(dtype: str, n_columns: int) -> np.ndarray:
    """Return rows with all, no and some vertices reached, and some that are reached in their first half only."""
    kind = np.dtype(dtype)
    rows = (np.random.default_rng(n_columns).random((8, n_columns)) * 1e6).astype(kind)
    rows[3, ::3] = rows[5] = rows[6, n_columns // 2 :] = rows[7, 5:] = unreached_distance(kind)
    rows[4] = 0
    return rows


def assert_same_remainders(row: np.ndarray, remainders: np.ndarray, n_present: np.ndarray) -> None:
    """`row` has the values that are present, without gaps."""
    wanted = zlib.crc32(b"levels" + row.tobytes())
    assert (
        appended(zlib.crc32(b"levels"), remainders, 8 * row.itemsize * n_present.astype(np.int64)) == wanted
    )


def assert_same_bits(row: np.ndarray, facts: row_facts.RowFacts, i: int, segment: int) -> None:
    """`row` is number `i` before it was packed. Its bits follow each other without gaps between segments."""
    is_present = row != unreached_distance(row.dtype)
    lengths = np.diff([*range(0, len(row), segment), len(row)])
    remainders, n_bits = np.append(facts.bit_remainders[i], np.uint32(0)), np.append(lengths, -len(row) % 8)
    wanted = zlib.crc32(b"levels" + np.packbits(is_present, bitorder="little").tobytes())
    assert appended(zlib.crc32(b"levels"), remainders, n_bits) == wanted


@pytest.mark.parametrize("n_columns", [1, 255, 256, 257, 1000, 5000])
@pytest.mark.parametrize("dtype", ["uint32", "int32", "float32", "uint64", "int64", "float64"])
def test_facts_are_those_of_the_values(monkeypatch, dtype, n_columns):
    monkeypatch.setattr(facts_on_device, "SEGMENT", SEGMENT)
    monkeypatch.setattr(row_facts, "SEGMENT", SEGMENT)
    rows = rows_of(dtype, n_columns)
    unchanged, facts = found(rows, packs=False)
    assert_array_equal(unchanged, rows)
    for segment, begin in enumerate(range(0, n_columns, SEGMENT)):
        part = rows[:, begin : begin + SEGMENT]
        assert_array_equal(facts.least[:, segment], part.min(axis=1))
        assert_array_equal(facts.largest[:, segment], part.max(axis=1))
    lengths = np.diff([*range(0, n_columns, SEGMENT), n_columns])
    for row, remainders in zip(rows, facts.remainders, strict=True):
        assert_same_remainders(row, remainders, lengths)


@pytest.mark.parametrize("n_columns", [1, 31, 32, 255, 992, 1000, 5000, 9000])
@pytest.mark.parametrize("segment", [SEGMENT, 2**19])
@pytest.mark.parametrize("dtype", ["uint32", "int32", "float32", "uint64", "int64", "float64"])
def test_packed_rows_have_no_unreached_vertices(monkeypatch, dtype, segment, n_columns):
    monkeypatch.setattr(facts_on_device, "SEGMENT", segment)
    monkeypatch.setattr(row_facts, "SEGMENT", segment)
    rows = rows_of(dtype, n_columns)
    unreached = unreached_distance(rows.dtype)
    packed, facts = found(rows, packs=True)
    assert_array_equal(facts.unpacked(packed, unreached), rows)
    for k, begin in enumerate(range(0, n_columns, segment)):
        parts = [part[part != unreached] for part in rows[:, begin : begin + segment]]
        assert facts.n_present[:, k].tolist() == list(map(len, parts))
        for i, part in enumerate(parts):
            assert_array_equal(packed[i, begin : begin + len(part)], part)
            if len(part):
                assert (facts.least[i, k], facts.largest[i, k]) == (part.min(), part.max())
    for i, (row, remainders, n_present) in enumerate(
        zip(rows, facts.remainders, facts.n_present, strict=True)
    ):
        assert_same_remainders(row[row != unreached], remainders, n_present)
        assert_same_bits(row, facts, i, segment)


def test_facts_of_a_large_row():
    rows = np.random.default_rng(0).integers(0, 2**32 - 1, (3, 2 * row_facts.SEGMENT + 3), np.uint32)
    rows[1] |= np.where(rows[2] & 1, np.uint32(2**32 - 1), np.uint32(0))
    packed, facts = found(rows, packs=True)
    assert_array_equal(facts.unpacked(packed, unreached_distance(rows.dtype)), rows)
    for row, remainders, n_present in zip(rows, facts.remainders, facts.n_present, strict=True):
        assert_same_remainders(row[row != 2**32 - 1], remainders, n_present)
    for i, row in enumerate(rows):
        assert_same_bits(row, facts, i, row_facts.SEGMENT)
