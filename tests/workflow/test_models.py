"""The models by themselves: defaults, contradictions, what goes into run.json."""

from __future__ import annotations

import json
import os
import pickle

import pytest
import yaml
from pydantic import ValidationError

from sssp_pipeline.workflow.yaml_file import workflow_from_dict


def test_everything_but_input_sources_and_output_has_a_default(described):
    workflow = workflow_from_dict(described())
    assert workflow.graph.inputs == ["edges.txt"]
    assert workflow.sources.kind == "all"
    assert workflow.store == f"edges-graph-{workflow.graph.digest_in('.')}"
    assert (workflow.solve.retries, workflow.verify, workflow.report) == (2, "sample", True)


def test_numbers_are_kept_as_they_were_written(described):
    workflow = workflow_from_dict(described(solve={"cutoff": 2**60 + 1, "delta": 0.5}))
    assert workflow.solve.cutoff == 2**60 + 1
    assert workflow.solve.delta == 0.5


def test_a_store_of_its_own(described):
    assert workflow_from_dict(described(graph={"store": "s3://bucket/graph"})).store == "s3://bucket/graph"


@pytest.mark.parametrize(
    ("input_", "output", "place"),
    [
        ("edges.txt", "results", "edges-graph-"),
        ("edges.txt", "/data/results", "/data/edges-graph-"),
        ("edges.txt", "/results/", "/edges-graph-"),
        ("edges.txt", ".", "../edges-graph-"),
        ("edges.txt", "s3://bucket/run/", "s3://bucket/edges-graph-"),
        ("edges.txt", "s3://bucket", "s3://bucket-graph-"),
        ("edges.txt", "file:///run", "file:///run-graph-"),
        (["/data/roads-2024.csv.gz", "b.csv"], "runs/a", "runs/roads-2024-graph-"),
        ("data/part-*.csv", "a", "part-graph-"),
        ("data/*.csv", "a", "input-graph-"),
        ("https://user:secret@host/x/roads.csv?token=1", "a", "roads-graph-"),
        ("https://user:secret@host", "a", "host-graph-"),
        ("generated:grid?rows=40&cols=41", "a", "grid-graph-"),
        ("-", "runs/a", "runs/a-graph-"),
    ],
)
def test_the_default_store_lies_next_to_the_results(described, input_, output, place):
    workflow = workflow_from_dict(described(graph={"input": input_}, output={"path": output}))
    assert workflow.store.removeprefix(place).isalnum()
    assert len(workflow.store) == len(place) + 8


def test_the_default_store_does_not_depend_on_the_current_folder(described, tmp_path, monkeypatch):
    (tmp_path / "runs" / "deep").mkdir(parents=True)
    stores = set()
    for here, input_, output in (
        (".", "edges.txt", "runs/a"),
        ("runs", "../edges.txt", "b"),
        ("runs/deep", str(tmp_path / "edges.txt"), "../c"),
        ("runs/deep", "../../edges.txt", str(tmp_path / "runs" / "d")),
    ):
        monkeypatch.chdir(tmp_path / here)
        workflow = workflow_from_dict(described(graph={"input": input_}, output={"path": output}))
        stores.add(os.path.abspath(workflow.store))  # noqa: PTH100
    assert len(stores) == 1


def test_the_default_store_is_another_for_every_graph_and_stays_the_same_for_one(described):
    # Written down, so that no release gives a workflow another store by accident.
    assert workflow_from_dict(described()).store == "edges-graph-133b638f"
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
    assert resolved["graph"]["store"] == f"s3://bucket/a-graph-{workflow.graph.digest_in('s3://bucket')}"


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
