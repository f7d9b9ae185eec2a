"""The models by themselves: defaults, contradictions, what goes into run.json."""

from __future__ import annotations

import json
import pickle

import pytest
import yaml
from pydantic import ValidationError

from sssp_pipeline.errors import InputError
from sssp_pipeline.workflow.models import Workflow
from sssp_pipeline.workflow.schema import schema, schema_at, wanted
from sssp_pipeline.workflow.yaml_file import workflow_from_dict


def described(**sections) -> dict:
    """The least a workflow must say, with keys of some sections added."""
    least = {"graph": {"input": "edges.txt"}, "sources": {"all": True}, "output": {"path": "out"}}
    for name, values in sections.items():
        least[name] = {**least.get(name, {}), **values} if isinstance(values, dict) else values
    return least


def test_everything_but_input_sources_and_output_has_a_default():
    workflow = workflow_from_dict(described())
    assert workflow.graph.inputs == ["edges.txt"]
    assert workflow.sources.kind == "all"
    assert workflow.store == f"out-graph-{workflow.graph.digest}"
    assert (workflow.solve.retries, workflow.verify, workflow.report) == (2, "sample", True)


@pytest.mark.parametrize(
    ("sources", "kind"),
    [
        ({"ids": [3, 1]}, "ids"),
        ({"ids": ["a", "b"]}, "ids"),
        ({"file": "sources.txt"}, "file"),
        ({"random": {"count": 5}}, "random"),
        ({"top_degree": 5}, "top_degree"),
        ({"all": True}, "all"),
    ],
)
def test_each_kind_of_sources(sources, kind):
    assert workflow_from_dict({**described(), "sources": sources}).sources.kind == kind


def test_numbers_are_kept_as_they_were_written():
    workflow = workflow_from_dict(described(solve={"cutoff": 2**60 + 1, "delta": 0.5}))
    assert workflow.solve.cutoff == 2**60 + 1
    assert workflow.solve.delta == 0.5


def test_a_store_of_its_own():
    assert workflow_from_dict(described(graph={"store": "s3://bucket/graph"})).store == "s3://bucket/graph"
    beside = workflow_from_dict(described(output={"path": "s3://bucket/run/"}))
    assert beside.store == f"s3://bucket/run-graph-{beside.graph.digest}"


def test_the_default_store_is_another_for_every_graph_and_stays_the_same_for_one():
    # Written down, so that no release gives a workflow another store by accident.
    assert workflow_from_dict(described()).store == "out-graph-133b638f"
    same = [
        {"input": ["./edges.txt"]},
        {"directed": True},
        {"weights": {"dtype": "auto", "unit": None}},
        {"columns": {}},
        {"store": None},
    ]
    other = [
        {"input": "other.txt"},
        {"input": ["edges.txt", "other.txt"]},
        {"directed": False},
        {"weights": {"unit": "m"}},
        {"weights": {"dtype": "float32"}},
        {"coordinates": "edges.co"},
    ]
    stores = [workflow_from_dict(described(graph=graph)).store for graph in [{}, *same]]
    assert set(stores) == {stores[0]}
    assert len({stores[0], *(workflow_from_dict(described(graph=graph)).store for graph in other)}) == 7


def test_a_secret_of_a_url_does_not_change_the_default_store():
    urls = [f"https://user:{secret}@host/edges.gr?token={secret}" for secret in ("a", "b")]
    stores = {workflow_from_dict(described(graph={"input": url})).store for url in urls}
    assert len(stores) == 1


def test_a_workflow_is_frozen_and_pickles():
    workflow = workflow_from_dict(described())
    with pytest.raises(ValidationError, match="frozen"):
        workflow.verify = "off"
    assert pickle.loads(pickle.dumps(workflow)) == workflow


