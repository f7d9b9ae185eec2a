"""Children compile groups of kernels, and none of them is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sssp_pipeline.base import compile_children
from sssp_pipeline.base.compile_children import KernelGroup

U32 = np.dtype("uint32")
#: What children compile here. `NOTES` is a folder.
MODULE = """
import os, time
def note(text):
    with open(os.environ["NOTES"] + "/" + text, "w") as file:
        file.write(str(os.getpid()))
def first(dtype): note(f"first-{dtype}")
def second(dtype): note(f"second-{dtype}")
def failing(dtype): raise RuntimeError
def exiting(dtype): os._exit(3)
def printing(dtype): print("not a task", flush=True); note("printing")
def endless(dtype): note("endless"); time.sleep(300)
def other_endless(dtype): note("other"); time.sleep(300)
"""


class NeverCompiled:
    """In place of a kernel of which the cache has nothing."""

    def made(self):
        return None


@pytest.fixture
def group(tmp_path, monkeypatch):
    """Return a group of kernels whose function is in `MODULE`."""
    (tmp_path / "of_children.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("NOTES", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    import of_children

    yield lambda name: KernelGroup(getattr(of_children, name), NeverCompiled(), lambda types: "none")
    compile_children.stop()
    del sys.modules["of_children"]


def is_running(pid: int) -> bool:
    """Return whether a process runs; one that only waits to be waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("n_processes", [1, *(pytest.param(n, marks=pytest.mark.medium) for n in (2, 5))])
def test_children_do_all_groups(group, tmp_path, n_processes):
    groups = [group("first"), group("second")]
    compile_children.start(groups, U32, n_processes)
    for one in groups:
        compile_children.wait_for(one, U32)
    pids = {(tmp_path / name).read_text() for name in ("first-uint32", "second-uint32")}
    assert len(pids) == 2
    assert (str(os.getpid()) in pids) == (n_processes == 1)


@pytest.mark.medium
def test_while_this_process_waits_it_compiles_what_nobody_has(group, tmp_path):
    groups = [group("first"), group("failing"), group("second")]
    compile_children.start(groups, U32, 1)
    compile_children.wait_for(groups[0], U32)
    assert (tmp_path / "second-uint32").read_text() == str(os.getpid())
    assert (tmp_path / "first-uint32").read_text() != str(os.getpid())
    assert [children.left for children in compile_children._running] == [[]]


@pytest.mark.medium
def test_with_many_processes_this_one_waits(group, tmp_path):
    groups = [group("first"), group("second"), group("failing")]
    compile_children.start(groups, U32, 2)
    for one in groups:
        compile_children.wait_for(one, U32)
    pids = {(tmp_path / name).read_text() for name in ("first-uint32", "second-uint32")}
    assert str(os.getpid()) not in pids


def test_a_prepared_child_compiles(group, tmp_path):
    compile_children.prepare()
    compile_children.prepare()
    (prepared,) = compile_children._prepared
    assert not compile_children.are_running()
    compile_children.start([group("first")], U32, 1)
    assert (compile_children._running, compile_children._prepared) == ([prepared], [])
    compile_children.wait_for(group("first"), U32)
    assert (tmp_path / "first-uint32").read_text() == str(prepared._child.pid)


@pytest.mark.parametrize("ending", ["start", "no-core", "stop"])
def test_a_prepared_child_without_work_ends(group, ending):
    compile_children.prepare()
    pid = compile_children._prepared[0]._child.pid
    if ending == "stop":
        compile_children.stop()
    else:
        compile_children.start([group("first")] if ending == "no-core" else [], U32, int(ending == "start"))
    assert compile_children._prepared == []
    assert not is_running(pid)


def test_a_prepared_child_that_was_killed_is_done_without(group, tmp_path):
    compile_children.prepare()
    compile_children._prepared[0].kill()
    compile_children._prepared[0]._child.wait()
    compile_children.start([group("first")], U32, 1)
    compile_children.wait_for(group("first"), U32)
    assert not (tmp_path / "first-uint32").exists()


@pytest.mark.medium
def test_what_children_compile_already_is_left_to_them(group, tmp_path, wait_until):
    groups = [group("endless"), group("other_endless")]
    compile_children.start(groups, U32, 2)
    wait_until(lambda: (tmp_path / "endless").exists())
    (tmp_path / "endless").unlink()
    compile_children.start([groups[0], group("first")], U32, 2)
    compile_children.wait_for(group("first"), U32)
    assert not (tmp_path / "endless").exists()


