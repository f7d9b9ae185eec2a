"""Which type the weights get, and which weights no type may have.

Unless the workflow asks for a type, it is the smallest integer type that holds every weight. Where one weight has a
decimal point or an exponent, or is beyond all integer types, it is float32, to which all weights are then rounded;
float64 where one of them is outside the range of float32, or where the column itself is float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sssp_pipeline import workflow
from sssp_pipeline.csr import unreached_distance, wider_dtype
from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline.formats import EdgeChunk


@dataclass
class WeightRange:
    """What the weights seen so far need of a type; the counts are its owner's."""

    n_edges: int = 0
    n_weighted: int = 0
    fractional: bool = False
    low: float = 0
    high: float = 0
    #: The smallest magnitude above zero, and the largest.
    tiny: float = np.inf
    huge: float = 0

    def add(self, values: np.ndarray) -> np.ndarray:
        """Note `values` and return them unchanged, integers in the smallest type that holds them."""
        if len(values) == 0:
            return values
        low, high = values.min().item(), values.max().item()
        self.low, self.high = min(self.low, low), max(self.high, high)
        if values.dtype.kind == "f":
            self.fractional = True
            self.huge = max(self.huge, abs(low), abs(high))
            self.tiny = min(self.tiny, float(np.abs(values).min(where=values != 0, initial=np.inf)))
            return values
        smallest = np.result_type(np.min_scalar_type(low), np.min_scalar_type(high))
        # numpy has float64 hold both int8 and uint64, which rounds.
        return values if smallest.kind == "f" else values.astype(smallest, copy=False)

    def dtype(self, spec: workflow.Weights, typed: np.dtype | None) -> np.dtype:
        """Return the type asked for, or the one that the weights need, as the head of this module tells.

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


def default_weight(spec: workflow.Weights) -> np.ndarray:
    """Return `graph.weights.default`, (1,), of the type in which text would give it.

    Raises
    ------
    InputError
        It is no weight, by the rules of `check_weights`.
    """
    values = np.array([spec.default])
    if values.dtype == object:  # an integer of more than 64 bits
        values = np.array([float(str(spec.default))])
    if fault := _first_fault(values, spec.dtype):
        _, why, hint = fault
        raise InputError(f"`graph.weights.default`: weight {spec.default} {why}", hint=hint)
    return values


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
    assert chunk.weights is not None
    if fault := _first_fault(chunk.weights, asked):
        i, why, hint = fault
        raise InputError(
            f"edge {before + i + 1}, from `{chunk.src[i]}` to `{chunk.dst[i]}`: weight {chunk.weights[i]} {why}",
            hint=hint,
        )


def _first_fault(values: np.ndarray, asked: str) -> tuple[int, str, str] | None:
    """Return the position of a weight that cannot be, why, and a hint; None where all can."""
    for bad, why, hint in _rules(values, asked):
        if bad.any():
            return int(np.argmax(bad)), why, hint
    return None


def _rules(values: np.ndarray, asked: str) -> Iterator[tuple[np.ndarray, str, str]]:
    """Give, rule after rule, which of `values` break it, with words and a hint for them."""
    is_float = values.dtype.kind == "f"
    if is_float:
        yield ~np.isfinite(values), "is not a finite number", "weights are finite"
    if asked == "auto":
        if is_float:
            yield _subnormal(values, np.dtype(np.float64))
        return
    dtype = np.dtype(asked)
    wider = wider_dtype(dtype)
    larger = f"set `graph.weights.dtype: {wider}`" if wider else "scale the weights down"
    if dtype.kind == "f":
        yield np.abs(values) > np.finfo(dtype).max, f"is too large for {dtype}", larger
        if is_float:
            yield _subnormal(values, dtype)
        return
    if is_float:
        yield values != np.floor(values), f"is no {dtype}", "set `graph.weights.dtype: float32`"
    if dtype.kind == "u":
        signed = f"set `graph.weights.dtype: {dtype.name[1:]}`"
        yield values < 0, f"is negative, {dtype} is not", signed
    yield values >= unreached_distance(dtype), f"is too large for {dtype}", larger
    yield values < np.iinfo(dtype).min, f"is too small for {dtype}", larger


def _subnormal(values: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, str, str]:
    wider = wider_dtype(dtype)
    return (
        (values != 0) & (np.abs(values) < np.finfo(dtype).tiny),
        f"is a subnormal {dtype}, which GPUs take for zero",
        f"set `graph.weights.dtype: {wider}`, or scale the weights up" if wider else "scale the weights up",
    )
