"""Which type the weights get, and which weights no type may have.

The type is the smallest that holds every weight as it stands in the input, unless the workflow asks for one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sssp_pipeline import workflow
from sssp_pipeline.csr import unreached_distance, wider_dtype
from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline.formats import EdgeChunk


@dataclass
class WeightRange:
    """What the weights seen so far need of a type."""

    n_edges: int = 0
    n_weighted: int = 0
    fractional: bool = False
    low: float = 0
    high: float = 0
    #: The smallest magnitude above zero, and the largest.
    tiny: float = np.inf
    huge: float = 0

    def add(self, values: np.ndarray) -> np.ndarray:
        """Note `values` and return them in the smallest type that holds them as they are."""
        if len(values) == 0:
            return values
        self.n_weighted += len(values)
        low, high = values.min().item(), values.max().item()
        self.low, self.high = min(self.low, low), max(self.high, high)
        if values.dtype.kind == "f":
            self.fractional = True
            self.huge = max(self.huge, abs(low), abs(high))
            self.tiny = min(self.tiny, float(np.abs(values).min(where=values != 0, initial=np.inf)))
            return values
        return values.astype(np.result_type(np.min_scalar_type(low), np.min_scalar_type(high)), copy=False)

    def dtype(self, spec: workflow.Weights, typed: np.dtype | None) -> np.dtype:
        """Return the type asked for, or the smallest that holds every weight.

        Parameters
        ----------
        spec
            The workflow's `graph.weights`.
        typed
            The type of the weights' column, where the format is typed.

        Raises
        ------
        InputError
            No type holds them all.
        """
        if spec.dtype != "auto":
            return np.dtype(spec.dtype)
        if self.n_weighted == 0:
            return np.dtype(np.uint32 if float(spec.default).is_integer() else np.float32)
        if self.fractional:
            single = np.finfo(np.float32)
            fits = self.huge <= float(single.max) and self.tiny >= float(single.tiny)
            return np.dtype(np.float32 if fits and typed != np.float64 else np.float64)
        for name in ("uint32", "int32", "uint64", "int64"):
            # The largest value of an integer type means "unreachable".
            if np.iinfo(name).min <= self.low and self.high < np.iinfo(name).max:
                return np.dtype(name)
        raise InputError(
            f"no integer type holds both the weights {self.low} and {self.high}",
            hint="set `graph.weights.dtype: float64`",
        )


def check_weights(chunk: EdgeChunk, before: int, asked: str) -> None:
    """Raise `InputError` at the first weight that is no number or that the type asked for cannot hold.

    Parameters
    ----------
    chunk
        Edges with weights.
    before
        How many edges were read before it, so that the message can count.
    asked
        The workflow's `graph.weights.dtype`.
    """
    values = chunk.weights
    assert values is not None
    if values.dtype.kind == "f" and not (finite := np.isfinite(values)).all():
        _refuse(chunk, before, ~finite, "is not a finite number", "leave such edges out")
    if asked == "auto":
        _refuse_subnormal(chunk, before, np.dtype(np.float64))
        return
    dtype = np.dtype(asked)
    wider = wider_dtype(dtype)
    larger = f"set `graph.weights.dtype: {wider}`" if wider else "scale the weights down"
    if dtype.kind == "f":
        _refuse(chunk, before, np.abs(values) > np.finfo(dtype).max, f"is too large for {dtype}", larger)
        _refuse_subnormal(chunk, before, dtype)
        return
    if values.dtype.kind == "f":
        _refuse(
            chunk, before, values != np.floor(values), f"is no {dtype}", "set `graph.weights.dtype: float32`"
        )
    if dtype.kind == "u":
        _refuse(
            chunk,
            before,
            values < 0,
            f"is negative, {dtype} is not",
            f"set `graph.weights.dtype: {dtype.name[1:]}`",
        )
    _refuse(chunk, before, values >= unreached_distance(dtype), f"is too large for {dtype}", larger)
    _refuse(chunk, before, values < np.iinfo(dtype).min, f"is too small for {dtype}", larger)


def _refuse_subnormal(chunk: EdgeChunk, before: int, dtype: np.dtype) -> None:
    values = chunk.weights
    assert values is not None
    if values.dtype.kind != "f":
        return
    wider = wider_dtype(dtype)
    _refuse(
        chunk,
        before,
        (values != 0) & (np.abs(values) < np.finfo(dtype).tiny),
        f"is a subnormal {dtype}, which GPUs take for zero",
        f"set `graph.weights.dtype: {wider}`, or scale the weights up" if wider else "scale the weights up",
    )


def _refuse(chunk: EdgeChunk, before: int, bad: np.ndarray, why: str, hint: str) -> None:
    if bad.any():
        i = int(np.argmax(bad))
        assert chunk.weights is not None
        raise InputError(
            f"edge {before + i + 1}, from `{chunk.src[i]}` to `{chunk.dst[i]}`: weight {chunk.weights[i]} {why}",
            hint=hint,
        )
