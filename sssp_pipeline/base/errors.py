"""Errors: every expected failure, with a message, a hint and the exit code of the command line.

Dask sends these errors between processes, so they can be pickled. `cli.py` prints them without a traceback.
"""

from __future__ import annotations

import copyreg
from collections.abc import Sequence

from sssp_pipeline.base.error_text import Either, Keys, Text, key


class SsspError(Exception):
    """The run failed for a known reason; exit code 1.

    Parameters
    ----------
    message
        What, where and the offending value, in one line where possible. A `Text` if it names keys of a workflow.
    hint
        One thing to do about it, or None. A `Text` likewise.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple:
        # Without a call of `__init__`, whose parameters differ from class to class.
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class InputError(SsspError, ValueError):
    """A file, a value or a path from the user cannot be used; exit code 2.

    It is a `ValueError`, as SciPy and NumPy raise it. So `except ValueError` catches it too: code that means another
    `ValueError` has `except InputError: raise` before it.
    """

    exit_code = 2


class UnknownIdError(InputError):
    """An id is unknown.

    Parameters
    ----------
    unknown
        The first such id.
    role
        What it was given as: "source", "target" or "vertex".
    """

    def __init__(self, message: str, *, unknown: int | str, role: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.unknown, self.role = unknown, role


class UnsolvableError(InputError):
    """No attempt at this run can succeed: the graph or the options must change; exit code 2."""


class PathTooLongError(UnsolvableError):
    """The length of a shortest path is above what the type of the weights can represent.

    Parameters
    ----------
    source, vertex
        The ends of the path: vertex numbers, or the input's own ids.
    dtype
        The name of the type.
    wider
        The name of the 64-bit type of the same kind; None if `dtype` has 64 bits.
    scale
        The scale of the weights. An integer type that is asked for holds decimals only with a scale.
    """

    def __init__(
        self, source: int | str, vertex: int | str, dtype: str, wider: str | None, scale: int | None = None
    ) -> None:
        asked = {"graph.weights.dtype": wider} | ({} if scale is None else {"graph.weights.scale": scale})
        super().__init__(
            f"the shortest path from `{source}` to `{vertex}` is {self.beyond} than {dtype} holds",
            hint=Text("set ", Keys(asked), ", or a cutoff" * self.cutoff_helps)
            if wider
            else f"scale the weights down{', or set a cutoff' * self.cutoff_helps}",
        )
        self.source, self.vertex, self.dtype, self.wider = source, vertex, dtype, wider

    beyond, cutoff_helps = "longer", True


class ScaledTooLongError(UnsolvableError):
    """A distance times the scale of the weights is above 2^53, so float64 cannot hold the distance.

    Parameters
    ----------
    distance
        A distance times the scale.
    """

    #: The type that holds the distance without a scale.
    wider = "float64"

    def __init__(self, distance: int) -> None:
        super().__init__(
            Text(
                "a distance times ",
                Either("`graph.weights.scale`", "the scale of the weights"),
                f" is {distance}, above 2^53",
            ),
            hint=Text(
                *("lower ", key("graph.weights.scale"), ", or set it to ", Either("`null`", "`None`")),
                " to compute with float64",
            ),
        )


class PathTooShortError(PathTooLongError):
    """The length of a shortest path with negative weights is below what the type of the weights can represent."""

    beyond, cutoff_helps = "shorter", False


class NegativeCycleError(UnsolvableError):
    """A cycle of negative length can be reached from a source, so there are no shortest paths.

    Parameters
    ----------
    source
        The source: a vertex number, or the input's own id.
    cycle
        The vertices of one such cycle, each once, in the order of its edges.
    length
        The sum of the cycle's weights. It can be 0 or more only with float weights, if rounding makes distances fall.
    """

    #: The most vertices of the cycle in the message.
    MAX_LISTED = 16

    def __init__(self, source: int | str, cycle: Sequence[int | str], length: float) -> None:
        vertices = [f"`{vertex}`" for vertex in cycle[: self.MAX_LISTED]]
        if len(cycle) > len(vertices):
            vertices.append(f"… ({len(cycle):,} vertices)")
        loop = " -> ".join([*vertices, vertices[0]])
        wider = Keys({"graph.weights.dtype": "float64"}, lead=", or a wider type: ")
        super().__init__(
            f"the cycle {loop} of length {length}, which can be reached from `{source}`, "
            f"makes paths ever shorter{'' if length < 0 else ' by rounding'}",
            hint="remove an edge of it, or correct its weight"
            if length < 0
            else Text("use integer weights", wider),
        )
        self.source, self.cycle, self.length = source, tuple(cycle), length


class UncountablePathsError(UnsolvableError):
    """The shortest paths from a source cannot be counted.

    Parameters
    ----------
    source, vertex
        Vertex numbers, or the input's own ids. At `vertex` the count ends.
    is_absorbed
        Whether an edge into `vertex` has a weight above zero that a float loses: its two ends are equally far away.
        If not, there are too many paths to `vertex`.
    """

    def __init__(self, source: int | str, vertex: int | str, is_absorbed: bool) -> None:
        if is_absorbed:
            message = (
                f"an edge to `{vertex}` is too short for its distance from `{source}`: float64 loses it in the sum, "
                "so shortest paths cannot be counted"
            )
            hint = "give the weights as integers, in a smaller unit"
        else:
            ends = f"from `{source}` to `{vertex}`"
            message = f"more than 2^1000 shortest paths lead {ends}, too many to count in float64"
            hint = Text("set a ", Either("`solve.cutoff`", "`cutoff`"), ", or weights that differ more")
        super().__init__(message, hint=hint)
        self.source, self.vertex, self.is_absorbed = source, vertex, is_absorbed


class DiskFullError(SsspError):
    """A disk or a quota is full; exit code 1. The same command goes on when there is room. No retry helps before."""


class StoreUnavailableError(SsspError):
    """A remote store does not answer; exit code 1. Running the same command again continues the run."""


class DeadlineError(SsspError):
    """A search took longer than `solve.deadline_s` allows; exit code 1.

    Parameters
    ----------
    solver
        The name of the solver.
    source
        A vertex number, the input's own id, or words for the search.
    deadline_s
        The deadline.
    state
        Text to add to the message.
    """

    def __init__(self, solver: str, source: int | str, deadline_s: float, state: str = "") -> None:
        what = f"source {source}" if isinstance(source, int) else source
        super().__init__(
            Text(
                f"`{solver}` took longer for {what} than ",
                Either("`solve.deadline_s` allows, "),
                f"{deadline_s:g} s{state}",
            ),
            hint=Text(
                Either("set `solve.deadline_s` higher and run the same command again, or "),
                "take another solver: `sssp-pipeline solvers` lists all",
            ),
        )
        self.solver, self.source, self.deadline_s, self.state = solver, source, deadline_s, state


class RefutedError(SsspError):
    """Verification found a wrong stored distance; exit code 3."""

    exit_code = 3


def did_you_mean(word: str, choices: list[str]) -> str:
    """Return "did you mean `x`? " for the closest of `choices`, or an empty string when none is close."""
    import difflib

    close = difflib.get_close_matches(word, choices, n=1, cutoff=0.6)
    return f"did you mean `{close[0]}`? " if close else ""
