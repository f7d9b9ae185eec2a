import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.testing import assert_array_equal

from sssp_pipeline.kernels.host.row_memory import RowMemory


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_is_lent_again_only_when_no_view_uses_it():
    memory = RowMemory()
    rows = memory.empty((3, 5), np.dtype("uint32"))
    assert (rows.shape, rows.dtype, rows.flags.writeable) == ((3, 5), np.dtype("uint32"), True)
    rows[:] = 7
    place, view = address(rows), rows[1:2]
    del rows
    other = memory.empty((3, 5), np.dtype("uint32"))
    assert address(other) != place
    assert_array_equal(view, [[7] * 5])
    del view
    assert address(memory.empty((2, 3), np.dtype("uint64"))) == place


def test_memory_that_is_too_small_is_not_lent():
    memory = RowMemory()
    memory.empty((1, 4), np.dtype("uint32"))
    large = memory.empty((100, 100), np.dtype("int64"))
    large[:] = np.arange(10_000).reshape(100, 100)
    assert large.sum() == 9999 * 5000


def test_there_are_rows_without_columns_and_columns_without_rows():
    memory = RowMemory()
    assert memory.empty((0, 5), np.dtype("uint32")).shape == (0, 5)
    assert memory.empty((5, 0), np.dtype("uint32")).shape == (5, 0)


def test_rows_may_outlive_the_memory_they_are_from():
    memory = RowMemory()
    rows = memory.empty((2, 2), np.dtype("uint32"))
    rows[:] = 3
    del memory
    gc.collect()
    assert_array_equal(rows, [[3, 3], [3, 3]])


def test_threads_never_get_the_same_memory():
    memory = RowMemory()

    def use(number):
        for _ in range(200):
            rows = memory.empty((4, 100), np.dtype("uint32"))
            rows[:] = number
            assert (rows == number).all()
            del rows

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(use, range(4)))
