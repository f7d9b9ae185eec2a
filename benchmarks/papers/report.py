"""The report of a bench with the papers' own numbers beside it: docs/papers-on-an-h200/."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from papers.claims import (
    ADAPTIVE_PAPER,
    ADDS_PAPER,
    ADDS_TABLE_3,
    ADDS_TABLE_4,
    ADDS_TABLE_5,
    CLAIMS,
    HBF_PAPER,
    HBF_SYSTEMS,
    HBF_TABLE_2,
    HBF_TABLE_3,
)

from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.bench.layout import NONE, ResultTable, geometric_mean, percents
from sssp_pipeline.bench.report import write_report
from sssp_pipeline.bench.results import Results
from sssp_pipeline.bench.tables import times_text

RESULTS = Path(__file__).parents[1] / "results"
PAGES = Path(__file__).parents[2] / "docs" / "papers-on-an-h200"
#: By page: the files of its lines, and the baseline where it is not that of the lines.
REPORTS = {
    "matrix": (("papers", "papers_cpu"), None),
    "hbf-table-3": (("hbf_table3", "hbf_table3_cpu"), "queue-bellman-ford"),
}


def write_page(name: str, folder: Path) -> Path:
    """Write the report `name` of `REPORTS` to `folder`, and return its page."""
    files, baseline = REPORTS[name]
    lines = [str(RESULTS / f"{file}.jsonl") for file in files]
    page = write_report(lines, folder, Quiet(), baseline=baseline, extend=with_claims)
    papers = "\n".join(f"- {paper}" for paper in (ADDS_PAPER, HBF_PAPER, ADAPTIVE_PAPER))
    with page.open("a", encoding="utf-8") as file:
        file.write(f"\n## Papers\n\n{papers}\n")
    return page


def with_claims(results: Results, tables: list[ResultTable], subject: str | None) -> list[ResultTable]:
    """Return `tables` with the papers' rows below ours, and two tables of what the papers report."""
    found = [_with_rows(table, subject) for table in tables]
    place = next((i for i, t in enumerate(found) if t.name in ("not-measured", "results")), len(found))
    added = [_claims(results)]
    if HBF_SYSTEMS["H-BF"] in results.variants:
        added.append(_hbf_table_2())
    return [*found[:place], *added, *found[place:]]


def _with_rows(table: ResultTable, subject: str | None) -> ResultTable:
    if table.name == "speedup-ranges":
        rows = [
            [f"paper: {what}", *percents(n), NONE, f"{mean:g}"] for what, (n, mean) in ADDS_TABLE_5.items()
        ]
        text = f"{table.text} The rows of the paper follow (over its own Near-Far)."
        return replace(table, text=text, rows=table.rows + rows)
    if table.name == "effects":
        text = (
            f"{table.text}\nThe rows of the paper follow (GTX 780); their last two columns are over a sequential\n"
            "Bellman-Ford."
        )
        return replace(table, text=text, rows=table.rows + _hbf_table_3())
    if table.name == "subject-speedup-ranges" and subject == "adds":
        return replace(table, rows=_beside(table.rows, ADDS_TABLE_3))
    if table.name == "subject-work-ranges" and subject == "adds":
        return replace(table, rows=_beside(table.rows, ADDS_TABLE_4))
    return table


def _beside(
    rows: Sequence[list[str]], systems: dict[str, tuple[str | None, tuple[int, ...]]]
) -> list[list[str]]:
    """Return `rows`, each followed by those of the paper's systems that correspond to its solver."""
    found = []
    for row in rows:
        found.append(row)
        for system, (solver, counts) in systems.items():
            if row[0] == f"over {solver}":
                found.append([f"paper: ADDS over {system}", *percents(counts), NONE, NONE])
    return found


def _hbf_table_3() -> list[list[str]]:
    return [
        [
            f"paper: {claim.graph}",
            "H-BF",
            claim.optimisation,
            f"{claim.without_ms:,.0f}",
            f"{claim.with_ms:,.0f}",
            times_text(claim.without_ms / claim.with_ms),
            times_text(claim.sequential_ms / claim.without_ms),
            times_text(claim.sequential_ms / claim.with_ms),
        ]
        for claim in HBF_TABLE_3
    ]


def _claims(results: Results) -> ResultTable:
    rows = []
    for claim in CLAIMS:
        ours = results.speedups(*claim.variants)
        rows.append(
            [
                f"{claim.faster} over {claim.slower}",
                f"{claim.times:.3g}",
                claim.where,
                "{} over {}".format(*claim.variants),
                *([f"{geometric_mean(ours):.3g}", f"{np.mean(ours):.3g}"] if ours else [NONE, NONE]),
                str(len(ours)),
            ]
        )
    return ResultTable(
        "claims",
        "Beside the papers",
        "How many times as fast a system is as another: the mean that the papers report, and that of the\n"
        "corresponding solvers here.",
        ["paper", "times as fast", "where", "here", "geometric mean", "mean", "graphs"],
        rows,
    )


def _hbf_table_2() -> ResultTable:
    return ResultTable(
        "hbf-table-2",
        "H-BF's table 2",
        "What the paper reports on a GTX 780 and a Phenom II X6: milliseconds, and millions of edges a second.",
        ["graph", *(f"{system} ({solver})" for system, solver in HBF_SYSTEMS.items())],
        [[graph, *(f"{ms:,g} ms, {mteps:g}" for ms, mteps in cells)] for graph, cells in HBF_TABLE_2.items()],
    )
