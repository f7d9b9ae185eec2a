"""Options of single solvers: what a solver lets its user vary.

They change what a search takes, never a bit of its distances.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

Value = bool | int | float | str


@dataclass(frozen=True)
class Tunable:
    """An option of a solver, which takes it as a keyword of its constructor.

    Attributes
    ----------
    default
        Its value where none is given.
    help
        One line for the docs.
    choices
        The values that it may have besides numbers in a range.
    least, most
        Numbers that it may have; none where `most` is below `least`. Whole ones alone where `default` is an int, or
        `multiple_of` is given: then multiples of that.
    """

    name: str
    default: Value
    help: str
    choices: tuple[Value, ...] = ()
    least: float = math.inf
    most: float = -math.inf
    multiple_of: int | None = None

    @property
    def allowed(self) -> str:
        """In words, what it may be."""
        named = [shown_value(choice) for choice in self.choices]
        if self.least <= self.most:
            each = f"a multiple of {self.multiple_of}" if (self.multiple_of or 1) > 1 else self._kind
            top = "" if math.isinf(self.most) else f" to {self.most:,.15g}"
            named.append(f"{each}, {self.least:,.15g}{top or ' or more'}")
        return " or ".join(named)

    @property
    def shown_default(self) -> str:
        return shown_value(self.default)

    @property
    def _kind(self) -> str:
        return "a whole number" if self._is_whole else "a number"

    @property
    def _is_whole(self) -> bool:
        return isinstance(self.default, int) or self.multiple_of is not None

    def takes(self, value: object) -> bool:
        """Return whether it may have this value."""
        if any(value == choice and type(value) is type(choice) for choice in self.choices):
            return True
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        if not self.least <= value <= self.most:
            return False
        return not self._is_whole or (isinstance(value, int) and value % (self.multiple_of or 1) == 0)


def shown_value(value: object) -> str:
    """Return a value as messages show it."""
    return (
        str(value).lower()
        if isinstance(value, bool)
        else f"`{value}`"
        if isinstance(value, str)
        else str(value)
    )
