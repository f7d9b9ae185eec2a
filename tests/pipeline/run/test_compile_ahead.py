"""A first run compiles the kernels of a hierarchy while its input is read, and leaves no process behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sssp_pipeline.base import compile_children
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.cpu.compile_ahead import ORACLE, SEARCHES
from sssp_pipeline.kernels.gpu.common.cuda import compile
from sssp_pipeline.kernels.gpu.common.rows.path_sums_on_device import path_sums_unit
from sssp_pipeline.kernels.gpu.path_sweep.path_sweep_on_device import PATH_SWEEP
from sssp_pipeline.kernels.gpu.phast_gpu import phast_gpu
from sssp_pipeline.kernels.gpu.phast_gpu.host_hierarchy import chunk_kernels
from sssp_pipeline.kernels.hierarchy.compile_ahead import LOOK, SWEEPS, groups_after_order, order_groups
from sssp_pipeline.kernels.hierarchy.ordering import metis_processes
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.formats.parsing.compile_ahead import DIGITS
from sssp_pipeline.pipeline.ingest import new_graph
from sssp_pipeline.pipeline.ingest.rows.compile_ahead import GATHERING, GROUPING, ROWS
from sssp_pipeline.pipeline.run import compile_ahead, first_run
from sssp_pipeline.pipeline.run.compile_ahead import compile_for_run
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.pipeline.run.hierarchy_stage import kernels_of
from sssp_pipeline.pipeline.run.ingest_workflow import ingest_all
from sssp_pipeline.workflow.models import Workflow

pytestmark = [
    pytest.mark.skipif(usable_cores() < 2, reason="one core compiles nothing ahead"),
]

U32, U64 = np.dtype("uint32"), np.dtype("uint64")
(OF_PHAST, SELDOM), (OF_GPU, _) = groups_after_order(SWEEPS), groups_after_order(chunk_kernels())
FOR_PHAST, FOR_GPU = [*order_groups(), *OF_PHAST], [*order_groups(), *OF_GPU]
#: With these, the run searches some sources and looks at the graph before it makes an order.
IF_IT_PAYS = [SEARCHES, LOOK, *FOR_PHAST]

#: Runs a workflow in an environment without compiled kernels. Prints which kernels this process compiles, and whether
#: children are there when the input is read, when the solver is chosen, and in the end.
PROGRAM = """
import json, os, sys
from pathlib import Path
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.workflow.models import Workflow
MARK = f"NUMBA_CACHE_DIR={os.environ['NUMBA_CACHE_DIR']}".encode()
def has_children():
    return any(is_child(process) for process in Path("/proc").glob("[0-9]*"))
def is_child(process):
    try:
        is_ours = MARK in (process / "environ").read_bytes()
        return is_ours and b"-m\\0sssp_pipeline.base.compile_children" in (process / "cmdline").read_bytes()
    except OSError:
        return False
seen = {}
class Looking(Quiet):
    def stage(self, name):
        seen[name] = has_children()
    def say(self, line, event="note", *, level="info", **facts):
        seen[event] = has_children()
