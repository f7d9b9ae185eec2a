"""Options and fixtures of the whole suite."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.storage.records import CHECKSUM, record_bytes

#: Real graphs, never committed; `SSSP_TEST_DATA` names another folder.
DATA = Path(os.environ.get("SSSP_TEST_DATA", Path(__file__).parents[1].parent / "shared" / "data"))

#: Dask's workers that the tests start: see docs/guides/clusters.md. Dask reads it when it is imported.
os.environ["DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED"] = "False"


def helper(name: str) -> ModuleType:
    """Return a module of tests/ that holds no tests."""
    path = Path(__file__).parent / f"{name}.py"
    spec = spec_from_file_location(path.stem, path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require-gpu", action="store_true", help="fail, not skip, the GPU tests where there is no GPU"
    )
    parser.addoption(
        "--cases", type=int, help="run at most so many cases of each test, from the first to the last"
    )


def pytest_configure() -> None:
    """Take Ctrl-C, also where a shell that runs this in the background has it ignored: runs would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    use_two_cores()


def use_two_cores() -> None:
    """Let a process of pytest-xdist, and those that it starts, use two cores: threads for all would wait for others.

    How a run goes depends on the number of cores. So this is the same on large machines too.
    """
    if (number := os.environ.get("PYTEST_XDIST_WORKER")) and hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        first = int(number.removeprefix("gw")) * len(cores) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        os.sched_setaffinity(0, {cores[first], cores[(first + 1) % len(cores)]})


#: Parts of the ids of tests that share a server or an image. With `--dist loadgroup` one process runs all of each.
SERVERS = ("test_s3.py", "test_azure.py", "slurm", "test_image.py")
#: How many tests were left out because there is no GPU.
LEFT_OUT = pytest.StashKey[int]()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Leave out the GPU tests where there is no GPU, as to skip each one takes time, and what `--cases` leaves out."""
    from sssp_pipeline.kernels.gpu.common.cuda.compile import gpu_missing

    def leave_out(left_out: list[pytest.Item]) -> None:
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]
        config.hook.pytest_deselected(items=left_out)

    if not config.getoption("--require-gpu") and gpu_missing() is not None:
        on_gpu = [item for item in items if item.get_closest_marker("gpu")]
        leave_out(on_gpu)
        config.stash[LEFT_OUT] = len(on_gpu)
    yield  # to `-m` and `-k`
    if most := config.getoption("--cases"):
        cases: dict[str, list[pytest.Item]] = {}
        for item in items:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
        taken: set[pytest.Item] = set()
        for each in cases.values():
            apart = max(1, (len(each) - 1) // max(1, most - 1))
            taken.update(each[::apart][:most])
        leave_out([item for item in items if item not in taken])


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Hide modules and collected tests from the garbage collector: a full collection takes 0.4 s with them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where only slow tests are wanted, leave out files that have none: to import them takes several seconds."""
    if config.option.markexpr == "slow" and collection_path.suffix == ".py":
        return b"mark.slow" not in collection_path.read_bytes() or None
    return None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Group tests by `SERVERS`. The marks of pytest-xdist 3.8 do so no longer with pytest 9.2."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByServer(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return next((server for server in SERVERS if server in nodeid), nodeid)

    return ByServer(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    from sssp_pipeline.kernels.gpu.common.cuda.compile import gpu_missing

    if item.get_closest_marker("gpu") and (reason := gpu_missing()):
        pytest.fail(reason, pytrace=False)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take from a process of pytest-xdist how many tests it left out; each process collects all tests."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", 0)


def pytest_sessionfinish(session: pytest.Session) -> None:
    gc.unfreeze()  # packages look for leaks when Python ends
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash.get(LEFT_OUT, 0)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say that the GPU tests did not run: a green run must not look as if they had."""
    from sssp_pipeline.kernels.gpu.common.cuda.compile import gpu_missing

    if left_out := config.stash.get(LEFT_OUT, 0):
        terminalreporter.write_line(f"not run without a GPU: {left_out:,} tests ({gpu_missing()})")


@pytest.fixture(autouse=True, scope="session")
def _graph_cache_of_the_tests(tmp_path_factory):
    """Keep the graphs of workers, these tests' own processes too, out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSSP_GRAPH_CACHE", str(tmp_path_factory.mktemp("graph-cache")))
        yield


@pytest.fixture(autouse=True, scope="session")
def _no_waiting_for_the_disk():
    """Sync nothing in these processes. Tests of durability record the calls of `os.fsync`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture
def no_garbage_collection():
    """Collect no garbage meanwhile: where the stack is full, what an object does at its end would fail."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(scope="session")
def entry_points() -> ModuleType:
    """Give the module that writes the entry points of pyproject.toml."""
    return helper("entry_points")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with a filesystem of 1 MB in memory, where this machine lets a test mount it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no filesystem can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


