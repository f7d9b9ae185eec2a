"""What is made of a graph once and kept as long as the graph."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

Graph = TypeVar("Graph")
P = ParamSpec("P")
T = TypeVar("T")


def kept_with_graph(make: Callable[Concatenate[Graph, P], T]) -> Callable[Concatenate[Graph, P], T]:
    """Return a function like `make` that keeps each result for as long as its first argument, a graph.

    The graph is a `CsrGraph` or a `DeviceGraph`. `make` runs once for each graph, in one thread at a time. If it
    raises, the next call runs it again. Its result must not refer to that graph: then neither would ever be freed.
    """
    kept: weakref.WeakKeyDictionary[Graph, T] = weakref.WeakKeyDictionary()
    lock = threading.RLock()

    @wraps(make)
    def kept_or_made(graph: Graph, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with lock:
            if graph not in kept:
                kept[graph] = make(graph, *args, **kwargs)
            return kept[graph]

    return kept_or_made
