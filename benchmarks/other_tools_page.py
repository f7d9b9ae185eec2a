"""The page docs/next-to-other-tools.md, from the lines of `jobs.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from page_text import stored_lines

from sssp_pipeline.bench.layout import markdown as table

PAGE = Path(__file__).parents[1] / "docs" / "next-to-other-tools.md"
GRAPHS = {
    "ny": "New York, real roads",
    "made": "Generated roads",
    "web": "cnr-2000, links of the web",
}
#: The columns of the tables, by what follows the graph in the name of a job.
COLUMNS = {
    "one": "1 × all",
    "1k": "1,000 × 1,000",
    "10k": "10,000 × 10,000",
    "nearest": "3 nearest of 500, 1,000 sources",
    "nearest-all": "3 nearest of 500, all sources",
}
TOOLS = {
    "sssp-pipeline": "sssp-pipeline",
    "sssp-pipeline-prepared": "sssp-pipeline, prepared",
    "pyroutingkit": "RoutingKit",
    "osrm": "OSRM",
    "pandana": "pandana",
    "networkit": "NetworKit",
    "scipy": "SciPy",
    "igraph": "igraph",
    "graph-tool": "graph-tool",
    "networkx": "NetworkX",
}
OURS = ("sssp-pipeline", "sssp-pipeline-prepared")
#: The jobs that users reported, and what they reported.
REPORTED = {
    "all-sources": "cuGraph 1320: 2 hours",
    "city": "OSMnx 153: 14 hours",
    "radii": "pandana 172: over 6 hours",
}
Line = dict[str, Any]
#: The line of each job and program.
Lines = dict[tuple[str, str], Line]


def values() -> dict[str, str]:
    """Return what `templates/other_tools.md` shows."""
    lines = stored_lines("jobs")
    asked = [line for line in lines if line["job"] not in REPORTED]
    newest = _newest(asked)
    shown = {g: title for g, title in GRAPHS.items() if (f"{g}-one", "sssp-pipeline") in newest}
    tables = [
        f"### {title}\n\n{_size(graph, newest)}\n\n{_table(graph, newest)}" for graph, title in shown.items()
    ]
    loads = [line["load"] for line in newest.values()]
    more = _newest(stored_lines("jobs_osrm"))
    return {
        "faster": _faster(newest),
        "tables": "\n\n".join(tables),
        "more": _table("ny", more),
        "more_load": "{:.0f} to {:.0f}".format(
            *np.quantile([line["load"] for line in more.values()], [0, 1])
        ),
        "osrm_version": more["ny-1k", "osrm"]["program_version"],
        "graph_tool_version": more["ny-1k", "graph-tool"]["program_version"],
        "reported": _reported(lines),
        "versions": _versions([*newest.values()]),
        "commits": ", ".join(sorted({line["commit"][:7] + "+" * line["dirty"] for line in newest.values()})),
        "cores": str(next(iter(newest.values()))["machine"]["cores"]),
        "load": f"{min(loads):.0f} to {max(loads):.0f}",
    }


def _newest(lines: list[Line]) -> Lines:
    """Return the line of each job and program: of the rounds of its newest commit, the one with the least time."""
    found: Lines = {}
    for line in lines:
        key = line["job"], line["program"]
        old = found.get(key)
        if old is None or old["commit"] != line["commit"] or _seconds(line) <= _seconds(old):
            found[key] = line
    return found


def _seconds(line: Line | None) -> float:
    """Return the processor seconds of a job; infinity if there are none."""
    return np.inf if line is None or "failed" in line else line["whole_cpu_s"]


def _prepare_s(graph: str, program: str, newest: Lines) -> float:
    """Return the median of the seconds that a program took to prepare the graph; infinity if there are none."""
    lines = [newest.get((f"{graph}-{job}", program), {}) for job in COLUMNS]
    return float(np.median([line["read_cpu_s"] for line in lines if "read_cpu_s" in line] or [np.inf]))


def _size(graph: str, newest: Lines) -> str:
    line = newest[f"{graph}-one", "sssp-pipeline"]
    return f"{line['vertices']:,} vertices, {line['edges']:,} edges."


def _table(graph: str, newest: Lines) -> str:
    jobs = [job for job in COLUMNS if (f"{graph}-{job}", "sssp-pipeline") in newest]
    names = [name for name in TOOLS if any((f"{graph}-{job}", name) in newest for job in jobs)]
    least = {job: min(_seconds(newest.get((f"{graph}-{job}", name))) for name in names) for job in jobs}
    rows = []
    for name in names:
        lines = [newest.get((f"{graph}-{job}", name)) for job in jobs]
        cells = [_cell(line, least[job]) for job, line in zip(jobs, lines, strict=True)]
        peak = max((line["peak_bytes"] for line in lines if line and "failed" not in line), default=None)
        seconds = _prepare_s(graph, name, newest)
        prepare = "–" if seconds == np.inf else f"{seconds:.2g}"
        rows.append([TOOLS[name], prepare, *cells, "–" if peak is None else f"{peak / 1e9:.2g}"])
    failed = {
        TOOLS[name]: line["failed"]
        for name in names
        for job in jobs
        if (line := newest.get((f"{graph}-{job}", name))) is not None and "failed" in line
    }
    text = table(["", "preparation", *(COLUMNS[job] for job in jobs), "GB"], rows)
    if failed:
        text += "\n\nNo time: " + "; ".join(f"{tool}: {reason}" for tool, reason in failed.items()) + "."
    return text


def _cell(line: Line | None, least: float) -> str:
    """Return the seconds of a line and how many times as long as `least` it took."""
    if line is None:
        return "–"
    if "failed" in line:
        return "none"
    seconds = _seconds(line)
    text = f"{'≈ ' * line['is_extrapolated']}{_number(seconds)}"
    return f"**{text}**" if seconds == least else f"{text} ({_number(seconds / least)})"


def _number(value: float) -> str:
    """Return two digits of a value, and no exponent."""
    return f"{float(f'{value:.2g}'):,g}"


def _faster(newest: Lines) -> str:
    """Return a list of what takes another tool less time than ours."""
    found = []
    for graph, title in GRAPHS.items():
        taken = {column: _by_tool(graph, job, newest) for job, column in COLUMNS.items()}
        taken["preparation"] = {name: _prepare_s(graph, name, newest) for name in TOOLS}
        for column, seconds in taken.items():
            for name in set(TOOLS) - set(OURS):
                slower = [
                    f"{TOOLS[our]} {_number(seconds[our])} s"
                    for our in OURS
                    if seconds[name] < seconds[our] < np.inf
                ]
                if slower:
                    found.append(
                        f"- {title}, {column}: {TOOLS[name]} {_number(seconds[name])} s, {', '.join(slower)}."
                    )
    return "\n".join(sorted(found)) or "- None of these jobs."


def _by_tool(graph: str, job: str, newest: Lines) -> dict[str, float]:
    return {name: _seconds(newest.get((f"{graph}-{job}", name))) for name in TOOLS}


def _reported(lines: list[Line]) -> str:
    newest = _newest_reported(lines)
    rows = []
    for job, told in REPORTED.items():
        cells = []
        for name in TOOLS:
            line = newest.get((job, name))
            if name == "sssp-pipeline-prepared":
                continue
            cells.append(
                "–" if line is None else f"{'≈ ' * line['is_extrapolated']}{_number(line['total_s'])}"
            )
        rows.append([f"`{job}`", told, *cells])
    heads = [TOOLS[name] for name in TOOLS if name != "sssp-pipeline-prepared"]
    kept = [i for i in range(len(heads)) if any(row[2 + i] != "–" for row in rows)]
    return table(
        ["job", "reported", *(heads[i] for i in kept)],
        [[*row[:2], *(row[2 + i] for i in kept)] for row in rows],
    )


def _newest_reported(lines: list[Line]) -> Lines:
    return {
        (line["job"], line["program"]): line
        for line in lines
        if line["job"] in REPORTED and "failed" not in line
    }


def _versions(lines: list[Line]) -> str:
    of_tools = {line["program"]: line["program_version"] for line in lines}
    return ", ".join(
        f"{TOOLS[name]} {of_tools[name]}" for name in TOOLS if name in of_tools and name not in OURS
    )
