"""From the text of a workflow file to a `Workflow`, or to one error that lists every fault with its line.

`workflow_from_options` makes one from command-line options instead; its faults name the option. `workflow_yaml` writes
one down. `load_file` reads any other YAML file that is described by a `Section`.

The YAML is read as nodes, not as values, because only nodes know their lines. Scalars follow YAML 1.2 (`off`
is text, `1e3` a number), which is what the reader of a file expects; aliases and tags have no use here and
are refused. Faults are gathered in three places, then reported together: while nodes become values
(duplicate keys, environment variables), by the models (unknown keys, wrong values), and by `contradictions`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar, cast

import yaml
from pydantic import ValidationError

from sssp_pipeline.errors import InputError, did_you_mean
from sssp_pipeline.pipeline.storage.files import (
    STANDARD_INPUT,
    open_read,
    reading,
    redacted,
)
from sssp_pipeline.pipeline.storage.pipes import is_of_process
from sssp_pipeline.workflow.models import (
    Workflow,
    contradictions,
    dotted,
    files_read,
)
from sssp_pipeline.workflow.schema import (
    choices,
    properties,
    schema_at,
    wanted,
)
from sssp_pipeline.workflow.section import Path, Section

Model = TypeVar("Model", bound=Section)
Contradictions = Callable[[Mapping[str, Any]], Iterable[tuple[Path, str, str]]]

#: A longer file is no workflow. To read one takes 100 times its size in memory, and five seconds a megabyte.
MAX_FILE_BYTES = 4 << 20
#: A list of ids can hold thousands of wrong entries; nobody reads more faults than this.
MAX_FAULTS_SHOWN = 20

_TAGS = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map"))
_VARIABLE = re.compile(r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})?")
#: A name in braces, but not that of an environment variable.
_IN_BRACES = re.compile(r"(?<!\$)\{([^{}]*)\}")
_NULL = re.compile(r"|~|null|Null|NULL")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
# No longer than what a float can hold, so that every number may become one.
_INT = re.compile(r"[-+]?[0-9]{1,300}|0x[0-9a-fA-F]{1,200}|0o[0-7]{1,200}")
_FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)


def load_workflow(
    url: str, overrides: Sequence[str] = (), environ: Mapping[str, str] = os.environ
) -> Workflow:
    """Return the workflow in the YAML file at `url`.

    Parameters
    ----------
    url
        Any fsspec URL or local path.
    overrides
        `key=value` each, the key with dots (`solve.delta=500`), the value as YAML; they win over the file.
    environ
        Variables for `${NAME}` and `${NAME:-default}` in values; `$${` stands for a plain `${`.

    Raises
    ------
    InputError
        The file cannot be read, is no YAML, or does not describe a run; the message has a line per fault.
    """
    data, document, shown = _read(
        url, overrides, environ, "`sssp-pipeline init` writes a workflow to start from"
    )
    if url == STANDARD_INPUT:
        for path, read in files_read(data):
            if read == STANDARD_INPUT:
                raise InputError(
                    f"{document.place(path) or shown}: `{dotted(path)}` is `-`, and standard input is the workflow",
                    hint="name a file for one of them",
                )
    file_name = _file_name(url)
    data.setdefault("name", file_name.rpartition(".")[0] or file_name)
    return _workflow(data, document, shown)


def load_file(
    url: str,
    model: type[Model],
    contradictions: Contradictions,
    overrides: Sequence[str] = (),
    environ: Mapping[str, str] = os.environ,
    *,
    hint: str,
) -> Model:
    """Return the `model` in the YAML file at `url`, which is read as a workflow is.

    Parameters
    ----------
    url, overrides, environ
        As for `load_workflow`.
    model
        What the file is to hold.
    contradictions
        Given the plain values, not necessarily valid ones, yields where, what and a hint for each fault that the types
        of the model do not show.
    hint
        Where to find out what such a file holds, for one that is empty.

    Raises
    ------
    InputError
        As `load_workflow`.
    """
    return _validated(*_read(url, overrides, environ, hint), model, contradictions)


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
        The values of `--from` and `--to`: ids, one file of ids, `all`, `random:64` or `top-degree:10`. `id:` and
        `file:` before a value say which of the two it is. No targets means every vertex.
    output
        The value of `--out`, None where `overrides` give `output.path`.
    overrides, environ
        As for `load_workflow`.

    Raises
    ------
    InputError
        A value could be an id and a file, or contradicts another; or as `load_workflow`, with the option in place of a
        line.
    """
    document = _Document(environ)
    data: dict[str, Any] = {"version": 1, "name": _name_of(edges[0])}
    data["graph"] = {"input": edges[0] if len(edges) == 1 else list(edges)}
    document.places["graph",] = f"`{redacted(edges[0])}`"
    for i, url in enumerate(edges):
        document.places["graph", "input", i] = f"`{redacted(url)}`"
    data["sources"] = _vertices_of("--from", sources)
    document.places["sources",] = "`--from`"
    if output is not None:
        data["output"] = {"path": output}
        document.places["output",] = "`--out`"
    chosen = _vertices_of("--to", targets)
    if chosen != {"all": True} and targets:
        data.setdefault("output", {})["targets"] = chosen
        document.places["output", "targets"] = "`--to`"
    for override in overrides:
        document.override(data, override)
    if not isinstance(data.get("output"), dict) or data["output"].get("path") is None:
        raise InputError("no folder is named for the results", hint="add `--out results`")
    return _workflow(data, document, "command line")


