"""The page docs/adds-on-an-h200.md and its figure, from the lines of `adds_tables.py`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from page_text import measured_on, ms_text, stored_lines
from papers.claims import ADDS_TABLE_4, ADDS_TABLE_5

from sssp_pipeline.bench.figures import figure_at
from sssp_pipeline.bench.layout import (
    geometric_mean,
    percents,
    range_names,
    shares,
)
from sssp_pipeline.bench.layout import markdown as table
from sssp_pipeline.bench.tables import SPEEDUP_ENDS, WORK_ENDS

PAGE = Path(__file__).parents[1] / "docs" / "adds-on-an-h200.md"
FIGURE = PAGE.with_suffix(".svg")

#: The graphs by kind, in the order of the page.
KINDS = {
    "road": ("ny", "ny-time", "ny-w1", "ne", "road", "road-21"),
    "lattice": (
        "grid",
        "grid-2048",
        "grid-2048-w1",
        "grid-2048-w10",
        "grid-2048-w1000000",
        "grid-2048-float32",
        "grid-4096",
        "lattice-3d",
    ),
    "mesh": ("wing", "wave", "wave-w1"),
    "other": ("cnr", "notredame", "gnutella", "small-world"),
    "R-MAT": (
        "rmat-18",
        "rmat-20-sparse",
        "rmat-20",
        "rmat-20-w1",
        "rmat-20-w10",
        "rmat-20-w1000000",
        "rmat-20-float32",
        "rmat-22",
    ),
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


# ---- what the paper reports: Wang, Fussell, Lin, PPoPP 2021 ----

#: By our variant: the row of table 5 on an RTX 3090.
PAPER_VARIANTS = {
    "full": "ADDS, RTX 3090",
    "static": "static delta, RTX 3090",
    "two buckets": "two buckets, RTX 3090",
}
#: Figures 11 to 15: kind, speed-up over NF, and vertices processed by ADDS over those of NF (inverted in the paper).
PAPER_GRAPHS = {
    "road-USA": ("road", 3.09, 1 / 0.19),
    "BenElechi1": ("mesh", 4.0, 1 / 2.12),
    "msdoor": ("mesh", 5.57, 1 / 4.0),
    "c-big": ("other", 1.6, 1 / 3.35),
    "rmat22": ("R-MAT", 2.29, 1 / 2.18),
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


def text() -> str:
    """Return the page as Markdown."""
    lines = newest(stored_lines("adds_tables"))
    parts = [_opening(lines), _ablations(lines), _work(lines), _traces(lines), _fit(lines), [TRIED]]
    return "\n\n".join(paragraph for part in parts for paragraph in part) + "\n"


#: Rules that were tried and are not in the code; `results/adds_delta_tried.jsonl` has the times.
TRIED = Path(__file__).with_name("adds_delta_tried.md").read_text().rstrip()


def _opening(lines: list[Line]) -> Iterator[str]:
    yield "<!-- Rendered by `python benchmarks/pages.py adds`: do not edit. -->\n# `adds` on an H200"
    yield (
        f"The effect of each part of `adds` on {len(lines)} graphs, beside what the paper reports (Wang, Fussell,\n"
        'Lin, "A fast work-efficient SSSP algorithm for GPUs", PPoPP 2021). `benchmarks/adds_tables.py` measures and\n'
        "describes how; every distance was compared with a CPU solver's. The graphs are those of\n"
        "`benchmarks/graphs.py`, the lines are in `benchmarks/results/adds_tables.jsonl`.\n"
        f"{measured_on(line.record for line in lines)}"
    )


def _ablations(lines: list[Line]) -> Iterator[str]:
    yield "## Ablations"
    yield (
        "Milliseconds of one source, and the speed-up of each variant over `near-far`. `full` is `adds`. `static`\n"
        "keeps its first delta. `two buckets` has a static delta and only two buckets. They begin with the delta that\n"
        "`adds` picks; in the last three columns with that of `near-far`, as in the paper's ablations."
    )
    variants = {
        f"{variant}, {whose}": (variant, start)
        for start, whose in (("picked", "its own delta"), ("near-far", "near-far's delta"))
        for variant in ADDS
    }
    means = [f"{geometric_mean(line.speedup(*of) for line in lines):.2f}" for of in variants.values()]
    yield table(
        ["graph", "near-far, ms", "adds, ms", *variants],
        [
            [
                line.graph,
                ms_text(line.ms("near-far", "near-far")),
                ms_text(line.ms("full")),
                *(f"{line.speedup(*of):.2f}" for of in variants.values()),
            ]
            for line in lines
        ]
        + [["geometric mean", "", "", *means]],
    )
    yield (
        "How many graphs have which speed-up over `near-far`, beside the paper's table 5 (222 graphs, RTX 3090, over\n"
        "the paper's own Near-Far) and the means of its section 6.5:"
    )
    yield table(
        ["", *range_names(SPEEDUP_ENDS), "mean"],
        [
            [name, *shares([line.speedup(*of) for line in lines], SPEEDUP_ENDS), mean]
            for (name, of), mean in zip(variants.items(), means, strict=True)
        ]
        + [
            [f"paper, {variant}", *percents(ADDS_TABLE_5[row][0]), f"{ADDS_TABLE_5[row][1]:g}"]
            for variant, row in PAPER_VARIANTS.items()
        ],
    )
    yield _earned(lines)


def _earned(lines: list[Line]) -> str:
    moves = np.array([move for line in lines for move in line.delta_moves])
    gain = round(geometric_mean(line.gain for line in lines), 2)
    verdict = (
        "A delta that adapts gives no gain here" if gain <= 1 else "A delta that adapts gives a gain here"
    )
    return (
        f"{verdict}: from the delta that `adds` picks, `full` is {gain:.2f} times as fast as `static` in the\n"
        f"geometric mean. Of the {len(moves)} cells of `full` (graphs times first deltas), the last delta is above\n"
        f"the first in {(moves > 1).sum()}, equal to it in {(moves == 1).sum()} and below it in {(moves < 1).sum()}.\n"
        "[Design 0002](design/0002-adds-queue.md) lists where `adds` differs from the paper."
    )


def _work(lines: list[Line]) -> Iterator[str]:
    yield "## Work"
    yield (
        "Vertices processed over vertices reached: Dijkstra's algorithm processes every reached vertex once. The last\n"
        "column: those of `full` over those of `near-far`."
    )
    yield table(
        ["graph", *ADDS, "near-far", "full over near-far"],
        [
            [
                line.graph,
                *(f"{line.work(variant):.2f}" for variant in ADDS),
                f"{line.work('near-far', 'near-far'):.2f}",
                f"{line.work_over_near_far:.2f}",
            ]
            for line in lines
        ],
    )
    yield "How many graphs have which ratio of processed vertices, `full` over the other, beside the paper's table 4:"
    yield table(
        ["", *range_names(WORK_ENDS)],
        [
            ["over near-far", *shares([line.work_over_near_far for line in lines], WORK_ENDS)],
            ["paper, over NF", *percents(ADDS_TABLE_4["NF"][1])],
            ["over Dijkstra", *shares([line.work("full") for line in lines], WORK_ENDS)],
            ["paper, over Dijkstra", *percents(ADDS_TABLE_4["Dijkstra"][1])],
        ],
    )
    yield (
        "By kind of graph, in the geometric mean, beside the graphs of the paper's figures 11 to 15 (RTX 2080 Ti):"
    )
    rows = []
    for kind, graphs in KINDS.items():
        if of_kind := [line for line in lines if line.graph in graphs]:
            speedup = geometric_mean(line.speedup("full", "picked") for line in of_kind)
            work = geometric_mean(line.work_over_near_far for line in of_kind)
            rows.append([f"{kind}: {len(of_kind)} here", f"{speedup:.2f}", f"{work:.2f}"])
        rows += [
            [f"{kind}: paper, {graph}", f"{speedup:.2f}", f"{work:.2f}"]
            for graph, (of, speedup, work) in PAPER_GRAPHS.items()
            if of == kind
        ]
    yield table(["", "speed-up over near-far", "vertices processed over near-far's"], rows)


def _traces(lines: list[Line]) -> Iterator[str]:
    yield "## Parallelism over time"
    yield (
        "One search each, as in the paper's figures 11 and 14: warps that have work, queue entries that wait\n"
        "(vertices, and parts of long rows), buckets from which work is taken, and delta. `solve.trace_every_us`\n"
        "records the same in the metrics of a run."
    )
    yield f"![busy workers, queue entries, head buckets and delta over time]({FIGURE.name})"
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
    yield table(["", *names], rows)


def _fit(lines: list[Line]) -> Iterator[str]:
    yield "## Delta's fit"
    yield (
        "`adds` picks its first delta from mean weight and degrees (`adds.delta_factor`). The rule was fitted to the\n"
        "graphs with a star. For each graph: the picked delta over mean weight by mean degree; the milliseconds of\n"
        "`static` with that delta; and the times of `static` and `full` from this and other deltas, over that time."
    )
    begun = {
        f"{variant}, {start.replace('picked', '').strip() or '* 1'}": (variant, start)
        for variant in ("static", "full")
        for start in STARTS
    }
    means = [geometric_mean(line.ms(*of) / line.ms("static") for line in lines) for of in begun.values()]
    yield table(
        ["graph", "picked", "static, ms", *begun],
        [
            [
                line.graph + (" \\*" if line.graph in FITTED else ""),
                f"{line.record['picked_over_mean_weight_by_degree']:g}",
                ms_text(line.ms("static")),
                *(f"{line.ms(*of) / line.ms('static'):.2f}" for of in begun.values()),
            ]
            for line in lines
        ]
        + [["geometric mean", "", "", *(f"{mean:.2f}" for mean in means)]],
    )
    yield "\n".join(f"- {finding}" for finding in _findings(lines))


def _findings(lines: list[Line]) -> Iterator[str]:
    gains = (
        f"{geometric_mean(line.ms('static', start) / line.ms('full', start) for line in lines):.2f} from {start}"
        for start in STARTS
    )
    yield (f"The speed-up by a delta that adapts, in the geometric mean: {', '.join(gains)}.")
    helped = _named({line: line.gain for line in lines})
    slowed = _named({line: 1 / line.gain for line in lines})
    yield (
        f"From the picked delta, it makes a search more than {NOTABLE:g} times as fast on {helped}. It makes a search\n"
        f"  more than {NOTABLE:g} times as slow on {slowed}."
    )
    for is_fitted, which in ((True, "fitted to"), (False, "not fitted to")):
        those = [line for line in lines if (line.graph in FITTED) is is_fitted]
        better = _named({line: line.missed for line in those})
        yield (
            f"The rule was {which} {len(those)} graphs. There another of these deltas would make `full` more than\n"
            f"  {NOTABLE:g} times as fast on {better}."
        )


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
