"""Several weights over the same edges, on a real S3: the input, the store and all runs are in a bucket."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
import runs

from sssp_pipeline.base.generators import road_like
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.run.conductor import run_each
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.models import Workflow

pytestmark = pytest.mark.slow

WEIGHTS = ("am", "pm", "cost")


@pytest.fixture(scope="module")
def roads() -> bytes:
    """Return roads of 1,500 vertices with three weights, as CSV."""
    made, rng = road_like(1500, seed=5), np.random.default_rng(1)
    columns = {"source": made.src, "target": made.dst, "am": made.weights}
    columns["pm"] = made.weights.astype(np.int64) + rng.integers(0, 900, len(made.src))
    columns["cost"] = rng.integers(1, 4000, len(made.src)) / 8
    written = io.BytesIO()
    pa.csv.write_csv(pa.table(columns), written)
    return written.getvalue()


def made(place: str, **sections) -> Workflow:
    several = [{"name": "am", "unit": "s"}, {"name": "pm", "unit": "s"}, {"name": "cost"}]
    graph = {"input": f"{place}/roads.csv", "weights": {"several": several}}
    return runs.made(place, graph=graph, **sections)


def digests_of_all(place: str) -> dict[str, dict[str, str]]:
    return {name: runs.digests(files.join(place, "run", name)) for name in WEIGHTS}


@pytest.fixture(scope="module")
def undisturbed(roads, tmp_path_factory) -> dict[str, dict[str, str]]:
    """Return the digests of the distances of all weights, of a run on local files."""
    place = tmp_path_factory.mktemp("undisturbed")
    (place / "roads.csv").write_bytes(roads)
    run_each(made(str(place)), Quiet())
    return digests_of_all(str(place))


@pytest.fixture
def place(bucket, roads) -> str:
    """Return the URL of a bucket that holds the roads."""
    files.write_atomic(files.join(bucket, "roads.csv"), roads)
    return bucket


@pytest.mark.parametrize("cluster", [{}, {"workers": 1}], ids=["threads", "process"])
def test_each_weight_is_the_same_as_on_local_files(place, undisturbed, cluster):
    done = run_each(made(place, cluster=cluster), Quiet())
    assert list(done) == list(WEIGHTS)
    assert digests_of_all(place) == undisturbed
    assert {len(of_weight) for of_weight in undisturbed.values()} == {runs.N_BATCHES}
    for name, (folder, record) in done.items():
        assert folder.url == f"{place}/run/{name}"
        assert (record["weight"], record["verify"]["refuted"]) == (name, None)
        left = [file for file in files.list_files(folder.url) if file.startswith("_")]
        assert left == []
    # The edges are there once, and each weight beside them.
    stored = files.list_files(f"{place}/graph")
    parts = [file.partition("/")[0] for file in stored if file.endswith(".parquet")]
    assert sorted(set(parts)) == ["edge_weights", "edges", "row_offsets"]
    assert parts.count("edge_weights") == len(WEIGHTS) * parts.count("edges")
