"""Coordinates: the longitudes and latitudes of the vertices of a stored graph.

A store holds x and y as the input has them. The DIMACS files of road networks count millionths of a degree, and other
files have degrees or positions on a plane. No file says which, so the numbers themselves must fit exactly one unit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sssp_pipeline.base.errors import InputError, did_you_mean

#: How many of each unit make a degree.
UNITS = {"degrees": 1, "microdegrees": 10**6}
_CONVERT = "convert them to degrees of WGS 84, x to the east and y to the north"


@dataclass(frozen=True, eq=False)
class LonLat:
    """Positions of vertices on the globe (WGS 84), in degrees."""

    #: (V,) float64, from -180 to 180.
    lon: np.ndarray
    #: (V,) float64, from -90 to 90.
    lat: np.ndarray
    #: The key of `UNITS` that the stored numbers have.
    unit: str


def lon_lat(x: np.ndarray, y: np.ndarray, unit: str, place: str) -> LonLat:
    """Return x and y (V,) as longitudes and latitudes.

    Parameters
    ----------
    unit
        A key of `UNITS`, or "auto" for the only one that fits. Microdegrees are whole numbers.
    place
        Names the graph store in errors.

    Raises
    ------
    InputError
        The unit is unknown or does not fit the numbers; or it is "auto", and no unit fits or both do.
    """
    if unit not in ("auto", *UNITS):
        raise InputError(
            f"`{unit}` is no unit of coordinates",
            hint=f"{did_you_mean(unit, list(UNITS))}It is degrees, microdegrees or auto",
        )
    limits = {name: (180 * parts, 90 * parts) for name, parts in UNITS.items()}
    within = [name for name, limit in limits.items() if _is_within(x, limit[0]) and _is_within(y, limit[1])]
    what = f"the coordinates of `{place}`, x from {_range(x)}, y from {_range(y)},"
    if unit != "auto" and unit not in within:
        raise InputError(
            f"{what} are no longitudes and latitudes in {unit}",
            hint=f"they fit {within[0]}" if within else _CONVERT,
        )
    if unit == "auto":
        is_whole = all(bool(np.array_equal(values, np.rint(values))) for values in (x, y))
        fitting = [name for name in within if name == "degrees" or is_whole]
        if not fitting:
            raise InputError(
                f"{what} are no longitudes and latitudes, neither in degrees nor in whole millionths of a degree",
                hint=_CONVERT,
            )
        if len(fitting) > 1:
            raise InputError(
                f"{what} may be degrees or millionths of a degree",
                hint='name the unit: `--coordinates degrees`, in Python `coordinates="degrees"`',
            )
        (unit,) = fitting
    return LonLat(x / UNITS[unit], y / UNITS[unit], unit)


def _is_within(values: np.ndarray, limit: int) -> bool:
    return bool(np.all(np.abs(values) <= limit))


def _range(values: np.ndarray) -> str:
    return f"{values.min():.10g} to {values.max():.10g}" if len(values) else "no vertex"
