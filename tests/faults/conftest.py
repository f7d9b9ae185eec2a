"""Runs and clusters of real processes, whose moments of death the tests choose by gates (see gates.py)."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.workflow.models import Workflow

#: How the clusters of these tests are set: Dask's defaults are for other networks and other patience.
SETTINGS = {
    "DASK_DISTRIBUTED__WORKER__PRELOAD": str(Path(__file__).with_name("gates.py")),
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "3s",  # Dask takes 10 heartbeats at least, 5 s
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "11s",  # it refuses less
}
N_BATCHES = 15
#: Ends a test that hangs; nothing is expected to take so long.
PATIENCE_S = 120


def until(what: Callable[[], Any], told: Callable[[], str] = lambda: "") -> Any:
    """Return what `what` gives once it is true; fail with what is `told` if that takes too long."""
    end = time.monotonic() + PATIENCE_S
    while not (found := what()):
        assert time.monotonic() < end, f"waited {PATIENCE_S} s\n{told()}"
        time.sleep(0.02)
    return found


class Processes:
    """Starts processes that end with the test, with all that they started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen] = []
        self.env = {**os.environ, **SETTINGS, "SSSP_TEST_GATES": str(folder / "gates")}

    def start(self, *command: str, name: str) -> subprocess.Popen:
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, env=self.env, cwd=self.folder, start_new_session=True
            )
        self.started.append(process)
        return process

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def end(self) -> None:
        for process in self.started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class Taken(NamedTuple):
    """A gate at which a thread waits."""

    path: Path
    batch: int
    pid: int


class Gates:
    """Where workers stop; see gates.py."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        #: While this file is there, Dask takes the memory of each worker for full.
        self.full = folder / "full"
        folder.mkdir()

    def close(self, moment: str, *batches: int) -> None:
        for batch in batches:
            (self.folder / f"{moment}-{batch}").touch()

    def taken(self, moment: str) -> list[Taken]:
        """Return the gates of that moment at which a thread waits."""
        names = ((path, *path.name.split(".")[:2]) for path in self.folder.glob(f"{moment}-*.*"))
        return [Taken(path, int(gate.removeprefix(f"{moment}-")), int(pid)) for path, gate, pid in names]

    def open(self, but: Collection[Taken] = ()) -> None:
        """Open all gates but these."""
        for path in self.folder.iterdir():
            if path != self.full and path not in (gate.path for gate in but):
                path.unlink()


class Cluster:
    """A scheduler and workers, each a process of its own; `prefix` runs commands elsewhere, where `host` is."""

    def __init__(self, processes: Processes, host: str = "127.0.0.1", prefix: tuple[str, ...] = ()) -> None:
        self._processes, self.host, self._prefix = processes, host, prefix
        self.scheduler = self.start_scheduler(0)

    def start_scheduler(self, port: int) -> subprocess.Popen:
        file = self._processes.folder / "scheduler.json"
        file.unlink(missing_ok=True)
        scheduler = self._processes.start(
            *(*self._prefix, sys.executable, "-m", "distributed.cli.dask_scheduler"),
            *("--host", self.host, "--port", str(port), "--no-dashboard", "--scheduler-file", str(file)),
            name="scheduler",
        )
        until(lambda: file.exists() and file.read_text(), lambda: self._processes.log("scheduler"))
        self.address = json.loads(file.read_text())["address"]
        return scheduler

    def start_workers(
        self, count: int, threads: int = 1, *, host: str | None = None, prefix: tuple[str, ...] | None = None
    ) -> list[subprocess.Popen]:
        """Start workers and wait until the scheduler knows them."""
        before = self._n_registered()
        command = [*(self._prefix if prefix is None else prefix), sys.executable]
        command += ["-m", "distributed.cli.dask_worker", self.address, "--host", host or self.host]
        command += ["--nthreads", str(threads), "--no-nanny", "--no-dashboard"]
        command += ["--local-directory", str(self._processes.folder / "workers")]
        workers = [self._processes.start(*command, name="workers") for _ in range(count)]
        until(lambda: self._n_registered() == before + count, lambda: self._processes.log("workers"))
        return workers

    def pause(self, gates: Gates, count: int) -> None:
        """Fill the memory of all workers, and wait until `count` of them have paused."""
        gates.full.touch()
        until(lambda: self._processes.log("workers").count(" Pausing worker.") == count)

    def _n_registered(self) -> int:
        return self._processes.log("scheduler").count(" Register worker ")


class Runs:
    """Runs of one workflow, into one folder or another."""

    def __init__(self, folder: Path, processes: Processes, gates: Gates, store: Path) -> None:
        self.folder, self._processes, self._gates, self._store = folder, processes, gates, store
        self.path = folder / "run"

    def workflow(self, **cluster: Any) -> dict[str, Any]:
        return {
            "graph": {"input": "generated:grid?rows=40&cols=41&keep=0.7&seed=3", "store": str(self._store)},
            "sources": {"random": {"count": 2 * N_BATCHES, "seed": 1}},
            "solve": {"batch": 2},
            "cluster": cluster,
            "output": {"path": str(self.path)},
            "verify": "off",
            "report": False,
        }

    def start(self, cluster: Cluster | None = None, prefix: tuple[str, ...] = (), **options: Any) -> Run:
        """Start a run as a process of its own: on `cluster`, or on three workers of its own; with these `options`."""
        chosen = {"kind": "local-cpu", "workers": 3, "threads_per_worker": 1, **options}
        if cluster is not None:
            chosen = {"kind": "address", "address": cluster.address, **options}
        (self.folder / "w.yaml").write_text(yaml.safe_dump(self.workflow(**chosen)))
        name = f"run-{len(self._processes.started)}"
        command = [*prefix, sys.executable, "-m", "sssp_pipeline.cli", "run", "w.yaml"]
        return Run(self._processes.start(*command, name=name), lambda: self._processes.log(name), self._gates)

    def here(self) -> None:
        """Do, or finish, the run by threads of this process."""
        run(Workflow.model_validate(self.workflow()), Quiet())

    def batches(self) -> set[int]:
        return {int(p.stem[6:]) for p in self.path.glob("_run/batch-*.commit")}

    def digests(self) -> dict[str, str]:
        """Return a digest of each file of the run, but of those that tell of times and places: None."""
        return {
            str(p.relative_to(self.path)): hashlib.sha256(p.read_bytes()).hexdigest()
            if p.parent.name == "distances"
            else "there"
            for p in self.path.rglob("*")
            if p.is_file()
        }


class Run:
    """A run that is a process, and what it has said."""

    def __init__(self, process: subprocess.Popen, log: Callable[[], str], gates: Gates) -> None:
        self.process, self.log, self._gates = process, log, gates

    def says(self, text: str) -> None:
        """Wait until it has said so."""
        self.until(lambda: text in self.log())

    def stops(self, moment: str, batch: int) -> int:
        """Wait until a worker stands before this gate; return which process."""
        self.until(lambda: batch in (gate.batch for gate in self._gates.taken(moment)))
        return next(gate.pid for gate in self._gates.taken(moment) if gate.batch == batch)

    def ends(self, code: int) -> str:
        """Wait for its end with this exit code; return what it has said."""
        until(lambda: self.process.poll() is not None, self.log)
        assert self.process.returncode == code, self.log()
        return self.log()

    def until(self, what: Callable[[], Any]) -> None:
        """Wait for `what`, which comes before it ends."""
        until(lambda: what() or self.process.poll() is not None, self.log)
        assert what(), self.log()


@pytest.fixture
def processes(tmp_path):
    started = Processes(tmp_path)
    yield started
    started.end()


@pytest.fixture
def gates(tmp_path):
    return Gates(tmp_path / "gates")


@pytest.fixture
def cluster(processes, gates):
    """A scheduler without workers."""
    return Cluster(processes)


@pytest.fixture
def cluster_on(processes, gates, network):
    """A scheduler without workers, at the near end of a network."""
    return Cluster(processes, network.near.host, network.near.prefix)


@pytest.fixture
def runs(tmp_path, processes, gates, undisturbed):
    return Runs(tmp_path, processes, gates, undisturbed[0])


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory):
    """The graph store of all runs, and what a run leaves that nothing happens to."""
    folder = tmp_path_factory.mktemp("undisturbed")
    calm = Runs(folder, Processes(folder), Gates(folder / "gates"), folder / "graph")
    calm.here()
    return folder / "graph", calm.digests()


@pytest.fixture
def disk(tmp_path):
    """A disk of 1 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    _privileged("mount", "-t", "tmpfs", "-o", "size=1m", "sssp-test", str(folder))
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


