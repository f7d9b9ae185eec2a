"""What NetworkX loads: which calls the backend can run, which it should run, and the conversion of graphs.

NetworkX asks this module at each call of its functions. So it is light, and the first call that the backend runs
imports the rest.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from numbers import Real
from typing import Any

import networkx as nx

from sssp_pipeline.networkx_backend.info import FUNCTIONS, NAME

#: NetworkX is faster on graphs with fewer nodes than this. Some calls need a row of distances from every node, others
#: need few rows. A graph of an earlier call is converted already. `benchmarks/networkx_backend.py` measures them.
_LEAST_NODES = {"all rows": 200, "few rows": 2000, "few rows, converted": 300}
#: The arguments that functions of the backend have. A newer NetworkX may have more.
_ARGUMENTS = {
    *("G", "source", "sources", "target", "cutoff", "weight", "method", "distance", "wf_improved"),
    *("u", "v", "nbunch", "e", "sp", "usebounds"),
    *("k", "seed", "normalized", "endpoints", "targets"),
}
#: The module of the functions with these words in their names. All others are in `measures`.
_MODULES = {"dijkstra": "paths", "bellman_ford": "paths", "betweenness": "betweenness"}
#: Arguments that restrict a call to the rows of some nodes.
_SOME_NODES = ("source", "sources", "nbunch", "u", "v", "k")


def __getattr__(name: str) -> Callable[..., Any]:
    if name not in FUNCTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def run(*args: Any, **kwargs: Any) -> Any:
        module = next((module for part, module in _MODULES.items() if part in name), "measures")
        function = getattr(import_module(f"sssp_pipeline.networkx_backend.{module}"), name)
        known = {key: value for key, value in kwargs.items() if key in _ARGUMENTS}
        graph = known.pop("G") if "G" in known else args[0]
        return function(graph.current(), *args[1:], **known)

    return run


def convert_from_nx(graph: Any, **options: Any) -> Any:
    """Return a graph of NetworkX for the backend. All attributes of edges are kept, whatever `options` say."""
    from sssp_pipeline.networkx_backend.graphs import convert_from_nx

    return convert_from_nx(graph)


def convert_to_nx(result: Any, **options: Any) -> Any:
    """Return the graph that a graph of the backend was made of; any other result as it is."""
    return result.original if getattr(result, "__networkx_backend__", None) == NAME else result


# ---- which calls ----


def can_run(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | str:
    """Return True, or the reason why the backend leaves a call to NetworkX.

    It looks at the arguments only. Weights are read when the graph is converted. A function of the backend raises
    `NotImplementedError` if they cannot be used, and NetworkX then calls its own function.
    """
    try:
        given = _signature(name).bind(*args, **kwargs)
    except TypeError as error:
        return str(error)
    for argument, value in given.arguments.items():
        if argument not in _ARGUMENTS and value is not _signature(name).parameters[argument].default:
            return f"the backend does not know the argument {argument}={value!r}"
    given.apply_defaults()
    arguments = given.arguments
    graph, cutoff = arguments["G"], arguments.get("cutoff")
    if not isinstance(graph, nx.Graph) and getattr(graph, "__networkx_backend__", None) != NAME:
        return f"`{type(graph).__name__}` is not a graph of NetworkX"
    if cutoff is not None and not isinstance(cutoff, Real):
        return f"cutoff is {cutoff!r}, not a number"
    for argument in ("sources", "targets"):
        if isinstance(arguments.get(argument), Iterator):
            return f"{argument} is an iterator, which can be read only once"
    if arguments.get("usebounds") is True and arguments["e"] is None and not graph.is_directed():
        return "usebounds asks for NetworkX's algorithm with bounds"
    if (method := arguments.get("method")) not in (None, "unweighted", "dijkstra", "bellman-ford"):
        return f"method is {method!r}"
    return True


def should_run(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | str:
    """Return True, or the reason why NetworkX is expected to be faster; `can_run` returned True."""
    arguments = _signature(name).bind(*args, **kwargs).arguments
    graph = arguments["G"]
    if arguments.get("e") is not None or arguments.get("sp") is not None:
        return "the lengths are given, so there is nothing to solve"
    kind = "few rows" if any(arguments.get(some) is not None for some in _SOME_NODES) else "all rows"
    converted = (getattr(graph, "__networkx_cache__", None) or {}).get("backends", {}).get(NAME)
    if converted and kind == "few rows":
        kind = "few rows, converted"
    least = _LEAST_NODES[kind]
    is_small = f"the graph has {len(graph)} nodes, and the backend is faster from {least} ({kind})"
    return len(graph) >= least or is_small


@cache
def _signature(name: str) -> inspect.Signature:
    return inspect.signature(getattr(nx, name))