run(Workflow.model_validate(json.loads(sys.argv[1])), Looking())
print(json.dumps([names, any(seen.values()), seen["solver"], has_children()]))
"""


def workflow(folder: Path, n_sources: int = 20, **sections: Any) -> dict[str, Any]:
    data: dict[str, Any] = {
        "graph": {"input": "generated:grid?rows=60&cols=40&seed=3", "store": str(folder / "graph")},
        "sources": {"random": {"count": n_sources, "seed": 1}},
        "output": {"path": str(folder / "run")},
        "verify": "off",
        "report": False,
    }
    for name, section in sections.items():
        data[name] = {**data.get(name, {}), **section} if name != "sources" else section
    return data


@pytest.fixture
def asked(monkeypatch) -> list[Any]:
    """Return what `compile_children` is asked for if one process may compile: groups and type, or "stop"."""
    asked: list[Any] = []
    monkeypatch.setattr(compile_ahead, "n_children", lambda: 1)
    monkeypatch.setattr(compile_children, "start", lambda groups, dtype, _: asked.append((groups, dtype)))
    monkeypatch.setattr(compile_children, "stop", lambda: asked.append("stop"))
    return asked


@pytest.mark.parametrize(
    ("sections", "groups", "dtype"),
    [
        pytest.param({"solve": {"solver": "phast"}}, FOR_PHAST, U32, id="phast"),
        pytest.param({"solve": {"hierarchy": "build"}}, FOR_PHAST, U32, id="build"),
        pytest.param({"n_sources": 300}, IF_IT_PAYS, U32, id="many-sources"),
        pytest.param({"sources": {"all": True}}, IF_IT_PAYS, U32, id="all-sources"),
        pytest.param({"sources": {"top_degree": 256}}, IF_IT_PAYS, U32, id="top-degree"),
        pytest.param(
            {"n_sources": 300, "graph": {"weights": {"dtype": "int64"}}}, IF_IT_PAYS, U64, id="int64"
        ),
        pytest.param({"n_sources": 300, "graph": {"weights": {"dtype": "float32"}}}, None, None, id="floats"),
        pytest.param({}, None, None, id="few-sources"),
        pytest.param({"sources": {"ids": [1, 2]}}, None, None, id="few-ids"),
        pytest.param({"n_sources": 300, "solve": {"solver": "dijkstra"}}, None, None, id="another-solver"),
        pytest.param({"n_sources": 300, "solve": {"hierarchy": "off"}}, None, None, id="off"),
    ],
)
def test_what_may_be_needed_is_compiled_before_the_input_is_read(
    asked, monkeypatch, tmp_path, sections, groups, dtype
):
    class Reached(Exception):
        pass

    def read(*_):
        raise Reached

    monkeypatch.setattr(new_graph, "ingest_into", read)
    with pytest.raises(Reached):
        run(Workflow.model_validate(workflow(tmp_path, **sections)), Quiet())
    assert asked == [*([] if groups is None else [(groups, dtype)]), "stop"]


def test_without_pymetis_the_kernels_of_the_order_are_compiled_too(asked, monkeypatch, tmp_path):
    monkeypatch.setattr(metis_processes, "package", lambda: None)
    compile_for_run(Workflow.model_validate(workflow(tmp_path, solve={"solver": "phast"})))
    assert asked == [([*order_groups(), *OF_PHAST], U32)]
    assert len(order_groups()) == 3


def test_a_run_on_a_gpu_has_other_kernels(asked, tmp_path):
    compile_for_run(Workflow.model_validate(workflow(tmp_path, solve={"solver": "phast-gpu"})))
    assert asked == [(FOR_GPU, U32)]


OF_VERTICES = {"per_vertex": {"values": ["betweenness"]}}
OF_EDGES = {"per_edge": {"values": ["betweenness"]}}
AMOUNTS = {"paths": {"target_amounts": {"file": "jobs.csv", "names": ["jobs"]}}}
DECAY = {"paths": {"decay": 0.1}}
EVERY, SAMPLE, WEIGHTED = (
    PathSumsAsked(),
    PathSumsAsked(squares=True),
    PathSumsAsked(squares=True, is_weighted=True),
)


@pytest.mark.parametrize(
    ("sections", "summed"),
    [
        pytest.param(
            {"reduce": OF_VERTICES, "n_sources": 300, "solve": {"hierarchy": "off"}},
            SAMPLE,
            id="no-hierarchy",
        ),
        pytest.param({"reduce": OF_VERTICES, "n_sources": 300}, SAMPLE, id="sample"),
        pytest.param({"reduce": OF_EDGES, "sources": {"all": True}}, EVERY, id="all"),
        pytest.param(
            {"reduce": OF_EDGES, "n_sources": 300, "solve": {"solver": "adds-slots"}}, SAMPLE, id="on-gpu"
        ),
        pytest.param({"reduce": OF_EDGES, "n_sources": 300, "solve": {"solver": "phast"}}, None, id="on-cpu"),
        pytest.param({"reduce": OF_EDGES | AMOUNTS, "n_sources": 300}, WEIGHTED, id="amounts"),
        pytest.param({"reduce": OF_EDGES | DECAY, "n_sources": 300}, WEIGHTED, id="decay"),
        pytest.param({"reduce": OF_EDGES, "n_sources": 255}, None, id="few-sources"),
        pytest.param({"reduce": {"values": ["reached"]}, "n_sources": 300}, None, id="no-sums"),
        pytest.param(
            {"reduce": OF_EDGES, "n_sources": 300, "cluster": {"kind": "local-cpu"}}, None, id="workers"
        ),
        pytest.param({"reduce": OF_EDGES, "n_sources": 300, "n_cores": 7}, None, id="few-cores"),
        pytest.param({"reduce": OF_EDGES, "n_sources": 300, "no_gpu": "no driver"}, None, id="no-gpu"),
    ],
)
def test_with_many_cores_threads_load_what_sums_along_paths_on_a_gpu(
    asked, monkeypatch, tmp_path, sections, summed
):
    loaded, sections = [], dict(sections)
    n_cores, no_gpu = sections.pop("n_cores", 8), sections.pop("no_gpu", None)
    monkeypatch.setattr(compile, "load_ahead", lambda units, dtype: loaded.append((*units, dtype)))
    monkeypatch.setattr(compile_ahead, "n_children", lambda: n_cores)
    monkeypatch.setattr(compile_ahead, "gpu_missing", lambda: no_gpu)
    output = {"distances": "reduced", "reduce": sections.pop("reduce")}
    compile_for_run(Workflow.model_validate(workflow(tmp_path, output=output, **sections)))
    of_rows = [] if summed is None else [(path_sums_unit(summed), U32)]
    has_decay = output["reduce"].get("paths", {}).get("decay")
    may_take_hierarchy = summed is not None and "solve" not in sections and not has_decay
    assert loaded == of_rows + [(PATH_SWEEP, U32)] * may_take_hierarchy


@pytest.mark.parametrize(
    ("n_processes", "sections", "loaded"),
    [
        (10, {}, [(U32, False)]),
        (9, {}, []),  # others need the cores
        (10, {"solve": {"cutoff": 9}}, [(U32, True)]),
        (10, {"graph": {"weights": {"dtype": "int64"}}}, [(np.dtype("int64"), False)]),
        (10, {"n_sources": 255}, []),
        (10, {"cluster": {"kind": "address", "address": "tcp://host:8786"}}, []),
        (13, {"solve": {"solver": "phast"}}, []),
    ],
)
def test_with_many_cores_threads_load_the_kernels_of_phast_gpu(
    asked, monkeypatch, tmp_path, n_processes, sections, loaded
):
    found = []

    def load(dtype, n_sources, *, cutoff, are_short):
        assert (n_sources, are_short) == (256, True)
        found.append((dtype, cutoff))

    monkeypatch.setattr(phast_gpu, "load_for_calls", load)
    monkeypatch.setattr(compile_ahead, "n_children", lambda: n_processes)
    given = {"n_sources": 300, **sections, "solve": {"solver": "phast-gpu", **sections.get("solve", {})}}
    compile_for_run(Workflow.model_validate(workflow(tmp_path, **given)))
    assert found == loaded
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("solver", "has_gpu", "group"),
    [
        ("phast", True, SWEEPS),
        ("phast-gpu", False, chunk_kernels()),
        ("auto", True, chunk_kernels()),
        ("auto", False, SWEEPS),
    ],
)
def test_the_solver_that_is_expected_decides_what_is_compiled_for_it(solver, has_gpu, group):
    assert kernels_of(solver, has_gpu) is group


def test_two_children_compile_for_the_ingest_too(asked, monkeypatch, tmp_path):
    monkeypatch.setattr(compile_ahead, "n_children", lambda: 2)
    compile_for_run(Workflow.model_validate(workflow(tmp_path, solve={"solver": "phast"})))
    assert asked == [([DIGITS, GROUPING, GATHERING, ROWS, *FOR_PHAST], U32)]


@pytest.mark.parametrize(
    ("n_processes", "verify", "others"),
    [(11, "sample", []), (12, "off", SELDOM), (12, "sample", [ORACLE, *SELDOM])],
)
def test_what_is_needed_late_or_seldom_is_compiled_if_all_other_groups_have_a_process(
    asked, monkeypatch, tmp_path, n_processes, verify, others
):
    monkeypatch.setattr(compile_ahead, "n_children", lambda: n_processes)
    data = workflow(tmp_path, solve={"solver": "phast"}) | {"verify": verify}
    compile_for_run(Workflow.model_validate(data))
    assert [groups for groups, _ in asked] == [[DIGITS, GROUPING, GATHERING, ROWS, *FOR_PHAST, *others]]
    assert len(FOR_PHAST) == 8


def test_ingest_with_a_hierarchy_compiles_while_it_reads(asked, tmp_path):
    ingest_all(Workflow.model_validate(workflow(tmp_path)), Quiet(), hierarchy=True)
    assert (asked[0], asked[-1]) == ((FOR_PHAST, U32), "stop")
    asked.clear()
    ingest_all(Workflow.model_validate(workflow(tmp_path)), Quiet(), hierarchy=True)
    assert asked == ["stop"]  # the graph is not read again


def test_children_end_when_a_run_decides_against_a_hierarchy(asked, tmp_path, listener):
    progress = listener()
    say = progress.say

    def noting(line, event="note", **facts):
        asked.append(event)
        say(line, event, **facts)

    progress.say = noting
    run(Workflow.model_validate(workflow(tmp_path, 300)), progress)
    assert progress.named("hierarchy") == []
    assert "stop" in asked[: asked.index("solver")]


@pytest.mark.parametrize(
    ("n_cores", "store", "sections", "is_prepared"),
    [
        pytest.param(4, None, {}, True, id="many-sources"),
        pytest.param(4, None, {"n_sources": 20, "solve": {"hierarchy": "build"}}, True, id="build"),
        pytest.param(3, None, {}, False, id="few-cores"),
        pytest.param(4, "graph", {}, False, id="stored"),
        pytest.param(4, None, {"n_sources": 255}, False, id="few-sources"),
        pytest.param(4, None, {"solve": {"solver": "dijkstra"}}, False, id="another-solver"),
        pytest.param(4, None, {"solve": {"hierarchy": "off"}}, False, id="off"),
        pytest.param(4, None, {"graph": {"store": "memory://graph"}}, False, id="object-storage"),
    ],
)
def test_a_child_loads_the_compiler_for_a_new_graph(
    monkeypatch, tmp_path, n_cores, store, sections, is_prepared
):
    prepared = []
    monkeypatch.setattr(compile_children, "prepare", lambda: prepared.append(True))
    monkeypatch.setattr(first_run, "usable_cores", lambda: n_cores)
    if store is not None:
        (tmp_path / store).mkdir()
    data = workflow(tmp_path, **{"n_sources": 300, **sections})
    first_run.prepare_to_compile(Workflow.model_validate(data))
    assert bool(prepared) == is_prepared


@pytest.mark.slow
def test_children_compile_the_hierarchy_of_a_first_run(tmp_path, digests, printed):
    """The input is text, and the cache has what children compile for the ingest with three cores."""
    rows = [f"a {u} {u % 500 + 1} {u + 300}\na {u % 500 + 1} {u} {u + 400}\n" for u in range(1, 501)]
    (tmp_path / "edges.gr").write_text(f"p sp 500 {2 * len(rows)}\n" + "".join(rows))
    data = workflow(tmp_path, solve={"solver": "phast"}, graph={"input": str(tmp_path / "edges.gr")})
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    program = "import numpy as np\n"
    for group in (GROUPING, GATHERING, ROWS):
        program += f"from {group.compile_for.__module__} import {group.compile_for.__name__} as compile_for\n"
        program += "compile_for(np.dtype('uint32'))\n"
    subprocess.run([sys.executable, "-c", program], env=environment, timeout=300, check=True)
    names, *has_children = printed(PROGRAM, json.dumps(data))
    assert has_children == [True, False, False]
    of_text = [name.rpartition(".")[2] for name in names if ".formats.parsing." in name]
    assert "scan_rows_of_digits" in of_text
    assert not {"scan_plain_rows", "scan_odd_rows", "scan_edges"} & set(of_text)
    inner = [name.removeprefix("sssp_pipeline.") for name in names]
    # What children have is not compiled again. While this process waits for it, it may compile what nobody has.
    of_first_child = (
        "kernels.hierarchy.ordering.order.",
        "pipeline.ingest.rows.",
    )
    assert [name for name in inner if name.startswith(of_first_child)] == []
    kernels = [name for name in inner if not name.startswith("numba.")]
    assert sorted(set(kernels)) == sorted(kernels)
    data["graph"]["store"], data["output"]["path"] = (
        str(tmp_path / "warm" / "graph"),
        str(tmp_path / "warm" / "run"),
    )
    run(Workflow.model_validate(data), Quiet())
    assert digests(tmp_path / "run") == digests(tmp_path / "warm" / "run")


@pytest.mark.medium
@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, *(pytest.param(n, marks=pytest.mark.slow) for n in (signal.SIGINT, signal.SIGKILL))],
)
def test_an_interrupted_run_leaves_no_children(tmp_path, wait_until, number):
    mark = f"NUMBA_CACHE_DIR={tmp_path / 'cache'}".encode()

    def running() -> list[bytes]:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    found.append((process / "cmdline").read_bytes())
            except OSError:
                continue
        return [command for command in found if command]

    (tmp_path / "workflow.yaml").write_text(json.dumps(workflow(tmp_path, solve={"solver": "phast"})))
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-P", "-m", "sssp_pipeline.cli", "run", str(tmp_path / "workflow.yaml")]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        wait_until(lambda: any(b"compile_children" in command for command in running()))
        process.send_signal(number)
        process.wait(60)
    wait_until(lambda: not running())
    assert not (tmp_path / "run" / "run.json").exists()
