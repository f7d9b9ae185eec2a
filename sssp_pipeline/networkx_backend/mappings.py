"""Lazy mappings: what a dictionary of NetworkX holds, made of a row of distances when it is asked for.

They compare, iterate and print as the dictionary. A change turns one into a dictionary inside. A copy, and what pickle
writes, is a plain dictionary.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import ItemsView, Iterator, MutableMapping, ValuesView
from typing import Any

from sssp_pipeline.networkx_backend.rows import Row


class LazyMapping(MutableMapping):
    """A mapping from each reached node, in the order of the search."""

    def __init__(self, row: Row) -> None:
        self._row = row
        self._changed: dict[Any, Any] | None = None

    @abstractmethod
    def _value(self, vertex: int) -> Any:
        """Return the value of a reached vertex."""

    @abstractmethod
    def _values(self) -> Iterator[Any]:
        """Return the values of all reached vertices, in order."""

    def _vertex(self, node: Any) -> int:
        """Return the vertex of a reached node; raises as a dictionary does."""
        vertex = self._row.of.vertex_of[node]
        if not self._row.reaches(vertex):
            raise KeyError(node)
        return vertex

    def __getitem__(self, node: Any) -> Any:
        return self._value(self._vertex(node)) if self._changed is None else self._changed[node]

    def __len__(self) -> int:
        return self._row.n_reached if self._changed is None else len(self._changed)

    def __iter__(self) -> Iterator[Any]:
        if self._changed is not None:
            return iter(self._changed)
        return map(self._row.of.nodes.__getitem__, self._row.order.tolist())

    def __reversed__(self) -> Iterator[Any]:
        return reversed(list(self))

    def values(self) -> ValuesView:
        return _Values(self)

    def items(self) -> ItemsView:
        return _Items(self)

    def all_values(self) -> Iterator[Any]:
        """Return the values in order, faster than by one look-up for each."""
        return self._values() if self._changed is None else iter(self._changed.values())

    def _dict(self) -> dict[Any, Any]:
        if self._changed is None:
            self._changed = dict(self.items())
        return self._changed

    def __setitem__(self, node: Any, value: Any) -> None:
        self._dict()[node] = value

    def __delitem__(self, node: Any) -> None:
        del self._dict()[node]

    def __repr__(self) -> str:
        return repr(dict(self.items()))

    def copy(self) -> dict[Any, Any]:
        return dict(self.items())

    def __or__(self, other: Any) -> Any:
        return self.copy() | dict(other)

    def __ror__(self, other: Any) -> Any:
        return dict(other) | self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.copy(),)


class _Values(ValuesView):
    _mapping: LazyMapping

    def __iter__(self) -> Iterator[Any]:
        return self._mapping.all_values()


class _Items(ItemsView):
    _mapping: LazyMapping

    def __iter__(self) -> Iterator[Any]:
        return zip(self._mapping, self._mapping.all_values(), strict=True)


class Lengths(LazyMapping):
    """The length of a shortest path to each node."""

    def _value(self, vertex: int) -> int | float:
        return self._row.length(vertex)

    def _values(self) -> Iterator[int | float]:
        return iter(self._row.lengths())


class Paths(LazyMapping):
    """A shortest path to each node, a new list at each access."""

    def _value(self, vertex: int) -> list[Any]:
        return self._row.path(vertex)

    def _values(self) -> Iterator[list[Any]]:
        return self._row.paths()
