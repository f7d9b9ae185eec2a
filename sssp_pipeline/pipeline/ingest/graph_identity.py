"""Graph identity: compares the input and the options of a stored graph with those of a workflow.

A store holds one graph. The same input with the same options is the same graph. If the content of the input has
changed, it is a new version of that graph.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.generators import is_generated
from sssp_pipeline.pipeline.graph_store.manifest import Manifest, StoreManifest
from sssp_pipeline.pipeline.graph_store.store import READER
from sssp_pipeline.storage import files as storage
from sssp_pipeline.storage.redaction import without_secrets
from sssp_pipeline.workflow.graph import Graph, seen_from

#: Options in a manifest that do not belong to the identity of the graph.
_NOT_OF_THE_GRAPH = ("reader", "max_line_bytes", "from_store")
#: The key in the options of a manifest for the local files of the input and the coordinates, seen from the store.
_FROM_STORE = "from_store"
#: Options that are URLs.
_URLS = ("input", "coordinates", "coordinates.file")


def input_files(spec: Graph, *, whole: bool = False) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the URLs to read, and their fingerprints; with `whole`, also the SHA-256 of each file.

    Raises
    ------
    InputError
        A file is missing, or a glob matches nothing.
    """
    if any(is_generated(url) for url in spec.inputs):
        return spec.inputs, [{"url": url} for url in spec.inputs]
    urls = storage.expand(spec.inputs)
    read = [*urls, spec.positions.file] if spec.positions else urls
    found = [storage.fingerprint(url) for url in read]
    if whole:
        found = [one | {"sha256": _sha256(url)} for url, one in zip(read, found, strict=True)]
    return urls, found


def _sha256(url: str) -> str:
    with storage.open_read(url) as file, storage.reading(url):
        return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def options_of(spec: Graph, store: str | None = None) -> dict[str, Any]:
    """Return the options of `spec` for a manifest: its options and its input without secrets, and the `READER`.

    With the URL of the `store`, they also have the places of the files seen from there. So a run that is started in
    another folder, and writes the paths in another way, finds the same graph.
    """
    options = spec.model_dump(mode="json", exclude={"store", "memory", "changes"})
    options["input"] = [storage.redacted(url) for url in spec.inputs]
    if spec.positions is not None:
        file = storage.redacted(spec.positions.file)
        options["coordinates"] = {"file": file, **spec.positions.names} if spec.positions.names else file
    if store is not None:
        options[_FROM_STORE] = seen_from(store, {key: options[key] for key in ("input", "coordinates")})
    return _without_secrets(options) | {"reader": READER}


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_secrets(item) for key, item in value.items()}
    return without_secrets(value) if isinstance(value, str) else value


def is_up_to_date(manifest: Manifest, inputs: list[dict[str, Any]]) -> bool:
    """Return whether this `READER` made the stored graph, and `inputs` have the fingerprints that it had then.

    If the SHA-256 of a file is known, it decides. A file that was stored without it counts as changed.
    """
    return manifest.options.get("reader") == READER and _decisive(manifest.inputs, inputs) == _decisive(
        inputs, inputs
    )


def _decisive(inputs: list[dict[str, Any]], asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return of each file what tells whether it has changed, if the files `asked` have this known."""
    if any("sha256" in file for file in asked):
        return [{"name": _name_of(file), "sha256": file.get("sha256")} for file in inputs]
    return [
        {key: value for key, value in file.items() if key not in ("url", "sha256")} | {"name": _name_of(file)}
        for file in inputs
    ]


def _name_of(file: dict[str, Any]) -> str:
    """Return the URL of a file, or the name of a local file: `check_same_graph` has compared the paths."""
    return str(file["url"]) if "://" in str(file["url"]) else str(file["url"]).rpartition("/")[2]


def check_same_graph(store: str, manifest: StoreManifest, specs: dict[str | None, Graph]) -> None:
    """Raise `InputError` if the stored graph is another one than in `specs`; the message names the differing options.

    `specs` has the section of the graph with each of its weights, by the name of the weight.
    """
    stored = manifest.by_weight
    if stored.keys() != specs.keys():
        differ = [f"it has {_names_text(stored)}, not {_names_text(specs)}"]
    else:
        differ = [
            f"`graph.{key}` is {_value_text(old)} there and {_value_text(new)} here"
            + (f" for the weight `{name}`" if name is not None else "")
            for name, spec in specs.items()
            for key, old, new in _different_options(stored[name], spec, store)
        ]
    if differ:
        raise InputError(
            f"`{storage.redacted(store)}` holds another graph: {'; '.join(differ)}",
            hint="name another `graph.store`, or leave it out: the default differs with the options",
        )


def _names_text(by_weight: Mapping[str | None, Any]) -> str:
    names = [f"`{name}`" for name in by_weight if name is not None]
    return f"the weights {', '.join(names)}" if names else "one weight without a name"


def _different_options(manifest: Manifest, spec: Graph, store: str) -> list[tuple[str, Any, Any]]:
    """Return key, stored value and value in `spec` of each option that differs."""
    old, new = _flat(manifest.options), _flat(options_of(spec, store))
    return [
        (key, old.get(key), new.get(key))
        for key in dict.fromkeys([*new, *old])
        if key.partition(".")[0] not in _NOT_OF_THE_GRAPH and not _is_same(key, old, new)
    ]


def _flat(options: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested options as one dict with dotted keys: `{"weights.unit": …}`."""
    flat: dict[str, Any] = {}
    for key, value in options.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat


def _is_same(key: str, old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Return whether two options are the same, or name the same files, as seen from the current folder or the store."""
    seen = f"{_FROM_STORE}.{key}"
    if key not in _URLS or old.get(key) == new.get(key):
        return bool(old.get(key) == new.get(key))
    return _absolute(old.get(key)) == _absolute(new.get(key)) or (
        old.get(seen) is not None and old.get(seen) == new.get(seen)
    )


def _absolute(value: Any) -> Any:
    """Return a URL, or a list of URLs, with local paths made absolute, so that equal files compare equal."""
    if isinstance(value, list):
        return [_absolute(item) for item in value]
    if isinstance(value, str) and "://" not in value:
        return os.path.abspath(value)  # noqa: PTH100 (as text: a pattern is no path)
    return value


def _value_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_value_text, value))
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"
