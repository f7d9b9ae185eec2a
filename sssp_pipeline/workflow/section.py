"""What all sections of the workflow are made of."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Auto = Literal["auto"]
Text = Annotated[str, Field(min_length=1)]
Positive = Annotated[int, Field(gt=0)]

#: Where a key stands in the workflow: ("graph", "input", 1) is the second URL of `graph.input`.
Path = tuple[str | int, ...]


class Section(BaseModel):
    """What all parts of the workflow share: no unknown key, no value turned silently into another type."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )
