"""From command-line options to a `Workflow`, for a run without a workflow file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.storage.files import redacted
from sssp_pipeline.workflow.document import Document
from sssp_pipeline.workflow.models import Workflow
from sssp_pipeline.workflow.yaml_file import build_workflow, file_name

#: A value with one of these endings is a file, even if the file is missing.
_FILE_ENDINGS = (".txt", ".csv", ".tsv", ".parquet", ".gz", ".zst", ".bz2", ".xz")


def workflow_from_options(
    edges: Sequence[str],
    sources: Sequence[str],
    targets: Sequence[str] = (),
    output: str | None = None,
    overrides: Sequence[str] = (),
    environ: Mapping[str, str] = os.environ,
) -> Workflow:
    """Return the workflow that the command line describes without a file.

    Parameters
    ----------
    edges
        Paths or URLs of edge lists: `graph.input`.
    sources, targets
        The values of `--from` and `--to`: ids, one file of ids, `points:FILE`, `all`, `random:64` or
        `top-degree:10`. The prefixes `id:` and `file:` force a reading. No targets means every vertex.
    output
        The value of `--out`; None if `overrides` set `output.path`.
    overrides, environ
        As for `load_workflow`.

    Raises
    ------
    InputError
        A value could be an id or a file, or contradicts another; or two words set one value. Also as
        `load_workflow`; faults name the option in place of a line.
    """
    document = Document(environ)
    data: dict[str, Any] = {"version": 1, "name": _name_of(edges[0])}
    data["graph"] = {"input": edges[0] if len(edges) == 1 else list(edges)}
    document.places["graph",] = f"`{redacted(edges[0])}`"
    for i, url in enumerate(edges):
        document.places["graph", "input", i] = f"`{redacted(url)}`"
    # `--set 'graph.input=${NAME}'` may name the variable with the secret of the same URL.
    if not any(re.match(r"graph\.input=.*\$\{", override) for override in overrides):
        document.note_set(("graph", "input"), edges, f"`{redacted(edges[0])}`")
    data["sources"] = _vertices_of("--from", sources)
    document.places["sources",] = "`--from`"
    document.note_set(("sources",), data["sources"], f"`--from {redacted(sources[0])}`")
    if output is not None:
        data["output"] = {"path": output}
        document.places["output",] = "`--out`"
        document.note_set(("output", "path"), output, f"`--out {redacted(output)}`")
    chosen = _vertices_of("--to", targets)
    if targets:
        document.note_set(("output", "targets"), chosen, f"`--to {redacted(targets[0])}`")
    if chosen != {"all": True} and targets:
        data.setdefault("output", {})["targets"] = chosen
        document.places["output", "targets"] = "`--to`"
    for override in overrides:
        document.override(data, override)
    if not isinstance(data.get("output"), dict) or data["output"].get("path") is None:
        raise InputError("no folder is named for the results", hint="add `--out results`")
    return build_workflow(data, document, "command line")


def _name_of(url: str) -> str:
    """Return the name of a run whose first edge list is at `url`: the name of the file without extensions."""
    name = re.split("[.?]", file_name(url))[0]
    return name if re.search(r"\w", name) else "workflow"


def _vertices_of(option: str, words: Sequence[str]) -> dict[str, Any]:
    """Return the section `sources` or `output.targets` for the values `words` of `option`; empty without values."""
    chosen = [_one_choice(option, word) for word in words]
    if all(kind == "ids" for kind, _ in chosen):
        return {"ids": [value for _, value in chosen]} if chosen else {}
    if len(chosen) > 1:
        other = next(word for word, (kind, _) in zip(words, chosen, strict=True) if kind != "ids")
        raise InputError(
            f"`{option} {redacted(other)}` is given beside {len(chosen) - 1} more `{option}`",
            hint=f"only ids may be repeated: give ids alone, or one `{option}` of another kind",
        )
    return dict(chosen)


def _one_choice(option: str, word: str) -> tuple[str, Any]:
    """Return the key of the section `sources` and its value for one value of `option`."""
    prefix, _, rest = word.partition(":")
    if prefix == "id":
        return "ids", rest
    if prefix == "file" and not rest.startswith("//"):
        return "file", rest
    if prefix == "points" and rest and not rest.startswith("//"):
        return "points", {"file": rest}
    if "://" in word:
        return "file", word
    choice: tuple[str, Any] | None = ("all", True) if word == "all" else None
    if prefix in ("random", "top-degree") and word != prefix:
        if not re.fullmatch("[0-9]{1,18}", rest) or int(rest) == 0:
            raise InputError(
                f"`{option} {word}`: `{rest}` is no number of vertices", hint=f"write `{option} {prefix}:64`"
            )
        choice = ("random", {"count": int(rest)}) if prefix == "random" else ("top_degree", int(rest))
    is_file = os.path.exists(word) and not os.path.isdir(word)  # noqa: PTH110, PTH112
    if is_file and (choice is not None or not re.search("[./]", word)):
        raise InputError(
            f"`{option} {word}` could be "
            + ("a choice of vertices" if choice else "an id")
            + ", and there is a file of this name",
            hint=f"write `{option} file:{word}` for the file"
            + ("" if choice else f", `{option} id:{word}` for the id"),
        )
    if choice is not None:
        return choice
    if not is_file and (word.lower().endswith(_FILE_ENDINGS) or word.startswith(("/", "./", "../"))):
        raise InputError(
            f"`{option} {word}`: the file `{word}` does not exist",
            hint=f"check the path; if it is an id, write `{option} id:{word}`",
        )
    return ("file", word) if is_file else ("ids", word)
