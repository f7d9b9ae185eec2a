"""Values that are valid alone and contradict each other."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.workflow.models import Workflow
from sssp_pipeline.workflow.yaml_file import workflow_from_dict


@pytest.mark.parametrize(
    ("sections", "message", "hint"),
    [
        (
            {"sources": {"ids": [1], "file": "f"}},
            "`sources` has `ids` and `file` and `all`",
            "keep one; `--set 'sources={…}'` replaces all",
        ),
        (
            {"output": {"distances": "reduced"}},
            "`output.distances: reduced` needs `output.reduce`",
            "add `reduce: {values: [closeness]}`",
        ),
        (
            {"output": {"distances": "nearest"}},
            "`output.distances: nearest` needs `output.nearest`",
            "add `nearest: {k: 10}`",
        ),
        (
            {"output": {"nearest": {"k": 3}}},
            "`output.nearest` goes with `output.distances: nearest`, not with `full`",
            "set `output.distances: nearest`, or remove `nearest`",
        ),
        (
            {"output": {"distances": "reduced", "reduce": {}}},
            "`output.reduce` is empty",
            "give `values`, such as [closeness], or `within`, such as [500, 1000]",
        ),
        (
            {
                "output": {
                    "distances": "reduced",
                    "reduce": {"values": ["reached"], "amounts": {"file": "f", "names": ["a"]}},
                }
            },
            "`output.reduce.amounts` are summed within radii, and `output.reduce.within` has none",
            "add `within`, such as [500, 1000], or remove `amounts`",
        ),
        (
            {"output": {"distances": "reduced", "reduce": {"within": [5, 7, 5.0]}}},
            "`output.reduce.within` has `5.0` twice",
            "name it once",
        ),
        (
            {"output": {"distances": "reduced", "reduce": {"within": list(range(129))}}},
            "`output.reduce.within` and `amounts` ask for 129 columns",
            "ask for at most 128: fewer radii, or fewer amounts",
        ),
        (
            {"output": {"distances": "reduced", "reduce": {"histogram": [5]}}},
            "`output.reduce.histogram` has 1 bound",
            "give 2 to 1,025 rising bounds, such as [0, 500, 1000]",
        ),
        (
            {"output": {"distances": "reduced", "reduce": {"histogram": [0, 5, 5]}}},
            "the bounds in `output.reduce.histogram` do not rise: `5` comes after `5`",
            "give each bound once, in rising order",
        ),
        (
            {"solve": {"cutoff": 6}, "output": {"distances": "reduced", "reduce": {"histogram": [5, 7]}}},
            "the bound `7` is beyond `solve.cutoff`, which is `6`",
            "raise the cutoff to the last bound, or lower the bound",
        ),
        (
            {"output": {"distances": "reduced", "reduce": {"quantiles": []}}},
            "`output.reduce.quantiles` has 0 shares",
            "give 1 to 32 shares from 0 to 1, such as [0.5, 0.9]",
        ),
        (
            {"output": {"distances": "reduced", "reduce": {"per_vertex": {}}}},
            "`output.reduce.per_vertex` is empty",
            "give `values`, such as [nearest_source], or `within`, such as [500, 1000]",
        ),
        (
            {"output": {"distances": "reduced", "reduce": {"per_vertex": {"values": []}}}},
            "`output.reduce.per_vertex` asks for no value and no radius",
            "give `values`, such as [nearest_source], or `within`, such as [500, 1000]",
        ),
        (
            {"output": {"distances": "reduced", "reduce": {"per_vertex": {"within": [3, 3]}}}},
            "`output.reduce.per_vertex.within` has `3` twice",
            "name it once",
        ),
        (
            {"output": {"distances": "reduced", "reduce": {"per_vertex": {"within": list(range(33))}}}},
            "`output.reduce.per_vertex.within` has 33 radii",
            "give at most 32",
        ),
        (
            {
                "solve": {"cutoff": 6},
                "output": {"distances": "reduced", "reduce": {"per_vertex": {"within": [5, 7]}}},
            },
            "the radius `7` is beyond `solve.cutoff`, which is `6`",
            "raise the cutoff to the largest radius, or remove the radius",
        ),
        (
            {"output": {"distances": "none", "reduce": {"per_vertex": {"within": [5]}}}},
            "`output.reduce` goes with `output.distances: reduced`, not with `none`",
            "set `output.distances: reduced`, or remove `reduce`",
        ),
        (
            {
                "solve": {"predecessors": True},
                "output": {"distances": "reduced", "reduce": {"per_vertex": {"within": [5]}}},
            },
            "`output.distances: reduced` leaves no place for predecessors",
            "set `output.distances: full`, or set `solve.predecessors: false`: `sssp-pipeline path` needs none",
        ),
        (
            {"output": {"distances": "reduced", "reduce": {"quantiles": [0.5, 0.5]}}},
            "`output.reduce.quantiles` has `0.5` twice",
            "name it once",
        ),
        (
            {"output": {"distances": "reduced", "reduce": {"quantiles": [1.25e-18]}}},
            "the share `1.25e-18` has more than 18 decimals",
            "round it",
        ),
        (
            {"solve": {"cutoff": 6}, "output": {"distances": "reduced", "reduce": {"within": [5, 7]}}},
            "the radius `7` is beyond `solve.cutoff`, which is `6`",
            "raise the cutoff to the largest radius, or remove the radius",
        ),
        (
            {"output": {"distances": "reduced", "reduce": {"within": [5]}, "layout": "wide"}},
            "`output.layout` says how distances are written, and `output.distances: reduced` writes none",
            "remove `layout`, or set `output.distances: full`",
        ),
        (
            {"output": {"distances": "nearest", "nearest": {"k": 3}, "unreached": -1}},
            "`output.unreached` says how distances are written, and `output.distances: nearest` writes none",
            "remove `unreached`, or set `output.distances: full`",
        ),
        (
            {"output": {"distances": "nearest", "nearest": {"k": 3}, "targets": {"ids": [1]}}},
            "`output.targets` goes with `output.distances: full`, not with `nearest`",
            "name them as `output.nearest.of`",
        ),
        (
            {"output": {"distances": "nearest", "nearest": {"k": 3, "of": {"ids": [1], "file": "f"}}}},
            "`output.nearest.of` has `ids` and `file`",
            "keep one; `--set 'output.nearest.of={…}'` replaces all",
        ),
        (
            {"solve": {"predecessors": True}, "output": {"distances": "nearest", "nearest": {"k": 3}}},
            "`output.distances: nearest` leaves no place for predecessors",
            "set `output.distances: full`, or set `solve.predecessors: false`: `sssp-pipeline path` needs none",
        ),
        (
            {"verify": "certificate", "output": {"distances": "nearest", "nearest": {"k": 3}}},
            "`certificate` needs the distances to every vertex, which `output.distances: nearest` does not write",
            "set `verify: sample`, or set `output.distances: full`",
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
            "set `output.layout: long`, or set `solve.predecessors: false`: `sssp-pipeline path` needs none",
        ),
        (
            {"output": {"targets": {"ids": [1], "top_degree": 2}}},
            "`output.targets` has `ids` and `top_degree`",
            "keep one; `--set 'output.targets={…}'` replaces all",
        ),
        (
            {"output": {"targets": {}}},
            "`output.targets` is empty",
            "give one of `ids`, `file`, `points`, `random`, `top_degree`",
        ),
        (
            {"output": {"targets": {"ids": [1]}}, "solve": {"predecessors": True}},
            "`output.targets` leaves no place for predecessors",
            "remove the targets, or set `solve.predecessors: false`: `sssp-pipeline path` needs none",
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
            {"sources": {"all": None, "points": {"file": "p.csv"}}},
            "`sources.points` needs the coordinates of the graph",
            "set `graph.coordinates` to a table with the columns `id`, `lon` and `lat`, or to a DIMACS `.co` file",
        ),
        (
            {"graph": {"format": "metis", "columns": {"source": "a"}}},
            "`graph.columns` belongs to formats `text`, `csv`, `lines` and `parquet`, not `metis`",
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
def test_contradictions(sections, message, hint, described):
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
def test_where_contradictions_begin(sections, is_refused, described):
    if is_refused:
        with pytest.raises(InputError):
            workflow_from_dict(described(**sections))
    else:
        workflow_from_dict(described(**sections))
