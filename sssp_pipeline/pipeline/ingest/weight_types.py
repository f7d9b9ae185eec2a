"""Weight types: chooses the type of the weights, and refuses the weights that it cannot represent.

The workflow may set the type. Otherwise integer weights get the smallest integer type that holds all of them. Weights
with decimals get float32 if it represents every weight exactly, else float64; a float column of a typed format keeps
its type. Weights are rounded only if the workflow asks for a float type. `graph.weights.scale` turns decimals into
integers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sssp_pipeline.csr import unreached_distance, wider_dtype
from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk
from sssp_pipeline.workflow import models as workflow

#: The largest scaled weight. Up to it, different decimals with the same number of places have different float64.
_LARGEST_SCALED = 2**52


@dataclass
class WeightRange:
    """The properties of the weights so far that decide their type; the owner sets `n_edges` and `n_weighted`."""

    n_edges: int = 0
    n_weighted: int = 0
    fractional: bool = False
    low: float = 0
    high: float = 0
    #: The smallest magnitude above zero, and the largest.
    tiny: float = np.inf
    huge: float = 0
    #: Whether float32 represents every weight exactly.
    single: bool = True
    #: An integer weight that float64 does not represent exactly, if there is one.
    inexact: int | None = None

    def add(self, values: np.ndarray) -> np.ndarray:
        """Take `values` into account, and return them; integers are converted to the smallest type that holds them."""
        if len(values) == 0:
            return values
        low, high = values.min().item(), values.max().item()
        self.low, self.high = min(self.low, low), max(self.high, high)
        if values.dtype.kind == "f":
            self.fractional = True
            self.huge = max(self.huge, abs(low), abs(high))
            self.tiny = min(self.tiny, float(np.abs(values).min(where=values != 0, initial=np.inf)))
            with np.errstate(over="ignore", under="ignore"):
                self.single &= bool((values.astype(np.float32) == values).all())
            return values
        if max(abs(low), abs(high)) > 2**24:
            self._note_integers(values, high)
        smallest = np.result_type(np.min_scalar_type(low), np.min_scalar_type(high))
        # The common type of int8 and uint64 is float64, which would round.
        return values if smallest.kind == "f" else values.astype(smallest, copy=False)

    def merge(self, later: WeightRange) -> None:
        """Take the weights of the next edges into account; `n_edges` and `n_weighted` stay."""
        self.fractional |= later.fractional
        self.low, self.high = min(self.low, later.low), max(self.high, later.high)
        self.tiny, self.huge = min(self.tiny, later.tiny), max(self.huge, later.huge)
        self.single &= later.single
        if later.inexact is not None and (self.inexact is None or later.inexact >= 2**63):
            self.inexact = later.inexact

    def _note_integers(self, values: np.ndarray, high: int) -> None:
        as_double = values.astype(np.float64)
        self.single &= bool((as_double.astype(np.float32) == as_double).all())
        if high >= 2**63:
            self.inexact = high  # no type holds it together with decimals or negative weights
        if self.inexact is None and max(abs(values.min().item()), abs(values.max().item())) > 2**53:
            # Python compares an integer with a float exactly.
            found = (int(v) for v, d in zip(values.tolist(), as_double.tolist(), strict=True) if v != d)
            self.inexact = next(found, None)

    def dtype(
        self, spec: workflow.Weights, typed: np.dtype | None, place: str = "the input"
    ) -> tuple[np.dtype, str]:
        """Return the type of the weights, chosen by the rules of this module, and the reason.

        `typed` is the type of the column with the weights, if the format has types; `place` are the words for the
        input.

        Raises
        ------
        InputError
            No type holds all weights.
        """
        if spec.dtype != "auto":
            return np.dtype(spec.dtype), "as the workflow says"
        if self.fractional:
            if self.inexact is not None:
                raise InputError(
                    f"{place}: weight {self.inexact} is an integer that no type holds exactly beside the other weights",
                    hint="set `graph.weights.dtype: float64` to round it, or scale the weights down",
                )
            single = np.finfo(np.float32)
            fits = self.single and self.huge <= float(single.max) and self.tiny >= float(single.tiny)
            if typed is not None and typed.kind == "f":
                return np.dtype(np.float64 if typed.itemsize == 8 else np.float32), "as in the file"
            if fits:
                return np.dtype(np.float32), "every weight is exact in it"
            return np.dtype(np.float64), "float32 would round some weights"
        for name in ("uint32", "int32", "uint64", "int64"):
            # The largest value of an integer type means "unreachable".
            if np.iinfo(name).min <= self.low and self.high < np.iinfo(name).max:
                return np.dtype(name), "every weight is an integer"
        raise InputError(
            f"{place}: no integer type holds both the weights {self.low} and {self.high}",
            hint="set `graph.weights.dtype: float64`",
        )


def scaled(chunk: EdgeChunk, before: int, scale: int, place: str) -> np.ndarray:
    """Return the weights of `chunk` times `scale`, (n,) int64.

    Raises
    ------
    InputError
        A scaled weight is not an integer, or is too large. The message needs `before`, the number of edges before the
        chunk, and `place`, the words for the input.
    """
    values = chunk.weights
    assert values is not None
    if values.dtype.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            whole = np.rint(values * scale)
            bad = (whole / scale != values) | ~(np.abs(whole) <= _LARGEST_SCALED)
    else:
        bad = (values > _LARGEST_SCALED // scale) | (values < -(_LARGEST_SCALED // scale))
        whole = values.astype(np.int64) * scale
    if bad.any():
        i = int(np.argmax(bad))
        raise InputError(
            f"{place}: {_edge(chunk, before, i)}: weight {values[i]} times {scale} is not an integer "
            f"of at most {_LARGEST_SCALED}",
            hint="change `graph.weights.scale`, or remove it to compute with decimals",
        )
    return whole.astype(np.int64)


def default_weight(spec: workflow.Weights) -> np.ndarray:
    """Return `graph.weights.default`, (1,), with the type that it would have as a weight in text.

    Raises
    ------
    InputError
        It is not a valid weight by the rules of `check_weights`.
    """
    values = np.array([spec.default])
    if values.dtype == object:  # an integer of more than 64 bits
        values = np.array([float(str(spec.default))])
        if spec.dtype == "auto" and np.isfinite(values[0]):
            raise InputError(
                f"`graph.weights.default`: weight {spec.default} is an integer beyond 64 bits",
                hint="write it with a decimal point to round it",
            )
    if spec.scale is not None:
        nowhere = np.zeros(1, np.int64)
        return scaled(EdgeChunk(nowhere, nowhere, values), 0, spec.scale, "`graph.weights.default`")
    if fault := _first_fault(values, spec.dtype):
        _, why, hint = fault
        raise InputError(f"`graph.weights.default`: weight {spec.default} {why}", hint=hint)
    return values


def check_weights(chunk: EdgeChunk, before: int, asked: str, place: str) -> None:
    """Raise `InputError` for the first weight of `chunk` that is not a number or that `asked` cannot represent.

    `asked` is the workflow's `graph.weights.dtype`; `before` and `place` are as in `scaled`.
    """
    assert chunk.weights is not None
    if fault := _first_fault(chunk.weights, asked):
        i, why, hint = fault
        raise InputError(f"{place}: {_edge(chunk, before, i)}: weight {chunk.weights[i]} {why}", hint=hint)


def _edge(chunk: EdgeChunk, before: int, i: int) -> str:
    return f"edge {before + i + 1}, from `{chunk.src[i]}` to `{chunk.dst[i]}`"


def _first_fault(values: np.ndarray, asked: str) -> tuple[int, str, str] | None:
    """Return the index of an invalid weight, the problem and a hint; None if all weights are valid."""
    for bad, why, hint in _rules(values, asked):
        if bad.any():
            return int(np.argmax(bad)), why, hint
    return None


def _rules(values: np.ndarray, asked: str) -> Iterator[tuple[np.ndarray, str, str]]:
    """Give for each rule a mask of the `values` that break it, the problem and a hint."""
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
        yield values != np.floor(values), f"is not of type {dtype}", "set `graph.weights.dtype: auto`"
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