@pytest.mark.parametrize(
    ("sections", "message", "hint"),
    [
        (
            {"sources": {"ids": [1], "file": "f"}},
            "`sources` has `ids` and `file` and `all`",
            "keep one; `--set 'sources={…}'` replaces all",
        ),
        (
            {"cluster": {"kind": "address"}},
            "kind `address` needs `cluster.address`",
            "add `address: tcp://host:8786`",
        ),
        (
            {"cluster": {"kind": "local-cpu", "address": "tcp://a:1"}},
            "`cluster.address` is not used with kind `local-cpu`",
            "set `cluster.kind: address`, or remove it",
        ),
        (
            {"cluster": {"address": "tcp://a:1"}},
            "`cluster.address` is not used with kind `auto`",
            "set `cluster.kind: address`, or remove it",
        ),
        (
            {"cluster": {"kind": "address", "address": "tcp://a:1", "workers": 4}},
            "`cluster.workers` is not used with kind `address`",
            "remove it: the workers of that cluster run already",
        ),
        (
            {"cluster": {"kind": "local-cuda", "slurm": {"gpus": 1}}},
            "`cluster.slurm` is not used with kind `local-cuda`",
            "set `cluster.kind: slurm`, or remove it",
        ),
        (
            {"cluster": {"workers": {"maximum": 4}}},
            "kind `auto` has a fixed number of workers, not a range",
            "give a number, or set `cluster.kind: slurm` or `kubernetes`",
        ),
        (
            {"cluster": {"kind": "slurm", "memory_limit": "4GB", "workers": {"minimum": 5, "maximum": 4}}},
            "`minimum` is `5`, above `maximum`, which is `4`",
            "exchange them",
        ),
        (
            {"cluster": {"kind": "slurm"}},
            "kind `slurm` needs `cluster.memory_limit`: the memory of each worker",
            "add `memory_limit: 16GB`, or what `sssp-pipeline plan` says a worker needs",
        ),
        (
            {"cluster": {"kind": "kubernetes", "memory_limit": "4GB"}},
            "kind `kubernetes` needs an image with sssp-pipeline",
            "add `kubernetes: {image: registry/sssp-pipeline:0.1.0}`",
        ),
        (
            {"cluster": {"kind": "address", "address": "tcp://a:1", "tls": True}},
            "`cluster.tls` is not used with kind `address`",
            "remove it: the workers of that cluster run already",
        ),
        (
            {"solve": {"options": {"block_size": 64}}},
            "`solve.options` belong to one solver, and `solve.solver` is `auto`",
            "name the solver, or remove the options",
        ),
        (
            {"output": {"layout": "wide"}, "solve": {"predecessors": True}},
            "layout `wide` has no place for predecessors",
            "set `output.layout: long` or `solve.predecessors: false`",
        ),
        (
            {"output": {"targets": {"ids": [1], "top_degree": 2}}},
            "`output.targets` has `ids` and `top_degree`",
            "keep one; `--set 'output.targets={…}'` replaces all",
        ),
        (
            {"output": {"targets": {}}},
            "`output.targets` is empty",
            "give one of `ids`, `file`, `random`, `top_degree`",
        ),
        (
            {"output": {"targets": {"ids": [1]}}, "solve": {"predecessors": True}},
            "`output.targets` leaves no place for predecessors",
            "remove the targets, or set `solve.predecessors: false`",
        ),
        (
            {"output": {"targets": {"ids": [1]}}, "verify": "certificate"},
            "`certificate` needs the distances to every vertex, which `output.targets` does not write",
            "set `verify: sample`, or remove the targets",
        ),
        (
            {"output": {"distances": "none"}, "verify": "certificate"},
            "`certificate` needs the distances to every vertex, which `output.distances: none` does not write",
            "set `verify: sample`, or set `output.distances: full`",
        ),
        *(
            (
                {"output": {"distances": "none", key: value}},
                f"`output.{key}` says how distances are written, and `output.distances: none` writes none",
                f"remove `{key}`, or set `output.distances: full`",
            )
            for key, value in (
                ("targets", {"ids": [1]}),
                ("layout", "wide"),
                ("unreached", 0),
                ("compression", "zstd"),
            )
        ),
        (
            {"graph": {"format": "text", "coordinates": "x.co"}},
            "`graph.coordinates` belongs to format `dimacs`, not `text`",
            "remove one of them",
        ),
        (
            {"graph": {"format": "metis", "columns": {"source": "a"}}},
            "`graph.columns` belongs to formats `text`, `csv` and `parquet`, not `metis`",
            "remove one of them",
        ),
        (
            {"graph": {"weights": {"dtype": "uint32", "default": -1}}},
            "default weight `-1` is no `uint32`",
            "change `default` or `dtype`",
        ),
        (
            {"graph": {"weights": {"dtype": "int32", "default": 2**31 - 1}}},
            "default weight `2147483647` is no `int32`",
            "change `default` or `dtype`",
        ),
        (
            {"graph": {"weights": {"dtype": "int64", "default": 0.5}}},
            "default weight `0.5` is no `int64`",
            "change `default` or `dtype`",
        ),
        (
            {"graph": {"store": "out/graph"}},
            "one of the folders `graph.store` and `output.path` is inside the other",
            "give each its own folder",
        ),
        (
            {"graph": {"store": "out/"}},
            "one of the folders `graph.store` and `output.path` is inside the other",
            "give each its own folder",
        ),
    ],
)
def test_contradictions(sections, message, hint):
    with pytest.raises(InputError) as caught:
        workflow_from_dict(described(**sections))
    assert caught.value.message == f"workflow: {message}"
    assert caught.value.hint == hint
    # The models refuse it too, for those who build them without `workflow_from_dict`.
    with pytest.raises(ValidationError, match="1 validation error"):
        Workflow.model_validate(described(**sections))