@pytest.mark.medium
@pytest.mark.parametrize("is_stopped", [False, True])
def test_children_that_do_not_answer_are_killed(group, tmp_path, wait_until, monkeypatch, is_stopped):
    groups = [group("endless"), group("other_endless")]
    compile_children.start(groups, U32, 2)
    wait_until(lambda: all((tmp_path / name).exists() for name in ("endless", "other")))
    wait_until(lambda: all((tmp_path / name).read_text() for name in ("endless", "other")))
    pids = [int((tmp_path / name).read_text()) for name in ("endless", "other")]
    for pid in pids * is_stopped:
        os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(compile_children, "PATIENCE_S", 0.1)
    compile_children.wait_for(groups[1], U32)
    wait_until(lambda: not any(map(is_running, pids)))
    compile_children.wait_for(groups[0], U32)
    assert [children.left for children in compile_children._running] == [[]]


@pytest.mark.medium
@pytest.mark.parametrize("n_processes", [1, 2])
@pytest.mark.parametrize("fault", ["failing", "exiting", "printing"])
def test_a_child_that_fails_ends_the_wait(group, fault, n_processes):
    groups = [group(fault), group("second")]
    compile_children.start(groups, U32, n_processes)
    for one in groups:
        compile_children.wait_for(one, U32)
    assert [children.left for children in compile_children._running] == [[]]


def test_no_child_without_a_core_for_it(group, tmp_path):
    compile_children.start([group("first")], U32, 0)
    compile_children.wait_for(group("first"), U32)
    assert not (tmp_path / "first-uint32").exists()


def test_a_child_that_cannot_be_started_is_done_without(group, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    compile_children.start([group("first")], U32, 1)
    compile_children.wait_for(group("first"), U32)
    assert compile_children._running == []


def test_nothing_is_waited_for_if_no_child_compiles_it(group):
    compile_children.start([group("endless")], U32, 1)
    compile_children.wait_for(group("first"), U32)
    compile_children.wait_for(group("endless"), np.dtype("uint64"))
    assert [children.left for children in compile_children._running] == [[group("endless").task(U32)]]


@pytest.mark.medium
def test_stop_ends_all_processes(group, tmp_path, wait_until):
    compile_children.start([group("endless"), group("other_endless")], U32, 2)
    wait_until(lambda: all((tmp_path / name).exists() for name in ("endless", "other")))
    wait_until(lambda: all((tmp_path / name).read_text() for name in ("endless", "other")))
    pids = [int((tmp_path / name).read_text()) for name in ("endless", "other")]
    assert all(map(is_running, pids))
    compile_children.stop()
    wait_until(lambda: not any(map(is_running, pids)))
    compile_children.wait_for(group("endless"), U32)


@pytest.mark.medium
@pytest.mark.parametrize("ending", ["return", "raise", "SIGKILL"])
def test_children_end_with_the_process_that_started_them(group, tmp_path, wait_until, ending):
    program = f"""
import sys, os, signal, time
import numpy as np, of_children
from sssp_pipeline.base import compile_children as children
class NeverCompiled:
    def made(self): return None
groups = [children.KernelGroup(f, NeverCompiled()) for f in (of_children.endless, of_children.other_endless)]
children.start(groups, np.dtype("uint32"), 2)
while not all(os.path.exists(f"{{os.environ['NOTES']}}/{{name}}") for name in ("endless", "other")):
    time.sleep(0.01)
if {ending!r} == "raise":
    raise KeyboardInterrupt
if {ending!r} == "SIGKILL":
    os.kill(os.getpid(), signal.SIGKILL)
"""
    code = subprocess.run(
        [sys.executable, "-c", program], timeout=120, check=False, stderr=subprocess.DEVNULL
    ).returncode
    assert code == {"return": 0, "raise": -signal.SIGINT, "SIGKILL": -signal.SIGKILL}[ending]
    wait_until(lambda: all((tmp_path / name).read_text() for name in ("endless", "other")))
    pids = [int((tmp_path / name).read_text()) for name in ("endless", "other")]
    wait_until(lambda: not any(map(is_running, pids)))
