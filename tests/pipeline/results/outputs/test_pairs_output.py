"""Runs that write a distance for each pair of a file, in the order of the file."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from named_graph import NAMES, run_of, verdict_of, write_edges

import sssp_pipeline as sp
from sssp_pipeline.base.errors import InputError, RefutedError, SsspError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.planning import direction
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.results.outputs import pairs_output
from sssp_pipeline.pipeline.run.plan_facts import describe_plan
from sssp_pipeline.workflow.yaml_file import load_workflow

WORKFLOW = """\
graph: {input: edges.csv, store: graph, self_loops: keep, weights: {column: weight}}
solve: {batch: 3}
output: {path: run, distances: pairs, pairs: pairs.csv}
"""


def write_pairs(n_sources=20, n_targets=20, n_pairs=300):
    """Write `pairs.csv` and return its rows; some stand twice."""
    rng = np.random.default_rng([n_sources, n_targets])
    ends = rng.choice(NAMES, n_sources), rng.choice(NAMES, n_targets)
    pairs = [(str(rng.choice(ends[0])), str(rng.choice(ends[1]))) for _ in range(n_pairs)]
    pairs += pairs[:5]
    lines = ["source,target", *(",".join(pair) for pair in pairs), ""]
    Path("pairs.csv").write_text("\n".join(lines))
    return pairs


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    write_edges()
    Path("w.yaml").write_text(WORKFLOW)


def expected(pairs, store="graph", **options):
    """The rows of the pairs in the matrix of all distances."""
    solved = sp.solve(store, NAMES, solver="dijkstra", **options)
    matrix, at = solved.numpy(), {name: place for place, name in enumerate(NAMES)}
    found = [matrix[at[source], at[target]].item() for source, target in pairs]
    rows = ((*pair, None if d == solved.unreached else d) for pair, d in zip(pairs, found, strict=True))
    return [dict(zip(("source", "target", "distance"), row, strict=True)) for row in rows]


def rows_of(path="run"):
    return sp.open_run(path).answers().to_pylist()


@pytest.mark.parametrize("directed", ["true", "false"])
@pytest.mark.parametrize("scale", [1, 0.1, 1.1**30, 2**33], ids=["uint32", "scaled", "float64", "uint64"])
def test_rows_are_the_distances_of_the_pairs_in_their_order(directed, scale, monkeypatch):
    monkeypatch.setattr(pairs_output, "FILE_ROWS", 100)
    monkeypatch.setattr(pairs_output, "GROUP_ROWS", 40)
    write_edges(scale)
    for ends in ((20, 20), (2, 30), (30, 2)):
        pairs = write_pairs(*ends)
        for cutoff in (None, 9 * scale):
            path = f"run-{ends[0]}-{cutoff is None}"
            limit = "null" if cutoff is None else cutoff
            _, record = run_of(f"graph.directed={directed}", f"output.path={path}", f"solve.cutoff={limit}")
            is_float = record["graph"]["weights"]["dtype"] == "float64"
            is_backward = ends == (30, 2) and not is_float
            assert record["identity"]["pairs"]["direction"] == ("backward" if is_backward else "forward")
            assert record["verify"]["refuted"] is None
            assert record["verify"]["checked_sources"] > 0
            assert len([name for name in record["files"] if "pairs-" in name]) == 4
            assert rows_of(path) == expected(pairs, cutoff=cutoff)


def test_a_search_serves_all_pairs_of_a_vertex():
    pairs = write_pairs(3, 30)
    _, record = run_of()
    assert record["sources"] == len({source for source, _ in pairs})
    run = sp.open_run("run")
    assert run.metrics.num_rows == record["sources"]
    assert run.overall == {}
    source = pairs[0][0]
    assert run.answers(source).to_pylist() == [row for row in expected(pairs) if row["source"] == source]
    with pytest.raises(InputError, match="holds distances of pairs"):
        run.distances()


def test_an_export_has_the_pairs_in_their_order(monkeypatch):
    monkeypatch.setattr(pairs_output, "FILE_ROWS", 100)
    pairs = write_pairs()
    run_of()
    sp.open_run("run").export("all.parquet")
    assert pq.read_table("all.parquet").to_pylist() == expected(pairs)


@pytest.mark.parametrize("name", ["pairs.txt", "pairs.parquet", "pairs.csv.gz", "other.csv", "numbered.csv"])
def test_files_of_pairs(name):
    pairs = write_pairs()
    frame, section = pd.DataFrame(pairs, columns=["source", "target"]), {"file": name}
    if name == "pairs.txt":
        frame.to_csv(name, sep=" ", header=False, index=False)
    elif name == "pairs.parquet":
        frame.to_parquet(name, row_group_size=7)
    elif name == "other.csv":
        frame.assign(day="monday")[["target", "day", "source"]].set_axis(["x", "day", "y"], axis=1).to_csv(
            name
        )
        section |= {"source": "y", "target": "x"}
    elif name == "numbered.csv":
        frame.set_axis([0, 1], axis=1).to_csv(name)
        section |= {"source": 0, "target": 1}
    else:
        frame.to_csv(name, index=False)
    run_of(f"output.pairs={json.dumps(section)}")
    assert rows_of() == expected(pairs)


def test_no_batch_solver_or_restart_changes_a_byte(run_interrupted, monkeypatch):
    monkeypatch.setattr(pairs_output, "FILE_ROWS", 100)
    pairs = write_pairs()
    run_of()
    names = [f"distances/pairs-0000{number}.parquet" for number in range(4)]
    whole = [Path("run", name).read_bytes() for name in names]
    for more in ("solve.batch=8", "solve.batch=1", "solve.solver=dijkstra", "cluster.kind=local-cpu"):
        run_of(more, overwrite=True)
        assert [Path("run", name).read_bytes() for name in names] == whole, more
    run_interrupted(load_workflow("w.yaml", ["output.path=again"]))
    # Batches whose part was cut or is gone are solved again. Files of the run that was interrupted are written again.
    Path("again/_run/pairs-00001.bin").write_bytes(b"12345678")
    Path("again/_run/pairs-00002.bin").unlink()
    Path("again", names[1]).unlink()
    Path("again", names[2]).write_bytes(b"half")
    run_of("output.path=again")
    assert [Path("again", name).read_bytes() for name in names] == whole
    assert not Path("again/_run").exists() or not list(Path("again/_run").iterdir())
    assert rows_of("again") == expected(pairs)


def test_a_run_that_stops_between_two_batches_goes_on(monkeypatch, listener):
    pairs = write_pairs()
    with monkeypatch.context() as patch, pytest.raises(SsspError, match="the power failed"):
        inner, done = pairs_output.PairDistances.write, []

        def write(self, *arguments):
            done.append(arguments)
            if len(done) == 3:
                raise RuntimeError("the power failed")
            inner(self, *arguments)

        patch.setattr(pairs_output.PairDistances, "write", write)
        run_of("solve.retries=0")
    from sssp_pipeline.pipeline.run.conductor import run

    said = listener()
    run(load_workflow("w.yaml"), said)
    assert said.named("going_on")
    assert rows_of() == expected(pairs)


def test_threads_of_a_worker_read_the_pairs_once(monkeypatch):
    write_pairs()
    inner, found = RunFolder.read_input, []

    def read_input(*arguments, **options):
        found.append(arguments)
        time.sleep(0.1)  # so that every thread needs the pairs before the first one has them
        return inner(*arguments, **options)

    monkeypatch.setattr(RunFolder, "read_input", read_input)
    run_of("verify=off", "solve.batch=1")
    assert len(found) == 1


def test_another_order_of_the_same_pairs_is_another_run(run_interrupted):
    write_pairs()
    run_interrupted(load_workflow("w.yaml"))
    header, *rows = Path("pairs.csv").read_text().splitlines()
    Path("pairs.csv").write_text("\n".join([header, *reversed(rows), ""]))
    with pytest.raises(InputError, match="holds another run: it differs in pairs"):
        run_of()


def test_a_damaged_part_is_an_error_after_all_batches(monkeypatch, run_interrupted):
    write_pairs()
    run_interrupted(load_workflow("w.yaml"))
    Path("run/_run/pairs-00001.bin").write_bytes(Path("run/_run/pairs-00000.bin").read_bytes())
    monkeypatch.setattr(RunFolder, "damaged_batches", lambda *_: {})
    with pytest.raises(InputError, match=r"`run/_run/pairs-00001\.bin` was altered"):
        run_of()


def test_verify_finds_damage_and_run_repairs_it():
    write_pairs()
    run_of()
    whole = Path("run/distances/pairs-00000.parquet").read_bytes()
    Path("run/distances/pairs-00000.parquet").write_bytes(whole[:-9] + b"123456789")
    with pytest.raises(InputError, match=r"`run/distances/pairs-00000\.parquet` was altered"):
        verdict_of()
    run_of()
    assert Path("run/distances/pairs-00000.parquet").read_bytes() == whole
    Path("run/_output.u32").unlink()
    run_of()
    assert verdict_of()["refuted"] is None


@pytest.mark.parametrize("directed", ["true", "false"])
def test_verify_finds_a_wrong_distance_and_a_wrong_pair(directed, recorded_anew):
    pairs = write_pairs(5, 2)  # so `verify` checks all of them
    run_of(f"graph.directed={directed}")
    table = sp.open_run("run").answers()
    rows = table.to_pylist()
    place = next(i for i, row in enumerate(rows) if row["distance"])
    for name, value in (
        ("distance", 12345),
        ("distance", None),
        ("target", NAMES[39]),
        ("source", NAMES[38]),
    ):
        wrong = [{**row, name: value} if row == rows[place] else row for row in rows]
        pq.write_table(pa.Table.from_pylist(wrong, table.schema), "run/distances/pairs-00000.parquet")
        recorded_anew(RunFolder("run"))
        refused = RefutedError if name == "distance" else InputError
        with pytest.raises(refused) as caught:
            verdict_of()
        if name == "distance":
            source, target = pairs[place]
            shown = "unreached" if value is None else value
            assert caught.value.message == (
                f"source `{source}`, vertex `{target}`: stored distance {shown}, "
                f"true distance {rows[place]['distance']}"
            )
        else:
            assert "have not the pairs of" in caught.value.message


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        ("source\nv01\n", "`pairs.csv` line 1 has 1 column, `source`", "a row has the ids of a source and of a target"),
        ("", "`pairs.csv` is empty", "check that this is the file you mean"),
        ("source,target\n", "`pairs.csv` holds no pairs", "a row has the ids"),
        ("foo,bar,baz\nv01,v02,v03\n", "`pairs.csv` line 1: `foo,bar,baz` may be a header or a pair",
         "`output.pairs.header: true` says that the first line names the columns"),
        ("foo,bar\nv01,v02\n", "`pairs.csv` line 1: `foo,bar` may be a header or a pair", "`output.pairs.header"),
        ("v01,v02\nv01,w\nx,v01\n",
         "`pairs.csv`: 2 of 3 pairs have an id that is not in the graph: `w`, `x` (the first in line 2)",
         "`output.pairs.unknown: skip` leaves out such pairs"),
    ],
)  # fmt: skip
def test_wrong_files(content, message, hint):
    Path("pairs.csv").write_text(content)
    with pytest.raises(InputError) as caught:
        run_of()
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert not Path("run").exists()


def test_names_of_columns_are_in_a_header():
    """Without them the first line may be a pair, because `v02` stands again."""
    Path("pairs.csv").write_text("v02,v01\nv01,v02\nv02,v03\n")
    run_of()
    assert rows_of() == expected([("v02", "v01"), ("v01", "v02"), ("v02", "v03")])
    run_of("output.pairs={file: pairs.csv, source: v01, target: v02}", overwrite=True)
    assert rows_of() == expected([("v02", "v01"), ("v03", "v02")])


@pytest.mark.parametrize(
    ("columns", "message", "hint"),
    [
        (
            "source: hom, target: work",
            "`pairs.csv` line 1: unknown column `hom`",
            "did you mean `home`? Columns: home, work",
        ),
        (
            "source: 1, target: 5, header: true",
            "`pairs.csv` line 1 has 2 columns, and the target is to be in column 5",
            "columns count from 1: home, work",
        ),
    ],
)
def test_wrong_names_of_columns(columns, message, hint):
    Path("pairs.csv").write_text("home,work\nv01,v02\n")
    with pytest.raises(InputError) as caught:
        run_of(f"output.pairs={{file: pairs.csv, {columns}}}")
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_a_missing_file_is_found_before_ingest():
    with pytest.raises(InputError, match=r"`pairs\.csv`"):
        run_of()
    assert not Path("graph").exists()


def test_unknown_ids_are_left_out_and_counted(listener):
    pairs = write_pairs()
    with Path("pairs.csv").open("a") as file:
        file.write("v01,nowhere\nv01,v02\n")
    from sssp_pipeline.pipeline.run.conductor import run

    said = listener()
    section = "{file: pairs.csv, unknown: skip}"
    _, record = run(load_workflow("w.yaml", [f"output.pairs={section}"]), said)
    assert rows_of() == expected([*pairs, ("v01", "v02")])
    assert record["skipped"]["pairs"] == 1
    assert record["skipped"]["first"] == {"pairs": ["nowhere"]}
    searched = len({source for source, _ in [*pairs, ("v01", "v02")]})
    assert f"pairs: 306; searched from: {searched} sources" in said.lines
    assert "skipped 1 pair with an id that is not known: `nowhere`" in said.lines


def test_lines_of_a_run_count_what_it_searches_from(listener):
    from sssp_pipeline.pipeline.run.conductor import run

    Path("pairs.csv").write_text("source,target\nv01,v02\nv03,v02\n")
    said = listener()
    run(load_workflow("w.yaml"), said)
    assert "pairs: 2; searched from: 1 target" in said.lines
    assert "solved 1 target x the ends of 2 pairs with 1 thread" in said.lines


def test_several_weights():
    lines = Path("edges.csv").read_text().splitlines()
    lines = [lines[0] + ",other", *(f"{line},{number % 7}" for number, line in enumerate(lines[1:]))]
    Path("edges.csv").write_text("\n".join([*lines, ""]))
    pairs = write_pairs()
    graph = "{input: edges.csv, store: graph, self_loops: keep, weights: {several: [{name: weight}, {name: other}]}}"
    sp.run_each(
        {
            **load_text(f"graph: {graph}"),
            "output": {"path": "run", "distances": "pairs", "pairs": "pairs.csv"},
        }
    )
    for name in ("weight", "other"):
        assert rows_of(f"run/{name}") == expected(pairs, weight=name)


def load_text(text):
    import yaml

    return yaml.safe_load(text)


def test_a_direction_can_be_asked_for():
    pairs = write_pairs()
    found = {}
    for way in ("forward", "backward"):
        _, record = run_of(f"output.pairs={{file: pairs.csv, direction: {way}}}", overwrite=True)
        assert record["identity"]["pairs"]["direction"] == way
        assert record["verify"]["refuted"] is None
        found[way] = Path("run/distances/pairs-00000.parquet").read_bytes()
        assert rows_of() == expected(pairs)
    assert found["forward"] == found["backward"]
    write_edges(1.1**30)
    with pytest.raises(InputError) as caught:
        run_of(
            "output.pairs={file: pairs.csv, direction: backward}",
            "graph.store=floats",
            "output.path=floats-run",
        )
    assert caught.value.message == "`output.pairs.direction` is `backward`, and the graph has float64"
    assert caught.value.hint == "searches backward need integer weights of zero or more: remove `direction`"


def test_without_the_memory_to_reverse_the_graph_the_hint_is_about_a_run(monkeypatch):
    write_pairs()
    monkeypatch.setattr(direction, "free_memory_bytes", lambda: 1000)
    with pytest.raises(SsspError, match="reversing the graph takes") as caught:
        run_of("output.pairs={file: pairs.csv, direction: backward}")
    assert caught.value.hint == "search from the sources: the direction `forward` needs no reversed graph"


def test_a_hierarchy_serves_both_directions():
    pairs = write_pairs(30, 2)
    _, record = run_of("solve.solver=phast")
    assert (record["solver"], record["identity"]["pairs"]["direction"]) == ("phast", "backward")
    assert rows_of() == expected(pairs)


def test_the_plan_knows_the_searches():
    pairs = write_pairs(3, 30)
    facts = describe_plan(load_workflow("w.yaml"), 0, Quiet())
    assert facts["sources"] == len({source for source, _ in pairs})


def test_the_plan_counts_the_bytes_of_the_pairs_and_not_of_their_matrix():
    pairs = write_pairs(20, 20)
    facts = describe_plan(load_workflow("w.yaml"), 0, Quiet())
    # Two ids, a distance that waits, and one in the files.
    assert facts["written_bytes"] == len(pairs) * (2 * 8 + 4 + 4)


def test_a_million_pairs_that_stand_again():
    Path("pairs.csv").write_text("source,target\n" + "v03,v05\nv05,v03\n" * 500_000)
    run_of()
    table = sp.open_run("run").answers()
    assert table.num_rows == 1_000_000
    first, second = expected([("v03", "v05"), ("v05", "v03")])
    assert table["distance"][:2].to_pylist() == [first["distance"], second["distance"]]
    distances = table["distance"].to_numpy().reshape(-1, 2)
    np.testing.assert_array_equal(distances, np.tile(distances[:1], (500_000, 1)))


def test_an_object_store_gets_the_same_files():
    write_pairs()
    run_of()
    run_of("output.path=memory://pairs-run")
    files = sp.open_run("memory://pairs-run").answers()
    assert files.to_pylist() == rows_of()
