"""The whole pipeline, solved by threads of this process and by real Dask workers."""

import logging
import pickle
import re
import shutil
import sys
from contextlib import ExitStack, nullcontext, suppress
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import LocalCluster

from sssp_pipeline.base.errors import DeadlineError, InputError, NegativeCycleError, RefutedError, SsspError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.forecast import Forecast
from sssp_pipeline.pipeline.planning import plan as planning_plan
from sssp_pipeline.pipeline.planning import work as planning_work
from sssp_pipeline.pipeline.planning.work import Work
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.run.completed_run import verify_run
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.pipeline.run.inspect import describe
from sssp_pipeline.pipeline.run.plan_facts import describe_plan
from sssp_pipeline.pipeline.solving import dispatch as scatter_stage
from sssp_pipeline.pipeline.solving import solve_task as worker_side
from sssp_pipeline.pipeline.solving import stage as solving_stage
from sssp_pipeline.pipeline.solving import trials
from sssp_pipeline.pipeline.solving.solve_task import solve_task
from sssp_pipeline.pipeline.solving.workers.process_wide import WhileNeeded
from sssp_pipeline.storage.records import record_content
from sssp_pipeline.workflow.models import Workflow


def made(tmp_path: Path, name: str = "run", **sections) -> Workflow:
    """Return a workflow on a generated grid, with `sections` merged into it."""
    data = {
        "graph": {
            "input": "generated:grid?rows=40&cols=41&keep=0.7&seed=3",
            "store": str(tmp_path / "graph"),
        },
        "sources": {"random": {"count": 30, "seed": 1}},
        "solve": {"batch": 4},
        "output": {"path": str(tmp_path / name)},
        "verify": "certificate",
    }
    for key, value in sections.items():
        data[key] = {**data[key], **value} if isinstance(data.get(key), dict) and key != "sources" else value
    return Workflow.model_validate(data)


