"""Workers that are forks of a server, which only the command line starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from multiprocessing import forkserver
from pathlib import Path

import distributed
import pytest
import yaml

from sssp_pipeline.pipeline.solving.workers import fork_server
from sssp_pipeline.workflow.cluster import Cluster

#: Starts the server and a worker; prints facts about the worker.
PROGRAM = """
import json, os, signal, sys
from sssp_pipeline.pipeline.solving.workers import fork_server
from sssp_pipeline.workflow.cluster import Cluster

def facts():
    import os, signal, sys
    from pathlib import Path
    return {
        "parent": Path(f"/proc/{os.getppid()}/cmdline").read_text().replace(chr(0), " "),
        "imported": fork_server.IMPORTED in sys.modules,
        "pandas": "pandas" in sys.modules,
        "ignores_interrupts": signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        "environment": {name: os.environ.get(name) for name in fork_server.ENVIRONMENT},
    }

if __name__ == "__main__":
    before = dict(os.environ)
    spec = Cluster(workers=1)
    if sys.argv[1] == "served":
        fork_server.start_for(spec)
    assert dict(os.environ) == before
    from sssp_pipeline.pipeline.solving.workers.local_cluster import started_here
    with started_here(spec, 1, 1, 0) as client:
        print(json.dumps(*client.run(facts).values()))
"""


def facts_of_a_worker(folder: Path, how: str, **variables: str) -> dict:
    (folder / "program.py").write_text(PROGRAM)
    command, env = [sys.executable, "program.py", how], {**os.environ, **variables}
    options = {"capture_output": True, "text": True, "timeout": 120, "check": True}
    done = subprocess.run(command, cwd=folder, env=env, **options)
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.mark.medium
@pytest.mark.skipif(sys.platform != "linux", reason="there is a fork server on Linux only")
def test_a_worker_is_a_fork_with_all_imports_and_the_environment_of_dask(tmp_path):
    facts = facts_of_a_worker(tmp_path, "served", OMP_NUM_THREADS="3")
    assert "multiprocessing.forkserver" in facts.pop("parent")
    assert facts == {
        "imported": True,
        "pandas": False,
        "ignores_interrupts": True,
        "environment": {**fork_server.ENVIRONMENT, "OMP_NUM_THREADS": "3"},
    }


@pytest.mark.medium
@pytest.mark.parametrize("how", ["served", pytest.param("new", marks=pytest.mark.slow)])
def test_a_worker_is_a_new_process_without_a_server_or_if_its_socket_cannot_be_made(tmp_path, how):
    long = tmp_path / ("x" * 120)
    long.mkdir()
    facts = facts_of_a_worker(tmp_path, how, **({"TMPDIR": str(long)} if how == "served" else {}))
    assert "program.py" in facts["parent"]
    assert not facts["imported"]


@pytest.mark.medium
@pytest.mark.skipif(sys.platform != "linux", reason="there is a fork server on Linux only")
def test_an_interrupt_while_the_server_imports_leaves_no_traceback_and_no_socket(tmp_path, wait_until):
    (tmp_path / "edges.txt").write_text("0 1 5\n1 2 6\n")
    words = ["run", "edges.txt", "--from", "0", "--out", "r", "--set", "cluster.workers=1"]
    with tempfile.TemporaryDirectory() as short:
        command = [sys.executable, "-m", "sssp_pipeline.cli", *words]
        options = {"stderr": subprocess.PIPE, "text": True, "start_new_session": True}
        env = {**os.environ, "TMPDIR": short}
        process = subprocess.Popen(command, cwd=tmp_path, env=env, **options)
        wait_until(lambda: list(Path(short).glob("pymp-*/*")))
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=60)
        assert process.returncode == 130
        assert told.startswith("\ninterrupted; what is committed is kept. To go on:\n")
        assert not list(Path(short).glob("pymp-*"))


@pytest.mark.parametrize(
    "spec",
    [
        Cluster(),
        Cluster(kind="local-cpu", threads_per_worker=2),
        Cluster(kind="local-cuda", workers=2),
        Cluster(kind="address", address="tcp://10.0.0.1:8786"),
        Cluster(kind="slurm", workers=2, memory_limit="4GB"),
    ],
    ids=str,
)
def test_no_server_starts_without_workers_that_it_serves(monkeypatch, spec):
    monkeypatch.setattr(forkserver, "ensure_running", lambda: pytest.fail("it starts"))
    fork_server.start_for(spec)
    assert not fork_server.serves(spec.kind)


def test_the_environment_is_that_of_dask():
    defaults = yaml.safe_load((Path(distributed.__file__).parent / "distributed.yaml").read_text())
    expected = defaults["distributed"]["nanny"]["pre-spawn-environ"]
    assert {name: str(value) for name, value in expected.items()} == fork_server.ENVIRONMENT


@pytest.mark.medium
def test_the_imports_start_no_thread_and_load_no_cuda():
    probe = (
        f"import sys, threading, {fork_server.IMPORTED}\n"
        "print(threading.active_count(), [m for m in ('cupy', 'numba.cuda', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "1 []\n"
