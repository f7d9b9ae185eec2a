"""The page docs/auto-on-an-h200.md, from the lines of `auto.py`."""

from __future__ import annotations

from pathlib import Path
from statistics import geometric_mean, mean

from page_text import measured_on, ms_text, stored_lines

PAGE = Path(__file__).parents[1] / "docs" / "auto-on-an-h200.md"
#: The last graph of the page on which forecasts and trials were tuned.
TUNED_ON = "notredame-both"
COLUMNS = ("1", "16", "256", "1024", "1 s", "10 s")


def text() -> str:
    """Return the page as Markdown, from the newest line of each graph and run."""
    lines = stored_lines("auto")
    cells = {(line["graph"], _column(line)): line for line in lines}
    names = list(dict.fromkeys(line["graph"] for line in lines))
    seen = {
        c: [line["times"] for g in names if (line := cells.get((g, c))) and _is_fair(line)] for c in COLUMNS
    }
    heads = [f"{c} {'source' if c == '1' else 'run' if c.endswith('s') else 'sources'}" for c in COLUMNS]
    parts = [
        "<!-- Rendered by `python benchmarks/pages.py auto`: do not edit. -->\n# `auto` on an H200",
        "How long the solvers take that `solve.solver: auto` chooses, beside the best solver, by graph and number of "
        "sources. The calls of a run are timed with metrics alone and with warm solvers. The number of sources of the "
        f"last two columns was chosen so that the best solver takes about 1 s or 10 s; it took {_range(lines, 1)} and "
        f"{_range(lines, 10)}. In a run of less than 0.1 s nothing is tried. "
        "What a GPU takes to start, which is longer, is not in these times. " + measured_on(lines),
        "How to read it. The limits of the trials and two forecasts were changed three times after looking at the "
        f"graphs down to {TUNED_ON}; nothing was changed after looking at the others. Runs of 0.3 s and more "
        "were timed once, `auto` after the others. A cell in brackets has no fair comparison, since the solver that "
        "`auto` chose was not measured there; it is not counted.",
        "Each cell: milliseconds of the best solver, its name, and how many times as long `auto` took.",
        f"| graph | {' | '.join(heads)} |\n| --- |{' --- |' * len(COLUMNS)}",
    ]
    parts[-1] += "".join(
        f"\n| {g} | {' | '.join(_cell(cells.get((g, c))) for c in COLUMNS)} |" for g in names
    )
    rows = ((c, seen[c]) for c in COLUMNS if seen[c])
    by_best = {
        s: [line["times"] for line in cells.values() if line["run_s"] == 1 and line["best"] == s]
        for s in ("adds-slots", "adds-lanes")
    }
    means = ", ".join(f"{geometric_mean(of):.2f} where {s} is best" for s, of in by_best.items() if of)
    parts.append(f"Geometric means of the runs of about 1 s: {means}.")
    parts.append(
        "| | runs | geometric mean | within 1.1 | within 1.25 | most |\n| --- | --- | --- | --- | --- | --- |"
        + "".join(
            f"\n| {c} | {len(of)} | {geometric_mean(of):.2f} | {mean(t <= 1.1 for t in of):.0%} "
            f"| {mean(t <= 1.25 for t in of):.0%} | {max(of):.2f} |"
            for c, of in rows
        )
    )
    return "\n\n".join(parts) + "\n"


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
