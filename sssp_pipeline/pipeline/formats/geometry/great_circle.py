"""Great circles: lengths on the globe, taken as a sphere."""

from __future__ import annotations

import numpy as np

#: The mean radius of the Earth (IUGG).
EARTH_RADIUS_M = 6_371_008.8


def step_metres(lon: np.ndarray, lat: np.ndarray) -> np.ndarray:
    """Return the metres from each of the points (n,), in degrees, to the next one: (n-1,) float64.

    References
    ----------
    R. W. Sinnott, "Virtues of the Haversine", Sky and Telescope 68(2), 1984.
    """
    x, y = np.radians(lon), np.radians(lat)
    squares = np.sin(np.diff(y) / 2) ** 2 + np.cos(y[:-1]) * np.cos(y[1:]) * np.sin(np.diff(x) / 2) ** 2
    return 2 * EARTH_RADIUS_M * np.arcsin(np.sqrt(np.minimum(squares, 1)))
