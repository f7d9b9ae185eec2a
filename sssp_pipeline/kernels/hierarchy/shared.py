"""The completion and the hierarchy of a graph, made once and shared by all solvers of this process.

A solver asks for `shared_completion(graph)` if it makes the weights of the arcs itself, or for
`shared_hierarchy(graph)`. What a graph store holds is offered when its graph is loaded, and is read when a solver first
asks for it. What no store holds is made.

A completion belongs to the edges. So graphs that share the arrays of their edges share it: several weights, and the
reweighted graph of negative weights.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, GraphTraits, HierarchyTraits
from sssp_pipeline.base.error_text import Text, key
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.kernels.hierarchy.compile_ahead import compiling_ahead, wait_for_weights
from sssp_pipeline.kernels.hierarchy.completion import costs
from sssp_pipeline.kernels.hierarchy.completion.arc_completion import REFUSED_HINT, Completion, completion_of
from sssp_pipeline.kernels.hierarchy.completion.customization import Hierarchy, customize

Found = TypeVar("Found", Completion, Hierarchy)


def _nothing() -> None:
    return None


@dataclass(frozen=True)
class Offer:
    """What a store has for a graph. The functions return None for what it lacks; they must not refer to the graph."""

    completion: Callable[[], Completion | None]
    hierarchy: Callable[[], Hierarchy | None]
    #: What the store knows, without reading any array.
    traits: Callable[[], HierarchyTraits | None] = _nothing


_NO_OFFER = Offer(_nothing, _nothing)
#: By the `id` of the array `col_indices` of a graph.
_completions: dict[int, Completion] = {}
_hierarchies: weakref.WeakKeyDictionary[CsrGraph, Hierarchy] = weakref.WeakKeyDictionary()
_offers: weakref.WeakKeyDictionary[CsrGraph, Offer] = weakref.WeakKeyDictionary()
_traits: weakref.WeakKeyDictionary[CsrGraph, HierarchyTraits | None] = weakref.WeakKeyDictionary()
_lock = threading.RLock()


def why_not_solved(dtype: np.dtype, takes_floats: str) -> str | None:
    """Return why no distances of the type `dtype` follow from a hierarchy, or None; the solver `takes_floats`."""
    if dtype.kind == "f":
        return Text(
            f"it adds weights in another order than along the path, which rounds {dtype} differently; ",
            *(f"`{takes_floats}` takes floats, and ", key("graph.weights.scale")),
            " makes integers of decimal weights",
        )
    return None


def shared_completion(graph: CsrGraph) -> Completion:
    """Return the completion of `graph`.

    It raises the errors of `completion_of`, or the error of a store whose files are damaged.
    """
    with _lock:
        if (completion := _completions.get(id(graph.col_indices))) is None:
            completion = _offers.get(graph, _NO_OFFER).completion() or completion_of(graph)
            share_completion(graph, completion)
        return completion


def shared_hierarchy(graph: CsrGraph) -> Hierarchy:
    """Return the hierarchy of `graph`, whose weights are integers of zero or more.

    It raises the errors of `shared_completion`, and `InputError` if the weights of the arcs would take too long.
    """
    with _lock:
        if (hierarchy := _hierarchies.get(graph)) is None:
            hierarchy = _offers.get(graph, _NO_OFFER).hierarchy()
            if hierarchy is None:
                with compiling_ahead(graph):
                    completion = shared_completion(graph)
                    check_weights_can_be_made(traits_of(graph))
                wait_for_weights(graph)
                hierarchy = customize(completion, graph)
            share_hierarchy(graph, hierarchy)
        return hierarchy


def check_weights_can_be_made(traits: GraphTraits) -> None:
    """Raise `InputError` if a CPU would take too long for the weights of the arcs."""
    if (reason := costs.too_long(traits)) is not None:
        raise InputError(f"no hierarchy of this graph can be made: {reason}", hint=REFUSED_HINT)


def known_hierarchy(graph: CsrGraph) -> HierarchyTraits | None:
    """Return what this process and the store of `graph` know of its hierarchy. The store is read once."""
    if graph.weight_dtype.kind == "f":
        return None  # floats have no hierarchy, and the edges of such a graph may be on a device
    with _lock:
        if graph not in _traits:
            _traits[graph] = _offers.get(graph, _NO_OFFER).traits()
        known, completion = _traits[graph], _completions.get(id(graph.col_indices))
        if completion is None:
            return known
        is_loaded = graph in _hierarchies
        return HierarchyTraits(
            completion.n_arcs,
            completion.n_triangles,
            largest_front=completion.largest_front,
            is_completed=True,
            is_customized=is_loaded or (known is not None and known.is_customized),
            is_loaded=is_loaded,
        )


def traits_of(graph: CsrGraph) -> GraphTraits:
    """Return the traits of `graph`, with its hierarchy as `known_hierarchy` returns it."""
    return replace(graph.traits, hierarchy=known_hierarchy(graph))


def note_traits(graph: CsrGraph, known: HierarchyTraits | None) -> None:
    """Have `known_hierarchy` return what became known of the hierarchy of `graph`."""
    with _lock:
        _traits[graph] = known


def share_hierarchy(graph: CsrGraph, hierarchy: Hierarchy) -> None:
    """Have `shared_hierarchy(graph)` return `hierarchy`, and `shared_completion` its completion."""
    with _lock:
        _hierarchies[graph] = hierarchy
        share_completion(graph, hierarchy.completion)


def share_completion(graph: CsrGraph, completion: Completion) -> None:
    """Have `shared_completion` return `completion` for `graph`, and for graphs that share its edges."""
    key = id(graph.col_indices)
    with _lock:
        if key not in _completions:
            weakref.finalize(graph.col_indices, _completions.pop, key, None).atexit = False
        _completions[key] = completion


def offer(graph: CsrGraph, offered: Offer) -> None:
    """Have the functions of this module take what a store offers for `graph`, instead of making it."""
    with _lock:
        _offers[graph] = offered


def share_reversed(graph: CsrGraph, backwards: CsrGraph) -> None:
    """Have `backwards`, the reversed `graph`, take the hierarchy of `graph`.

    An arc that leads up in one of them leads down in the other.
    """
    whole, known = weakref.ref(graph), known_hierarchy(graph)  # an offer must not keep the graph

    def completion() -> Completion | None:
        found = whole()
        has_one = found is not None and (of_it := known_hierarchy(found)) is not None and of_it.is_completed
        return shared_completion(found) if found is not None and has_one else None

    def hierarchy() -> Hierarchy | None:
        found = whole()
        if found is None or (of_it := known_hierarchy(found)) is None or not of_it.is_customized:
            return None
        made = shared_hierarchy(found)
        return made if made.down is made.up else Hierarchy(made.completion, made.down, made.up)

    offer(backwards, Offer(completion, hierarchy))
    if graph.traits.min_weight < 0 and known is not None and known.is_completed:
        share_completion(backwards, shared_completion(graph))  # for the graph that a solver reweights
