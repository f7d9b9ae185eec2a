"""Templates of pods: what a workflow adds to the pods that a run of kind `kubernetes` builds.

A template is checked against the schema of Dask's operator. The API server of Kubernetes uses this schema too. It drops
unknown fields without an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from sssp_pipeline.base.errors import did_you_mean
from sssp_pipeline.workflow.cluster import PodTemplate
from sssp_pipeline.workflow.document import Document
from sssp_pipeline.workflow.section import Contradiction, Path, Plain, dotted
from sssp_pipeline.workflow.validation import validated, value_text
from sssp_pipeline.workflow.yaml_file import load_file

_CRD = "operator/deployment/helm/dask-kubernetes-operator/crds/daskcluster.yaml"
#: What a template need not have although a pod must: the run has it.
_FROM_THE_RUN = (("spec",), ("spec", "containers", 0))
#: Types of the schema: the type in Python, and its name in a message.
_TYPES: dict[str, tuple[Any, str]] = {
    "object": (Mapping, "a section"),
    "array": (list, "a list"),
    "string": (str, "text"),
    "integer": (int, "an integer"),
    "boolean": (bool, "`true` or `false`"),
}
#: Fields that only a run sets, also where it leaves them out.
_REFUSED = ("args", "nvidia.com/gpu")
#: Fields that a template cannot change in part.
_WHOLE = ("command", "livenessProbe", "readinessProbe")
#: What a workflow sets such a field with.
_KEYS = {
    "image": "kubernetes.image",
    "cpu": "threads_per_worker",
    "memory": "memory_limit",
    "nvidia.com/gpu": "kubernetes.gpus",
    "serviceAccountName": "kubernetes.service_account",
}


def merge_template(pod: dict[str, Any], given: str | Plain | None, key: str) -> None:
    """Add the template `given` to `pod`, the part of a scheduler or a worker of the operator's resource.

    Sections are merged, and lists appended. The first container of the template is merged with the one of Dask.

    Parameters
    ----------
    pod
        It has the keys `metadata` and `spec`, and is changed.
    given
        The URL of a YAML file, or its content. None changes nothing.
    key
        The key of `cluster.kubernetes` that has the template.

    Raises
    ------
    InputError
        The file cannot be read, has a field that pods of the operator do not have, or a value of another type, or sets
        what the run sets. The message has a line for each fault.
    """
    if given is None:
        return

    def contradictions(data: Plain) -> Iterator[Contradiction]:
        parts = {part: data[part] for part in ("metadata", "spec") if isinstance(data.get(part), Mapping)}
        faults = [fault for part in parts for fault in _faults(parts[part], _schema()[part], (part,))]
        yield from faults or _merged(deepcopy(pod), parts, ())

    if isinstance(given, str):
        hint = "write `spec:` and the fields of a pod below it"
        template = load_file(given, PodTemplate, contradictions, hint=hint)
    else:
        where = f"`cluster.kubernetes.{key}`"
        template = validated(dict(given), Document({}), where, PodTemplate, contradictions)
    conflicts = list(_merged(pod, {"metadata": template.metadata, "spec": template.spec}, ()))
    assert not conflicts


@cache
def _schema() -> dict[str, Any]:
    """Return the schema of `metadata` and `spec` of the pods of Dask's operator."""
    text = (files("dask_kubernetes") / _CRD).read_text(encoding="utf-8")
    crd = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    found: dict[str, Any] = schema["properties"]["spec"]["properties"]["worker"]["properties"]
    return found


def _faults(value: Any, schema: dict[str, Any], path: Path) -> Iterator[Contradiction]:
    """Yield where `value` differs from `schema`."""
    kind = schema.get("type", "")
    type_, name = _TYPES.get(kind, (object, ""))
    if schema.get("format") == "int-or-string":
        type_, name = int | str, "an integer or text"
    if not isinstance(value, type_) or (isinstance(value, bool) and type_ not in (bool, object)):
        hint = "put it into quotes" if name == "text" and isinstance(value, int | float) else f"write {name}"
        yield Contradiction(path, f"`{dotted(path)}` is {value_text(value)}, wanted {name}", hint)
    elif kind == "array":
        for i, entry in enumerate(value):
            yield from _faults(entry, schema["items"], (*path, i))
    elif kind == "object":
        fields, others = schema.get("properties", {}), schema.get("additionalProperties", {})
        needed = set() if path in _FROM_THE_RUN else set(schema.get("required", ())) - value.keys()
        for field in sorted(field for field in needed if "default" not in fields[field]):
            yield Contradiction(path, f"no field `{field}` in `{dotted(path)}`", "add it")
        for field, inner in value.items():
            if fields and field not in fields:
                hint = f"{did_you_mean(str(field), [*fields])}Fields: {', '.join(sorted(fields))}"
                text = f"unknown field `{field}` in `{dotted(path)}`"
                yield Contradiction((*path, field), text, hint)
            else:
                yield from _faults(inner, fields.get(field, others), (*path, field))


def _merged(pod: dict[str, Any], given: Plain, path: Path) -> Iterator[Contradiction]:
    """Merge `given` into `pod`; yield each field that the run sets itself."""
    for field, value in given.items():
        here = (*path, field)
        if field in _REFUSED:
            yield _of_the_run(here, field)
        elif field not in pod:
            pod[field] = value
        elif path == ("spec",) and field == "containers":
            first = {name: inner for name, inner in value[0].items() if name != "name"} if value else {}
            yield from _merged(pod[field][0], first, (*here, 0))
            pod[field] = pod[field] + value[1:]
        elif isinstance(value, Mapping) and field not in _WHOLE:
            yield from _merged(pod[field], value, here)
        elif isinstance(value, list) and field not in _WHOLE:
            names = {entry.get("name") for entry in pod[field]} - {None}
            for i, entry in enumerate(value):
                if (name := entry.get("name")) in names:
                    yield _of_the_run((*here, i), name)
            pod[field] = pod[field] + value
        elif value != pod[field]:
            yield _of_the_run(here, field)


def _of_the_run(path: Path, field: str) -> Contradiction:
    named = f" `{field}`" if isinstance(path[-1], int) else ""
    key = f": `cluster.{_KEYS[field]}` sets it" if field in _KEYS else ""
    return Contradiction(path, f"the run sets `{dotted(path)}`{named} itself", f"remove it{key}")
