"""The inputs of a command: one workflow file, or edge lists with options. Also the files that a command writes.

Nothing slow is imported before the inputs are known to exist.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.storage.pipes import is_pipe
from sssp_pipeline.storage.redaction import redacted

if TYPE_CHECKING:
    from sssp_pipeline.workflow.models import Workflow

_ENDINGS = (".yaml", ".yml")
#: Options of edge lists, and the overrides that do the same with a workflow file.
_OVERRIDES = {
    "--from": "sources={ids: [17]}",
    "--to": "output.targets={ids: [17]}",
    "--out": "output.path=FOLDER",
}


def workflow_of(
    inputs: Sequence[str],
    sources: Sequence[str],
    targets: Sequence[str],
    output: str | None,
    overrides: Sequence[str],
    *,
    needs_input: bool = True,
) -> Workflow:
    """Return the workflow in a file, or the workflow that options describe.

    Parameters
    ----------
    inputs
        One workflow file, or edge lists.
    sources, targets, output
        The values of `--from`, `--to` and `--out`, for edge lists.
    overrides
        The values of `--set`.
    needs_input
        Whether the edge lists must exist.

    Raises
    ------
    InputError
        A file does not exist, or the options do not fit to the inputs. Also as `load_workflow` and
        `workflow_from_options`.
    """
    is_file = _is_workflow_file(inputs, {"--from": sources, "--to": targets, "--out": output})
    if is_file:
        check_exists(inputs, "check the path; `sssp-pipeline init` writes a workflow to start from")
    elif needs_input:
        is_id = len(inputs) > 1 and next((word for word in inputs[1:] if word.isdecimal()), None)
        hint = f"if it is an id, write `--from {is_id}`" if is_id else "check the path, or the bucket and key"
        check_exists(inputs, hint)
    from sssp_pipeline.workflow.from_command_line import workflow_from_options
    from sssp_pipeline.workflow.yaml_file import load_workflow

    if not is_file:
        return workflow_from_options(inputs, sources, targets, output, overrides)
    workflow = load_workflow(inputs[0], overrides)
    if needs_input:
        check_exists(workflow.graph.all_inputs, "correct `graph.input`, which names it, or create it")
    return workflow


def _is_workflow_file(inputs: Sequence[str], options: dict[str, Sequence[str] | str | None]) -> bool:
    """Return whether the inputs are a workflow file; False if they are edge lists.

    A name that ends in `.yaml` or `.yml` is a workflow file. Standard input and pipes have no such name. They are a
    workflow file without `--from`, and an edge list with it.
    """
    has_from = bool(options["--from"])
    given = [option for option, value in options.items() if value]
    for url in inputs:
        if _has_workflow_name(url):
            why, hint = "by its name", ""
        elif not has_from and is_pipe(url):
            why, hint = "without `--from`", "for an edge list add `--from ID`; "
        else:
            continue
        if given:
            raise InputError(
                f"`{redacted(url)}` is a workflow file {why}, and `{given[0]}` belongs to edge lists",
                hint=f"{hint}with a workflow file, write `--set '{_OVERRIDES[given[0]]}'`",
            )
        if len(inputs) > 1:
            raise InputError(
                f"`{redacted(url)}` is a workflow file {why}, and it is one of {len(inputs)} inputs",
                hint=f"{hint}name one workflow file; `graph.input` in it may list several edge lists",
            )
        return True
    if not has_from:
        raise InputError(
            f"`{redacted(inputs[0])}` is no workflow file by its name, and no `--from` says where paths begin",
            hint="for an edge list add `--from ID`; the name of a workflow file ends in .yaml or .yml",
        )
    return False


def _has_workflow_name(url: str) -> bool:
    path = re.split("[?#]", url)[0] if "://" in url else url
    return path.lower().endswith(_ENDINGS)


def check_exists(paths: Sequence[str], hint: str = "check the path, or the bucket and key") -> None:
    """Raise `InputError` if a plain local path does not exist; `storage` checks URLs and globs."""
    for path in paths:
        if not re.search(r"[:*?\[]", path) and path != "-" and not os.path.exists(path):  # noqa: PTH110
            raise InputError(f"`{path}` does not exist", hint=hint)


def check_workflow_name(path: Path) -> None:
    """Raise `InputError` if a command would not read a file of this name as a workflow."""
    if path.suffix.lower() not in _ENDINGS:
        raise InputError(
            f"`{path}` would not be taken for a workflow file", hint="name it with .yaml at its end"
        )


def write_new(path: Path, text: str) -> None:
    """Write `text` to a new file; raise `InputError` if the file exists or cannot be written."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InputError(f"`{path}` exists already", hint="name another file") from None
    except OSError as error:
        raise InputError(
            f"`{path}` cannot be written: {error.strerror}", hint="name a file in a folder that you may write"
        ) from error
    except UnicodeEncodeError as error:
        path.unlink()
        raise InputError(
            f"`{path}` cannot be written: a value is not UTF-8", hint="name files in UTF-8 only"
        ) from error
