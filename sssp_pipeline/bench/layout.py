"""Tables as Markdown and CSV, geometric means, and counts by range, for every page of measured lines."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

#: The content of an empty cell.
NONE = ""


@dataclass(frozen=True)
class ResultTable:
    """Rows with a title and an explanation."""

    #: Name of its CSV file, without its suffix.
    name: str
    title: str
    text: str
    headings: list[str]
    rows: list[list[str]]

    def csv(self) -> str:
        """Return the table as CSV; each line ends with a newline."""
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([self.headings, *self.rows])
        return out.getvalue()


def markdown(headings: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table; all columns but the first are aligned to the right."""
    rule = ["---", *["---:"] * (len(headings) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [headings, rule, *rows])


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean of numbers above 0."""
    return float(np.exp(np.mean(np.log(list(values)))))


def range_names(ends: Sequence[float]) -> list[str]:
    """Return the names of the ranges below, between and above `ends`."""
    return [f"< {ends[0]:g}", *(f"{low:g} to {high:g}" for low, high in pairwise(ends)), f"≥ {ends[-1]:g}"]


def shares(values: Sequence[float], ends: Sequence[float]) -> list[str]:
    """Return how many of `values` lie in each range below, between and above `ends`."""
    return percents(np.bincount(np.digitize(values, ends), minlength=len(ends) + 1).tolist())


def percents(counts: Sequence[int]) -> list[str]:
    """Return each of `counts` with its share of all."""
    return [f"{count} ({100 * count / sum(counts):.0f} %)" for count in counts]
