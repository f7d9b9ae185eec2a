"""The models by themselves: defaults, contradictions, what goes into run.json."""

from __future__ import annotations

import json
import pickle

import pytest
import yaml
from pydantic import ValidationError

from sssp_pipeline.workflow.yaml_file import workflow_from_dict


def test_everything_but_input_sources_and_output_has_a_default(described):
    workflow = workflow_from_dict(described())
    assert workflow.graph.inputs == ["edges.txt"]
    assert workflow.sources.kind == "all"
    assert workflow.store == f"out-graph-{workflow.graph.digest}"
    assert (workflow.solve.retries, workflow.verify, workflow.report) == (2, "sample", True)


def test_numbers_are_kept_as_they_were_written(described):
    workflow = workflow_from_dict(described(solve={"cutoff": 2**60 + 1, "delta": 0.5}))
    assert workflow.solve.cutoff == 2**60 + 1
    assert workflow.solve.delta == 0.5


def test_a_store_of_its_own(described):
    assert workflow_from_dict(described(graph={"store": "s3://bucket/graph"})).store == "s3://bucket/graph"
    beside = workflow_from_dict(described(output={"path": "s3://bucket/run/"}))
    assert beside.store == f"s3://bucket/run-graph-{beside.graph.digest}"


def test_the_default_store_is_another_for_every_graph_and_stays_the_same_for_one(described):
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
        {"coordinates": {"file": "edges.co", "lon": "x"}},
    ]
    stores = [workflow_from_dict(described(graph=graph)).store for graph in [{}, *same]]
    assert set(stores) == {stores[0]}
    assert len({stores[0], *(workflow_from_dict(described(graph=graph)).store for graph in other)}) == 8


def test_a_secret_of_a_url_does_not_change_the_default_store(described):
    urls = [f"https://user:{secret}@host/edges.gr?token={secret}" for secret in ("a", "b")]
    stores = {workflow_from_dict(described(graph={"input": url})).store for url in urls}
    assert len(stores) == 1


def test_a_workflow_is_frozen_and_pickles(described):
    workflow = workflow_from_dict(described())
    with pytest.raises(ValidationError, match="frozen"):
        workflow.verify = "off"
    assert pickle.loads(pickle.dumps(workflow)) == workflow


def test_resolved_gives_every_value_as_plain_json_and_is_a_workflow_again(described):
    workflow = workflow_from_dict(described(sources={"ids": [1], "all": None}))
    resolved = workflow.resolved()
    assert json.loads(json.dumps(resolved)) == resolved
    assert resolved["graph"]["store"] == workflow.store
    assert resolved["sources"]["ids"] == [1]
    assert resolved["solve"]["batch"] == "auto"
    assert workflow_from_dict(resolved).resolved() == resolved


def test_resolved_redacts_urls_wherever_they_stand(described):
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


def test_the_template_of_init_shows_every_key_with_its_default(described):
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
    for section, keys in workflow_from_dict(shown).resolved().items():
        for key in keys if isinstance(keys, dict) and section != "sources" else [section]:
            assert f"{key}:" in text or key == "name", key
