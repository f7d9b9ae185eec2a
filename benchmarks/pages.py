"""What the pages rendered from recorded lines share: numbers, tables, figures, and what the lines were measured on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np


def measured_on(lines: Iterable[dict[str, Any]]) -> str:
    """Return the sentences that say on which GPUs and at which commits `lines` were measured."""
    lines = list(lines)
    gpus = sorted({line["machine"]["gpu"] for line in lines})
    commits = sorted({line["commit"][:7] + "+" * line["dirty"] for line in lines})
    return f"GPU and driver: {'; '.join(gpus)}. Commit: {', '.join(commits)}."


def ms_text(ms: float) -> str:
    return f"{ms:.3g}"


def geometric_mean(values: Iterable[float]) -> float:
    return float(np.exp(np.mean(np.log(list(values)))))


def table(headings: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table; all columns but the first are aligned to the right."""
    rule = ["---", *["---:"] * (len(headings) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [headings, rule, *rows])


@contextmanager
def figure_at(path: Path, inches: tuple[float, float]) -> Iterator[Any]:
    """Give a figure to draw in, then write it as SVG: the same bytes for the same drawing and release of matplotlib."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": path.name, "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=inches, layout="constrained")
        yield figure
        figure.savefig(path, format="svg", metadata={"Date": None})
