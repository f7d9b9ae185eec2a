"""What all that shows measured lines shares: tables as Markdown and CSV, means, and counts by range."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

#: Stands where there is nothing to tell.
NONE = ""


@dataclass(frozen=True)
class Table:
    """Some rows, and what they say.

    Attributes
    ----------
    name
        Of its CSV file.
    """

    name: str
    title: str
    text: str
    headings: list[str]
    rows: list[list[str]]

    def csv(self) -> str:
        """Return it as CSV, lines ending with a newline alone."""
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
    """Return what the ranges between `ends`, and beyond them, are called."""
    return [f"< {ends[0]:g}", *(f"{low:g} to {high:g}" for low, high in pairwise(ends)), f"≥ {ends[-1]:g}"]


def shares(values: Sequence[float], ends: Sequence[float]) -> list[str]:
    """Return how many of `values` lie in each of the ranges between `ends`, and beyond them."""
    return percents(np.bincount(np.digitize(values, ends), minlength=len(ends) + 1).tolist())


def percents(counts: Sequence[int]) -> list[str]:
    """Return each of `counts` with its share of all."""
    return [f"{count} ({100 * count / sum(counts):.0f} %)" for count in counts]
