"""The kinds of output: which one a workflow asks for, and what a finished or an unfinished run has of it."""

import numpy as np
import pytest

from sssp_pipeline.base.vertex_ids import digest_of
from sssp_pipeline.kernels.contract.kept import EveryVertex, Nothing, Targets
from sssp_pipeline.pipeline.results.folder.distance_files import DistanceFormat
from sssp_pipeline.pipeline.results.outputs.distance_outputs import AllDistances, TargetDistances
from sssp_pipeline.pipeline.results.outputs.metrics_output import MetricsAlone
from sssp_pipeline.pipeline.results.outputs.outputs import output_of, recorded_output
from sssp_pipeline.workflow.output import Output

LONG = DistanceFormat("long", None, "none", predecessors=False)
WIDE = DistanceFormat("wide", None, "none", predecessors=False)
VERTICES = np.array([5, 2, 7], np.uint32)
DIGEST = digest_of(VERTICES)


class Choice:
    """Takes ids for vertices."""

    def vertices(self, spec, key):
        return np.array(spec.ids, np.uint32)


def asked(**spec):
    return output_of(LONG, Output(path="x", **spec), Choice())


@pytest.mark.parametrize(
    ("spec", "kind", "kept", "identity", "n_targets"),
    [
        ({}, AllDistances, EveryVertex, None, None),
        ({"targets": {"ids": [5, 2, 7]}}, TargetDistances, Targets, DIGEST, 3),
        ({"distances": "none"}, MetricsAlone, Nothing, "none", 0),
    ],
)
def test_a_kind_is_asked_for_recorded_and_found_again(spec, kind, kept, identity, n_targets):
    output = asked(**spec)
    assert (type(output), type(output.kept)) == (kind, kept)
    assert (output.identity(), output.n_targets) == ({"targets": identity}, n_targets)
    record = {"identity": {**output.identity(), **output.layout.identity()}, "targets": output.n_targets}
    found = recorded_output(record)
    assert (type(found), found.form, found.n_targets) == (kind, LONG, n_targets)
    assert found.identity() == output.identity()
    assert found.n_columns(100) == output.n_columns(100) == (100 if n_targets is None else n_targets)


def test_tasks_carry_no_targets_and_workers_read_them():
    output = TargetDistances.of(LONG, VERTICES)
    sent = output.without_input()
    assert sent.words is None
    assert sent.for_solving(lambda _: VERTICES).kept.vertices.tolist() == [5, 2, 7]


def test_an_example_of_a_query_fits_the_kind():
    assert AllDistances(LONG).query("run").startswith("SELECT source, avg(distance)")
    assert AllDistances(WIDE).query("run") == "SELECT * FROM 'run/distances/*-00000.parquet' LIMIT 10"
    assert MetricsAlone(LONG).query("run").endswith("FROM 'run/metrics.parquet'")
