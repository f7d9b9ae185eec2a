"""The page docs/many-sources-on-an-h200.md and its figure, from the lines of `many_sources.py` and `pipeline.py`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from page_text import measured_on, ms_text, stored_lines

from sssp_pipeline.bench.figures import figure_at
from sssp_pipeline.bench.layout import geometric_mean
from sssp_pipeline.bench.layout import markdown as table

PAGE = Path(__file__).parents[1] / "docs" / "many-sources-on-an-h200.md"
FIGURE = PAGE.with_suffix(".svg")

#: The graphs in the order of the page, and the goal: milliseconds a source.
GRAPHS = {
    "ny": 0.022,
    "ne": 0.15,
    "grid-4096": 1.6,
    "wave": 0.05,
    "cnr": 0.06,
    "rmat-20": 0.15,
    "rmat-22": 0.5,
    "rmat-24": 2.0,
}
#: The GPU solvers that `auto` may choose for many sources.
GPU_SOLVERS = ("near-far", "adds", "adds-slots", "adds-lanes")
#: The sources of a call to which the goal applies; fewer where fewer were measured.
GOAL_SOURCES = 1024
#: The solver that `auto` picks may be slower than the best by this share.
AUTO_WITHIN = 0.1


class Graph:
    """The newest lines of one graph, found by number of sources and solver."""

    def __init__(self, name: str, lines: list[dict[str, Any]]) -> None:
        self.name = name
        self._lines = {(line["n_sources"], line["solver"]): line for line in lines}
        self.numbers = sorted({n for n, _ in self._lines})
        self.solvers = sorted({solver for _, solver in self._lines})

    def line(self, n_sources: int, solver: str) -> dict[str, Any] | None:
        return self._lines.get((n_sources, solver))

    def best(self, n_sources: int) -> dict[str, Any]:
        return min(self._of(n_sources), key=lambda line: line["ms"])

    def picked(self, n_sources: int) -> str:
        """Return the solver that `auto` picks among those for a GPU: the one expected to take least."""
        expected = self.best(n_sources)["forecast_ms"]
        return min(expected, key=expected.__getitem__)

    def behind(self, n_sources: int) -> float | None:
        """Return by which share the picked solver is slower than the best; None unless it and another have lines."""
        line = self.line(n_sources, self.picked(n_sources))
        if line is None or len(self._of(n_sources)) == 1:
            return None
        return line["ms"] / self.best(n_sources)["ms"] - 1

    @property
    def for_goal(self) -> dict[str, Any]:
        """Return the best line of the number of sources that is compared with the goal."""
        return self.best(max([n for n in self.numbers if n <= GOAL_SOURCES], default=self.numbers[0]))

    def _of(self, n_sources: int) -> list[dict[str, Any]]:
        return [line for (n, _), line in self._lines.items() if n == n_sources]


def newest(lines: Iterable[dict[str, Any]]) -> list[Graph]:
    """Return the newest line of each graph, number and solver, in the order of the page."""
    by_key = {}
    for line in lines:
        by_key[line["graph"], line["n_sources"], line["solver"]] = line
    graphs = [(name, [line for line in by_key.values() if line["graph"] == name]) for name in GRAPHS]
    return [Graph(name, lines) for name, lines in graphs if lines]


def newest_runs(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the newest line of each input, task, layout and solver asked for that `pipeline.py` recorded."""
    by_key = {}
    for line in lines:
        task = line["sources"], line["targets"], line["layout"], line.get("cutoff"), line.get("gpus")
        by_key[line["input"], *task, line["asked_for"]] = line
    return list(by_key.values())


def values() -> dict[str, Any]:
    """Return what `templates/many_sources.md` shows."""
    graphs, runs = newest(stored_lines("many_sources")), newest_runs(stored_lines("pipeline_solvers"))
    numbers = _numbers(graphs)
    lines = [line for g in graphs for n in g.numbers for s in g.solvers if (line := g.line(n, s))]
    behind = [b for g in graphs for n in g.numbers if (b := g.behind(n)) is not None]
    on_cpu = [f"{g.name} {', '.join(map(str, few))}" for g in graphs if (few := _run_on_cpu(g))]
    heads = [f"{n:,}" for n in numbers]
    return {
        "measured_on": measured_on(lines),
        "best": table(["graph", *heads], [[g.name, *(_best_text(g, n) for n in numbers)] for g in graphs]),
        "all_times": table(
            ["graph", "solver", *heads],
            [
                [g.name, f"`{s}`", *(ms_text(line["ms"]) if (line := g.line(n, s)) else "" for n in numbers)]
                for g in graphs
                for s in g.solvers
            ],
        ),
        "behind": table(
            ["graph", *heads], [[g.name, *(_behind_text(g, n) for n in numbers)] for g in graphs]
        ),
        "auto_within": 100 * AUTO_WITHIN,
        "within": f"{sum(b <= AUTO_WITHIN for b in behind)} of {len(behind)}",
        "on_cpu": "; ".join(on_cpu) or "none",
        "expected": _expected_text(lines),
        "goals": _goals(graphs),
        "copying": _copying(graphs),
        "runs_measured_on": measured_on(runs),
        "runs": _runs(runs),
    }


def _best_text(graph: Graph, n_sources: int) -> str:
    if n_sources not in graph.numbers:
        return ""
    best = graph.best(n_sources)
    return f"{ms_text(best['ms'])} `{best['solver']}`"