class Place:
    """A network namespace with one address."""

    def __init__(self, name: str, device: str, host: str) -> None:
        self.name, self.device, self.host = name, device, host
        self.prefix = ("ip", "netns", "exec", name)


class Network:
    """Two places and the cable between them."""

    def __init__(self) -> None:
        self.near = Place(f"sssp-near-{os.getpid()}", "sssp-near", "10.199.0.1")
        self.far = Place(f"sssp-far-{os.getpid()}", "sssp-far", "10.199.0.2")

    def lay(self) -> None:
        for place in (self.near, self.far):
            _privileged("ip", "netns", "add", place.name)
        peer = ("peer", "name", self.far.device, "netns", self.far.name)
        _privileged("ip", "-n", self.near.name, "link", "add", self.near.device, "type", "veth", *peer)
        for place in (self.near, self.far):
            _privileged("ip", "-n", place.name, "address", "add", f"{place.host}/30", "dev", place.device)
            for device in ("lo", place.device):
                _privileged("ip", "-n", place.name, "link", "set", device, "up")

    def cut(self) -> None:
        _privileged("ip", "-n", self.far.name, "link", "set", self.far.device, "down")

    def join(self) -> None:
        _privileged("ip", "-n", self.far.name, "link", "set", self.far.device, "up")

    def remove(self) -> None:
        for place in (self.near, self.far):
            subprocess.run(["ip", "netns", "delete", place.name], capture_output=True, check=False)


@pytest.fixture
def network():
    laid = Network()
    try:
        laid.lay()
        yield laid
    finally:
        laid.remove()


def _privileged(*command: str) -> None:
    """Do what root may, or skip the test with the reason."""
    if os.geteuid() != 0 or shutil.which(command[0]) is None:
        pytest.skip(f"`{command[0]}` must be there, and the tests run as root")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"`{' '.join(command)}`: {done.stderr.strip()}")
