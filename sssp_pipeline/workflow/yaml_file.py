"""From a workflow file to a `Workflow`, or to one error that lists every fault with its line.

Faults come from three places: the text of the file (`document`), the models (`validation`), and values that contradict
each other (`contradictions`). `load_file` reads any other YAML file whose content a `Section` describes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.storage.files import STANDARD_INPUT, open_read, reading, redacted
from sssp_pipeline.storage.pipes import is_of_process
from sssp_pipeline.workflow.contradictions import contradictions, files_read
from sssp_pipeline.workflow.document import Document, Mistake, decoded
from sssp_pipeline.workflow.models import Workflow
from sssp_pipeline.workflow.section import dotted
from sssp_pipeline.workflow.validation import Contradictions, Model, validated, value_text
from sssp_pipeline.workflow.variables import fill_in, unknown_placeholder

#: A longer file is refused: YAML takes 100 times its size in memory, and five seconds for each megabyte.
MAX_FILE_BYTES = 4 << 20


def load_workflow(
    url: str, overrides: Sequence[str] = (), environ: Mapping[str, str] = os.environ
) -> Workflow:
    """Return the workflow in the YAML file at `url`.

    Parameters
    ----------
    url
        Any fsspec URL or local path.
    overrides
        `key=value` each, with dots in the key (`solve.delta=500`) and YAML as the value. They replace values of the
        file.
    environ
        Variables for `${NAME}` and `${NAME:-default}` in values; `$${` stands for a plain `${`.

    Raises
    ------
    InputError
        The file cannot be read, is not YAML, or does not describe a run. The message has a line for each fault.
    """
    data, document, quoted = _read(
        url, overrides, environ, "`sssp-pipeline init` writes a workflow to start from"
    )
    if url == STANDARD_INPUT:
        for path, read in files_read(data):
            if read == STANDARD_INPUT:
                raise InputError(
                    f"{document.place(path) or quoted}: `{dotted(path)}` is `-`, and standard input is the workflow",
                    hint="name a file for one of them",
                )
    name = file_name(url)
    data.setdefault("name", name.rpartition(".")[0] or name)
    return build_workflow(data, document, quoted)


def load_file(
    url: str,
    model: type[Model],
    contradictions: Contradictions,
    overrides: Sequence[str] = (),
    environ: Mapping[str, str] = os.environ,
    *,
    hint: str,
) -> Model:
    """Return the `model` that the YAML file at `url` describes; the file is read in the same way as a workflow.

    Parameters
    ----------
    url, overrides, environ
        As for `load_workflow`.
    model
        The type of the result.
    contradictions
        Takes the plain values, which may be invalid. Yields path, text and hint of each fault that the types of the
        model do not find.
    hint
        The hint for an empty file: where to learn what it must hold.

    Raises
    ------
    InputError
        As `load_workflow`.
    """
    return validated(*_read(url, overrides, environ, hint), model, contradictions)


def workflow_from_dict(data: Mapping[str, Any]) -> Workflow:
    """Return the workflow with the keys and values of `data`; `${NAME}` is not expanded.

    Raises
    ------
    InputError
        As `load_workflow`; faults have no line.
    """
    return build_workflow(dict(data), Document({}), "workflow")


def build_workflow(data: dict[str, Any], document: Document, where: str) -> Workflow:
    """Return the workflow of `data`.

    Parameters
    ----------
    data
        The plain values; `{date}`, `{time}` and `{name}` in folders are replaced.
    document
        The places and faults of the values.
    where
        The name of the whole, for faults without a place.

    Raises
    ------
    InputError
        As `load_workflow`.
    """
    output = data.get("output")
    written = str(output.get("path")) if isinstance(output, Mapping) else ""
    now, name = _now(), str(data.get("name") or Workflow.model_fields["name"].default)
    names = {"date": f"{now:%Y-%m-%d}", "time": f"{now:%H%M%S}", "name": name}
    _fill_in_folder(data, document, where, ("output", "path"), names)
    _fill_in_folder(data, document, where, ("graph", "store"), {"name": name})
    workflow = validated(data, document, where, Workflow, contradictions)
    workflow._unexpanded.update(document.unexpanded)
    workflow._is_dated = "{date}" in written or "{time}" in written
    return workflow


def _now() -> datetime:
    """Return the local time for `{date}` and `{time}`."""
    return datetime.now().astimezone()


def _fill_in_folder(
    data: dict[str, Any], document: Document, where: str, path: tuple[str, str], values: dict[str, str]
) -> None:
    """Replace each `{name}` in the folder at `path` of `data`; add a fault for a name that `values` lacks."""
    section, key = path
    within = data.get(section)
    text = within.get(key) if isinstance(within, Mapping) else None
    if not isinstance(text, str) or document.is_broken(path):
        return
    if (name := unknown_placeholder(text, values)) is not None:
        is_secret = f"{{{name}}}" not in document.unexpanded.get(path, text)
        fault = f"`{dotted(path)}` has `{{{'…' if is_secret else name}}}`, which is not a known name"
        known = ", ".join(f"`{{{name}}}`" for name in values)
        document.faults.append(Mistake(path, document.place(path) or where, fault, f"known here: {known}"))
        return
    data[section] = {**data[section], key: fill_in(text, values)}
    if path in document.unexpanded:  # run.json has this text
        document.unexpanded[path] = fill_in(document.unexpanded[path], values)


def file_name(url: str) -> str:
    """Return the last part of `url`; "pipe" for `<(commands)`, whose last part is a random number."""
    return "pipe" if is_of_process(url) else redacted(url).rpartition("/")[2]


def _read(
    url: str, overrides: Sequence[str], environ: Mapping[str, str], hint: str
) -> tuple[dict[str, Any], Document, str]:
    """Return the values of a file with `overrides`, their places, and the quoted URL of the file for messages."""
    quoted = f"`{redacted(url)}`"
    document = Document(environ)
    with reading(url), open_read(url) as stream:
        content = stream.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise InputError(
            f"{quoted} is longer than {MAX_FILE_BYTES:,} bytes, the most that a file of this kind may have",
            hint="put long lists of ids in a file of their own: `sources: {file: ids.txt}`; an edge list is run with "
            "`--from` and `--out`",
        )
    text = decoded(content, quoted)
    data = document.read(text, (), lambda line: f"{quoted} line {line}")
    if not isinstance(data, dict):
        raise InputError(
            f"{quoted} is empty"
            if data is None
            else f"{quoted} holds {value_text(data)}, wanted keys and values",
            hint=hint,
        )
    for override in overrides:
        document.override(data, override)
    return data, document, quoted
