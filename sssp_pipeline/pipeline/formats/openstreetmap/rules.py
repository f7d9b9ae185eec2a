"""OpenStreetMap rules: for each kind of traveller, which ways are open, in which directions, and how fast.

The wiki of OpenStreetMap describes the tags. docs/guides/openstreetmap.md lists all rules for users.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

#: A function that returns the value of a tag, or None.
Tags: TypeAlias = Callable[[str], str | None]


class Speeds(NamedTuple):
    """The speeds along a way and against it, in km/h; 0 if that direction is closed."""

    along: float
    against: float


@dataclass(frozen=True)
class Profile:
    """A kind of traveller."""

    #: Speeds in km/h by the value of `highway`; other ways are closed.
    speeds: Mapping[str, float]
    #: The tags that open or close a way, the most specific first: the first one that is there decides.
    access: tuple[str, ...]
    #: The tags that give the direction, the most specific first.
    oneway: tuple[str, ...]
    #: Whether roundabouts and motorways are one-way without a tag.
    has_implied_oneway: bool
    #: Values of `highway` that are open only if a tag of `access` opens them.
    closed_classes: frozenset[str] = frozenset()
    #: Whether a speed limit is the speed. Otherwise it only lowers the speed.
    drives_at_limit: bool = False


_MOTOR = {
    "motorway": 110,
    "motorway_link": 60,
    "trunk": 90,
    "trunk_link": 50,
    "primary": 65,
    "primary_link": 40,
    "secondary": 55,
    "secondary_link": 35,
    "tertiary": 45,
    "tertiary_link": 30,
    "unclassified": 40,
    "residential": 30,
    "living_street": 10,
    "service": 15,
    "road": 30,
}
#: Ways for everybody but cars, and for everybody but motor vehicles on motorways.
_SLOW = tuple(name for name in _MOTOR if not name.startswith(("motorway", "trunk")))
_PATHS = ("pedestrian", "footway", "path", "track", "cycleway", "bridleway")

#: The values of `graph.profile`.
PROFILES: dict[str, Profile] = {
    "car": Profile(
        speeds=_MOTOR,
        access=("motorcar", "motor_vehicle", "vehicle", "access"),
        oneway=("oneway:motorcar", "oneway:motor_vehicle", "oneway:vehicle", "oneway"),
        has_implied_oneway=True,
        drives_at_limit=True,
    ),
    "bicycle": Profile(
        speeds={**dict.fromkeys((*_SLOW, "trunk", "trunk_link", *_PATHS), 15), "track": 12, "path": 12},
        access=("bicycle", "vehicle", "access"),
        oneway=("oneway:bicycle", "oneway:vehicle", "oneway"),
        has_implied_oneway=True,
        closed_classes=frozenset(("trunk", "trunk_link", "pedestrian", "footway", "bridleway")),
    ),
    "foot": Profile(
        speeds=dict.fromkeys((*_SLOW, "trunk", "trunk_link", *_PATHS, "steps", "corridor", "platform"), 5),
        access=("foot", "access"),
        oneway=("oneway:foot",),
        has_implied_oneway=False,
        closed_classes=frozenset(("trunk", "trunk_link", "cycleway")),
    ),
}
#: Values of an access tag that close a way, and those that open a way of a class that is closed otherwise.
CLOSING = frozenset(
    (
        *("no", "private", "agricultural", "forestry", "emergency", "military"),
        *("psv", "bus", "use_sidepath", "dismount"),
    )
)
OPENING = frozenset(("yes", "designated", "permissive", "official", "destination"))
#: For each value of a tag of direction, whether the way is open along it and against it.
DIRECTIONS = {
    **dict.fromkeys(("yes", "true", "1"), (True, False)),
    **dict.fromkeys(("-1", "reverse"), (False, True)),
    **dict.fromkeys(("no", "false", "0", "alternating"), (True, True)),
    "reversible": (False, False),
}
_LIMIT = re.compile(r"([0-9]{1,3}(?:\.[0-9]+)?) ?(km/h|kmh|kph|mph|knots)?", re.ASCII)
#: The km/h of a unit of `maxspeed`; a number without a unit is in km/h.
UNITS_KMH = {None: 1.0, "km/h": 1.0, "kmh": 1.0, "kph": 1.0, "mph": 1.609344, "knots": 1.852}


def speeds_of(tag: Tags, profile: Profile) -> Speeds | None:
    """Return the speeds on a way with these tags; None if the way is closed in both directions."""
    kind = tag("highway")
    base = None if kind is None else profile.speeds.get(kind)
    if base is None or tag("area") == "yes" or not _is_open(tag, profile, str(kind)):
        return None
    along, against = _directions(tag, profile, str(kind))
    if not along and not against:
        return None
    limits = [_limit(tag(f"maxspeed:{way}") or tag("maxspeed")) for way in ("forward", "backward")]
    kmh = [_speed(base, limit, profile) for limit in limits]
    return Speeds(kmh[0] if along else 0, kmh[1] if against else 0)


def _is_open(tag: Tags, profile: Profile, kind: str) -> bool:
    if not profile.drives_at_limit and tag("motorroad") == "yes":
        return False
    given = next((value for key in profile.access if (value := tag(key)) is not None), None)
    if kind in profile.closed_classes:
        return tag(profile.access[0]) in OPENING
    return given not in CLOSING


def _directions(tag: Tags, profile: Profile, kind: str) -> tuple[bool, bool]:
    """Return whether the way leads along itself, and against itself."""
    for key in profile.oneway:
        found = DIRECTIONS.get(tag(key) or "")
        if found is None:
            continue
        if any(found) and key == "oneway" and profile.access[0] == "bicycle" and _has_contraflow(tag):
            return True, True
        return found
    if profile.has_implied_oneway and (tag("junction") in ("roundabout", "circular") or kind == "motorway"):
        return True, False
    return True, True


def _has_contraflow(tag: Tags) -> bool:
    """Return whether bicycles may ride against a one-way street, by the older tags for that."""
    keys = ("cycleway", "cycleway:left", "cycleway:right", "cycleway:both")
    return any((tag(key) or "").startswith("opposite") for key in keys)


def _limit(text: str | None) -> float | None:
    """Return a value of `maxspeed` in km/h; None if it is not a number above 0 with a known unit."""
    found = _LIMIT.fullmatch(text.strip()) if text is not None else None
    return float(found[1]) * UNITS_KMH[found[2]] or None if found else None


def _speed(base: float, limit: float | None, profile: Profile) -> float:
    if limit is None:
        return base
    return limit if profile.drives_at_limit else min(base, limit)