def _name_of(url: str) -> str:
    """Return what a run is called whose first edge list is at `url`: the file's name without its endings."""
    name = re.split("[.?]", _file_name(url))[0]
    return name if re.search(r"\w", name) else "workflow"


def _file_name(url: str) -> str:
    """Return the last part of `url`; "pipe" for `<(commands)`, whose last part is a number that changes by chance."""
    return "pipe" if is_of_process(url) else redacted(url).rpartition("/")[2]


#: Endings by which a value is taken for a file, also where the file is missing.
_FILE_ENDINGS = (".txt", ".csv", ".tsv", ".parquet", ".gz", ".zst", ".bz2", ".xz")


def _vertices_of(option: str, words: Sequence[str]) -> dict[str, Any]:
    """Return the section `sources` or `output.targets` that the values `words` of `option` mean; empty without any."""
    chosen = [_one_choice(option, word) for word in words]
    if all(kind == "ids" for kind, _ in chosen):
        return {"ids": [value for _, value in chosen]} if chosen else {}
    if len(chosen) > 1:
        other = next(word for word, (kind, _) in zip(words, chosen, strict=True) if kind != "ids")
        raise InputError(
            f"`{option} {redacted(other)}` stands beside {len(chosen) - 1} more `{option}`",
            hint=f"only ids may be repeated: give ids alone, or one `{option}` of another kind",
        )
    return dict(chosen)


def _one_choice(option: str, word: str) -> tuple[str, Any]:
    """Return the key of the section `sources`, and its value, that one value of `option` means."""
    prefix, _, rest = word.partition(":")
    if prefix == "id":
        return "ids", rest
    if prefix == "file" and not rest.startswith("//"):
        return "file", rest
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


