"""Reading: how an input was understood. The terminal, `inspect`, run.json and the report print it.

Plain dataclasses, so that `inspect` imports them quickly. The manifest validates them like its own fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class ColumnRead:
    """The column of source, target or weight: its name, or its number from 1, and why it was chosen.

    `column` is None if there is no such column; `why` then says why.
    """

    column: str | None
    why: str


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How an input was read."""

    #: A key of `registries.FORMATS`, or "generated".
    format: str
    #: How the format was determined.
    format_why: str = "by its content"
    #: The encoding of a text; None for UTF-8 and for binary formats.
    encoding: str | None = None
    #: Between columns: "comma", "white space", …; None in a format without delimiters.
    delimiter: str | None = None
    #: Whether the first row names the columns; None in a format without such rows.
    header: bool | None = None
    #: The columns of tables and text; None in other formats.
    source: ColumnRead | None = None
    target: ColumnRead | None = None
    weight: ColumnRead | None = None
    #: The columns that were not read.
    unused: tuple[str, ...] = ()
    #: Further rules by which the input was read, each a few words, such as "profile car, the default".
    rules: tuple[str, ...] = ()
    #: "integer" or "string".
    ids: str
    #: Why the ids have that type.
    ids_why: str
    #: The type of the weights and the reason, such as "float64: …"; empty until all weights are read.
    weights: str = ""
    #: The direction of the edges, such as "directed as listed" or "both ways, as the file says".
    edges: str = ""
    #: The first three edges: source, target, and the stored weight if the input has weights.
    sample: tuple[tuple[int | str, int | str] | tuple[int | str, int | str, int | float], ...] = ()

    #: What the user may have to change, a sentence; empty if there is nothing.
    note: str = ""

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> Reading:
        """Return the reading that run.json holds."""
        parts = {name: stored.get(name) for name in ("source", "target", "weight")}
        columns = {name: ColumnRead(**part) for name, part in parts.items() if part is not None}
        return cls(**{**stored, **columns, "rules": tuple(stored.get("rules", ()))})

    def lines(self) -> list[str]:
        """Return the lines that a run prints: how the input was read, the first edges, and perhaps a note."""
        header = None if self.header is None else "header" if self.header else "no header"
        form = (self.format, self.encoding, self.delimiter, header)
        parts = [", ".join(text for text in form if text is not None)]
        if self.source is not None and self.target is not None and self.weight is not None:
            weight = f"weight `{self.weight.column}`"
            if self.weight.column is None:
                weight = ", ".join(part for part in (self.weight.why, self.weights) if part)
            parts.append(f"source `{self.source.column}`, target `{self.target.column}`, {weight}")
        elif self.weight is not None:
            parts.append(f"weight `{self.weight.column}`" if self.weight.column else self.weight.why)
        parts += self.rules
        if self.unused:
            parts.append("not used: " + ", ".join(f"`{name}`" for name in self.unused))
        parts += [f"{self.ids} ids", self.edges]
        found = ["; ".join(part for part in parts if part)]
        if self.sample:
            found.append("first edges: " + "; ".join(_edge_text(edge) for edge in self.sample))
        return [*found, self.note] if self.note else found

    def facts(self) -> dict[str, str]:
        """Return all that was understood and the reasons, as one text for each property."""
        found = {
            "format": f"{self.format}, {self.format_why}",
            "encoding": self.encoding,
            "between columns": self.delimiter,
            "header": None if self.header is None else "yes" if self.header else "no",
        }
        for part in ("source", "target", "weight"):
            read: ColumnRead | None = getattr(self, part)
            if read is not None:
                found[part] = f"`{read.column}`, {read.why}" if read.column is not None else read.why
        if self.rules:
            found["rules"] = "; ".join(self.rules)
        if self.unused:
            found["not used"] = ", ".join(f"`{name}`" for name in self.unused)
        found |= {"ids": f"{self.ids}: {self.ids_why}", "weights": self.weights, "edges": self.edges}
        found["first edges"] = "; ".join(map(_edge_text, self.sample))
        if self.note:
            found["note"] = self.note
        return {name: text for name, text in found.items() if text is not None}


#: More characters of an id are not shown.
_ID_CHARACTERS = 40


def _edge_text(edge: tuple) -> str:
    ends = " -> ".join(_id_text(str(end)) for end in edge[:2])
    return f"{ends} ({edge[2]})" if len(edge) > 2 else ends


def _id_text(text: str) -> str:
    return text if len(text) <= _ID_CHARACTERS else f"{text[:_ID_CHARACTERS]}…"
