"""What is kept of a row, on the host; the conformance tests have every solver keep it, on devices too."""

import numpy as np
import pytest

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.kernels.contract.kept import EveryVertex, Nothing, Targets
from sssp_pipeline.kernels.gpu.common.rows.kept_on_device import reduction_on_device

ROW = np.array([0, 7, 3, 9], np.int32)


@pytest.mark.parametrize(
    ("kept", "expected", "is_whole"),
    [
        (EveryVertex(), [0, 7, 3, 9], True),
        (Targets(np.array([3, 0, 3])), [9, 0, 9], False),
        (Nothing(), [], False),
    ],
)
def test_a_row_is_reduced_to_what_is_kept(kept, expected, is_whole):
    assert kept.n_columns(len(ROW)) == len(expected)
    into = np.empty(len(expected), kept.dtype(ROW.dtype))
    kept.checked(len(ROW)).reduce(ROW, into)
    assert (into.tolist(), into.dtype, kept.is_whole_row) == (expected, np.int32, is_whole)


def test_only_targets_take_memory_on_the_device_beside_a_row():
    targets = Targets(np.array([3, 0, 3], np.uint32))
    assert targets.device_bytes(4, ROW.dtype) == targets.fixed_device_bytes(4) == 12
    for kept in (EveryVertex(), Nothing()):
        assert kept.device_bytes(4, ROW.dtype) == kept.fixed_device_bytes(4) == 0


def test_whole_rows_and_no_columns_are_views_of_the_rows():
    rows = np.zeros((2, 4), np.uint32)
    assert reduction_on_device(EveryVertex(), 2, 4, rows.dtype)(rows, None) is rows
    assert reduction_on_device(Nothing(), 2, 4, rows.dtype)(rows, None).shape == (2, 0)


def test_a_target_that_is_no_vertex_is_refused():
    with pytest.raises(InputError, match="target 4 is not in the graph"):
        Targets(np.array([0, 4])).checked(4)
