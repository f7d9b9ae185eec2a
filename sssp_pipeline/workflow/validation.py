"""From the values of a file to a model, or to one error with every fault of the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from sssp_pipeline.errors import did_you_mean
from sssp_pipeline.workflow.document import Document, value_at
from sssp_pipeline.workflow.faults import Fault, combined, value_text
from sssp_pipeline.workflow.schema import choices, properties, schema_at, wanted
from sssp_pipeline.workflow.section import Path, Section, dotted

Model = TypeVar("Model", bound=Section)
Contradictions = Callable[[Mapping[str, Any]], Iterable[tuple[Path, str, str]]]


def validated(
    data: dict[str, Any],
    document: Document,
    where: str,
    model: type[Model],
    contradictions: Contradictions,
) -> Model:
    """Return the model of `data`, or raise one `InputError` with all faults of the document and the models."""
    faults = list(document.faults)
    result = None
    try:
        result = model.model_validate(data)
    except ValidationError as error:
        faults += _model_faults(error, data, document, where, model)
    faults += [
        Fault(path, document.place(path) or where, document.as_written(text, data), hint)
        for path, text, hint in contradictions(data)
        if not document.is_broken(path)
    ]
    if faults or result is None:
        raise combined(faults, where)
    return result


def _model_faults(
    error: ValidationError, data: dict[str, Any], document: Document, where: str, model: type[Section]
) -> Iterator[Fault]:
    """Yield one fault for each key that the models refuse; pydantic gives one for each alternative of a union."""
    problems: dict[Path, str] = {}
    for detail in error.errors(include_url=False, include_context=False):
        if detail["type"] != "value_error":  # the caller reports contradictions
            problems.setdefault(_data_path(detail["loc"], data, detail["type"]), detail["type"])
    for path, problem in problems.items():
        has_inner_problem = any(other[: len(path)] == path and other != path for other in problems)
        if has_inner_problem or document.is_broken(path):
            continue
        place, section = document.place(path) or where, path[:-1]
        in_section = f" in `{dotted(section)}`" if section else ""
        if problem == "missing":
            hint = f"add `{path[-1]}`: {_meaning(schema_at(path, model))}"
            yield Fault(path, place, f"no key `{path[-1]}`{in_section}", hint)
        elif problem == "extra_forbidden":
            known = list(properties(schema_at(section, model)))
            hint = did_you_mean(str(path[-1]), known) + "Keys: " + ", ".join(known)
            yield Fault(path, place, f"unknown key `{path[-1]}`{in_section}", hint)
        else:
            part, value = schema_at(path, model), value_at(data, path)
            given = value_text(document.unexpanded.get(path, value))
            close = did_you_mean(value, choices(part)).strip() if isinstance(value, str) else ""
            meaning = f"correct `{dotted(path)}`: {_meaning(part) or 'write ' + wanted(part)}"
            yield Fault(path, place, f"`{dotted(path)}` is {given}, wanted {wanted(part)}", close or meaning)


def _meaning(part: dict[str, Any]) -> str:
    """Return the description of a key in one line."""
    return " ".join(part.get("description", "").split())


def _data_path(loc: tuple[str | int, ...], data: Any, problem: str) -> Path:
    """Return the path in `data` of pydantic's `loc`, which also has the names of union alternatives."""
    path: Path = ()
    for step in loc:
        in_section = isinstance(data, Mapping) and step in data
        in_list = isinstance(data, list | tuple) and isinstance(step, int)
        if in_section or in_list:
            data = data[step]
            path = (*path, step)
    return (*path, loc[-1]) if problem == "missing" else path
