"""The one family of errors: what went wrong, a hint, and the exit code the command line ends with.

Every expected failure is one of these. They travel through Dask, so they pickle; `cli.py` prints them
without a traceback.
"""

from __future__ import annotations


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
    """A shortest path is longer than the type of the weights holds.

    Parameters
    ----------
    source, vertex
        The ends of the path: vertex numbers, or the input's own ids.
    dtype, wider
        The type, and the name of the 64-bit one of the same kind; None where `dtype` has 64 bits already.
    """

    def __init__(self, source: int | str, vertex: int | str, dtype: str, wider: str | None) -> None:
        super().__init__(
            f"the shortest path from `{source}` to `{vertex}` is longer than {dtype} holds",
            hint=f"set `graph.weights.dtype: {wider}`, or a cutoff"
            if wider
            else "scale the weights down, or set a cutoff",
        )
        self.source, self.vertex, self.dtype, self.wider = source, vertex, dtype, wider

    def __reduce__(self) -> tuple:
        return type(self), (self.source, self.vertex, self.dtype, self.wider)


class StoreAwayError(SsspError):
    """A store elsewhere did not answer for as long as a run waits; exit code 1. Running again goes on."""


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
