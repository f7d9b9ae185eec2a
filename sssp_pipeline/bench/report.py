"""The report of a bench: a page, its tables as CSV and its figures as SVG, made from lines only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from sssp_pipeline.base.errors import InputError, did_you_mean
from sssp_pipeline.base.progress import Progress, plural
from sssp_pipeline.bench.figures import draw_all, has_matplotlib
from sssp_pipeline.bench.layout import ResultTable, markdown
from sssp_pipeline.bench.lines import Line, read, writing
from sssp_pipeline.bench.results import Results
from sssp_pipeline.bench.tables import all_tables
from sssp_pipeline.storage import files

PAGE = "report.md"
#: Tables that have a CSV file and are not on the page.
_NOT_ON_THE_PAGE = ("results",)
NO_FIGURES = "There are no figures: matplotlib is not installed (`pip install 'sssp-pipeline[figures]'`)."


def write_report(
    urls: Sequence[str],
    folder: Path,
    progress: Progress,
    *,
    baseline: str | None = None,
    subject: str | None = None,
    extend: Callable[[Results, list[ResultTable], str | None], list[ResultTable]] | None = None,
) -> Path:
    """Return the page written to `folder`, with its tables and figures in the same folder.

    Parameters
    ----------
    urls
        Files of lines.
    folder
        A folder on this machine; files of the same names are replaced.
    progress
        Receives a warning where there is no matplotlib, and so no figures.
    baseline, subject
        Variants; None takes the one that the newest line names.
    extend
        Called with the results, their tables and the subject; returns the tables to write. None changes nothing.

    Raises
    ------
    InputError
        A file cannot be read or has no lines, a variant is unknown, the lines of one table come from several machines,
        or the folder cannot be written.
    """
    lines = [line for url in urls for line in read(url)]
    if not lines:
        raise InputError(
            f"{', '.join(f'`{files.redacted(url)}`' for url in urls)} holds no lines",
            hint="`sssp-pipeline bench run` writes them",
        )
    results = Results(lines)
    by_date = sorted(lines, key=lambda line: line.on.date)
    for key, named in (("--baseline", baseline), ("--subject", subject)):
        if named is not None and named not in results.variants:
            known = ", ".join(f"`{variant}`" for variant in results.variants)
            raise InputError(
                f"{key} is `{named}`, and no variant that was measured is called so",
                hint=f"{did_you_mean(named, results.variants)}Variants: {known}",
            )
    baseline = baseline or next((line.baseline for line in by_date[::-1] if line.baseline), None)
    subject = subject or next((line.subject for line in by_date[::-1] if line.subject), None)
    tables = all_tables(results, baseline, subject)
    if extend is not None:
        tables = extend(results, tables, subject)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        for table in tables:
            (folder / f"{table.name}.csv").write_text(table.csv(), encoding="utf-8")
        figures = draw_all(results, folder, baseline, subject) if has_matplotlib() else None
        page = folder / PAGE
        parts = [f"# {by_date[-1].bench}", measured_on(results.lines)]
        for table in tables:
            if table.name not in _NOT_ON_THE_PAGE:
                parts += [f"## {table.title}", table.text, markdown(table.headings, table.rows)]
        if figures is None:
            parts += ["## Figures", NO_FIGURES]
        elif figures:
            shown = (f"![{text.replace('`', '')}]({name})\n\n{text}" for name, text in figures)
            parts += ["## Figures", *shown]
        page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    if figures is None:
        progress.say(NO_FIGURES, level="warning")
    return page


def measured_on(lines: Sequence[Line]) -> str:
    """Return the sentences on how, where and when `lines` were measured."""
    timed = [line for line in lines if line.timing]
    processors = _listed(line.processor for line in timed)
    commits = _listed(f"{(line.on.commit or 'unknown')[:7]}{'+' * bool(line.on.dirty)}" for line in timed)
    days = _listed(line.on.date[:10] for line in timed)
    checked = _listed(f"`{line.checked_by}`" for line in timed)
    graphs, variants = len({line.graph.name for line in lines}), len({line.label for line in lines})
    return (
        f"{plural(graphs, 'graph')}, {plural(variants, 'variant')}. Every distance was compared, before anything\n"
        f"was timed, with those of {checked}. A GPU's time is that of its own clock, without the copying of\n"
        "distances, its L2 cache flushed before each run; a CPU's is wall time.\n"
        f"Measured on: {processors}. Commit: {commits}. Date: {days}."
    )


def _listed(words: Iterable[str]) -> str:
    return "; ".join(sorted(set(words))) or "nothing"