def files(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def process_settings() -> dict[str, float]:
    """Return what a run changes in the process of its user while it works."""
    loggers = ("distributed", "distributed.client", "tornado.application", "bokeh")
    return {name: logging.getLogger(name).level for name in loggers} | {"switch": sys.getswitchinterval()}


class StopsAt(Quiet):
    """Ends a run with an error when it has done some batches."""

    def __init__(self, batches: int, error: type[BaseException] = KeyboardInterrupt) -> None:
        self.batches, self.error = batches, error

    def advance(self, done: int, total: int | None, unit: str) -> None:
        if unit == "batches" and done >= self.batches:
            raise self.error


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_run_leaves_the_process_of_its_user_as_it_was(tmp_path, cluster, is_stopped):
    before = process_settings()
    with pytest.raises(MemoryError) if is_stopped else nullcontext():
        run(made(tmp_path, cluster=cluster), StopsAt(1, MemoryError) if is_stopped else Quiet())
    assert process_settings() == before


def test_a_change_lasts_until_the_last_block_that_needs_it_ends():
    states = []
    change = WhileNeeded(lambda: (states.append("made"), lambda: states.append("undone"))[1])
    first, second = ExitStack(), ExitStack()
    first.enter_context(change)
    second.enter_context(change)
    first.close()
    assert states == ["made"]
    second.close()
    with change:
        pass
    assert states == ["made", "undone"] * 2


def metrics_of(path: Path) -> pa.Table:
    """Return the metrics of a finished run."""
    folder = RunFolder(str(path))
    folder.read_run()
    return folder.read_metrics()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    _, record = run(made(folder), Quiet())
    return folder / "run", record


def test_a_run_leaves_what_is_promised_and_nothing_else(undisturbed):
    folder, record = undisturbed
    batches = [f"distances/batch-{i:05d}.parquet" for i in range(8)]
    assert files(folder) == [*batches, "metrics.parquet", "report.html", "run.json"]
    assert record_content((folder / "run.json").read_bytes()) == record
    found = {key: value for key, value in record["verify"].items() if key != "verify_s"}
    assert found == {"mode": "certificate", "checked_sources": 30, "refuted": None}
    assert (record["sources"], record["batches"], record["graph"]["n_vertices"]) == (30, 8, 1640)
    metrics = pq.read_table(folder / "metrics.parquet")
    assert metrics.num_rows == 30
    assert set(metrics["attempts"].to_pylist()) == {1}
    rows = pq.read_table(folder / "distances")
    reached = np.bincount(
        np.unique(rows["source"].to_numpy(), return_inverse=True)[1], rows["distance"].is_valid()
    )
    assert reached.astype(int).tolist() == metrics["reached"].to_pylist()


@pytest.mark.medium
def test_small_batches_share_files_and_a_stopped_run_goes_on(tmp_path, monkeypatch, digests, listener):
    monkeypatch.setattr(planning_work, "SMALL_BATCHES", 10)
    one_by_one, heard = {"solve": {"batch": 1}, "verify": "off"}, listener()
    run(made(tmp_path, **one_by_one), heard)
    assert "`solve.batch: 1` would make 30 small files: a batch has 3 sources" in heard.lines
    assert len(digests(tmp_path / "run")) == 10
    with pytest.raises(KeyboardInterrupt):
        run(made(tmp_path, "stopped", cluster={"workers": 1}, **one_by_one), StopsAt(1))
    assert 0 < len(RunFolder(str(tmp_path / "stopped")).committed()) < 10
    run(made(tmp_path, "stopped", **one_by_one), Quiet())
    assert digests(tmp_path / "stopped") == digests(tmp_path / "run")


@pytest.mark.medium
def test_the_bytes_depend_neither_on_workers_nor_on_the_solver(tmp_path, undisturbed, digests):
    cluster = {"workers": 2, "threads_per_worker": 2, "in_flight": 1}
    run(made(tmp_path, cluster=cluster, solve={"batch": 4, "solver": "dijkstra"}), Quiet())
    assert digests(tmp_path / "run") == digests(undisturbed[0])


@pytest.mark.gpu
@pytest.mark.parametrize("cluster", [{}, {"threads_per_worker": 1}, {"workers": 1}])
@pytest.mark.parametrize(
    "solver", [name for name, s in SOLVERS.items() if s.device == "gpu" and not s.takes_equal_only]
)
def test_a_gpu_writes_the_same_bytes(tmp_path, undisturbed, solver, cluster, digests):
    solve = {"batch": 4, "solver": solver}
    folder, record = run(made(tmp_path, cluster=cluster, solve=solve), Quiet())
    assert digests(tmp_path / "run") == digests(undisturbed[0])
    assert record["verify"]["refuted"] is None
    assert set(folder.read_metrics()["device"].to_pylist()) == {record["hardware"]["gpu"]}
    facts = describe_plan(made(tmp_path, solve=solve), 2, Quiet())
    assert "solve_core_s" not in facts
    gpu = facts["gpu"]
    assert gpu["free_bytes"] > gpu["graph_bytes"] + gpu["sources_at_once"] * gpu["source_bytes"]


@pytest.mark.parametrize("layout", ["long", "wide"])
def test_a_run_to_some_targets(tmp_path, undisturbed, cluster, layout):
    targets = [1600, 3, 77, 1639]
    output = {"targets": {"ids": targets}, "layout": layout}
    folder, record = run(made(tmp_path, cluster=cluster, output=output, verify="sample"), Quiet())
    assert (record["targets"], record["verify"]["refuted"]) == (4, None)
    everything = pq.read_table(undisturbed[0] / "distances").to_pylist()
    true = {(r["source"], r["vertex"]): r["distance"] for r in everything}
    for path in sorted((tmp_path / "run" / "distances").iterdir()):
        rows = pq.read_table(path)
        if layout == "wide":
            assert rows["vertex"].to_pylist() == targets
            for source in rows.column_names[1:]:
                assert rows[source].to_pylist() == [true[int(source), vertex] for vertex in targets]
        else:
            assert rows["vertex"].to_pylist() == targets * (rows.num_rows // 4)
            assert all(r["distance"] == true[r["source"], r["vertex"]] for r in rows.to_pylist())
    metrics, all_metrics = (metrics_of(p) for p in (tmp_path / "run", undisturbed[0]))
    for column in ("source", "reached", "max_distance", "mean_distance"):
        assert metrics[column].equals(all_metrics[column])
    with pytest.raises(InputError, match="does not hold the distances to every vertex"):
        verify_run(folder.url, None, "certificate", Quiet())


@pytest.mark.medium
def test_a_wrong_distance_to_a_target_is_named(tmp_path, recorded_anew):
    output = {"targets": {"ids": [1600, 3, 77]}}
    folder, _ = run(made(tmp_path, output=output, verify="off"), Quiet())
    path = folder.batch_path(0)
    table = pq.read_table(path)
    rows = table.to_pylist()
    rows[1]["distance"] += 1
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)
    recorded_anew(folder)
    with pytest.raises(RefutedError, match=f"source `{rows[1]['source']}`, vertex `3`: stored distance"):
        verify_run(folder.url, None, "sample", Quiet())
    pq.write_table(table.set_column(1, "vertex", pa.array([9] * table.num_rows)), path)
    recorded_anew(folder)
    with pytest.raises(InputError, match="it has not the targets that the run was asked for"):
        verify_run(folder.url, None, "sample", Quiet())


def test_a_run_without_distances(tmp_path, undisturbed, listener, recorded_anew):
    workflow = made(tmp_path, output={"distances": "none"}, verify="sample")
    folder, record = run(workflow, Quiet())
    assert files(tmp_path / "run") == ["metrics.parquet", "report.html", "run.json"]
    assert (record["targets"], record["verify"]["refuted"]) == (0, None)
    metrics, full = folder.read_metrics(), metrics_of(undisturbed[0])
    for column in ("source", "reached", "max_distance", "mean_distance"):
        assert metrics[column].equals(full[column])
    heard = listener()
    run(workflow, heard)
    assert any("finished already, nothing to solve" in line for line in heard.lines)
    changed = metrics.set_column(
        metrics.column_names.index("mean_distance"), "mean_distance", pa.array([1.5] * 30)
    )
    pq.write_table(changed, tmp_path / "run" / "metrics.parquet")
    recorded_anew(folder)
    with pytest.raises(RefutedError, match=r"source `\d+`: stored mean_distance 1\.5, true mean_distance "):
        verify_run(folder.url, None, "sample", Quiet())


def test_a_run_without_distances_goes_on_where_it_stopped(tmp_path, monkeypatch, listener):
    solved = []

    def fails_once(task):
        if any(number == 5 for number, _ in task.batches) and 5 not in solved:
            solved.append(5)
            raise OSError("the power failed")
        solved.extend(number for number, _ in task.batches)
        return solve_task(task)

    monkeypatch.setattr(scatter_stage, "solve_task", fails_once)
    workflow = made(tmp_path, output={"distances": "none"}, solve={"retries": 0}, verify="off")
    with pytest.raises(SsspError, match="1 of 8 batches failed"):
        run(workflow, Quiet())
    left = describe(str(tmp_path / "run"))
    assert (left["batches_committed"], left["batches_left"], left["sources_left"]) == (7, 1, 4)
    heard = listener()
    run(workflow, heard)
    assert "going on: 7 of 8 batches are committed already" in heard.lines
    assert sorted(solved) == [0, 1, 2, 3, 4, 5, 5, 6, 7]
    assert metrics_of(tmp_path / "run").num_rows == 30


@pytest.mark.gpu
@pytest.mark.parametrize(
    "solver", [name for name, s in SOLVERS.items() if s.device == "gpu" and not s.takes_equal_only]
)
def test_a_gpu_stores_the_same_bytes_of_a_part_of_a_row(tmp_path, solver, digests):
    for name, output, cutoff in (
        ("to", {"targets": {"ids": [9, 3, 1600]}}, None),
        ("none", {"distances": "none"}, None),
        ("near", {}, 9000),
        ("near-zstd", {"compression": "zstd"}, 9000),
        ("near-wide", {"layout": "wide"}, 9000),
        ("near-number", {"unreached": 10**6}, 9000),
        ("near-pairs", {"distances": "reached"}, 9000),
        ("near-to", {"targets": {"ids": [9, 3, 1600, 800]}}, 9000),
    ):
        tables = []
        for one in (solver, "dijkstra"):
            solve = {"solver": one, "cutoff": cutoff}
            folder, _ = run(
                made(tmp_path, f"{name}-{one}", output=output, solve=solve, verify="off"), Quiet()
            )
            columns = ["source", "reached", "max_distance", "mean_distance"]
            tables.append((folder.read_metrics().select(columns), digests(tmp_path / f"{name}-{one}")))
        assert tables[0][0].equals(tables[1][0])
        assert tables[0][1] == tables[1][1]


def test_a_scheduler_without_workers(tmp_path):
    with LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0") as cluster:
        address = {"kind": "address", "address": cluster.scheduler_address, "wait_s": 1}
        with pytest.raises(InputError, match="has no workers after 1 s"):
            run(made(tmp_path, cluster=address), Quiet())


def test_tasks_stay_small_however_many_the_targets(tmp_path, monkeypatch):
    sizes = []

    def weighed(workers, tasks, *others):
        def seen():
            for task in tasks:
                sizes.append(len(pickle.dumps(task)))
                yield task

        return scatter_stage.scatter(workers, seen(), *others)

    monkeypatch.setattr("sssp_pipeline.pipeline.solving.stage.scatter", weighed)
    targets = {"random": {"count": 1600, "seed": 2}}
    run(made(tmp_path, output={"targets": targets}, verify="off"), Quiet())
    assert len(sizes) == 8
    assert max(sizes) < 1600  # the targets take 6,400


def test_running_again_solves_only_what_is_missing(tmp_path, undisturbed, cluster, listener, digests):
    folder, heard = tmp_path / "run", listener()
    with pytest.raises(KeyboardInterrupt):
        run(made(tmp_path, cluster={"threads_per_worker": 1}), StopsAt(5))
    before = {p: p.stat().st_mtime_ns for p in folder.glob("distances/*")}
    run(made(tmp_path, cluster=cluster), heard)
    assert f"going on: {len(before)} of 8 batches are committed already" in heard.lines
    assert {p: p.stat().st_mtime_ns for p in before} == before
    assert digests(folder) == digests(undisturbed[0])
    assert files(folder) == files(undisturbed[0])


def test_a_finished_run_is_left_as_it_is(tmp_path, listener, digests):
    run(made(tmp_path, verify="off"), Quiet())
    before = digests(tmp_path / "run")
    heard = listener()
    _, record = run(made(tmp_path, verify="sample"), heard)
    assert f"{tmp_path}/run is finished already, nothing to solve" in heard.lines
    assert record["verify"]["mode"] == "sample"
    assert digests(tmp_path / "run") == before


@pytest.mark.parametrize(
    ("change", "differs"),
    [
        ({"solve": {"cutoff": 900}}, "cutoff"),
        ({"solve": {"batch": 5}}, "batch"),
        ({"output": {"layout": "wide"}}, "layout"),
        ({"sources": {"top_degree": 30}}, "sources"),
        ({"graph": {"input": "generated:grid?rows=40&cols=41&keep=0.7&seed=4"}}, "graph"),
    ],
)
def test_another_run_is_not_mixed_in(tmp_path, undisturbed, change, differs, digests):
    folder, _ = undisturbed
    before = digests(folder)
    output = {"path": str(folder), **change.get("output", {})}
    with pytest.raises(InputError) as caught:
        run(made(tmp_path, **{**change, "output": output}), Quiet())
    assert caught.value.message == f"`{folder}` holds another run: it differs in {differs}"
    assert digests(folder) == before


def test_a_task_that_comes_late_writes_nothing_into_another_run(tmp_path, monkeypatch):
    def noting(task):
        tasks.append(task)
        return solve_task(task)

    tasks = []
    monkeypatch.setattr(scatter_stage, "solve_task", noting)
    folder, _ = run(made(tmp_path), Quiet())
    done = files(tmp_path / "run")
    with pytest.raises(InputError) as caught:
        solve_task(tasks[0])
    assert caught.value.message == f"`{folder.url}` no longer holds the run of this batch"
    assert files(tmp_path / "run") == done
    shutil.rmtree(tmp_path / "run")
    folder.begin({"another": "run"})
    with pytest.raises(InputError):
        solve_task(tasks[0])
    assert folder.committed() == set()


def test_a_refuted_distance_ends_the_run_and_is_recorded(tmp_path, recorded_anew):
    run(made(tmp_path, verify="off"), Quiet())
    path = tmp_path / "run" / "distances" / "batch-00002.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    row = next(r for r in rows if r["distance"])
    row["distance"] += 1
    pq.write_table(table.from_pylist(rows, table.schema), path)
    recorded_anew(RunFolder(str(tmp_path / "run")))
    with pytest.raises(RefutedError) as caught:
        verify_run(str(tmp_path / "run"), None, "certificate", Quiet())
    source, vertex = row["source"], row["vertex"]
    assert caught.value.message == (
        f"source `{source}`, vertex `{vertex}`: stored distance {row['distance']}, "
        f"true distance {row['distance'] - 1}"
    )
    assert caught.value.exit_code == 3
    assert RunFolder(str(tmp_path / "run")).read_run()["verify"]["refuted"] == caught.value.message
    assert "--overwrite" in caught.value.hint
    _, record = run(made(tmp_path, verify="certificate"), Quiet(), overwrite=True)
    assert (record["verify"]["mode"], record["verify"]["refuted"]) == ("certificate", None)


def test_verify_needs_the_graph_that_was_solved(tmp_path, undisturbed):
    folder, _ = undisturbed
    small = {"input": "generated:grid?rows=5&cols=5&keep=1.0&seed=1", "store": str(tmp_path / "small")}
    other = made(tmp_path, graph=small, sources={"all": True})
    run(other, Quiet())
    with pytest.raises(InputError, match="holds no version of the graph with content id"):
        verify_run(str(folder), other.store, "sample", Quiet())


def test_a_path_that_does_not_fit_names_its_ends_and_the_same_folder_takes_the_wider_type(tmp_path, cluster):
    """With many batches under way when the first one fails."""
    (tmp_path / "edges.txt").write_text("".join(f"{u} {u + 1} 4000000000\n" for u in range(40)))
    sections = {"sources": {"all": True}, "solve": {"batch": 1}, "cluster": {"in_flight": 30, **cluster}}

    def with_weights(dtype):
        graph = {
            "input": str(tmp_path / "edges.txt"),
            "weights": {"dtype": dtype},
            "store": str(tmp_path / dtype),
        }
        return made(tmp_path, graph=graph, **sections)

    with pytest.raises(InputError) as caught:
        run(with_weights("uint32"), Quiet())
    assert re.fullmatch(
        r"the shortest path from `\d+` to `\d+` is longer than uint32 holds", caught.value.message
    )
    assert caught.value.hint == "set `graph.weights.dtype: uint64`, or a cutoff"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["edges.txt", "uint32"]
    run(with_weights("uint64"), Quiet())
    found = pq.read_table(tmp_path / "run" / "distances")["distance"].to_pylist()
    assert max(found, key=lambda d: d or 0) == 160 * 10**9


def test_string_ids_come_back_in_every_output(tmp_path):
    (tmp_path / "edges.txt").write_text("Oslo Bergen 463\nBergen Ålesund 420\n")
    workflow = made(tmp_path, graph={"input": str(tmp_path / "edges.txt")}, sources={"ids": ["Oslo"]})
    folder, _ = run(workflow, Quiet())
    rows = pq.read_table(tmp_path / "run" / "distances").to_pylist()
    assert [(r["source"], r["vertex"], r["distance"]) for r in rows] == [
        ("Oslo", "Bergen", 463),
        ("Oslo", "Oslo", 0),
        ("Oslo", "Ålesund", 883),
    ]
    assert folder.read_metrics()["source"].to_pylist() == ["Oslo"]


def test_predecessors_lead_back_to_the_source(tmp_path):
    run(made(tmp_path, solve={"predecessors": True, "batch": 4}), Quiet())
    rows = pq.read_table(tmp_path / "run" / "distances").to_pylist()
    table = {(r["source"], r["vertex"]): r for r in rows}
    for row in rows:
        if row["vertex"] == row["source"] or row["distance"] is None:
            assert row["predecessor"] is None
        else:
            assert table[row["source"], row["predecessor"]]["distance"] < row["distance"]


@pytest.mark.parametrize(("batches_per_call", "failed"), [(1, "3"), (3, "3, 4, 5")])
def test_failed_batches_are_tried_again_listed_and_hold_up_no_other(
    tmp_path, monkeypatch, undisturbed, cluster, batches_per_call, failed, digests
):
    flag, n_failed = tmp_path / "fail", len(failed.split())
    flag.touch()
    monkeypatch.setattr(Work, "batches_per_call", lambda self, solver: batches_per_call)
    monkeypatch.setattr(scatter_stage, "solve_task", partial(_fail_while, solve_task, str(flag), 3))
    with pytest.raises(SsspError) as caught:
        run(made(tmp_path, cluster=cluster), Quiet())
    assert caught.value.message == f"{n_failed} of 8 batches failed: {failed}; batch 3: the network went away"
    assert caught.value.exit_code == 1
    assert len(list((tmp_path / "run" / "distances").iterdir())) == 8 - n_failed
    flag.unlink()
    run(made(tmp_path, cluster=cluster), Quiet())
    assert digests(tmp_path / "run") == digests(undisturbed[0])


@pytest.mark.parametrize("small", [0, 2**30], ids=["side by side", "in turn"])
def test_of_a_task_that_failed_the_batches_that_are_there_are_no_failure(
    tmp_path, monkeypatch, undisturbed, small, digests
):
    def commit(folder, batch, *args):
        if batch == 4:
            raise OSError("the disk is full")
        return real(folder, batch, *args)

    real = RunFolder.commit_batch
    monkeypatch.setattr(worker_side, "_SMALL_BYTES", small)
    monkeypatch.setattr(Work, "batches_per_call", lambda work, solver: 3)
    with monkeypatch.context() as patched, pytest.raises(SsspError) as caught:
        patched.setattr(RunFolder, "commit_batch", commit)
        run(made(tmp_path), Quiet())
    assert caught.value.message == "1 of 8 batches failed: 4; batch 4: the disk is full"
    (tmp_path / "run" / "distances" / "batch-00001.parquet").unlink()
    monkeypatch.setattr(Work, "batches_per_call", lambda work, solver: 2)
    run(made(tmp_path), Quiet())
    assert digests(tmp_path / "run") == digests(undisturbed[0])


def test_a_batch_that_succeeds_at_the_third_attempt(
    tmp_path, monkeypatch, undisturbed, cluster, listener, digests
):
    monkeypatch.setattr(scatter_stage, "solve_task", partial(_fail_twice, solve_task, 5))
    heard = listener()
    folder, _ = run(made(tmp_path, cluster=cluster), heard)
    again = {"event": "retry", "level": "warning", "batches": (5,), "error": "the network went away"}
    assert heard.named("retry") == [again | {"attempt": attempt} for attempt in (1, 2)]
    assert digests(tmp_path / "run") == digests(undisturbed[0])
    metrics = folder.read_metrics()
    assert dict(zip(metrics["batch"].to_pylist(), metrics["attempts"].to_pylist(), strict=True))[5] == 3


def test_a_task_of_several_batches_writes_the_same_files(
    tmp_path, monkeypatch, undisturbed, cluster, listener, digests
):
    monkeypatch.setattr(Work, "batches_per_call", lambda self, solver: 3)
    heard = listener()
    folder, _ = run(made(tmp_path, cluster=cluster), heard)
    assert digests(tmp_path / "run") == digests(undisturbed[0])
    assert files(tmp_path / "run") == files(undisturbed[0])
    told = sorted(heard.named("solved"), key=lambda event: event["batches"])
    assert [event["batches"] for event in told] == [(0, 1, 2), (3, 4, 5), (6, 7)]
    assert [event["sources"] for event in told] == [12, 12, 6]
    assert {event["worker"] for event in told} == set(folder.read_metrics()["worker"].to_pylist())
    distances = sum(p.stat().st_size for p in (tmp_path / "run" / "distances").iterdir())
    assert distances < sum(event["bytes"] for event in told) < distances + 8 * 20_000
    assert (max(event["done"] for event in told), told[0]["total"]) == (8, 8)
    drop = ["solve_s", "teps", "worker", "solved_at"]
    assert folder.read_metrics().drop_columns(drop) == pq.read_table(
        undisturbed[0] / "metrics.parquet"
    ).drop_columns(drop)


def expect(monkeypatch, limit_s, **ns_per_element):
    """Let the solvers expect to take this long for each vertex and edge, a trial cost nothing, and end at `limit_s`."""
    for name, solver in SOLVERS.items():
        ns = ns_per_element.get(name.replace("-", "_"), 1e6)
        of_one = staticmethod(partial(_forecast, 1e-9 * ns))
        monkeypatch.setattr(type(solver), "forecast", of_one)
    for name in ("RUN_S", "BATCH_S"):
        monkeypatch.setattr(planning_plan, name, 0.0)
    monkeypatch.setattr(trials, "_LOAD_S", {"cpu": 0.0, "gpu": 0.0})
    monkeypatch.setattr(trials, "_MIN_GAIN", 0.0)
    monkeypatch.setattr(trials, "_SHORT_S", 0.0)
    monkeypatch.setattr(trials, "_FREE_S", 60.0)
    monkeypatch.setattr(trials.Trials, "_limit_s", lambda *args: limit_s)


def _forecast(element_s, traits, n_sources):
    return Forecast(element_s * (traits.n_vertices + traits.n_edges))


def test_the_solvers_that_may_be_the_fastest_are_tried(tmp_path, monkeypatch, undisturbed, cluster, digests):
    expect(monkeypatch, 10.0, dijkstra=0.001, delta_stepping=0.002)
    cluster = {"in_flight": 1, **(cluster or {"threads_per_worker": 1})}
    folder, record = run(made(tmp_path, cluster=cluster), Quiet())
    assert digests(tmp_path / "run") == digests(undisturbed[0])
    solvers = folder.read_metrics()["solver"].to_pylist()
    assert solvers[0] == "dijkstra"
    assert "delta-stepping" in solvers
    assert record["solver"] in ("dijkstra", "delta-stepping")
    assert record["solver_reason"].startswith("expected to take ")


def test_the_batches_of_a_trial_that_takes_too_long_are_solved_by_another(
    tmp_path, monkeypatch, undisturbed, cluster, listener, digests
):
    expect(monkeypatch, 1e-9, dijkstra=0.001, delta_stepping=0.002)
    cluster = {"in_flight": 1, **(cluster or {"threads_per_worker": 1})}
    heard = listener()
    folder, record = run(made(tmp_path, cluster=cluster), heard)
    assert [event["solver"] for event in heard.named("trial_ended")] == ["delta-stepping"]
    assert digests(tmp_path / "run") == digests(undisturbed[0])
    assert set(folder.read_metrics()["solver"].to_pylist()) == {"dijkstra"}
    assert record["solver"] == "dijkstra"
    assert set(folder.read_metrics()["attempts"].to_pylist()) == {1}


def test_a_solver_that_is_tried_and_has_no_memory_ends_no_run(
    tmp_path, monkeypatch, undisturbed, listener, digests
):
    def without_memory(*args):
        raise InputError("too little memory")

    expect(monkeypatch, 10.0, dijkstra=0.001, delta_stepping=0.002)
    monkeypatch.setattr(type(SOLVERS["delta-stepping"]), "solve_parts", without_memory)
    heard = listener()
    run(made(tmp_path, verify="off"), heard)
    assert [event["solver"] for event in heard.named("trial_ended")] == ["delta-stepping"]
    assert digests(tmp_path / "run") == digests(undisturbed[0])


def test_a_run_that_is_slower_than_planned_says_so_once(tmp_path, monkeypatch, listener):
    monkeypatch.setattr(solving_stage, "_LATE_S", 0.0)
    monkeypatch.setattr(solving_stage, "_LOADING_S", 0.0)
    expect(monkeypatch, 10.0, dijkstra=1e-4)
    heard, as_planned = listener(), listener()
    run(made(tmp_path, solve={"solver": "dijkstra"}, verify="off"), heard)
    (late,) = heard.named("late")
    assert late["left_s"] > 2 * late["planned_s"]
    expect(monkeypatch, 10.0)
    run(made(tmp_path, name="run-2", solve={"solver": "dijkstra"}, verify="off"), as_planned)
    assert not as_planned.named("late")


def test_tasks_that_load_the_kernels_do_not_tell_that_a_run_is_late(tmp_path, monkeypatch, listener):
    monkeypatch.setattr(solving_stage, "_LATE_S", 0.0)
    expect(monkeypatch, 10.0, dijkstra=1e-4)
    for loading_s, n_late in ((3600.0, 0), (0.0, 1)):
        monkeypatch.setattr(solving_stage, "_LOADING_S", loading_s)
        heard = listener()
        run(made(tmp_path, name=f"run-{n_late}", solve={"solver": "dijkstra"}, verify="off"), heard)
        assert len(heard.named("late")) == n_late


@pytest.mark.gpu
def test_the_gpu_solvers_that_may_be_the_fastest_are_tried(tmp_path, monkeypatch, undisturbed, digests):
    expect(monkeypatch, 10.0, near_far=0.001, adds_lanes=0.002, adds=0.003)
    monkeypatch.setattr(trials.Trials, "is_worth_waiting", True)
    folder, _ = run(made(tmp_path), Quiet())
    assert digests(tmp_path / "run") == digests(undisturbed[0])
    assert set(folder.read_metrics()["solver"].to_pylist()) >= {"near-far", "adds-lanes", "adds"}


@pytest.mark.medium
def test_a_worker_that_dies_is_replaced(tmp_path, monkeypatch, undisturbed, digests):
    monkeypatch.setattr(
        scatter_stage, "solve_task", partial(_die_once, solve_task, str(tmp_path / "died"), 2)
    )
    run(made(tmp_path, cluster={"workers": 1}), Quiet())
    assert (tmp_path / "died").exists()
    assert digests(tmp_path / "run") == digests(undisturbed[0])
    assert files(tmp_path / "run") == files(undisturbed[0])


# These also run on workers, pickled by value, so each imports what it needs.


def _fail_while(solve, flag, batch, task):
    from pathlib import Path

    if task.batches[0][0] == batch and Path(flag).exists():
        raise OSError("the network went away")
    return solve(task)


def _fail_twice(solve, batch, task):
    if task.batches[0][0] == batch and task.attempt < 3:
        raise OSError("the network went away")
    return solve(task)


def _die_once(solve, flag, batch, task):
    import os
    import signal
    from pathlib import Path

    from sssp_pipeline.storage.files import TEMP_PREFIX

    if task.batches[0][0] == batch and not Path(flag).exists():
        Path(flag).touch()
        # As if another thread of this worker had been writing.
        (Path(task.run) / "distances").mkdir(exist_ok=True)
        (Path(task.run) / "distances" / f"{TEMP_PREFIX}0123-batch-00099.parquet").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return solve(task)


def test_the_description_of_a_plan(tmp_path):
    workflow = made(tmp_path)
    facts = describe_plan(workflow, 2, Quiet())  # ingests, since nobody has
    assert not (tmp_path / "run").exists()
    run(workflow, Quiet())
    timed = {"solve_s_per_source", "solve_core_s", "expected_s", "solver_reason", "measured"}
    again = describe_plan(workflow, 2, Quiet())
    assert {k: v for k, v in facts.items() if k not in timed} == {
        k: v for k, v in again.items() if k not in timed
    }
    assert (facts["sources"], facts["batches"], facts["n_vertices"]) == (30, 8, 1640)
    assert facts["batches_a_call"] == 1
    assert facts["probed_sources"] == 2
    assert facts["solver"] in facts["solve_s_per_source"]
    assert facts["solve_core_s"] > 0
    assert facts["measured"]["solver"] == "delta-stepping"
    assert "solve_core_s" not in describe_plan(workflow, 0, Quiet())


def test_two_sources_tell_nothing_of_a_solver_that_takes_many_at_once(tmp_path):
    unweighted = {"weights": {"column": "none"}}
    facts = describe_plan(made(tmp_path, graph=unweighted, solve={"solver": "bits"}), 2, Quiet())
    assert facts["solve_s_per_source"].keys() >= {"bits"}
    assert "solve_core_s" not in facts


def test_the_description_of_a_plan_measures_each_solver_that_may_be_the_fastest(tmp_path, monkeypatch):
    expect(monkeypatch, 10.0, dijkstra=0.001, delta_stepping=0.002)
    facts = describe_plan(made(tmp_path), 2, Quiet())
    assert facts["solver"] == "dijkstra"
    assert set(facts["solve_s_per_source"]) == {"dijkstra", "delta-stepping"}
    assert min(facts["solve_s_per_source"].values()) > 0


def test_a_search_past_its_deadline_ends_the_run_at_once_and_names_the_inputs_own_id(
    tmp_path, cluster, listener
):
    (tmp_path / "edges.txt").write_text("".join(f"stop{u} stop{u + 1} 1\n" for u in range(40)))
    graph = {"input": str(tmp_path / "edges.txt"), "ids": "string"}
    sections = {"graph": graph, "sources": {"all": True}, "cluster": cluster}
    heard = listener()
    with pytest.raises(DeadlineError, match=r"^`\S+` took longer for source stop\d+ than") as caught:
        run(made(tmp_path, **sections, solve={"batch": 1, "deadline_s": 1e-9}), heard)
    assert caught.value.hint.startswith("set `solve.deadline_s` higher and run the same command again")
    assert not heard.named("retry")
    _, record = run(made(tmp_path, **sections, solve={"batch": 1}), Quiet())
    assert record["sources"] == 41


def test_distances_that_no_float_holds_are_still_exact(tmp_path):
    (tmp_path / "edges.txt").write_text("0 1 9007199254740993\n1 2 1\n")
    run(made(tmp_path, graph={"input": str(tmp_path / "edges.txt")}, sources={"ids": [0]}), Quiet())
    assert pq.read_table(tmp_path / "run" / "distances")["distance"].to_pylist() == [0, 2**53 + 1, 2**53 + 2]


@pytest.mark.parametrize(
    "damage", ["zzz", "[]", "null", "{}", '{"format": "sssp-pipeline run", "version": 1}']
)
def test_a_damaged_record_is_said(tmp_path, damage):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text(damage)
    for use in (
        lambda: verify_run(str(tmp_path / "run"), None, "sample", Quiet()),
        lambda: run(made(tmp_path), Quiet()),
    ):
        with pytest.raises(InputError) as caught:
            use()
        foreign = f"`{tmp_path}/run` is not empty and does not hold a run: it has run.json"
        assert "run.json` is " in caught.value.message or caught.value.message == foreign
    assert (tmp_path / "run" / "run.json").read_text() == damage


@pytest.mark.parametrize("name", ["identity.json", "started.json"])
@pytest.mark.parametrize(
    "damage", [None, b"", b"[]", b'{"graph": 1, "solver": 5, "starts": 3, "checksum": "0"}']
)
def test_damage_in_the_notes_of_an_unfinished_run_costs_no_batch(
    tmp_path, monkeypatch, digests, undisturbed, name, damage
):
    with monkeypatch.context() as patched, pytest.raises(RuntimeError):
        patched.setattr(RunFolder, "joined_metrics", _fail)
        run(made(tmp_path), Quiet())
    note = tmp_path / "run" / "_run" / name
    note.unlink() if damage is None else note.write_bytes(damage)
    if name == "identity.json":
        other = made(tmp_path, sources={"random": {"count": 30, "seed": 9}})
        with pytest.raises(InputError, match=r"holds another run, whose `_run/identity\.json` is damaged"):
            run(other, Quiet())
    marks = {path: path.stat().st_mtime_ns for path in (tmp_path / "run" / "distances").iterdir()}
    run(made(tmp_path), Quiet())
    assert {path: path.stat().st_mtime_ns for path in marks} == marks
    assert digests(tmp_path / "run") == digests(undisturbed[0])


def test_a_record_has_the_versions_of_each_start_that_committed_batches(tmp_path, monkeypatch):
    def fails(task):
        raise InputError("no worker can be used", hint="")

    def start(release: str, progress: Quiet, work=worker_side._solved) -> None:
        with monkeypatch.context() as patched, suppress(KeyboardInterrupt, SsspError):
            patched.setattr("sssp_pipeline.pipeline.solving.stage.versions", lambda: {"release": release})
            patched.setattr(worker_side, "_solved", work)
            run(made(tmp_path), progress)

    start("1", StopsAt(2))
    start("2", Quiet(), fails)
    start("3", Quiet())
    starts = RunFolder(str(tmp_path / "run")).read_run()["starts"]
    assert [each["versions"]["release"] for each in starts] == ["1", "3"]
    assert 0 == starts[0]["batches_before"] < starts[1]["batches_before"] < 8


def _fail(*_):
    raise RuntimeError


@pytest.mark.medium
def test_a_damaged_store_is_mended_by_what_the_hint_says(tmp_path):
    run(made(tmp_path), Quiet())
    (part,) = (tmp_path / "graph" / "edges").iterdir()
    part.write_bytes(part.read_bytes()[:100] + b"x" + part.read_bytes()[101:])
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(InputError) as caught:
        run(made(tmp_path), Quiet())
    assert caught.value.hint == (
        "remove the folder of the graph store and make it again with `sssp-pipeline ingest` or `run`"
    )
    shutil.rmtree(tmp_path / "graph")
    run(made(tmp_path), Quiet())


def test_verify_finds_a_store_it_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(made(tmp_path, graph={"store": "here"}), Quiet())
    (tmp_path / "here").rename(tmp_path / "there")
    with pytest.raises(InputError) as caught:
        verify_run("run", None, "sample", Quiet())
    assert caught.value.hint == "name the run's graph store: `--store URL`, in Python `store=URL`"
    assert verify_run("run", "there", "sample", Quiet())["verify"]["refuted"] is None


def test_an_input_without_weights_is_said(tmp_path, listener):
    (tmp_path / "edges.txt").write_text("0 1\n")
    heard = listener()
    run(made(tmp_path, graph={"input": str(tmp_path / "edges.txt")}, sources={"all": True}), heard)
    (read,) = (line for line in heard.lines if line.startswith("read "))
    assert "; source `1`, target `2`, no weight: there is no third column, every edge weighs 1;" in read


def hilly(path: Path, kind: type, cycle: bool = False) -> str:
    """Write a lattice whose edges are longer by the height they leave and shorter by the one they gain."""
    heights = [(i * 65537) % 101 for i in range(900)]
    edges = [(i, i + step) for i in range(900) for step in (1, 30) if i + step < 900]
    rows = [
        (u, v, kind(1 + (u * v) % 50 + heights[u] - heights[v]))
        for a, b in edges
        for u, v in ((a, b), (b, a))
    ]
    if cycle:
        rows += [(700, 901, 5), (901, 700, -6)]
    path.write_text("".join(f"v{u},v{v},{w}\n" for u, v, w in rows))
    return str(path)


def hills(tmp_path: Path, name: str, kind: type, cycle: bool = False, **sections) -> Workflow:
    graph = {
        "input": hilly(tmp_path / "edges.csv", kind, cycle),
        "store": str(tmp_path / f"graph-{kind.__name__}"),
    }
    return made(tmp_path, name, graph=graph, sources={"ids": ["v0", "v450", "v899"]}, **sections)


@pytest.mark.medium
def test_negative_weights_give_the_same_bytes_whoever_solves(tmp_path, digests):
    for kind, solvers in (
        (int, ("auto", "dijkstra", "queue-bellman-ford")),
        (float, ("auto", "queue-bellman-ford")),
    ):
        seen = []
        for solver in solvers:
            _, record = run(
                hills(tmp_path, f"{kind.__name__}-{solver}", kind, solve={"solver": solver, "batch": 2}),
                Quiet(),
            )
            assert record["verify"]["refuted"] is None
            seen.append(digests(tmp_path / f"{kind.__name__}-{solver}"))
        assert all(one == seen[0] for one in seen)
    rows = pq.read_table(tmp_path / "int-auto" / "distances")
    assert min(rows["distance"].to_pylist()) < 0
    limited = {"solve": {"cutoff": 20}, "verify": "sample"}
    _, record = run(hills(tmp_path, "limited", int, **limited), Quiet())
    assert record["verify"]["refuted"] is None
    some = pq.read_table(tmp_path / "limited" / "distances").to_pylist()
    for one, other in zip(some, rows.to_pylist(), strict=True):
        far = other["distance"] > 20
        assert one == (other | {"distance": None} if far else other)


def test_a_negative_cycle_ends_a_run_with_its_vertices(tmp_path, cluster):
    with pytest.raises(NegativeCycleError) as caught:
        run(hills(tmp_path, "run", int, cycle=True, cluster=cluster), Quiet())
    assert caught.value.exit_code == 2
    assert set(caught.value.cycle) == {"v700", "v901"}
    assert caught.value.message.endswith(
        " of length -1, which can be reached from `v0`, makes paths ever shorter"
    )
    assert not list((tmp_path / "run").glob("distances/*"))