def _behind_text(graph: Graph, n_sources: int) -> str:
    if n_sources not in graph.numbers:
        return ""
    picked, behind = graph.picked(n_sources), graph.behind(n_sources)
    if behind is None:
        return "alone" if graph.line(n_sources, picked) else f"`{picked}` not measured"
    return f"{100 * behind:.0f} %" + (f" `{picked}`" if behind else "")


def _run_on_cpu(graph: Graph) -> list[int]:
    return [n for n in graph.numbers if (line := graph.best(n))["run_would_take"] not in line["forecast_ms"]]


def _expected_text(lines: list[dict[str, Any]]) -> str:
    """Return for each solver the mean, least and greatest ratio of expected to measured time."""
    texts = []
    for solver in sorted({line["solver"] for line in lines}):
        times = [line["forecast_ms"][solver] / line["ms"] for line in lines if line["solver"] == solver]
        texts.append(f"`{solver}` {geometric_mean(times):.2g} ({min(times):.2g} to {max(times):.2g})")
    return ", ".join(texts)


def _goals(graphs: list[Graph]) -> str:
    rows = []
    for graph in graphs:
        line, goal = graph.for_goal, GRAPHS[graph.name]
        rows.append(
            [
                graph.name,
                f"{line['n_sources']:,}",
                f"`{line['solver']}`",
                ms_text(line["ms"]),
                f"{goal:g}",
                "yes" if line["ms"] <= goal else f"{line['ms'] / goal:.2f} times",
                f"{line['processed_a_reached_vertex']:.2f}",
                f"{line['gteps']:.1f}",
            ]
        )
    names = ("sources", "solver", "ms", "goal", "reached", "processed a vertex", "GTEPS")
    return table(["graph", *names], rows)


def _copying(graphs: list[Graph]) -> str:
    rows = [
        [
            graph.name,
            f"`{line['solver']}`",
            ms_text(line["ms"]),
            ms_text(line["ms_with_copy_back"]),
            f"{line['row_bytes'] / 1e6:.1f}",
            f"{line['row_bytes'] / line['ms_with_copy_back'] / 1e6:.1f}",
        ]
        for graph in graphs
        for line in [graph.for_goal]
    ]
    return table(["graph", "solver", "compute", "with copy-back", "MB a row", "GB/s"], rows)


def _runs(runs: list[dict[str, Any]]) -> str:
    rows = [
        [
            run["input"],
            f"`{run['solver']}`" + (" (`auto`)" if run["asked_for"] == "auto" else ""),
            f"{run['sources']:,}",
            _kept(run),
            f"{run['sources_per_s']:,.0f}",
            "" if run["gpu_busy"] is None else f"{100 * run['gpu_busy']:.0f} %",
            "" if run["gpu_busy"] is None else f"{run['solve_ms'] * run['sources'] / 1e3:.2f}",
            f"{run['cores_writing']:.1f} on {run['machine']['cores']}",
            f"{run['written_mb_per_s']:,.0f}",
            f"{run['command_s']:.1f}",
        ]
        for run in runs
    ]
    names = (
        "solver",
        "sources",
        "to",
        "sources/s",
        "GPU busy",
        "GPU, s",
        "cores writing",
        "MB/s",
        "command, s",
    )
    return table(["input", *names], rows)


def _kept(run: dict[str, Any]) -> str:
    """Return which distances of a source were written."""
    gpus = (
        f", {run['gpus']} GPUs"
        if (run.get("gpus") or 1) > 1
        else ", a Dask worker"
        if run.get("gpus")
        else ""
    )
    if run["targets"] is None:
        return f"all, {run['layout']}{', a tenth unreached' if run.get('cutoff') else ''}{gpus}"
    return (f"{run['targets']:,}" if run["targets"] else "none: metrics") + gpus


def _numbers(graphs: list[Graph]) -> list[int]:
    return sorted({n for graph in graphs for n in graph.numbers})


def draw(path: Path) -> None:
    """Write the figure: for each graph, milliseconds a source of each solver against the sources of a call."""
    graphs = newest(stored_lines("many_sources"))
    n_columns = 4
    n_rows = -(-len(graphs) // n_columns)
    colours = {
        solver: f"C{i}" for i, solver in enumerate(sorted({solver for g in graphs for solver in g.solvers}))
    }
    with figure_at(path, (10, 2.8 * n_rows)) as figure:
        axes = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
        for ax, graph in zip(axes, graphs, strict=False):
            for solver in graph.solvers:
                lines = [line for n in graph.numbers if (line := graph.line(n, solver))]
                found = [line["n_sources"] for line in lines], [line["ms"] for line in lines]
                ax.plot(*found, marker=".", color=colours[solver], label=solver)
            ax.axhline(GRAPHS[graph.name], color="grey", linestyle=":", linewidth=0.8)
            ax.set_xscale("log")
            ax.set_xticks(graph.numbers, [str(n) for n in graph.numbers], fontsize=7)
            ax.minorticks_off()
            ax.set_yscale("log")
            ax.set_title(graph.name)
            ax.set_xlabel("sources of a call")
            ax.grid(alpha=0.3)
        for ax in axes[len(graphs) :]:
            ax.set_axis_off()
        for ax in axes[::n_columns]:
            ax.set_ylabel("ms a source")
        drawn = {
            label: line for ax in axes for line, label in zip(*ax.get_legend_handles_labels(), strict=True)
        }
        figure.legend(drawn.values(), drawn.keys(), loc="outside lower center", ncols=len(drawn))
