import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.graph_store.coordinates import lon_lat

CONVERT = "convert them to degrees of WGS 84, x to the east and y to the north"
NY = [-74499998, -73500016], [40300009, 41299997]


def of(x, y, unit="auto"):
    return lon_lat(np.array(x), np.array(y), unit, "store")


@pytest.mark.parametrize("unit", ["auto", "microdegrees"])
def test_millionths_of_a_degree(unit):
    found = of(*NY, unit)
    assert found.unit == "microdegrees"
    assert_array_equal(found.lon, [-74.499998, -73.500016])
    assert_array_equal(found.lat, [40.300009, 41.299997])


@pytest.mark.parametrize("unit", ["auto", "degrees"])
def test_degrees(unit):
    found = of([-180.0, 180.0, 0.5], [-90.0, 90.0, 0.0], unit)
    assert found.unit == "degrees"
    assert_array_equal(found.lon, [-180, 180, 0.5])


def test_a_named_unit_decides_where_both_fit():
    assert of([1, 2], [3, 4], "degrees").lat[1] == 4
    assert of([1, 2], [3, 4], "microdegrees").lat[1] == 4e-6


@pytest.mark.parametrize(
    ("x", "y", "unit", "message", "hint"),
    [
        (
            *([1, 2], [3, 4], "auto"),
            "the coordinates of `store`, x from 1 to 2, y from 3 to 4, may be degrees or millionths of a degree",
            'name the unit: `--coordinates degrees`, in Python `coordinates="degrees"`',
        ),
        (
            *([0, 180_000_001], [0, 1], "auto"),
            "the coordinates of `store`, x from 0 to 180000001, y from 0 to 1, are no longitudes and latitudes, "
            "neither in degrees nor in whole millionths of a degree",
            CONVERT,
        ),
        (
            *([583960.25], [4507523.5], "auto"),  # metres of UTM
            "the coordinates of `store`, x from 583960.25 to 583960.25, y from 4507523.5 to 4507523.5, "
            "are no longitudes and latitudes, neither in degrees nor in whole millionths of a degree",
            CONVERT,
        ),
        (
            *(*NY, "degrees"),
            "the coordinates of `store`, x from -74499998 to -73500016, y from 40300009 to 41299997, "
            "are no longitudes and latitudes in degrees",
            "they fit microdegrees",
        ),
        (
            *([41.5], [-73.5e7], "microdegrees"),
            "the coordinates of `store`, x from 41.5 to 41.5, y from -735000000 to -735000000, "
            "are no longitudes and latitudes in microdegrees",
            CONVERT,
        ),
        (
            *(*NY, "degree"),
            "`degree` is no unit of coordinates",
            "did you mean `degrees`? It is degrees, microdegrees or auto",
        ),
    ],
)
def test_refused(x, y, unit, message, hint):
    with pytest.raises(InputError) as caught:
        of(x, y, unit)
    assert (caught.value.message, caught.value.hint) == (message, hint)
