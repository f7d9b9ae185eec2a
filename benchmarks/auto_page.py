"""The page docs/auto-on-an-h200.md, from the lines of `auto.py`."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

from page_text import measured_on, ms_text, stored_lines

from sssp_pipeline.bench.layout import geometric_mean
from sssp_pipeline.bench.layout import markdown as table

PAGE = Path(__file__).parents[1] / "docs" / "auto-on-an-h200.md"
#: The last graph of the page on which forecasts and trials were tuned.
TUNED_ON = "notredame-both"
COLUMNS = ("1", "16", "256", "1024", "1 s", "10 s")


def values() -> dict[str, str]:
    """Return what `templates/auto.md` shows, from the newest line of each graph and run."""
    lines = stored_lines("auto")
    cells = {(line["graph"], _column(line)): line for line in lines}
    names = list(dict.fromkeys(line["graph"] for line in lines))
    heads = [f"{c} {'source' if c == '1' else 'run' if c.endswith('s') else 'sources'}" for c in COLUMNS]
    by_best = {
        s: [line["times"] for line in cells.values() if line["run_s"] == 1 and line["best"] == s]
        for s in ("adds-slots", "adds-lanes")
    }
    summary = []
    for column in COLUMNS:
        times = [
            line["times"] for g in names if (line := cells.get((g, column))) is not None and _is_fair(line)
        ]
        within = (f"{mean(t <= most for t in times):.0%}" for most in (1.1, 1.25))
        summary.append(
            [column, str(len(times)), f"{geometric_mean(times):.2f}", *within, f"{max(times):.2f}"]
        )
    return {
        "measured_on": measured_on(lines),
        "tuned_on": TUNED_ON,
        "range_1": _range(lines, 1),
        "range_10": _range(lines, 10),
        "cells": table(["graph", *heads], [[g, *(_cell(cells.get((g, c))) for c in COLUMNS)] for g in names]),
        "means": ", ".join(f"{geometric_mean(of):.2f} where {s} is best" for s, of in by_best.items() if of),
        "summary": table(["", "runs", "geometric mean", "within 1.1", "within 1.25", "most"], summary),
    }


def _range(lines: list[dict], run_s: float) -> str:
    took_s = [line["best_s"] for line in lines if line["run_s"] == run_s]
    return f"{min(took_s):.2g} to {max(took_s):.2g} s"


def _column(line: dict) -> str:
    return f"{line['run_s']:g} s" if line["run_s"] else str(line["n_sources"])


def _is_fair(line: dict) -> bool:
    """Return whether the best time is not that of slower solvers alone."""
    return line["times"] >= 1 or line["auto_chose"] in line["solver_s"]


def _cell(line: dict | None) -> str:
    if line is None:
        return ""
    cell = f"{ms_text(1e3 * line['best_s'])} {line['best']}, {line['times']:.2f}"
    return cell if _is_fair(line) else f"[{cell}]"
