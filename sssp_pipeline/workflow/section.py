"""What all sections of the workflow share: their base class, common types, and the path of a key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

Auto = Literal["auto"]
#: Where searches begin: at the sources, or backward at the targets.
Direction = Literal["auto", "forward", "backward"]
Text = Annotated[str, Field(min_length=1)]
Positive = Annotated[int, Field(gt=0)]
#: A column of edges, positions or pairs: its name, which may be a number such as 0, or else its number from 1.
ColumnKey = Annotated[int, Field(ge=0)] | Text

#: The values of a section as a file has them. They may have any fault.
Plain = Mapping[str, Any]
#: Where a key is in the workflow: ("graph", "input", 1) is the second URL of `graph.input`.
Path = tuple[str | int, ...]


class Contradiction(NamedTuple):
    """A value that another value of the same file rules out."""

    #: The key that the user is to change.
    path: Path
    #: What is wrong, and what to do.
    text: str
    hint: str


class Section(BaseModel):
    """The base of all sections: unknown keys are refused, and no value is converted to another type."""

    # Not `use_attribute_docstrings`: it would parse the source of each class in every process. `schema` does that.
    # A section is checked as a part of the workflow, so only the workflow's own checks are built.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, defer_build=True)


class OwnKeys(Section):
    """The keys of `graph` or `output` that belong to one format or one kind of output."""

    @classmethod
    def own_contradictions(cls, section: Plain, solve: Plain) -> Iterator[Contradiction]:
        """Yield the contradictions of these keys in `section`, with each other and with the section `solve`."""
        del section, solve
        return iter(())


def dotted(path: Path) -> str:
    """Return `path` as a user writes it: `graph.input[1]`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def listed(names: Iterable[str]) -> str:
    """Return names in words: "`a`, `b` and `c`"."""
    *others, last = (f"`{name}`" for name in names)
    return f"{', '.join(others)} and {last}" if others else last
