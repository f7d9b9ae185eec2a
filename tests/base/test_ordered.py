from __future__ import annotations

import threading
import time

import pytest

from sssp_pipeline.base.ordered import map_in_order, read_ahead


def test_results_keep_the_order_of_the_items():
    def slow_where_even(i):
        time.sleep(0.003 if i % 2 == 0 else 0)
        return i

    assert list(map_in_order(slow_where_even, iter(range(40)), 4)) == list(range(40))


def test_work_runs_on_several_threads_at_once():
    both = threading.Barrier(2, timeout=60)
    assert list(map_in_order(lambda i: both.wait() >= 0, iter(range(4)), 2)) == [True] * 4


def test_few_items_are_in_flight():
    made = []

    def items():
        for i in range(100):
            made.append(i)
            yield i

    results = map_in_order(lambda i: i, items(), 2)
    for i in range(50):
        assert next(results) == i
        assert len(made) <= i + 1 + 2 + 3
    results.close()


def test_an_error_of_the_work_comes_in_its_place():
    def work(i):
        if i == 5:
            raise ValueError(i)
        return i

    results = map_in_order(work, iter(range(100)), 3)
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="5"):
        next(results)


def test_an_error_of_the_items_comes_after_what_was_read():
    def items():
        yield from range(3)
        raise OSError("gone")

    results = map_in_order(lambda i: i, items(), 3)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(OSError, match="gone"):
        next(results)


def test_an_early_end_closes_the_items_and_leaves_no_thread(wait_until):
    closed = threading.Event()

    def items():
        try:
            yield from range(1000)
        finally:
            closed.set()

    before = set(threading.enumerate())
    results = map_in_order(lambda i: i, items(), 2)
    next(results)
    results.close()
    assert closed.wait(60)
    wait_until(lambda: set(threading.enumerate()) <= before)


def test_read_ahead_gives_everything():
    assert list(read_ahead(iter("abc"))) == ["a", "b", "c"]
    assert list(read_ahead(iter(""))) == []


@pytest.mark.skipif(not hasattr(threading, "_shutdown_locks_lock"), reason="this Python has no such lock")
@pytest.mark.parametrize("n_threads", [1, 3])
def test_the_collector_of_garbage_may_close_it_at_any_moment(n_threads):
    """It may run while a thread starts: then Python holds a lock that it needs to join a thread."""
    begun = threading.Event()

    def work(i):
        if i > 2:  # the last item that is taken in advance
            begun.set()
            time.sleep(0.05)
        return i

    results = map_in_order(work, iter(range(100)), n_threads)
    assert next(results) == 0
    if n_threads > 1:
        assert begun.wait(60)

    def close() -> None:
        with threading._shutdown_locks_lock:
            results.close()

    closing = threading.Thread(target=close, daemon=True)
    closing.start()
    closing.join(10)
    assert not closing.is_alive()