def workflow_yaml(workflow: Workflow) -> str:
    """Return the text of a workflow file that describes `workflow`: what was given, no defaults.

    Values of the environment stand there as `${NAME}`.

    Raises
    ------
    InputError
        A URL holds a secret that did not come from the environment.
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
    if isinstance(written, str) and _holds_secret(written):
        key = dotted(path)
        raise InputError(
            f"`{key}` is `{redacted(written)}` with a secret, which a file is not to hold",
            hint=f"put the URL into an environment variable and write `--set '{key}=${{NAME}}'`, or do not save the "
            "workflow",
        )
    if path in unexpanded:
        # Quoted, the result would be text.
        return _yaml_text(unexpanded[path]) if isinstance(value, str) else unexpanded[path]
    return _yaml_text(value.replace("${", "$${")) if isinstance(value, str) else json.dumps(value)


def _holds_secret(url: str) -> bool:
    """Return whether `url`, as it was written, has a user, a password or a query that is no `${NAME}`."""
    if "://" not in url:
        return False
    bare = re.sub(r"[^?&#]*=(?=&|$)", "", _VARIABLE.sub("", url)).rstrip("?&").replace("://:@", "://")
    return redacted(bare) != bare


def _yaml_text(text: str) -> str:
    """Return `text` in double quotes, in which YAML and JSON agree; what YAML does not print is escaped."""
    quoted = json.dumps(text, ensure_ascii=False)
    return yaml.reader.Reader.NON_PRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


def workflow_from_dict(data: Mapping[str, Any]) -> Workflow:
    """Return the workflow that `data` describes, with the keys of the file; nothing is expanded.

    Raises
    ------
    InputError
        As `load_workflow`; faults have no line.
    """
    return _workflow(dict(data), _Document({}), "workflow")


def _workflow(data: dict[str, Any], document: _Document, where: str) -> Workflow:
    output = data.get("output")
    written = str(output.get("path")) if isinstance(output, Mapping) else ""
    now, name = _now(), str(data.get("name") or Workflow.model_fields["name"].default)
    for path, values in (
        (("output", "path"), {"date": f"{now:%Y-%m-%d}", "time": f"{now:%H%M%S}", "name": name}),
        (("graph", "store"), {"name": name}),
    ):
        _fill_in(data, document, where, path, values)
    workflow = _validated(data, document, where, Workflow, contradictions)
    workflow._unexpanded.update(document.unexpanded)
    workflow._is_dated = "{date}" in written or "{time}" in written
    return workflow


def _now() -> datetime:
    """Return the local time, of which `{date}` and `{time}` are made."""
    return datetime.now().astimezone()


def _fill_in(
    data: dict[str, Any], document: _Document, where: str, path: tuple[str, str], values: dict[str, str]
) -> None:
    """Put `values` in the place of `{their names}` in the text at `path` of `data`; note a fault for another name."""
    section, key = path
    within = data.get(section)
    text = within.get(key) if isinstance(within, Mapping) else None
    if not isinstance(text, str) or document.is_broken(path):
        return
    for name in _IN_BRACES.findall(text):
        if name not in values:
            secret = f"{{{name}}}" not in document.unexpanded.get(path, text)
            fault = f"`{dotted(path)}` has `{{{'…' if secret else name}}}`, which stands for nothing"
            known = ", ".join(f"`{{{name}}}`" for name in values)
            place = document.place(path) or where
            document.faults.append(_Fault(path, place, fault, f"known here: {known}"))
            return

    def filled(text: str) -> str:
        return _IN_BRACES.sub(lambda match: values.get(match[1], match[0]), text)

    data[section] = {**data[section], key: filled(text)}
    if path in document.unexpanded:  # what run.json shows of it
        document.unexpanded[path] = filled(document.unexpanded[path])


def _read(
    url: str, overrides: Sequence[str], environ: Mapping[str, str], hint: str
) -> tuple[dict[str, Any], _Document, str]:
    """Return the keys and values of a file and its overrides, what is known of their places, and the file's name."""
    shown = f"`{redacted(url)}`"
    document = _Document(environ)
    with reading(url), open_read(url) as stream:
        content = stream.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise InputError(
            f"{shown} is longer than {MAX_FILE_BYTES:,} bytes, the most that a file of this kind may have",
            hint="put long lists of ids in a file of their own: `sources: {file: ids.txt}`; an edge list is run with "
            "`--from` and `--out`",
        )
    text = _decoded(content, shown)
    data = document.read(text, (), lambda line: f"{shown} line {line}")
    if not isinstance(data, dict):
        raise InputError(
            f"{shown} is empty" if data is None else f"{shown} holds {_shown(data)}, wanted keys and values",
            hint=hint,
        )
    for override in overrides:
        document.override(data, override)
    return data, document, shown


