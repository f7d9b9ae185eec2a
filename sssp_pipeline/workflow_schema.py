"""The workflow's JSON schema, and what it says in words: for messages, and for the reference page."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from sssp_pipeline.workflow import Workflow
from sssp_pipeline.workflow_section import Path


@cache
def schema() -> dict[str, Any]:
    """Return the JSON schema of the workflow file; shared, not to be changed."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Workflow.model_json_schema()}


def schema_json() -> str:
    """Return the JSON schema of the workflow file as committed text."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def schema_at(path: Path) -> dict[str, Any]:
    """Return the part of the schema that describes `path`."""
    part = schema()
    for step in path:
        if isinstance(step, int):
            part = next(option["items"] for option in _alternatives(part) if "items" in option)
        else:
            part = properties(part)[step]
    return part


def section_of(part: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the section that `part` describes, empty if it is no section."""
    return next((option for option in _alternatives(part) if "properties" in option), {})


def properties(part: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the keys of the section that `part` describes, empty if it is no section."""
    found: dict[str, dict[str, Any]] = section_of(part).get("properties", {})
    return found


def choices(part: dict[str, Any]) -> list[str]:
    """Return the names that `part` allows, empty if it is not about names."""
    return [str(choice) for option in _alternatives(part) for choice in _constants(option)]


def wanted(part: dict[str, Any]) -> str:
    """Return in words which values `part` allows, such as "`auto` or an integer above 0"."""
    words = list(dict.fromkeys(word for option in _alternatives(part) for word in _words(option)))
    # An integer is a number too: "an integer above 0 or a number above 0" says it twice.
    words = [
        w for w in words if not (w.startswith("an integer") and w.replace("an integer", "a number") in words)
    ]
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def _alternatives(part: dict[str, Any]) -> list[dict[str, Any]]:
    if "$ref" in part:
        return [schema()["$defs"][part["$ref"].rpartition("/")[2]]]
    return [found for option in part.get("anyOf", ()) for found in _alternatives(option)] or [part]


def _constants(option: dict[str, Any]) -> list[Any]:
    return [option["const"]] if "const" in option else option.get("enum", [])


def _words(option: dict[str, Any]) -> list[str]:
    if constants := _constants(option):
        return [f"`{json.dumps(constant)}`".replace('"', "") for constant in constants]
    kind = option["type"]
    if kind in ("integer", "number"):
        noun = "an integer" if kind == "integer" else "a number"
        if "exclusiveMinimum" in option:
            return [f"{noun} above {option['exclusiveMinimum']:g}"]
        if "maximum" in option:
            return [f"{noun} from {option['minimum']:,} to {option['maximum']:,}"]
        return [f"{noun} of at least {option['minimum']:g}" if "minimum" in option else noun]
    if kind == "string":
        return [f"text such as `{option['examples'][0]}`" if "examples" in option else "text"]
    if kind == "object" and "properties" not in option:
        return ["names with a value each"]
    if kind == "object":
        return ["a section with " + ", ".join(f"`{key}`" for key in option["properties"])]
    if kind == "array":
        return ["a list that is not empty" if option.get("minItems") else "a list"]
    return {"boolean": ["`true`", "`false`"], "null": ["`null`"]}[kind]
