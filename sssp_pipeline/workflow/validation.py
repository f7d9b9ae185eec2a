"""From the values of a file to a model, or to one error with every fault of the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import ValidationError

from sssp_pipeline.base.errors import InputError, did_you_mean
from sssp_pipeline.storage.redaction import without_password
from sssp_pipeline.workflow.document import Document, Mistake, value_at
from sssp_pipeline.workflow.schema import choices, properties, schema_at, wanted
from sssp_pipeline.workflow.section import Path, Section, dotted

#: The most faults that an error lists. A list of ids can have thousands.
MAX_FAULTS_SHOWN = 20

Model = TypeVar("Model", bound=Section)
Contradictions = Callable[[Mapping[str, Any]], Iterable[tuple[Path, str, str]]]


def validated(
    data: dict[str, Any], document: Document, where: str, model: type[Model], contradictions: Contradictions
) -> Model:
    """Return the model of `data`, or raise one `InputError` with all faults of the document and the models."""
    faults = list(document.faults)
    result = None
    try:
        result = model.model_validate(data)
    except ValidationError as error:
        faults += _model_faults(error, data, document, where, model)
    faults += [
        Mistake(path, document.place(path) or where, document.as_written(text, data), hint)
        for path, text, hint in contradictions(data)
        if not document.is_broken(path)
    ]
    if faults or result is None:
        raise combined(faults, where)
    return result


def _place_of(key: str, whole: dict[str, Any]) -> str:
    """Return "did you mean `section.key`? " if one section of the file has `key`, or an empty string."""
    having = [name for name, part in properties(whole).items() if key in properties(part)]
    return f"did you mean `{having[0]}.{key}`? " if len(having) == 1 else ""


def _model_faults(
    error: ValidationError, data: dict[str, Any], document: Document, where: str, model: type[Section]
) -> Iterator[Mistake]:
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
            yield Mistake(path, place, f"no key `{path[-1]}`{in_section}", hint)
        elif problem == "extra_forbidden":
            known = list(properties(schema_at(section, model)))
            hint = _place_of(str(path[-1]), schema_at((), model)) if not section else ""
            hint = (hint or did_you_mean(str(path[-1]), known)) + "Keys: " + ", ".join(known)
            yield Mistake(path, place, f"unknown key `{path[-1]}`{in_section}", hint)
        else:
            part, value = schema_at(path, model), value_at(data, path)
            given = value_text(document.unexpanded.get(path, value))
            close = did_you_mean(value, choices(part)).strip() if isinstance(value, str) else ""
            if not close and isinstance(value, str | int | float) and wanted(part) == "a list":
                close = f"write a list: `[{given.strip('`')}]`"
            inner = properties(part).get(value) if isinstance(value, str) else None
            if not close and inner is not None and "`true`" in wanted(inner):
                close = f"write `{path[-1]}: {{{value}: true}}`"
            meaning = f"correct `{dotted(path)}`: {_meaning(part) or 'write ' + wanted(part)}"
            yield Mistake(
                path, place, f"`{dotted(path)}` is {given}, wanted {wanted(part)}", close or meaning
            )


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


def combined(faults: Sequence[Mistake], where: str) -> InputError:
    """Return the error that lists `faults` in the order of their lines; `where` names the file."""
    if len(faults) == 1:
        return InputError(f"{faults[0].place}: {faults[0].text}", hint=faults[0].hint)
    faults = sorted(faults, key=lambda fault: [int(n) for n in re.findall(r" line (\d+)$", fault.place)])
    listed = faults[:MAX_FAULTS_SHOWN]
    lines = [f"{fault.place}: {fault.text}" for fault in listed]
    if len(faults) > len(listed):
        lines.append(f"{where}: and {len(faults) - len(listed)} more")
    hints = [f"{fault.place.removeprefix(where + ' ')}: {fault.hint}" for fault in listed]
    return InputError("\n".join(lines), hint="\n".join(hints))


def value_text(value: Any) -> str:
    """Return a wrong value as a message names it: short, and without the secrets of a URL."""
    if value is None or value == "":
        return "empty"
    if isinstance(value, Mapping):
        return "a section"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    text = without_password(value) if isinstance(value, str) else str(value)
    return f"`{text if len(text) <= 60 else text[:60] + '…'}`"
