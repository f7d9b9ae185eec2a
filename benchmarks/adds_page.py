"""The page docs/adds-on-an-h200.md and its figure, from the lines of `adds_tables.py`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from page_text import measured_on, ms_text, stored_lines
from papers.claims import ADDS_FIGURES_11_TO_15, ADDS_TABLE_4, ADDS_TABLE_5

from sssp_pipeline.bench.figures import figure_at
from sssp_pipeline.bench.layout import geometric_mean, percents, range_names, shares
from sssp_pipeline.bench.layout import markdown as table
from sssp_pipeline.bench.tables import SPEEDUP_ENDS, WORK_ENDS

PAGE = Path(__file__).parents[1] / "docs" / "adds-on-an-h200.md"
FIGURE = PAGE.with_suffix(".svg")

_WEIGHTINGS = ("", "-w1", "-w10", "-w1000000", "-float32")
#: The graphs by kind, in the order of the page.
KINDS = {
    "road": ["ny", "ny-time", "ny-w1", "ne", "road", "road-21"],
    "lattice": ["grid", *(f"grid-2048{w}" for w in _WEIGHTINGS), "grid-4096", "lattice-3d"],
    "mesh": ["wing", "wave", "wave-w1"],
    "other": ["cnr", "notredame", "gnutella", "small-world"],
    "R-MAT": ["rmat-18", "rmat-20-sparse", *(f"rmat-20{w}" for w in _WEIGHTINGS), "rmat-22"],
}
#: The graphs to which `adds.delta_factor` was fitted.
FITTED = ("ny", "ne", "grid-4096", "wave", "cnr", "rmat-20", "rmat-22", "rmat-24")
#: Graphs with a recorded trace, which is drawn.
TRACED = {"ny": "roads of New York", "rmat-22": "R-MAT 22"}
#: The deltas that `adds` begins with, as multiples of the one it picks.
STARTS = {"picked / 16": 1 / 16, "picked / 4": 1 / 4, "picked": 1, "picked * 4": 4, "picked * 16": 16}
#: The page names a difference above this factor.
NOTABLE = 1.1
ADDS = ("full", "static", "two buckets")
#: Columns of the ablations: variant and first delta.
VARIANTS = {
    f"{variant}, {whose}": (variant, start)
    for start, whose in (("picked", "its own delta"), ("near-far", "near-far's delta"))
    for variant in ADDS
}
#: The rows of the paper's table 5, by our variant.
PAPER_VARIANTS = {
    v: f"{'ADDS' if v == 'full' else v.replace('static', 'static delta')}, RTX 3090" for v in ADDS
}


class Line:
    """A recorded line; its runs are found by variant and first delta."""

    def __init__(self, line: dict[str, Any]) -> None:
        self.record = line
        self.graph: str = line["graph"]
        self._runs = {(run["variant"], run["start"]): run for run in line["runs"]}

    def ms(self, variant: str, start: str = "picked") -> float:
        return self._runs[variant, start]["ms"]

    def work(self, variant: str, start: str = "picked") -> float:
        """Vertices processed over those of Dijkstra's algorithm, which are those reached."""
        return self._runs[variant, start]["processed_a_reached_vertex"]

    def speedup(self, variant: str, start: str) -> float:
        """Times as fast as `near-far`."""
        return self.ms("near-far", "near-far") / self.ms(variant, start)

    @property
    def work_over_near_far(self) -> float:
        return self.work("full") / self.work("near-far", "near-far")

    @property
    def gain(self) -> float:
        """Times as fast as with a static delta."""
        return self.ms("static") / self.ms("full")

    @property
    def delta_moves(self) -> list[float]:
        """The last delta of `full` over its first, for each first delta."""
        return [run["last_delta_over_first"] for (variant, _), run in self._runs.items() if variant == "full"]

    @property
    def missed(self) -> float:
        """The speed-up of `full` if it began with the best of `STARTS` and not with the picked delta."""
        return self.ms("full") / min(self.ms("full", start) for start in STARTS)


def newest(lines: Iterable[dict[str, Any]]) -> list[Line]:
    """Return the newest line of each graph, in the order of the page."""
    by_graph = {line["graph"]: Line(line) for line in lines}
    return [by_graph[graph] for graphs in KINDS.values() for graph in graphs if graph in by_graph]


def values() -> dict[str, Any]:
    """Return what `templates/adds.md` shows."""
    lines = newest(stored_lines("adds_tables"))
    gain = round(geometric_mean(line.gain for line in lines), 2)
    moves = np.array([move for line in lines for move in line.delta_moves])
    by_start = {
        start: geometric_mean(line.ms("static", start) / line.ms("full", start) for line in lines)
        for start in STARTS
    }
    return {
        "n_graphs": len(lines),
        "measured_on": measured_on(line.record for line in lines),
        "ablations": _ablations(lines),
        "speedup_ranges": _speedup_ranges(lines),
        "verdict": "gives no gain" if gain <= 1 else "gives a gain",
        "gain": gain,
        "n_moves": len(moves),
        "n_up": (moves > 1).sum(),
        "n_equal": (moves == 1).sum(),
        "n_down": (moves < 1).sum(),
        "work": _work(lines),
        "work_ranges": _work_ranges(lines),
        "kinds": _kinds(lines),
        "traces": _traces(lines),
        "fit": _fit(lines),
        "gains": ", ".join(f"{times:.2f} from {start}" for start, times in by_start.items()),
        "notable": NOTABLE,
        "helped": _named({line: line.gain for line in lines}),
        "slowed": _named({line: 1 / line.gain for line in lines}),
        "fitted": _missed([line for line in lines if line.graph in FITTED]),
        "others": _missed([line for line in lines if line.graph not in FITTED]),
    }


