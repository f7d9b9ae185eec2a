"""The rules of OpenStreetMap: tags in, speeds out."""

from pathlib import Path

import pytest

from sssp_pipeline.pipeline.formats.openstreetmap.rules import CLOSING, OPENING, PROFILES, speeds_of

GUIDE = Path(__file__).parents[4] / "docs" / "guides" / "openstreetmap.md"


def speeds(profile, **tags):
    tags = {key.replace("__", ":"): value for key, value in tags.items()}
    found = speeds_of(tags.get, PROFILES[profile])
    return None if found is None else tuple(found)


@pytest.mark.parametrize(
    ("profile", "tags", "wanted"),
    [
        ("car", {"highway": "residential"}, (30, 30)),
        ("car", {"highway": "footway"}, None),
        ("car", {"building": "yes"}, None),
        ("car", {"highway": "service", "area": "yes"}, None),
        ("car", {"highway": "motorway"}, (110, 0)),
        ("car", {"highway": "motorway", "oneway": "no"}, (110, 110)),
        ("car", {"highway": "motorway_link"}, (60, 60)),
        # One-way.
        ("car", {"highway": "primary", "oneway": "yes"}, (65, 0)),
        ("car", {"highway": "primary", "oneway": "1"}, (65, 0)),
        ("car", {"highway": "primary", "oneway": "-1"}, (0, 65)),
        ("car", {"highway": "primary", "oneway": "reverse"}, (0, 65)),
        ("car", {"highway": "primary", "oneway": "alternating"}, (65, 65)),
        ("car", {"highway": "primary", "oneway": "reversible"}, None),
        ("car", {"highway": "primary", "oneway": "sometimes"}, (65, 65)),
        ("car", {"highway": "primary", "junction": "roundabout"}, (65, 0)),
        ("car", {"highway": "primary", "junction": "roundabout", "oneway": "-1"}, (0, 65)),
        ("car", {"highway": "primary", "junction": "roundabout", "oneway": "sometimes"}, (65, 0)),
        ("car", {"highway": "primary", "oneway": "yes", "oneway__motor_vehicle": "no"}, (65, 65)),
        ("car", {"highway": "primary", "oneway": "yes", "oneway__bicycle": "no"}, (65, 0)),
        ("bicycle", {"highway": "primary", "oneway": "yes"}, (15, 0)),
        ("bicycle", {"highway": "primary", "oneway": "yes", "oneway__bicycle": "no"}, (15, 15)),
        ("bicycle", {"highway": "primary", "oneway": "yes", "cycleway__left": "opposite_lane"}, (15, 15)),
        ("bicycle", {"highway": "primary", "oneway": "reversible", "cycleway": "opposite"}, None),
        ("bicycle", {"highway": "primary", "junction": "circular"}, (15, 0)),
        ("foot", {"highway": "primary", "oneway": "yes", "junction": "roundabout"}, (5, 5)),
        ("foot", {"highway": "steps", "oneway__foot": "-1"}, (0, 5)),
        # Speed limits.
        ("car", {"highway": "primary", "maxspeed": "50"}, (50, 50)),
        ("car", {"highway": "primary", "maxspeed": "50 km/h"}, (50, 50)),
        ("car", {"highway": "primary", "maxspeed": "30 mph"}, (48.28032, 48.28032)),
        ("car", {"highway": "primary", "maxspeed": "30mph"}, (48.28032, 48.28032)),
        ("car", {"highway": "primary", "maxspeed": "10 knots"}, (18.52, 18.52)),
        ("car", {"highway": "primary", "maxspeed": "50", "maxspeed__backward": "30"}, (50, 30)),
        ("car", {"highway": "primary", "maxspeed__forward": "30"}, (30, 65)),
        *(
            ("car", {"highway": "primary", "maxspeed": text}, (65, 65))
            for text in [
                "none",
                "signals",
                "RO:urban",
                "50;70",
                "0",
                "-5",
                "fast",
                "",
                "1e3",
                "٣٠",
                "30 furlongs",
            ]
        ),
        ("bicycle", {"highway": "residential", "maxspeed": "10"}, (10, 10)),
        ("bicycle", {"highway": "residential", "maxspeed": "50"}, (15, 15)),
        ("foot", {"highway": "residential", "maxspeed": "50"}, (5, 5)),
        # Access.
        ("car", {"highway": "primary", "access": "no"}, None),
        ("car", {"highway": "primary", "access": "no", "motor_vehicle": "yes"}, (65, 65)),
        ("car", {"highway": "primary", "access": "yes", "motorcar": "no"}, None),
        ("car", {"highway": "service", "access": "private"}, None),
        ("car", {"highway": "service", "access": "destination"}, (15, 15)),
        ("car", {"highway": "primary", "bicycle": "no"}, (65, 65)),
        ("bicycle", {"highway": "primary", "bicycle": "use_sidepath"}, None),
        ("bicycle", {"highway": "primary", "motor_vehicle": "no"}, (15, 15)),
        ("bicycle", {"highway": "footway"}, None),
        ("bicycle", {"highway": "footway", "bicycle": "yes"}, (15, 15)),
        ("bicycle", {"highway": "footway", "access": "yes"}, None),
        ("bicycle", {"highway": "motorway"}, None),
        ("bicycle", {"highway": "primary", "motorroad": "yes"}, None),
        ("bicycle", {"highway": "path"}, (12, 12)),
        ("foot", {"highway": "steps"}, (5, 5)),
        ("foot", {"highway": "cycleway"}, None),
        ("foot", {"highway": "cycleway", "foot": "designated"}, (5, 5)),
        ("foot", {"highway": "residential", "foot": "no"}, None),
    ],
)
def test_speeds(profile, tags, wanted):
    found = speeds(profile, **tags)
    assert found == (wanted if wanted is None else pytest.approx(wanted, rel=1e-12))


def test_the_guide_lists_the_speeds():
    lines = GUIDE.read_text(encoding="utf-8").splitlines()
    start = lines.index("| `highway` | car | bicycle | foot |") + 2
    listed = {}
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        kind, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        listed[kind.strip("`")] = cells
    profiles = list(PROFILES.values())
    assert set(listed) == {kind for profile in profiles for kind in profile.speeds}
    for kind, cells in listed.items():
        for cell, profile in zip(cells, profiles, strict=True):
            speed = profile.speeds.get(kind)
            shown = "" if speed is None else f"({speed})" if kind in profile.closed_classes else str(speed)
            assert cell == shown, kind


def test_the_guide_lists_the_values_of_access():
    text = " ".join(GUIDE.read_text(encoding="utf-8").split())
    for value in CLOSING | OPENING:
        assert f"`{value}`" in text