@pytest.mark.parametrize(
    ("sections", "is_refused"),
    [
        ({"graph": {"weights": {"dtype": "uint32", "default": 2**32 - 2}}}, False),
        ({"graph": {"weights": {"dtype": "float32", "default": 0.5}}}, False),
        ({"graph": {"store": "out-graph"}}, False),
        ({"graph": {"format": "csv", "columns": {"source": "a", "target": "b"}}}, False),
        ({"cluster": {"kind": "address", "address": "tcp://a:1", "in_flight": 4}}, False),
        ({"output": {"layout": "wide"}}, False),
        (
            {"output": {"targets": {"ids": [1]}, "layout": "wide", "unreached": 0, "compression": "lz4"}},
            False,
        ),
        ({"output": {"distances": "none", "layout": "long", "targets": None}, "verify": "off"}, False),
        ({"output": {"targets": {"ids": []}}}, True),
        ({"output": {"targets": {"all": True}}}, True),
        ({"output": {"distances": "none"}, "solve": {"predecessors": True}}, True),
        ({"graph": {"store": "."}, "output": {"path": "./run"}}, True),
    ],
)
def test_where_contradictions_begin(sections, is_refused):
    if is_refused:
        with pytest.raises(InputError):
            workflow_from_dict(described(**sections))
    else:
        workflow_from_dict(described(**sections))


def test_resolved_gives_every_value_as_plain_json():
    workflow = workflow_from_dict(described(sources={"ids": [1], "all": None}))
    resolved = workflow.resolved()
    assert json.loads(json.dumps(resolved)) == resolved
    assert resolved["graph"]["store"] == workflow.store
    assert resolved["sources"]["ids"] == [1]
    assert resolved["solve"]["batch"] == "auto"


def test_resolved_is_a_workflow_again():
    workflow = workflow_from_dict(described(sources={"random": {"count": 3}, "all": None}))
    assert workflow_from_dict(workflow.resolved()).resolved() == workflow.resolved()


def test_resolved_redacts_urls_wherever_they_stand():
    workflow = workflow_from_dict(
        described(
            graph={"input": ["https://user:password@host/a.gr?token=t", "b-?.gr"]},
            output={"path": "s3://key:secret@bucket/run"},
        )
    )
    resolved = workflow.resolved()
    assert resolved["graph"]["input"] == ["https://host/a.gr", "b-?.gr"]
    assert resolved["output"]["path"] == "s3://bucket/run"
    assert resolved["graph"]["store"] == f"s3://bucket/run-graph-{workflow.graph.digest}"


def test_every_field_of_the_schema_is_described():
    nameless = [
        f"{owner}.{key}"
        for owner, section in [("top", schema()), *schema()["$defs"].items()]
        for key, value in section["properties"].items()
        if not value.get("description")
    ]
    assert nameless == []


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"type": "boolean"}, "`true` or `false`"),
        ({"enum": ["a", "b", "c"]}, "`a`, `b` or `c`"),
        ({"const": 1}, "`1`"),
        ({"type": "integer", "exclusiveMinimum": 0}, "an integer above 0"),
        ({"type": "number", "minimum": 0}, "a number of at least 0"),
        ({"type": "integer", "minimum": 1, "maximum": 2000}, "an integer from 1 to 2,000"),
        (
            {"anyOf": [{"const": "auto"}, {"type": "integer"}, {"type": "number"}, {"type": "null"}]},
            "`auto`, a number or `null`",
        ),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, "a number between 0 and 1"),
        (schema_at(("graph", "columns")), "a section with `source`, `target`"),
    ],
)
def test_wanted_says_in_words_what_a_schema_allows(part, words):
    assert wanted(part) == words


def test_the_template_of_init_shows_the_defaults():
    from importlib import resources

    text = resources.files("sssp_pipeline").joinpath("workflow/template.yaml").read_text(encoding="utf-8")
    shown = yaml.safe_load(text)
    shown["verify"] = "off" if shown["verify"] is False else shown["verify"]
    least = described(
        graph={"input": shown["graph"]["input"]},
        sources={"random": {"count": shown["sources"]["random"]["count"]}, "all": None},
        output={"path": shown["output"]["path"]},
    )
    assert workflow_from_dict(shown) == workflow_from_dict(least)
