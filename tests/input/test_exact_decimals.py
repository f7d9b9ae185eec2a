"""Decimals in text are exact to the last place, and a long path gets a wider type."""

from __future__ import annotations

import gzip
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import sssp_pipeline as sp
from sssp_pipeline.base.errors import PathTooLongError, SsspError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.graph_store.store import read_newest
from sssp_pipeline.pipeline.run.completed_run import verify_run
from sssp_pipeline.pipeline.run.conductor import run, run_each
from sssp_pipeline.workflow.models import Workflow

FLOATS = "the least sum in float64 arithmetic"


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def workflow(text: str, sources: list[int | str], name: str = "e.csv", **sections) -> Workflow:
    Path(name).write_text(text)
    data = {
        "graph": {"input": name, "store": "graph"},
        "sources": {"ids": sources},
        "output": {"path": "out"},
        "verify": "certificate",
    }
    for key, value in sections.items():
        data[key] = {**data.get(key, {}), **value} if isinstance(value, dict) else value
    return Workflow.model_validate(data)


def stored(path: str = "out") -> dict[tuple, float | int | None]:
    """Return the stored distances, by source and vertex."""
    tables = [pq.ParquetFile(file).read() for file in sorted(Path(path, "distances").glob("*.parquet"))]
    return {(r["source"], r["vertex"]): r["distance"] for table in tables for r in table.to_pylist()}


def chain(weights: list[str]) -> str:
    return "from,to,km\n" + "".join(f"{i},{i + 1},{w}\n" for i, w in enumerate(weights))


# ---- sums


def test_a_sum_that_float32_would_round(listener):
    said = listener()
    run(workflow("from,to,cost\nA,B,0.5\nB,C,16777216\n", ["A"]), said)
    assert stored()["A", "C"] == 16777216.5
    assert "graph: 3 vertices, 2 edges, uint32 of 1/10 weights in graph" in said.lines
    assert "verified 1 source (certificate): every distance is exact" in said.lines


@pytest.mark.parametrize(
    ("weights", "source_type"),
    [(["100000.5"] * 300, "uint32 of 1/10"), (["80300.0"] * 40, "uint32"), (["0.1"] * 300, "uint32 of 1/10")],
)
def test_a_chain_of_decimals(weights, source_type):
    run(workflow(chain(weights), [0]), Quiet())
    assert read_newest("graph").first.weights.type_text == source_type
    total = sum(Fraction(Decimal(w)) for w in weights)
    assert Fraction(str(stored()[0, len(weights)])) == total


def test_a_table_and_its_file_give_the_same_distances():
    Path("f.csv").write_text(chain(["100000.5"] * 300))
    of_store = sp.solve(sp.ingest("f.csv", "store"), 0, targets=[300])
    of_frame = sp.solve(pd.read_csv("f.csv"), 0, targets=[300])
    assert of_store.numpy().tolist() == of_frame.numpy().tolist() == [[30000150.0]]


def test_floats_are_called_floats(listener):
    said = listener()
    of_floats = workflow(chain(["0.1", "0.2"]), [0], graph={"weights": {"scale": None}})
    run(of_floats, said)
    assert stored()[0, 2] == 0.1 + 0.2
    assert f"verified 1 source (certificate): every distance is {FLOATS}" in said.lines
    assert FLOATS in Path("out/report.html").read_text()


@pytest.mark.medium
@pytest.mark.parametrize("memory", ["auto", "24MB"])
@pytest.mark.parametrize("workers", [0, 2])
def test_random_decimals_are_summed_exactly(memory, workers):
    random = np.random.default_rng(5)
    ends = random.integers(0, 2000, (9000, 2))
    weights = [Decimal(int(w)).scaleb(-int(p)) for w, p in random.integers([1, 0], [10**6, 7], (9000, 2))]
    rows = "".join(f"{a},{b},{w}\n" for (a, b), w in zip(ends.tolist(), weights, strict=True))
    graph = {"memory": memory} if memory != "auto" else {}
    cluster = {"workers": workers} if workers else {}
    run(workflow("from,to,km\n" + rows, [0, 1, 2], graph=graph, cluster=cluster), Quiet())
    scaled = [int(w.scaleb(6)) for w in weights]
    frame = pd.DataFrame({"source": ends[:, 0], "target": ends[:, 1], "weight": scaled})
    wanted = sp.solve(frame, [0, 1, 2]).to_pandas().dropna()
    found = {key: Decimal(repr(value)) for key, value in stored().items() if value is not None}
    assert len(found) == len(wanted) > 1000
    for row in wanted.itertuples():
        assert found[row.source, row.vertex] == Decimal(int(row.distance)).scaleb(-6)


