"""Run the notebooks of docs/notebooks/ and write what they show into them; with --check, only say which ones are stale.

python docs/run_notebooks.py            writes the outputs
python docs/run_notebooks.py --check    exits 1 and names the ones whose outputs differ

The committed notebooks have their outputs, so that they can be read without running them. Text must be the same.
Pictures are not compared, as each release of matplotlib draws them a little differently.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

from sssp_pipeline.base.compile_notice import COMPILING

NOTEBOOKS = Path(__file__).parent / "notebooks"
#: Seconds that a cell may take. The first call of a kind compiles.
CELL_LIMIT_S = 120


def read(path: Path) -> nbformat.NotebookNode:
    """Return the notebook at `path`."""
    return nbformat.read(path, as_version=4)


def executed(
    notebook: nbformat.NotebookNode, parameters: Mapping[str, Any] | None = None, last: str = ""
) -> nbformat.NotebookNode:
    """Return a copy of `notebook` that was run from start to end in a kernel of its own.

    Parameters
    ----------
    parameters
        Values for names of the cell with the tag `parameters`.
    last
        Code that the kernel runs behind the last cell.

    Raises
    ------
    nbclient.exceptions.CellExecutionError
        A cell failed.
    """
    # The first import on a machine looks for fonts, and says so if that takes long. It is done here, not in a cell.
    import matplotlib.font_manager  # noqa: F401

    copy = nbformat.from_dict(notebook)
    lines = [f"{name} = {value!r}" for name, value in (parameters or {}).items()]
    for cell in copy.cells:
        if "parameters" in cell.metadata.get("tags", ()):
            cell.source = "\n".join([cell.source, *lines])
    if last:
        copy.cells.append(nbformat.v4.new_code_cell(last))
    # Sockets in a folder of its own, not ports: no other user or notebook can connect. Paths of sockets must be short.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        sockets = Config({"KernelManager": {"transport": "ipc", "ip": f"{folder}/kernel"}})
        NotebookClient(copy, timeout=CELL_LIMIT_S, record_timing=False, config=sockets).execute()
    for cell in copy.cells:
        if "outputs" in cell:  # only the first call on a machine compiles
            cell.outputs = [output for output in cell.outputs if COMPILING not in output.get("text", "")]
    # What the kernel says of itself differs from release to release.
    copy.metadata = notebook.metadata
    return copy


def texts(cell: nbformat.NotebookNode) -> Iterator[str]:
    """Yield what a cell shows as text, and the types of pictures."""
    for output in cell.get("outputs", ()):
        yield output.get("name", "")
        yield output.get("text", "")
        for kind, content in sorted(output.get("data", {}).items()):
            yield kind
            if not kind.startswith("image/"):
                yield content


def first_difference(committed: nbformat.NotebookNode, fresh: nbformat.NotebookNode) -> str | None:
    """Return the first cell whose output differs, with both outputs; None if no text differs."""
    for number, (old, new) in enumerate(zip(committed.cells, fresh.cells, strict=True), 1):
        if (there := list(texts(old))) != (here := list(texts(new))):
            return f"cell {number} shows {here}, and the file has {there}"
    return None


def main(arguments: list[str]) -> int:
    """Run every notebook, write or check its outputs, and return the exit code."""
    if arguments not in ([], ["--check"]):
        sys.stderr.write(f"error: unknown arguments `{' '.join(arguments)}`\n\nhint: only --check is known\n")
        return 2
    stale = []
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        committed = read(path)
        fresh = executed(committed)
        if arguments and first_difference(committed, fresh):
            stale.append(path.name)
        elif not arguments:
            nbformat.write(fresh, path)
    if stale:
        sys.stderr.write(
            f"error: stale in docs/notebooks: {', '.join(stale)}\n\nhint: run `make notebooks`\n"
        )
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
