"""From a `Workflow` to the text of a workflow file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.storage.files import redacted
from sssp_pipeline.workflow.models import Workflow
from sssp_pipeline.workflow.section import Path, dotted
from sssp_pipeline.workflow.variables import escaped, has_secret


def workflow_yaml(workflow: Workflow) -> str:
    """Return the text of a file that describes `workflow`, without defaults.

    A value of the environment is written as `${NAME}`.

    Raises
    ------
    InputError
        A URL has a secret that did not come from the environment.
    """
    given = workflow.model_dump(mode="json", exclude_unset=True)
    return "".join(line + "\n" for line in _yaml_lines(given, (), workflow._unexpanded))


def _yaml_lines(section: dict[str, Any], path: Path, unexpanded: Mapping[Path, str]) -> Iterator[str]:
    for key, value in section.items():
        here = (*path, key)
        name = key if re.fullmatch(r"[A-Za-z_][\w-]*", key) else _yaml_text(key)
        if isinstance(value, dict) and value:
            yield "  " * len(path) + f"{name}:"
            yield from _yaml_lines(value, here, unexpanded)
        else:
            yield "  " * len(path) + f"{name}: {_yaml_value(value, here, unexpanded)}"


def _yaml_value(value: Any, path: Path, unexpanded: Mapping[Path, str]) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_yaml_value(v, (*path, i), unexpanded) for i, v in enumerate(value)) + "]"
    written = unexpanded.get(path, value)
    if isinstance(written, str) and has_secret(written):
        key = dotted(path)
        raise InputError(
            f"`{key}` is `{redacted(written)}` with a secret, and secrets do not belong into a file",
            hint=f"put the URL into an environment variable and write `--set '{key}=${{NAME}}'`, or do not save the "
            "workflow",
        )
    if path in unexpanded:
        # In quotes a number would become text.
        return _yaml_text(unexpanded[path]) if isinstance(value, str) else unexpanded[path]
    return _yaml_text(escaped(value)) if isinstance(value, str) else json.dumps(value)


def _yaml_text(text: str) -> str:
    """Return `text` in double quotes, as YAML and JSON both read it; characters that YAML refuses are escaped."""
    quoted = json.dumps(text, ensure_ascii=False)
    return yaml.reader.Reader.NON_PRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)