@pytest.mark.slow
def test_new_york_written_with_decimals(data_file):
    text = gzip.decompress(data_file("USA-road-d.NY.gr.gz").read_bytes()).decode()
    rows = [line.split()[1:] for line in text.splitlines() if line.startswith("a ")]
    frame = pd.DataFrame(rows, columns=["from", "to", "length"]).astype({"length": float})
    assert sp.solve(frame.astype(int), [1, 1000]).numpy().dtype == np.uint32
    frame["length"] *= 100
    frame.to_csv("ny.csv", index=False)
    run(workflow(Path("ny.csv").read_text(), [1, 1000], name="ny.csv"), Quiet())
    wanted = sp.solve(frame.astype(int), [1, 1000]).to_pandas()
    found = stored()
    assert len(found) == len(wanted) == 2 * 264_346
    assert all(found[row.source, row.vertex] == row.distance for row in wanted.itertuples())


# ---- long paths


@pytest.mark.parametrize(
    ("weights", "wide", "total"),
    [
        (["4294967294", "1"], "uint64", 2**32 - 1),
        (["4000000000", "4000000000"], "uint64", 8 * 10**9),
        (["2147483646", "2", "-1"], "int64", 2**31 - 1),
        (["400000000.5", "400000000.5"], "uint64 of 1/10", 800000001.0),
        (
            ["4000000000.000001", "0.5", "4000000000.25", "4000000000"],
            "float64",
            4000000000.000001 + 8000000000.75,
        ),
    ],
)
@pytest.mark.parametrize("batch", [1, 100])
def test_a_path_that_is_too_long_gets_a_wider_type(listener, weights, wide, total, batch):
    last, said = len(weights), listener()
    # Batches without the long path are committed in the narrow type first.
    spec = workflow(
        chain(weights), [last, last - 1, 0], solve={"batch": batch}, cluster={"threads_per_worker": 1}
    )
    run(spec, said)
    assert stored()[0, last] == total
    assert len(stored()) == 3 * (last + 1)
    assert read_newest("graph").first.weights.type_text == wide
    (line,) = said.said["wider"]
    assert line.endswith(f": the run goes on with {wide.split()[0]}")
    again = listener()
    run(spec, again)
    assert "nothing_to_do" in again.said
    assert "wider" not in again.said
    assert verify_run("out", None, "certificate", Quiet())["verify"]["refuted"] is None


def test_a_type_that_was_asked_for_stays():
    with pytest.raises(PathTooLongError):
        run(workflow(chain(["4294967294", "1"]), [0], graph={"weights": {"dtype": "uint32"}}), Quiet())


@pytest.mark.parametrize(
    ("weights", "total", "hint", "followed"),
    [
        (
            ["4000000000"] * 2,
            8 * 10**9,
            """set `weights={"dtype": "uint64"}` of `sp.ingest`, or a cutoff""",
            {"dtype": "uint64"},
        ),
        (
            ["400000000.5"] * 2,
            800000001.0,
            """set `weights={"dtype": "uint64", "scale": 10}` of `sp.ingest`, or a cutoff""",
            {"dtype": "uint64", "scale": 10},
        ),
        (
            ["4000000000.000001"] * 3,
            12000000000.000004,
            """lower `weights={"scale": …}` of `sp.ingest`, or set it to `None` to compute with float64""",
            {"scale": None},
        ),
    ],
)
def test_the_hint_for_a_store_with_a_long_path_helps(weights, total, hint, followed):
    Path("e.csv").write_text(chain(weights))
    last, calls = len(weights), (sp.solve, lambda *of: sp.reduce(*of, values=["max_distance"]))
    for call in calls:
        with pytest.raises(SsspError) as caught:
            call(sp.ingest("e.csv", "graph"), 0)
        assert caught.value.hint == hint
    found = sp.solve(sp.ingest("e.csv", "again", weights=followed), 0, targets=[last])
    assert found.numpy().tolist() == [[total]]


def test_nothing_is_wider_than_64_bits():
    with pytest.raises(PathTooLongError) as caught:
        run(workflow(chain([str(2**64 - 2), "1"]), [0]), Quiet())
    assert caught.value.hint == "scale the weights down, or set a cutoff"


def test_one_of_several_weights_gets_a_wider_type(listener):
    text = "from,to,far,near\n0,1,4000000000,1.5\n1,2,4000000000,2.5\n"
    names = [{"name": "near"}, {"name": "far"}]
    said = listener()
    run_each(workflow(text, [0], graph={"weights": {"several": names}}), said)
    assert stored("out/near")[0, 2] == 4.0
    assert stored("out/far")[0, 2] == 8 * 10**9
    graphs = read_newest("graph").by_weight
    assert [graphs[name].weights.type_text for name in ("near", "far")] == ["uint32 of 1/10", "uint64"]
    assert len(said.said["wider"]) == 1
