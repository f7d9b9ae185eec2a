"""Rows that Python reads one by one: the words of an edge become ids and a weight, and edges become chunks."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.columns.layout import is_number
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk, ReadOptions
from sssp_pipeline.pipeline.formats.parsing import faults
from sssp_pipeline.pipeline.formats.parsing.fault_errors import id_fault, weight_error
from sssp_pipeline.pipeline.formats.parsing.line_reader import float64_fault, has_too_many_digits

#: Source, target and weight of an edge; the weight is None if the input has none.
Edge: TypeAlias = tuple[int | str, int | str, int | float | None]

#: About as many bytes as an edge takes while it is read.
_EDGE_BYTES = 64
_INTEGER = re.compile(r"[-+]?\d{1,20}")


class RoundedWeight(float):
    """A weight whose text has more digits than float64 keeps."""


class InexactWeightError(InputError):
    """The weight of an edge cannot be represented exactly; such a row is never left out."""


def read_id(place: str, name: str, options: ReadOptions) -> int:
    """Return the integer id `name`, which is at `place`.

    Raises
    ------
    InputError
        It is not an integer from 0 to 2^63 - 1, or it has a leading zero or a plus sign.
    """
    if (fault := id_fault(name, options.ids == "integer")) is not None:
        raise InputError(f"{place}: {fault[0]}", hint=fault[1])
    return int(name.lstrip("0") or "0")


def read_weight(place: str, text: str, options: ReadOptions) -> int | float:
    """Return the weight `text`, which is at `place`.

    Raises
    ------
    InputError
        It is not a finite number.
    InexactWeightError
        float64 does not represent it exactly.
    """
    if not is_number(text):
        raise weight_error(place, text[:60], faults.BAD_WEIGHT)
    if _INTEGER.fullmatch(text) and -(2**63) <= int(text) < 2**64:
        return int(text)
    value = float(text)
    if not math.isfinite(value):
        raise weight_error(place, text[:60], faults.NOT_FINITE)
    if (code := float64_fault(text, value, options.rounds, options.exact_scale)) is not None:
        error = weight_error(place, text[:60], code, options.exact_scale)
        raise InexactWeightError(error.message, hint=error.hint)
    return RoundedWeight(value) if has_too_many_digits(text) else value


def chunks_of_edges(
    edges: Iterable[Edge], ids: str, block_bytes: int, *, has_weights: bool
) -> Iterator[EdgeChunk]:
    """Give the edges in chunks of about `block_bytes`; `ids` is "integer" or "string"."""
    rest = iter(edges)
    while some := list(islice(rest, max(1, block_bytes // _EDGE_BYTES))):
        yield from _chunks_by_type(some, ids, has_weights=has_weights)


def _chunks_by_type(edges: Sequence[Edge], ids: str, *, has_weights: bool) -> Iterator[EdgeChunk]:
    """Give the edges in chunks with weights of one type each, so that no integer becomes a float64."""
    of_kind: dict[str, list[Edge]] = {}
    for edge in edges:
        of_kind.setdefault(_weight_dtype(edge[2]), []).append(edge)
    for kind, same in of_kind.items():
        src, dst, values = zip(*same, strict=True)
        ends = [
            pa.array(end, pa.large_string()) if ids == "string" else np.array(end, np.int64)
            for end in (src, dst)
        ]
        is_rounded = any(isinstance(value, RoundedWeight) for value in values)
        yield EdgeChunk(ends[0], ends[1], np.array(values, kind) if has_weights else None, is_rounded)


def _weight_dtype(value: int | float | None) -> str:
    """Return the NumPy type for a weight."""
    if value is None or isinstance(value, float):
        return "float64"
    return "int64" if value < 2**63 else "uint64"
