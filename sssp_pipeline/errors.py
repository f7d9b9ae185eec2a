"""The one family of errors: what went wrong, a hint, and the exit code the command line ends with.

Every expected failure is one of these. They travel through Dask, so they pickle; `cli.py` prints them
without a traceback.
"""

from __future__ import annotations

from collections.abc import Sequence


class SsspError(Exception):
    """The run failed for a reason that can be named; exit code 1.

    Parameters
    ----------
    message
        What, where and the offending value, in one line where possible.
    hint
        One thing to do about it, or None where nothing useful can be said.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple:
        return _rebuild, (type(self), self.message, self.hint)


class InputError(SsspError):
    """What the user gave cannot be used: a file, a value, a path; exit code 2."""

    exit_code = 2


class UnsolvableError(InputError):
    """No attempt at this run can succeed: the graph, or what is asked of it, must change; exit code 2."""


class PathTooLongError(UnsolvableError):
    """A shortest path is longer than the type of the weights holds, or shorter than its least number.

    Parameters
    ----------
    source, vertex
        The ends of the path: vertex numbers, or the input's own ids.
    dtype, wider
        The type, and the name of the 64-bit one of the same kind; None where `dtype` has 64 bits already.
    """

    def __init__(self, source: int | str, vertex: int | str, dtype: str, wider: str | None) -> None:
        super().__init__(
            f"the shortest path from `{source}` to `{vertex}` is {self.beyond} than {dtype} holds",
            hint=f"set `graph.weights.dtype: {wider}`{', or a cutoff' * self.cutoff_helps}"
            if wider
            else f"scale the weights down{', or set a cutoff' * self.cutoff_helps}",
        )
        self.source, self.vertex, self.dtype, self.wider = source, vertex, dtype, wider

    beyond, cutoff_helps = "longer", True

    def __reduce__(self) -> tuple:
        return type(self), (self.source, self.vertex, self.dtype, self.wider)


class PathTooShortError(PathTooLongError):
    """A shortest path, of negative weights, has a length below what the type of the weights holds."""

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
        The sum of its weights; not negative only for floats, where rounding alone makes distances fall.
    """

    #: So many vertices of a cycle are shown.
    SHOWN = 16

    def __init__(self, source: int | str, cycle: Sequence[int | str], length: float) -> None:
        shown = [f"`{vertex}`" for vertex in cycle[: self.SHOWN]]
        if len(cycle) > len(shown):
            shown.append(f"… ({len(cycle):,} vertices)")
        super().__init__(
            f"the cycle {' -> '.join([*shown, shown[0]])} of length {length}, which can be reached from `{source}`, "
            f"makes paths ever shorter{'' if length < 0 else ' by rounding'}",
            hint="remove an edge of it, or correct its weight"
            if length < 0
            else "use integer weights, or a wider type: `graph.weights.dtype: float64`",
        )
        self.source, self.cycle, self.length = source, tuple(cycle), length

    def __reduce__(self) -> tuple:
        return type(self), (self.source, self.cycle, self.length)


class StoreAwayError(SsspError):
    """A store elsewhere did not answer for as long as a run waits; exit code 1. Running again goes on."""


class DeadlineError(SsspError):
    """A search took longer than `solve.deadline_s` allows; exit code 1.

    Parameters
    ----------
    solver
        Its name.
    source
        A vertex number or the input's own id; or what was searched, in words.
    deadline_s
        The deadline.
    state
        What is to be added to the message.
    """

    def __init__(self, solver: str, source: int | str, deadline_s: float, state: str = "") -> None:
        what = f"source {source}" if isinstance(source, int) else source
        super().__init__(
            f"`{solver}` took longer for {what} than `solve.deadline_s` allows, {deadline_s:g} s{state}",
            hint="set `solve.deadline_s` higher and run the same command again, or take another solver: "
            "`sssp-pipeline solvers` lists all",
        )
        self.solver, self.source, self.deadline_s, self.state = solver, source, deadline_s, state

    def __reduce__(self) -> tuple:
        return type(self), (self.solver, self.source, self.deadline_s, self.state)


class RefutedError(SsspError):
    """A stored distance is not the true one; exit code 3."""

    exit_code = 3


def _rebuild(kind: type[SsspError], message: str, hint: str | None) -> SsspError:
    return kind(message, hint=hint)


def did_you_mean(word: str, choices: list[str]) -> str:
    """Return "did you mean `x`? " for the closest of `choices`, or an empty string when none is close."""
    import difflib

    close = difflib.get_close_matches(word, choices, n=1, cutoff=0.6)
    return f"did you mean `{close[0]}`? " if close else ""
