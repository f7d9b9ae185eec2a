"""Answers as text: facts and rows in aligned columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sssp_pipeline.base.shown import line_as_text


def table(facts: dict[str, Any]) -> str:
    """Return `facts` as aligned lines, nested ones as `outer.inner`."""
    return columns(_flat(facts, ""))


def path_text(facts: dict[str, Any]) -> str:
    """Return the facts of a path as aligned lines. Lengths have all their digits, as a program may read them."""
    shown = {name: value for name, value in facts.items() if name not in ("unit", "cost_unit", "ids")}
    for name, unit in (("length", "unit"), ("cost", "cost_unit")):
        if name in shown:
            shown[name] = f"{shown[name]} {facts[unit] or ''}".rstrip()
    return table({**{k: str(v) for k, v in shown.items()}, "path": " -> ".join(map(str, facts["ids"]))})


def columns(rows: Sequence[tuple[str, ...]]) -> str:
    """Return `rows` as lines whose columns begin at the same place; a value of several lines stays in its column."""
    widths = [max(map(len, column)) + 2 for column in list(zip(*rows, strict=True))[:-1]]
    lines = []
    for row in rows:
        first = "".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False))
        lines.append(first + row[-1].replace("\n", "\n" + " " * sum(widths)))
    return "\n".join(lines)


def _flat(facts: dict[str, Any], prefix: str) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name, value in facts.items():
        if isinstance(value, dict):
            rows += _flat(value, f"{prefix}{name}.")
        else:
            rows.append((prefix + name, _as_text(value)))
    return rows


def _as_text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "-"}[value]
    if isinstance(value, float):
        return f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) else line_as_text(str(value))
