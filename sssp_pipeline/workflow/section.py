"""What all sections of the workflow share: their base class, common types, and the path of a key."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Auto = Literal["auto"]
Text = Annotated[str, Field(min_length=1)]
Positive = Annotated[int, Field(gt=0)]

#: Where a key is in the workflow: ("graph", "input", 1) is the second URL of `graph.input`.
Path = tuple[str | int, ...]


class Section(BaseModel):
    """The base of all sections: unknown keys are refused, and no value is converted to another type."""

    # Not `use_attribute_docstrings`: it would parse the source of each class in every process. `schema` does that.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def dotted(path: Path) -> str:
    """Return `path` as a user writes it: `graph.input[1]`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