@dataclass(frozen=True)
class _Fault:
    path: Path
    place: str
    text: str
    hint: str


@dataclass
class _Document:
    """What must be remembered about the text that values came from.

    Attributes
    ----------
    places
        File and line, or `--set`, of each key and list item.
    unexpanded
        Strings as they were written, where a value of the environment went into them.
    faults
        What kept a node from becoming a value; None stands in the value's place.
    """

    environ: Mapping[str, str]
    places: dict[Path, str] = field(default_factory=dict)
    unexpanded: dict[Path, str] = field(default_factory=dict)
    faults: list[_Fault] = field(default_factory=list)

    def read(self, text: str, path: Path, place: Callable[[int], str]) -> Any:
        """Return the value at `path` that the YAML `text` stands for; `place` words a 1-based line."""
        try:
            node = yaml.compose(text, _NodeLoader)
            return None if node is None else self._value(node, path, place)
        except yaml.YAMLError as error:
            raise _syntax_error(error, text, place) from error
        except RecursionError as error:
            raise InputError(
                f"{place(1)}: nested too deeply", hint="check its brackets: a workflow has four levels"
            ) from error

    def override(self, data: dict[str, Any], override: str) -> None:
        """Put the value of `override`, `key=value`, into `data`, and forget what stood there."""
        key, equals, text = override.partition("=")
        place = f"`--set {key}`"
        if not equals:
            raise InputError(f"{place} has no value", hint=f"write `--set {key}=VALUE`")
        path = tuple(key.strip().split("."))
        if not all(path):
            raise InputError(
                f"`--set {redacted(override)}` names no key",
                hint="write `--set KEY=VALUE`: `--set solve.delta=500`",
            )
        depth = len(path)
        self.places = {p: v for p, v in self.places.items() if p[:depth] != path}
        self.unexpanded = {p: v for p, v in self.unexpanded.items() if p[:depth] != path}
        self.faults = [fault for fault in self.faults if fault.path[:depth] != path]
        section: dict[str, Any] = data
        for i, step in enumerate(path[:-1], start=1):
            if not isinstance(section.get(step), dict):
                section[step] = {}
                self.places[path[:i]] = place
            section = section[step]
        section[path[-1]] = self.read(text, path, lambda _: place)
        self.places[path] = place

    def place(self, path: Path) -> str | None:
        """Return the innermost known place around `path`."""
        return next((self.places[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.places), None)

    def as_written(self, text: str, data: dict[str, Any]) -> str:
        """Return a message with `${NAME}` in place of the values of `data` that came from the environment."""
        for path, written in self.unexpanded.items():
            value = str(_at(data, path))
            for shown in (value, redacted(value)):
                text = text.replace(f"`{shown}`", f"`{written}`")
        return text

    def is_broken(self, path: Path) -> bool:
        """Return whether a fault is known of `path` or of something around it."""
        return any(path[: len(fault.path)] == fault.path for fault in self.faults)

    def _value(self, node: yaml.Node, path: Path, place: Callable[[int], str]) -> Any:
        here = place(node.start_mark.line + 1)
        if node.tag not in _TAGS:
            self.faults.append(
                _Fault(path, here, f"tag `{node.tag}` is not allowed", "write the plain value")
            )
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, place)
        if isinstance(node, yaml.SequenceNode):
            for i, item in enumerate(node.value):
                self.places[*path, i] = place(item.start_mark.line + 1)
            return [self._value(item, (*path, i), place) for i, item in enumerate(node.value)]
        scalar = cast(yaml.ScalarNode, node)
        text = self._expanded(scalar.value, path, here)
        is_quoted = scalar.style is not None
        return text if is_quoted or text is None else _plain_value(text)

    def _mapping(self, node: yaml.MappingNode, path: Path, place: Callable[[int], str]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        no_value = (*path, "")  # such keys break the section, but none of the values in it
        for key_node, value_node in node.value:
            here = place(key_node.start_mark.line + 1)
            if not isinstance(key_node, yaml.ScalarNode):
                self.faults.append(_Fault(no_value, here, "a key is not text", "write `key: value`"))
                continue
            key = key_node.value
            if key in values:
                self.faults.append(_Fault(no_value, here, f"key `{key}` stands twice", "keep one of them"))
                continue
            self.places[*path, key] = here
            values[key] = self._value(value_node, (*path, key), place)
        return values

    def _expanded(self, text: str, path: Path, here: str) -> str | None:
        """Return `text` with environment variables in place of their names, or None after a fault."""
        values: list[str] = []
        for match in _VARIABLE.finditer(text):
            name, default = match.groups()
            if match.group() == "$${":
                values.append("${")
            elif name is None:
                fault = f"`{text}` has a `${{` that names no variable"
                hint = "write `${NAME}`, or `$${` for a plain `${`"
                self.faults.append(_Fault(path, here, fault, hint))
                return None
            elif name in self.environ and (self.environ[name] or default is None):
                values.append(self.environ[name])
                self.unexpanded[path] = text
            elif default is not None:
                values.append(default)
            else:
                fault = f"environment variable `{name}` is not set"
                hint = f"set it, or give a default: `${{{name}:-value}}`"
                self.faults.append(_Fault(path, here, fault, hint))
                return None
        in_order = iter(values)
        return _VARIABLE.sub(lambda _: next(in_order), text)


class _NodeLoader(yaml.BaseLoader):
    """Composes nodes and leaves scalars alone; no alias, which would let a few bytes stand for gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.get_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(
                problem=f"alias `*{event.anchor}` is not allowed", problem_mark=event.start_mark
            )
        return super().compose_node(parent, index)


def _plain_value(text: str) -> Any:
    """Return the value of an unquoted scalar by the core schema of YAML 1.2."""
    if _NULL.fullmatch(text):
        return None
    if _BOOL.fullmatch(text):
        return text.lower() == "true"
    if _INT.fullmatch(text):
        return int(text[2:], 16 if text[1] == "x" else 8) if text[1:2] in ("x", "o") else int(text)
    if _FLOAT.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text


def _decoded(content: bytes, where: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{where} line {line}: byte 0x{content[error.start]:02x} is not UTF-8",
            hint="save the file as UTF-8",
        ) from error


def _syntax_error(error: yaml.YAMLError, text: str, place: Callable[[int], str]) -> InputError:
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        problem = f"character U+{error.character:04X} is not allowed"
    else:
        marked = cast(yaml.MarkedYAMLError, error)
        line = marked.problem_mark.line + 1 if marked.problem_mark else 1
        problem = str(marked.problem)
    hint = "check indentation, quotes and brackets there"
    if any(at_fault.rstrip().endswith(": -") for at_fault in text.splitlines()[line - 1 : line]):
        hint = "for standard input write `'-'`, with quotes"
    if "'\\t'" in problem:
        hint = "indent with spaces"
    elif any("${" in at_fault for at_fault in text.splitlines()[line - 1 : line]):
        hint = "inside `{ }` YAML reads the brace of `${NAME}`: give that value a line of its own"
    return InputError(f"{place(line)}: not valid YAML: {problem}", hint=hint)


def _validated(
    data: dict[str, Any],
    document: _Document,
    where: str,
    model: type[Model],
    contradictions: Contradictions,
) -> Model:
    """Return the model of `data`, or raise one error with all faults of the document and the models."""
    faults = list(document.faults)
    validated = None
    try:
        validated = model.model_validate(data)
    except ValidationError as error:
        faults += _model_faults(error, data, document, where, model)
    faults += [
        _Fault(path, document.place(path) or where, document.as_written(text, data), hint)
        for path, text, hint in contradictions(data)
        if not document.is_broken(path)
    ]
    if faults or validated is None:
        raise _combined(faults, where)
    return validated


def _model_faults(
    error: ValidationError, data: dict[str, Any], document: _Document, where: str, model: type[Section]
) -> Iterator[_Fault]:
    """Yield a fault for each place the models refuse, however many alternatives of a union refused it."""
    problems: dict[Path, str] = {}
    for detail in error.errors(include_url=False, include_context=False):
        if detail["type"] != "value_error":  # a contradiction: the caller reports it with its line
            problems.setdefault(_data_path(detail["loc"], data, detail["type"]), detail["type"])
    for path, problem in problems.items():
        holds_another = any(other[: len(path)] == path and other != path for other in problems)
        if holds_another or document.is_broken(path):
            continue
        place, section = document.place(path) or where, path[:-1]
        in_section = f" in `{dotted(section)}`" if section else ""
        if problem == "missing":
            hint = f"add `{path[-1]}`: {_meaning(schema_at(path, model))}"
            yield _Fault(path, place, f"no key `{path[-1]}`{in_section}", hint)
        elif problem == "extra_forbidden":
            known = list(properties(schema_at(section, model)))
            hint = did_you_mean(str(path[-1]), known) + "Keys: " + ", ".join(known)
            yield _Fault(path, place, f"unknown key `{path[-1]}`{in_section}", hint)
        else:
            part, value = schema_at(path, model), _at(data, path)
            shown = _shown(document.unexpanded.get(path, value))
            close = did_you_mean(value, choices(part)).strip() if isinstance(value, str) else ""
            meaning = f"correct `{dotted(path)}`: {_meaning(part) or 'write ' + wanted(part)}"
            yield _Fault(path, place, f"`{dotted(path)}` is {shown}, wanted {wanted(part)}", close or meaning)


def _meaning(part: dict[str, Any]) -> str:
    """Return what a part of the schema says of a key, in one line."""
    return " ".join(part.get("description", "").split())


def _combined(faults: list[_Fault], where: str) -> InputError:
    if len(faults) == 1:
        return InputError(f"{faults[0].place}: {faults[0].text}", hint=faults[0].hint)
    faults = sorted(faults, key=lambda fault: [int(n) for n in re.findall(r" line (\d+)$", fault.place)])
    shown = faults[:MAX_FAULTS_SHOWN]
    lines = [f"{fault.place}: {fault.text}" for fault in shown]
    if len(faults) > len(shown):
        lines.append(f"{where}: and {len(faults) - len(shown)} more")
    hints = [f"{fault.place.removeprefix(where + ' ')}: {fault.hint}" for fault in shown]
    return InputError("\n".join(lines), hint="\n".join(hints))


def _data_path(loc: tuple[str | int, ...], data: Any, problem: str) -> Path:
    """Return the place in `data` that pydantic's `loc` speaks of, without the names of union alternatives."""
    path: Path = ()
    for step in loc:
        in_section = isinstance(data, Mapping) and step in data
        in_list = isinstance(data, list | tuple) and isinstance(step, int)
        if in_section or in_list:
            data = data[step]
            path = (*path, step)
    return (*path, loc[-1]) if problem == "missing" else path


def _at(data: Any, path: Path) -> Any:
    for step in path:
        data = data[step]
    return data


def _shown(value: Any) -> str:
    if value is None or value == "":
        return "empty"
    if isinstance(value, Mapping):
        return "a section"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    text = redacted(value) if isinstance(value, str) and "://" in value else str(value)
    return f"`{text if len(text) <= 60 else text[:60] + '…'}`"
