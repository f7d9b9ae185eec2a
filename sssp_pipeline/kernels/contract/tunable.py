"""Options of a solver.

They change how long a search takes, never a bit of its distances.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

Value = bool | int | float | str


@dataclass(frozen=True)
class Tunable:
    """An option of a solver, a keyword of its constructor."""

    name: str
    #: The value if none is given.
    default: Value
    #: One line for the docs.
    help: str
    #: Allowed values besides the numbers in the range.
    choices: tuple[Value, ...] = ()
    #: The range of allowed numbers; no number is allowed if `most` is below `least`. Only whole numbers are allowed if
    #: `default` is an int or `multiple_of` is given.
    least: float = math.inf
    most: float = -math.inf
    #: Numbers must be multiples of this.
    multiple_of: int | None = None

    @property
    def allowed(self) -> str:
        """The allowed values in words."""
        named = [shown_value(choice) for choice in self.choices]
        if self.least <= self.most:
            kind = "a whole number" if self._is_whole else "a number"
            each = f"a multiple of {self.multiple_of}" if (self.multiple_of or 1) > 1 else kind
            top = "" if math.isinf(self.most) else f" to {self.most:,.15g}"
            named.append(f"{each}, {self.least:,.15g}{top or ' or more'}")
        return " or ".join(named)

    @property
    def shown_default(self) -> str:
        return shown_value(self.default)

    @property
    def _is_whole(self) -> bool:
        return isinstance(self.default, int) or self.multiple_of is not None

    def takes(self, value: object) -> bool:
        """Return whether the option may have this value."""
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