def _mean_speedup(lines: list[Line], of: tuple[str, str]) -> str:
    return f"{geometric_mean(line.speedup(*of) for line in lines):.2f}"


def _ablations(lines: list[Line]) -> str:
    rows = [
        [
            line.graph,
            ms_text(line.ms("near-far", "near-far")),
            ms_text(line.ms("full")),
            *(f"{line.speedup(*of):.2f}" for of in VARIANTS.values()),
        ]
        for line in lines
    ]
    means = ["geometric mean", "", "", *(_mean_speedup(lines, of) for of in VARIANTS.values())]
    return table(["graph", "near-far, ms", "adds, ms", *VARIANTS], [*rows, means])


def _speedup_ranges(lines: list[Line]) -> str:
    ours = [
        [name, *shares([line.speedup(*of) for line in lines], SPEEDUP_ENDS), _mean_speedup(lines, of)]
        for name, of in VARIANTS.items()
    ]
    papers = [
        [f"paper, {variant}", *percents(ADDS_TABLE_5[row][0]), f"{ADDS_TABLE_5[row][1]:g}"]
        for variant, row in PAPER_VARIANTS.items()
    ]
    return table(["", *range_names(SPEEDUP_ENDS), "mean"], ours + papers)


def _work(lines: list[Line]) -> str:
    rows = [
        [
            line.graph,
            *(f"{line.work(variant):.2f}" for variant in ADDS),
            f"{line.work('near-far', 'near-far'):.2f}",
            f"{line.work_over_near_far:.2f}",
        ]
        for line in lines
    ]
    return table(["graph", *ADDS, "near-far", "full over near-far"], rows)


def _work_ranges(lines: list[Line]) -> str:
    rows = [
        ["over near-far", *shares([line.work_over_near_far for line in lines], WORK_ENDS)],
        ["paper, over NF", *percents(ADDS_TABLE_4["NF"][1])],
        ["over Dijkstra", *shares([line.work("full") for line in lines], WORK_ENDS)],
        ["paper, over Dijkstra", *percents(ADDS_TABLE_4["Dijkstra"][1])],
    ]
    return table(["", *range_names(WORK_ENDS)], rows)


def _kinds(lines: list[Line]) -> str:
    rows = []
    for kind, graphs in KINDS.items():
        if of_kind := [line for line in lines if line.graph in graphs]:
            work = geometric_mean(line.work_over_near_far for line in of_kind)
            speedup = _mean_speedup(of_kind, ("full", "picked"))
            rows.append([f"{kind}: {len(of_kind)} here", speedup, f"{work:.2f}"])
        rows += [
            [f"{kind}: paper, {graph}", f"{speedup:.2f}", f"{work:.2f}"]
            for graph, (of, speedup, work) in ADDS_FIGURES_11_TO_15.items()
            if of == kind
        ]
    return table(["", "speed-up over near-far", "vertices processed over near-far's"], rows)


def _traces(lines: list[Line]) -> str:
    rows = []
    for line in _traced(lines):
        trace = line.record["trace"]
        times, busy = np.array(trace["time_us"]), np.array(trace["busy_workers"])
        row = [
            TRACED[line.graph],
            f"{times[-1] / 1e3:.2f}",
            f"{np.average(busy, weights=np.diff(times, prepend=0)):,.0f}",
            f"{busy.max():,}",
            f"{max(trace['words_queued']):,}",
            f"{trace['delta'][0]:,.4g}",
            f"{trace['delta'][-1]:,.4g}",
        ]
        rows.append(row)
    names = ("ms", "busy workers, mean", "most", "queue entries, most", "delta, first", "last")
    return table(["", *names], rows)


def _fit(lines: list[Line]) -> str:
    runs = {
        f"{variant}, {start.replace('picked', '').strip() or '* 1'}": (variant, start)
        for variant in ("static", "full")
        for start in STARTS
    }
    rows = [
        [
            line.graph + (" \\*" if line.graph in FITTED else ""),
            f"{line.record['picked_over_mean_weight_by_degree']:g}",
            ms_text(line.ms("static")),
            *(f"{line.ms(*of) / line.ms('static'):.2f}" for of in runs.values()),
        ]
        for line in lines
    ]
    means = [geometric_mean(line.ms(*of) / line.ms("static") for line in lines) for of in runs.values()]
    rows.append(["geometric mean", "", "", *(f"{mean:.2f}" for mean in means)])
    return table(["graph", "picked", "static, ms", *runs], rows)


def _missed(lines: list[Line]) -> tuple[int, str]:
    """Return how many `lines` there are, and the graphs for which another delta would be notably better."""
    return len(lines), _named({line: line.missed for line in lines})


def _named(times: dict[Line, float]) -> str:
    notable = {line: t for line, t in times.items() if t > NOTABLE}
    return ", ".join(f"{line.graph} ({t:.2f})" for line, t in notable.items()) or "none"


def _traced(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line.record["trace"]]


def draw(path: Path) -> None:
    """Write the figure of all traces as SVG: the same bytes for the same lines and release of matplotlib."""
    traced = _traced(newest(stored_lines("adds_tables")))
    names = ("busy_workers", "words_queued", "head_buckets", "delta")
    with figure_at(path, (9, 7)) as figure:
        axes = figure.subplots(len(names), len(traced), sharex="col", squeeze=False)
        for column, line in zip(axes.T, traced, strict=True):
            trace = line.record["trace"]
            for ax, name in zip(column, names, strict=True):
                ax.step(np.array(trace["time_us"]) / 1e3, trace[name], where="post", linewidth=0.8)
                ax.set_ylim(bottom=0)
                ax.set_ylabel(name.replace("_", " "))
                ax.grid(alpha=0.3)
            column[0].set_title(TRACED[line.graph])
            column[-1].set_xlabel("milliseconds")
