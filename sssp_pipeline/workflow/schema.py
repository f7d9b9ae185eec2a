"""The JSON schema of a YAML file, and its content in words for messages and reference pages."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

from sssp_pipeline.workflow.models import Workflow
from sssp_pipeline.workflow.section import Path, Section

#: Keys of JSON schema: the entries of an array, and the values of an object with any names.
_ITEMS, _VALUES = "items", "additionalProperties"


@cache
def schema(model: type[Section] = Workflow) -> dict[str, Any]:
    """Return the JSON schema of a file of `model`. The result is shared; do not change it."""
    named = {section.__name__: section for section in _sections(Section)}
    for section_type in named.values():
        section_type.model_rebuild()  # pydantic before 2.14 writes no default of a section that is not built yet
    made = model.model_json_schema()
    for name, section in [(model.__name__, made), *made.get("$defs", {}).items()]:
        meanings = _meanings(named[name])
        for key, part in section["properties"].items():
            part["description"] = meanings[key]
            section["properties"][key] = dict(sorted(part.items()))  # as pydantic sorts them
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def _sections(base: type[Section]) -> Iterator[type[Section]]:
    """Give all classes that are derived from `base`."""
    for section in base.__subclasses__():
        yield section
        yield from _sections(section)


def _meanings(section: type[Section]) -> dict[str, str]:
    """Return the docstring of each field of `section`: the text below it in the source."""
    found: dict[str, str] = {}
    for owner in reversed(section.__mro__[: section.__mro__.index(Section)]):
        if "__annotations__" not in vars(owner):
            continue  # it only joins the fields of others
        (body,) = ast.parse(inspect.getsource(owner)).body
        assert isinstance(body, ast.ClassDef)
        for field, text in pairwise(body.body):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                assert isinstance(field.target, ast.Name)
                found[field.target.id] = inspect.cleandoc(ast.literal_eval(text.value))
    return found


def schema_json(model: type[Section] = Workflow) -> str:
    """Return the text of the committed file with the JSON schema of `model`."""
    return json.dumps(schema(model), indent=2, ensure_ascii=False) + "\n"


@cache
def whole(model: type[Section] = Workflow) -> dict[str, Any]:
    """Return the schema of a file of `model` with each `$ref` replaced by its part. The result is shared."""
    referring = schema(model)
    top = {key: value for key, value in referring.items() if key != "$defs"}
    resolved: dict[str, Any] = _resolved(top, referring.get("$defs", {}))
    return resolved


def schema_at(path: Path, model: type[Section] = Workflow) -> dict[str, Any]:
    """Return the part of `whole(model)` that describes the key at `path`."""
    part = whole(model)
    for step in path:
        if isinstance(step, int):
            part = next(option[_ITEMS] for option in _alternatives(part) if _ITEMS in option)
        else:
            values = [o[_VALUES] for o in _alternatives(part) if isinstance(o.get(_VALUES), dict)]
            part = properties(part)[step] if step in properties(part) else values[0]
    return part


def section_of(part: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the section that `part` describes; empty if it is not a section."""
    return next((option for option in _alternatives(part) if "properties" in option), {})


def items_of(part: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of the entries of the list that `part` describes; empty if it is not a list."""
    return next((option[_ITEMS] for option in _alternatives(part) if _ITEMS in option), {})


def properties(part: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the keys of the section that `part` describes; empty if it is not a section."""
    found: dict[str, dict[str, Any]] = section_of(part).get("properties", {})
    return found


def choices(part: dict[str, Any]) -> list[str]:
    """Return the names that `part` allows; empty if it allows other values."""
    return [str(choice) for option in _alternatives(part) for choice in _constants(option)]


def wanted(part: dict[str, Any]) -> str:
    """Return the values that `part` allows in words, such as "`auto` or an integer above 0"."""
    words = list(dict.fromkeys(word for option in _alternatives(part) for word in _words(option)))
    # An integer is a number too, so "an integer above 0 or a number above 0" is shortened.
    words = [
        w for w in words if not (w.startswith("an integer") and w.replace("an integer", "a number") in words)
    ]
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]


def _resolved(part: Any, defs: dict[str, Any]) -> Any:
    """Return `part` with each `$ref` replaced by an `anyOf` with the part that it names."""
    if isinstance(part, list):
        return [_resolved(item, defs) for item in part]
    if not isinstance(part, dict):
        return part
    plain = {key: _resolved(value, defs) for key, value in part.items() if key != "$ref"}
    if "$ref" in part:
        plain["anyOf"] = [_resolved(defs[part["$ref"].rpartition("/")[2]], defs)]
    return plain


def _alternatives(part: dict[str, Any]) -> list[dict[str, Any]]:
    return [found for option in part.get("anyOf", ()) for found in _alternatives(option)] or [part]


def _constants(option: dict[str, Any]) -> list[Any]:
    return [option["const"]] if "const" in option else option.get("enum", [])


def _words(option: dict[str, Any]) -> list[str]:
    if constants := _constants(option):
        return [f"`{json.dumps(constant)}`".replace('"', "") for constant in constants]
    kind = option["type"]
    if kind in ("integer", "number"):
        return [_number_words("an integer" if kind == "integer" else "a number", option)]
    if kind == "string":
        return [f"text such as `{option['examples'][0]}`" if "examples" in option else "text"]
    if kind == "object" and "properties" not in option:
        return ["names with a value each"]
    if kind == "object":
        return ["a section with " + ", ".join(f"`{key}`" for key in option["properties"])]
    if kind == "array":
        return ["a list that is not empty" if option.get("minItems") else "a list"]
    return {"boolean": ["`true`", "`false`"], "null": ["`null`"]}[kind]


def _number_words(noun: str, option: dict[str, Any]) -> str:
    if "exclusiveMinimum" in option and "exclusiveMaximum" in option:
        return f"{noun} between {option['exclusiveMinimum']:g} and {option['exclusiveMaximum']:g}"
    if "exclusiveMinimum" in option:
        return f"{noun} above {option['exclusiveMinimum']:g}"
    if "maximum" in option:
        return f"{noun} from {option['minimum']:,} to {option['maximum']:,}"
    return f"{noun} of at least {option['minimum']:g}" if "minimum" in option else noun
