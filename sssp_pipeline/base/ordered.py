"""Ordered work: several threads work on the items of a stream, and the results keep the order of the items."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_order(work: Callable[[Item], Result], items: Iterator[Item], n_threads: int) -> Iterator[Result]:
    """Give `work(item)` for each item, in order; a thread of its own takes the items from `items` in advance.

    At most `n_threads + 3` items and results are held at a time. An error of `items` or `work` is raised here, after
    the results of all earlier items. Closing this generator stops the threads and closes `items`. With one thread, the
    caller's works.
    """
    if n_threads == 1:
        with closing(read_ahead(items)) as ahead:
            yield from map(work, ahead)
        return
    pending: deque[Future[Result]] = deque()
    failure: Exception | None = None
    with _threads(n_threads, "parse", pending) as pool, closing(read_ahead(items)) as ahead:
        while failure is None:
            try:
                item = next(ahead)
            except StopIteration:
                break
            except Exception as error:  # raised after the results of the items before it
                failure = error
            else:
                pending.append(pool.submit(work, item))
                if len(pending) > n_threads:
                    yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    if failure is not None:
        raise failure


_END: Any = object()


def read_ahead(items: Iterator[Item]) -> Generator[Item, None, None]:
    """Give `items`, which another thread produces: one item waits while the next one is produced."""
    coming: deque[Future[Item]] = deque()
    try:
        with _threads(1, "read-ahead", coming) as thread:
            coming.extend(thread.submit(next, items, _END) for _ in range(2))
            while (item := coming.popleft().result()) is not _END:
                coming.append(thread.submit(next, items, _END))
                yield item
    finally:
        if hasattr(items, "close"):
            items.close()


@contextmanager
def _threads(n: int, name: str, pending: Collection[Future]) -> Iterator[ThreadPoolExecutor]:
    """Give threads. At the end, none of them works any more: work of `pending` that has begun ends first.

    This does not join the threads. The collector of garbage may close a generator while Python holds a lock that it
    needs to end a thread.
    """
    pool = ThreadPoolExecutor(n, name)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        wait([future for future in pending if not future.cancelled()])
