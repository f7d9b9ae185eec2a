"""The figures of a bench, as SVG, drawn with matplotlib (the extra `figures`)."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sssp_pipeline.bench.results import Results

#: The most points of a figure that shows the name of the graph at each point.
MOST_NAMED = 40


def has_matplotlib() -> bool:
    """Return whether figures can be drawn."""
    return importlib.util.find_spec("matplotlib") is not None


@contextmanager
def figure_at(path: Path, inches: tuple[float, float]) -> Iterator[Any]:
    """Give a figure to draw in, then write it as SVG: the same bytes for the same drawing and release of matplotlib."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"svg.hashsalt": path.name, "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=inches, layout="constrained")
        yield figure
        figure.savefig(path, format="svg", metadata={"Date": None})


def draw_all(
    results: Results, folder: Path, baseline: str | None, subject: str | None
) -> list[tuple[str, str]]:
    """Write the figures for which there are lines, and return the name and a description of each."""
    drawn = []
    if baseline in results.variants and len(results.variants) > 1:
        name = "speedups.svg"
        _draw_speedups(results, folder / name, baseline)
        drawn.append((name, f"speed-up of each variant over `{baseline}`, as H-BF's figure 8"))
        if subject in results.variants and subject != baseline and results.speedups(subject, baseline):
            for name, description in _draw_subject(results, folder, baseline, subject):
                drawn.append((name, f"speed-up of `{subject}` over `{baseline}` {description}"))
    return drawn


def _draw_speedups(results: Results, path: Path, baseline: str) -> None:
    graphs = list(results.graphs)
    with figure_at(path, (9, 1.5 + 0.22 * len(graphs))) as figure:
        ax = figure.subplots()
        for i, variant in enumerate(v for v in results.variants if v != baseline):
            speedups = [results.speedup(graph, variant, baseline) for graph in graphs]
            known = [(s, y) for y, s in enumerate(speedups) if s is not None]
            ax.scatter(*zip(*known, strict=True), label=variant, s=16, marker="os^vDPX*<>"[i % 10])
        ax.set_yticks(range(len(graphs)), graphs)
        ax.invert_yaxis()
        ax.set_xscale("log")
        ax.axvline(1, color="black", linewidth=0.8)
        ax.set_xlabel(f"times as fast as {baseline}")
        ax.grid(alpha=0.3)
        figure.legend(loc="outside upper center", ncols=3)


def _draw_subject(results: Results, folder: Path, baseline: str, subject: str) -> Iterator[tuple[str, str]]:
    points = [
        (facts, speedup, work)
        for graph, facts in results.graphs.items()
        if (speedup := results.speedup(graph, subject, baseline)) is not None
        and (work := results.work(graph, subject, baseline)) is not None
    ]
    names = [facts.name for facts, _, _ in points]
    speedups = [speedup for _, speedup, _ in points]
    efficiency = f"work efficiency: vertices that {baseline} processes over those of {subject}"
    # The figure of the ADDS paper, what it shows, the label of the axis, and the values there.
    against: dict[str, tuple[int, str, str, Sequence[float]]] = {
        "degree": (8, "mean degree", "mean degree", [facts.mean_degree for facts, _, _ in points]),
        "diameter": (9, "diameter", "diameter in hops, at least", [f.diameter_hops for f, _, _ in points]),
        "work": (10, "work", efficiency, [1 / work for _, _, work in points]),
    }
    for key, (number, what, xlabel, values) in against.items():
        path = folder / f"speedup-and-{key}.svg"
        with figure_at(path, (7, 4.5)) as figure:
            ax = figure.subplots()
            ax.scatter(values, speedups, s=16)
            for name, x, y in zip(names, values, speedups, strict=True) if len(names) <= MOST_NAMED else ():
                ax.annotate(name, (x, y), fontsize=7, xytext=(3, 3), textcoords="offset points")
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.axhline(1, color="black", linewidth=0.8)
            if key == "work":  # on this line all of the speed-up comes from less work
                ax.axline((1, 1), (2, 2), color="black", linewidth=0.8, linestyle="--")
            ax.set_xlabel(xlabel)
            ax.set_ylabel(f"times as fast as {baseline}")
            ax.grid(alpha=0.3)
        yield path.name, f"against {what}, as the ADDS paper's figure {number}"