#: Begins a program of `printed`: `names` gets the name of each kernel that it compiles.
NAMES_OF_COMPILED = """
from numba.core import event
names = []
class Compiled(event.Listener):
    def on_start(self, event):
        function = event.data["dispatcher"].py_func
        names.append(f"{function.__module__}.{function.__name__}")
    def on_end(self, event):
        pass
event.register("numba:compile", Compiled())
"""


@pytest.fixture
def printed(tmp_path: Path):
    """Give a function that runs a program without compiled kernels and returns the JSON that it prints."""

    def run(program: str, *arguments: str) -> Any:
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
        command = [sys.executable, "-c", NAMES_OF_COMPILED + program, *arguments]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="session")
def wait_until():
    """Give a function that returns the value of a condition as soon as it is true, and fails if that takes too long."""

    def wait(condition: Callable[[], Any], timeout_s: float = 60.0) -> Any:
        end = time.monotonic() + timeout_s
        while not (value := condition()):
            assert time.monotonic() < end, f"waited {timeout_s:g} s in vain"
            time.sleep(0.01)
        return value

    return wait


@pytest.fixture
def data_file():
    """Give the path of a real graph by name; the test is skipped, with the reason, where it is absent."""

    def find(name: str) -> Path:
        path = DATA / name
        if not path.exists():
            pytest.skip(f"real graph {path} is not on this machine")
        return path

    return find


@pytest.fixture(scope="session")
def slurm():
    """Give the environment of a SLURM of one node that runs on this machine; skipped where there is none to start."""
    local_slurm = helper("deploy/local_slurm")
    if reason := local_slurm.slurm_missing():
        pytest.skip(reason)
    # Not pytest's folder, whose path is too long for a socket.
    with tempfile.TemporaryDirectory() as folder, local_slurm.local_slurm(Path(folder)) as environment:
        yield environment


@pytest.fixture
def benchmark_module(monkeypatch):
    """Give a function that imports a program of benchmarks/ by name."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    return importlib.import_module


@pytest.fixture(scope="session")
def numpy_answers():
    """Give the module that makes reductions and nearest vertices of whole rows with NumPy."""
    return helper("numpy_answers")


@pytest.fixture(scope="session")
def walked():
    """Give the function that returns second costs by walking each path in plain Python."""
    return helper("walked_costs").walked


@pytest.fixture(scope="session")
def screen():
    """Give the function that returns what a terminal shows."""
    return helper("terminal").screen


@pytest.fixture(scope="session")
def digests():
    """Give the function that returns a digest of each file of distances in a run folder."""

    def digests_of(run: Path | str) -> dict[str, str]:
        found = sorted(Path(run, "distances").glob("*"))  # none for metrics alone
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}

    return digests_of


@pytest.fixture(scope="session")
def reseal():
    """Give a function that writes `content` to a file as a record: somebody changed it who knows the checksum."""

    def write(path: Path, content: dict[str, Any]) -> None:
        path.write_bytes(record_bytes({key: value for key, value in content.items() if key != CHECKSUM}))

    return write


class Listener(Quiet):
    """Remembers the lines that were said, also by event, and all events with their facts."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.said: dict[str, list[str]] = {}
        self.events: list[dict[str, Any]] = []

    def say(self, line, event="note", *, level="info", **facts):
        self.lines.append(line)
        self.said.setdefault(event, []).append(line)
        self.event(event, level=level, **facts)

    def event(self, name, **facts):
        self.events.append({"event": name, **facts})

    def named(self, name: str) -> list[dict[str, Any]]:
        """Return the facts of the events called `name`."""
        return [event for event in self.events if event["event"] == name]


@pytest.fixture(scope="session")
def listener():
    """Give the class of a listener that remembers what was said."""
    return Listener


@pytest.fixture(scope="session")
def recorded_anew() -> Callable[[Any], None]:
    """Give a function that records the files of a finished run as they are now, so that their checksums match."""

    def record_anew(folder: Any) -> None:
        from sssp_pipeline.pipeline.results.folder.damage import recorded_files
        from sssp_pipeline.storage.file_sums import write_summed

        record, sums = folder.read_run(), {}
        for name in record["files"]:
            content = Path(folder.path(name)).read_bytes()
            sums[name] = write_summed(folder.path(name), lambda file, content=content: file.write(content))
        folder.finish({**record, **recorded_files(sums)})

    return record_anew


@pytest.fixture
def browse(tmp_path):
    """Give a function that runs `check(page)` with a page of a browser; skipped without Chromium."""
    chromium = helper("chromium")
    command = chromium.chromium_command()
    if command is None:
        pytest.skip(
            "Chromium is not installed: `apt-get install chromium-headless-shell`, or name it in SSSP_CHROMIUM"
        )

    async def checked(check):
        async with chromium.browser_page(command, tmp_path / "browser") as page:
            await check(page)

    return lambda check: asyncio.run(checked(check))
