"""WKB: the lines in a column of geometries, and why a row has none.

Only what says that it is a line, or lines, is given to shapely. shapely reads a geometry in a geometry by recursion,
without a limit: damaged bytes that look like 100,000 of them would end the process. It also raises an error for curves,
without naming a row.
"""

from __future__ import annotations

import struct
from types import ModuleType

import numpy as np
import pyarrow as pa

#: The kinds of geometry. Thousands are added for Z and M, or bits of `_FLAGS`.
_LINE, _LINES = 2, 5
_NAMES = dict(
    enumerate(
        (
            *("Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon"),
            *("GeometryCollection", "CircularString", "CompoundCurve", "CurvePolygon", "MultiCurve"),
            *("MultiSurface", "Curve", "Surface", "PolyhedralSurface", "TIN", "Triangle"),
        ),
        1,
    )
)
#: The kind is in the low 16 bits. The others are flags of extended WKB: Z, M, and whether an SRID follows.
_KIND_BITS, _SRID = 0xFFFF, 0x20000000
#: The bytes of the order of bytes, the kind, and a number: what every line begins with.
_HEAD_BYTES = 9
#: Geometries within geometries up to this size cannot be too many.
_SAFE_BYTES = 1000 * _HEAD_BYTES


def lines_of_wkb(shapely: ModuleType, column: pa.Array, form: str) -> tuple[np.ndarray, dict[int, str]]:
    """Return the lines in a column of WKB, None in rows without one, and for each such row why it has none.

    `column` is an array of binary values (n,), which may be null. `form` is what messages call a value.
    """
    codes = _codes(column)
    thousands, kinds = np.divmod(np.maximum(codes, 0) & _KIND_BITS, 1000)
    kinds[thousands > 3] = 0
    is_line = (kinds == _LINE) | (kinds == _LINES)
    values = np.array(column.to_numpy(zero_copy_only=False), object)
    values[~is_line] = None
    for i in np.flatnonzero(kinds == _LINES).tolist():
        if len(values[i]) > _SAFE_BYTES and not _has_plain_parts(values[i]):
            values[i] = None
    with np.errstate(all="ignore"):  # a point that is no number is found later
        shapes = np.asarray(shapely.from_wkb(values, on_invalid="ignore"), object)
    bad = {}
    for i in np.flatnonzero(shapely.is_missing(shapes) | shapely.is_empty(shapes)).tolist():
        name = None if is_line[i] else _NAMES.get(int(kinds[i]))
        if not column[i].is_valid:
            bad[i] = "its geometry is null"
        elif shapes[i] is not None:
            bad[i] = "its geometry is empty"
        else:
            bad[i] = f"its geometry is a {name}, not a line" if name else f"its geometry is no {form}"
    shapes[list(bad)] = None
    return shapes, bad


def _codes(column: pa.Array) -> np.ndarray:
    """Return (n,) int64: the kind and the flags of each value; -1 for null and for what is too short."""
    values = column.cast(pa.large_binary())
    offsets = np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]
    content = values.buffers()[2]
    data = np.frombuffer(b"" if content is None else content, np.uint8)
    codes = np.full(len(values), -1, np.int64)
    rows = np.flatnonzero((np.diff(offsets) >= _HEAD_BYTES) & np.asarray(values.is_valid()))
    order = data[offsets[rows]]
    for first, kind in ((0, ">u4"), (1, "<u4")):
        chosen = rows[order == first]
        codes[chosen] = data[offsets[chosen, None] + np.arange(1, 5)].view(kind)[:, 0]
    return codes


def _has_plain_parts(value: bytes) -> bool:
    """Return whether the parts of several lines are lines, and nothing that has parts itself."""

    def head(at: int) -> tuple[int, int, int]:
        order = {0: ">", 1: "<"}[value[at]]
        (code,) = struct.unpack_from(f"{order}I", value, at + 1)
        at += _HEAD_BYTES if code & _SRID else _HEAD_BYTES - 4
        (count,) = struct.unpack_from(f"{order}I", value, at)
        return code, count, at + 4

    try:
        _, n_parts, at = head(0)
        for _ in range(n_parts):
            code, n_points, at = head(at)
            if (code & _KIND_BITS) % 1000 != _LINE:
                return False
            at += n_points * 8 * _n_axes(code)
    except (struct.error, LookupError):
        return False
    return True


def _n_axes(code: int) -> int:
    thousands = (code & _KIND_BITS) // 1000
    return (
        2
        + (bool(code & 0x80000000) or thousands in (1, 3))
        + (bool(code & 0x40000000) or thousands in (2, 3))
    )
