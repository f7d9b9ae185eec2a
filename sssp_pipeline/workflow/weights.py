"""The weights of a graph in a workflow: what contradicts `graph.weights`, and `solve.weights`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sssp_pipeline.base.errors import SsspError, did_you_mean
from sssp_pipeline.workflow.section import Contradiction, Path, Plain

#: Columns of a table of distances.
COLUMNS = ("source", "vertex", "target", "rank", "distance", "predecessor")
#: Keys of the only weight of a graph, with their defaults. Each of several weights has its own.
_KEYS_OF_ONE_WEIGHT = {"column": "auto", "dtype": "auto", "scale": "auto", "default": 1, "unit": None}


@contextmanager
def naming_weight(name: str | None) -> Iterator[None]:
    """Add the name of a weight to the errors of the block; None stands for the only weight, which has no name."""
    try:
        yield
    except SsspError as error:
        if name is not None:
            error.message = f"weight `{name}`: {error.message}"
            error.args = (error.message,)
            if error.hint is not None and "graph.weights." in error.hint:
                hint = error.hint.replace("graph.weights.", "")
                error.hint = f"{hint}. Its keys are in the entry `{name}` of `graph.weights.several`"
        raise


def weight_contradictions(graph: Plain, weights: Plain) -> Iterator[Contradiction]:
    """Yield the contradictions of the section `weights` of a section `graph`."""
    yield from _contradictions_of_one(("graph", "weights"), weights)
    yield from _contradictions_of_several(graph, weights)


def _contradictions_of_one(path: Path, weight: Plain) -> Iterator[Contradiction]:
    default, dtype, scale = weight.get("default", 1), weight.get("dtype"), weight.get("scale", "auto")
    if isinstance(scale, int) and dtype in ("float32", "float64"):
        text = f"`scale` computes with integers, and `dtype` is `{dtype}`"
        yield Contradiction((*path, "scale"), text, "remove one of them")
    if type(default) in (int, float) and not isinstance(scale, int) and not _fits(default, dtype):
        text = f"default weight `{default}` is no `{dtype}`"
        yield Contradiction((*path, "default"), text, "change `default` or `dtype`")


def several_weights(graph: Any) -> list[tuple[Path, Plain]]:
    """Return path and content of each entry of `graph.weights.several`."""
    weights = graph.get("weights") if isinstance(graph, Mapping) else None
    several = weights.get("several") if isinstance(weights, Mapping) else None
    entries = enumerate(several if isinstance(several, list | tuple) else ())
    path: Path = ("graph", "weights", "several")
    return [((*path, i), weight) for i, weight in entries if isinstance(weight, Mapping)]


def _contradictions_of_several(graph: Plain, weights: Plain) -> Iterator[Contradiction]:
    several = several_weights(graph)
    if not several:
        return
    for key, default in _KEYS_OF_ONE_WEIGHT.items():
        if weights.get(key, default) != default:
            text = f"`graph.weights.{key}` belongs to a single weight, and `several` has {len(several)}"
            yield Contradiction(("graph", "weights", key), text, f"give each weight its own `{key}`")
    names: list[Any] = []
    columns: list[Any] = []
    for path, weight in several:
        yield from _contradictions_of_one(path, weight)
        name = weight.get("name")
        column = weight.get("input"), str(weight.get("column") or name)
        if name is not None and name in names:
            yield Contradiction((*path, "name"), f"two weights are called `{name}`", "give each its own name")
        elif column in columns and column[1] != "none":
            other = names[columns.index(column)]
            text = f"the weights `{other}` and `{name}` are the same column `{column[1]}`"
            yield Contradiction(path, text, "remove one of them, or name another column")
        names.append(name)
        columns.append(column)
    if graph.get("duplicates") != "keep-all":
        return
    if graph.get("unreadable") == "skip":
        text = (
            "`unreadable: skip` may leave out other rows for each weight, and `keep-all` needs the same rows"
        )
        yield Contradiction(("graph", "unreadable"), text, "remove one of them")
    if any(weight.get("input") for _, weight in several):
        text = "`keep-all` keeps parallel edges in the order of the input, and a weight has an `input` of its own"
        hint = "put all weights in one input, or set `keep-min`, which keeps the least of each weight, or `error`"
        yield Contradiction(("graph", "duplicates"), text, hint)


def chosen_contradictions(graph: Plain, chosen: Any) -> Iterator[Contradiction]:
    """Yield the names in `solve.weights` that the graph lacks."""
    names = [weight.get("name") for _, weight in several_weights(graph)]
    if None in names:
        return  # a weight without a name is an error, and may be the one that is meant
    for i, name in enumerate(chosen if isinstance(chosen, list | tuple) else ()):
        path: Path = ("solve", "weights", i)
        if not names:
            text = "`solve.weights` chooses among several weights, and the graph has one"
            yield Contradiction(path, text, "remove it, or list the weights in `graph.weights.several`")
            return
        if (wrong := _wrong_name(path, name, names, chosen[:i])) is not None:
            yield wrong


def _wrong_name(path: Path, name: Any, names: list[Any], before: Any) -> Contradiction | None:
    """Return what is wrong with the `name` of a weight: the graph lacks it, or it is also in the list `before`."""
    key = f"{path[0]}.{path[1]}"
    if name not in names:
        known = [str(each) for each in names]
        hint = f"{did_you_mean(str(name), known)}Weights: {', '.join(known)}"
        return Contradiction(path, f"`{key}` has `{name}`, which the graph lacks", hint)
    return Contradiction(path, f"`{key}` has `{name}` twice", "name it once") if name in before else None


def along_contradictions(graph: Plain, solve: Plain) -> Iterator[Contradiction]:
    """Yield what is wrong with the names in `solve.along`."""
    given = solve.get("along")
    along = given if isinstance(given, list | tuple) else ()
    names = [weight.get("name") for _, weight in several_weights(graph)]
    if None in names:
        return  # a weight without a name is an error, and may be the one that is meant
    solved = solve.get("weights") or names
    for i, name in enumerate(along):
        path: Path = ("solve", "along", i)
        if not names:
            text = "`solve.along` names other weights of the graph, and it has one"
            yield Contradiction(("solve", "along"), text, "list the weights in `graph.weights.several`")
            return
        if (wrong := _wrong_name(path, name, names, along[:i])) is not None:
            yield wrong
        elif name in solved:
            others = ", ".join(str(each) for each in solved if each not in along) or "the other ones"
            text = f"`{name}` is in `solve.along`, and it is also a weight to solve"
            yield Contradiction(path, text, f"name what to solve: `solve.weights: [{others}]`")
        elif name in COLUMNS:
            text = f"`{name}` in `solve.along` is also the name of another column of the results"
            yield Contradiction(path, text, "give the weight another name, and its `column`")


def _fits(value: int | float, dtype: Any) -> bool:
    """Return whether `value` is a weight of `dtype`; True for any other than an integer type."""
    if dtype not in ("uint32", "int32", "uint64", "int64"):
        return True
    bits = int(dtype[-2:])
    low, high = (0, 2**bits - 1) if dtype[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    # The largest value of an integer type means "unreached".
    return value == int(value) and low <= value < high
