"""Weight types: chooses the type of the weights, and refuses the weights that it cannot represent.

The workflow may set the type. Otherwise integer weights get the smallest integer type that holds all of them. Decimals
with few places become integers: each is multiplied by the least power of ten that makes all of them integers. So sums
are exact, and outputs divide by this scale. Other decimals are float64. A float column of a typed format keeps its
type. Weights are rounded to a type only if the workflow asks for it. `docs/design/0023-exact-decimals.md` has the
reasons.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import unreached_distance, wider_dtype
from sssp_pipeline.base.error_text import Text, key
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.base.progress import plural
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk
from sssp_pipeline.workflow.graph import Weights

#: The largest scaled weight. Up to it, different decimals with the same number of places have different float64.
_LARGEST_SCALED = 2**52
#: The most places of a decimal for which `graph.weights.scale: auto` makes an integer of it.
_MOST_PLACES = 9
_POWERS_OF_TEN = 10.0 ** np.arange(_MOST_PLACES + 1)


@dataclass(frozen=True)
class WeightType:
    """How the weights are stored."""

    dtype: np.dtype
    #: The stored weights are the weights of the input times this number; None if they are equal.
    scale: int | None
    #: The reason.
    why: str
    #: The factor by which the weights that were kept are still to be multiplied.
    factor: int = 1

    def stored(self, values: np.ndarray) -> np.ndarray:
        """Return the weights `values` (n,) that were kept, of any type, as they are stored."""
        if self.factor != 1:
            values = np.rint(values * np.float64(self.factor))
        elif self.dtype.kind == "f":
            values = values.astype(np.float64)  # every weight is rounded in the same way
        return values.astype(self.dtype)

    def __str__(self) -> str:
        """Return the type, the scale and the reason in a few words."""
        scaled = f" of 1/{self.scale}" if self.scale else ""
        return f"{self.dtype.name}{scaled}: {self.why}"


@dataclass
class WeightRange:
    """The properties of the weights so far that decide their type; the owner of new edges counts them."""

    n_edges: int = 0
    n_weighted: int = 0
    fractional: bool = False
    low: float = 0
    high: float = 0
    #: The most places after the point of a weight of type float64. `_MOST_PLACES + 1` stands for more places, and for
    #: weights whose digits float64 does not keep.
    places: int = 0
    #: An integer weight that float64 does not represent exactly, if there is one.
    inexact: int | None = None

    def add(self, values: np.ndarray, *, are_rounded: bool = False) -> np.ndarray:
        """Take `values` into account, and return them; integers are converted to the smallest type that holds them.

        `are_rounded` is `EdgeChunk.is_rounded`.
        """
        if len(values) == 0:
            return values
        low, high = values.min().item(), values.max().item()
        self.low, self.high = min(self.low, low), max(self.high, high)
        if values.dtype.kind == "f":
            self.fractional = True
            if are_rounded or values.dtype != np.float64:
                self.places = _MOST_PLACES + 1
            else:
                self.places = int(_most_places(values, self.places))
            return values
        if max(abs(low), abs(high)) > 2**53:
            self._note_integers(values, high)
        smallest = np.result_type(np.min_scalar_type(low), np.min_scalar_type(high))
        # The common type of int8 and uint64 is float64, which would round.
        return values if smallest.kind == "f" else values.astype(smallest, copy=False)

    def merge(self, later: WeightRange) -> None:
        """Take the weights of the next edges into account."""
        self.n_edges += later.n_edges
        self.n_weighted += later.n_weighted
        self.fractional |= later.fractional
        self.low, self.high = min(self.low, later.low), max(self.high, later.high)
        self.places = max(self.places, later.places)
        if later.inexact is not None and (self.inexact is None or later.inexact >= 2**63):
            self.inexact = later.inexact

    def _note_integers(self, values: np.ndarray, high: int) -> None:
        if high >= 2**63:
            self.inexact = high  # no type holds it together with decimals or negative weights
        if self.inexact is None:
            # Python compares an integer with a float exactly.
            as_double = values.astype(np.float64).tolist()
            found = (int(v) for v, d in zip(values.tolist(), as_double, strict=True) if v != d)
            self.inexact = next(found, None)

    def type_of(
        self, spec: Weights, typed: np.dtype | None, place: str = "the input", wider: str | None = None
    ) -> WeightType:
        """Return how the weights are stored, chosen by the rules of this module.

        `typed` is the type of the column with the weights, if the format has types; `place` are the words for the
        input. `wider` is the type that the chosen one needs because of a long path, if any.

        Raises
        ------
        InputError
            No type holds all weights.
        """
        scale = spec.scale if isinstance(spec.scale, int) else None
        if spec.dtype != "auto":
            return WeightType(np.dtype(spec.dtype), scale, "as the workflow says")
        if self.fractional:
            if typed is not None and typed.kind == "f":
                dtype = np.dtype(np.float64 if typed.itemsize == 8 or wider is not None else np.float32)
                self._check_integers(place)
                return WeightType(
                    dtype, None, "as in the file" if wider is None else "a path is too long for float32"
                )
            if spec.scale == "auto" and self._is_scalable and wider != "float64":
                factor = 10**self.places
                dtype = _integer_type(round(self.low * factor), round(self.high * factor), place, wider)
                if not self.places:
                    return WeightType(dtype, None, "every weight is a whole number")
                return WeightType(
                    dtype,
                    factor,
                    f"at most {plural(self.places, 'place')} after the point, so sums are exact",
                    factor,
                )
            self._check_integers(place)
            why = f"weights with more than {_MOST_PLACES} places or 15 digits" if spec.scale else "no scale"
            why = "a path is longer than a scale allows" if wider is not None else why
            return WeightType(np.dtype(np.float64), None, f"{why}; sums are rounded")
        why = f"every weight times {scale} is an integer" if scale else "every weight is an integer"
        return WeightType(_integer_type(self.low, self.high, place, wider), scale, why)

    @property
    def _is_scalable(self) -> bool:
        """Whether all weights times a power of ten are integers that float64 represents."""
        most = max(abs(self.low), abs(self.high))
        return self.places <= _MOST_PLACES and most * 10**self.places <= _LARGEST_SCALED

    def _check_integers(self, place: str) -> None:
        """Raise `InputError` if an integer cannot be a float64."""
        if self.inexact is not None:
            raise InputError(
                f"{place}: weight {self.inexact} is an integer that no type holds exactly beside the other weights",
                hint=_set_dtype("float64", " to round it, or scale the weights down"),
            )


def _integer_type(low: float, high: float, place: str, wider: str | None) -> np.dtype:
    """Return the smallest integer type of weights from `low` to `high`, or `wider`.

    Raises
    ------
    InputError
        There is none.
    """
    if wider is not None:
        return np.dtype(wider)
    for name in ("uint32", "int32", "uint64", "int64"):
        # The largest value of an integer type means "unreachable".
        if np.iinfo(name).min <= low and high < np.iinfo(name).max:
            return np.dtype(name)
    raise InputError(
        f"{place}: no integer type holds both the weights {low} and {high}", hint=_set_dtype("float64")
    )


@njit(nogil=True)
def _most_places(values: np.ndarray, places: int) -> Any:
    """Return the most places that a decimal in `values` (n,) float64 has, or `places` if that is more.

    `_MOST_PLACES + 1` means that one has more, or that its digits are too many for float64. A value has p places if it
    is the float64 nearest to an integer divided by 10^p.
    """
    for value in values:
        while places <= _MOST_PLACES:
            whole = np.rint(value * _POWERS_OF_TEN[places])
            if not abs(whole) <= _LARGEST_SCALED:
                return _MOST_PLACES + 1
            if whole / _POWERS_OF_TEN[places] == value:
                break
            places += 1
    return places


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


def default_weight(spec: Weights) -> np.ndarray:
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
    if isinstance(spec.scale, int):
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
    larger = _set_dtype(wider) if wider else "scale the weights down"
    if dtype.kind == "f":
        yield np.abs(values) > np.finfo(dtype).max, f"is too large for {dtype}", larger
        if is_float:
            yield _subnormal(values, dtype)
        return
    if is_float:
        yield values != np.floor(values), f"is not of type {dtype}", _set_dtype("auto")
    if dtype.kind == "u":
        yield values < 0, f"is negative, {dtype} is not", _set_dtype(dtype.name[1:])
    yield values >= unreached_distance(dtype), f"is too large for {dtype}", larger
    yield values < np.iinfo(dtype).min, f"is too small for {dtype}", larger


def _set_dtype(name: object, more: str = "") -> Text:
    """Return a hint to set the type of the weights, which ends with `more`."""
    return Text("set ", key("graph.weights.dtype", name), more)


def _subnormal(values: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, str, str]:
    wider = wider_dtype(dtype)
    return (
        (values != 0) & (np.abs(values) < np.finfo(dtype).tiny),
        f"is a subnormal {dtype}, which GPUs take for zero",
        _set_dtype(wider, ", or scale the weights up") if wider else "scale the weights up",
    )
