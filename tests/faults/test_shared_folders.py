"""Drivers on two machines that share a folder: two mounts of one folder, each with locks of its own, stand for them."""

import fcntl
import os
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from sssp_pipeline.storage import files

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

#: A driver as the command line starts it, whose lease is short and whose batches are slow.
DRIVER = """
import os
import time
from sssp_pipeline.storage import lease
from sssp_pipeline.pipeline.solving import dispatch
lease.BEAT_S, lease.LEASE_S, solve_task = 0.5, 4.0, dispatch.solve_task
dispatch.solve_task = lambda task: (time.sleep(float(os.environ["TASK_S"])), solve_task(task))[1]
from sssp_pipeline.cli import main
main()
"""


@pytest.fixture
def machines(tmp_path):
    """Give the paths under which two machines see one folder."""
    if shutil.which("bindfs") is None or not os.access("/dev/fuse", os.W_OK):
        pytest.skip("two mounts of a folder need FUSE and bindfs (Debian: `apt-get install bindfs`)")
    (tmp_path / "server").mkdir()
    with ExitStack() as mounted:
        found = []
        for name in ("one", "two"):
            place = tmp_path / name
            place.mkdir()
            subprocess.run(["bindfs", str(tmp_path / "server"), str(place)], check=True)
            mounted.callback(subprocess.run, ["umount", "--lazy", str(place)], check=False)
            found.append(place)
        yield found


class Driver:
    """A run in a process of its own, of a workflow below `place`. Each of its 12 tasks waits for `task_s` seconds."""

    def __init__(self, place: Path, *options: str, seed: int = 1, task_s: float = 0.6) -> None:
        plain = {
            "graph": {"input": "generated:grid?rows=30&cols=30&seed=2", "store": str(place / "graph")},
            "sources": {"random": {"count": 24, "seed": seed}},
            "solve": {"solver": "dijkstra", "batch": 2},
            "cluster": {"kind": "local-cpu", "workers": 1, "threads_per_worker": 1},
            "output": {"path": str(place / "run")},
            "report": False,
        }
        file = place.parent / f"{place.name}-{seed}.yaml"
        file.write_text(yaml.safe_dump(plain))
        command = [sys.executable, "-c", DRIVER, "run", str(file), *options]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=place.parent,
            env=os.environ | {"TASK_S": str(task_s)},
        )

    def ended(self) -> tuple[int, str]:
        """Return the exit code and the last lines."""
        lines = self.process.communicate(timeout=120)[1]
        return self.process.returncode, lines


@pytest.fixture
def driver():
    """Give a function that starts a `Driver`, which is stopped when the test ends."""
    started = []

    def start(*args, **options):
        started.append(Driver(*args, **options))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.wait()
        each.process.stderr.close()


def wait_for_a_batch(run: Path, driver: Driver) -> None:
    while not list(run.glob("_run/*.commit")):
        assert driver.process.poll() is None, driver.process.stderr.read()
        time.sleep(0.05)


@pytest.fixture
def undisturbed(tmp_path, driver, digests):
    """The files of distances of runs on a disk of one machine, by the seed of the sources."""
    found = {}
    for seed in (1, 2):
        place = tmp_path / f"alone-{seed}"
        place.mkdir()
        assert driver(place, seed=seed, task_s=0.0).ended()[0] == 0
        found[seed] = digests(place / "run")
    return found


def test_the_machines_do_not_see_the_locks_of_each_other(machines):
    with ExitStack() as opened:
        for machine in machines:
            folder = os.open(machine, os.O_RDONLY)
            opened.callback(os.close, folder)
            assert (
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB) is None
            )  # otherwise the second one raises


def test_a_second_driver_is_refused_and_a_dead_one_replaced(machines, driver, undisturbed, digests):
    one, two = machines
    first = driver(one, task_s=4.0)  # it must still run when the second one has started
    wait_for_a_batch(one / "run", first)
    code, lines = driver(two).ended()
    assert (code, "Traceback" in lines) == (2, False)
    assert f"error: process {os.uname().nodename}:{first.process.pid}, since 20" in lines
    first.process.kill()
    first.process.wait()
    code, lines = driver(two).ended()
    assert code == 0, lines
    assert "batches are committed already" in lines
    assert digests(two / "run") == undisturbed[1]
    assert not [name for name in files.list_files(str(two / "run")) if name.startswith("_")]


def test_drivers_that_start_at_once(machines, driver, undisturbed, digests):
    for again in range(4):
        both = [driver(machine) for machine in machines]
        ends = [each.ended() for each in both]
        assert {code for code, _ in ends} <= {0, 2}, ends
        assert 0 in {code for code, _ in ends}
        for code, lines in ends:
            assert "Traceback" not in lines
            assert code == 0 or "is writing to" in lines
        assert digests(machines[again % 2] / "run") == undisturbed[1]
        shutil.rmtree(machines[0] / "run")
        if again % 2:
            shutil.rmtree(machines[0] / "graph")


def test_another_run_that_replaces_the_first_is_refused_while_that_is_alive(
    machines, driver, undisturbed, digests
):
    one, two = machines
    first = driver(one, task_s=2.0)
    wait_for_a_batch(one / "run", first)
    code, lines = driver(two, "--overwrite", seed=2).ended()
    assert (code, "is writing to" in lines) == (2, True), lines
    assert first.ended()[0] == 0
    assert digests(one / "run") == undisturbed[1]
    code, lines = driver(two, "--overwrite", seed=2).ended()
    assert code == 0, lines
    assert digests(one / "run") == undisturbed[2]
