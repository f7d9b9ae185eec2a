"""The start of a run whose graph is ingested: seconds by step from the command to the first batch.

    python benchmarks/start_up.py [--input generated:road?vertices=262144&seed=7] [--folder .bench] [--rounds 5]
        [--workers auto,1,4] [--kind local-cpu] [--solver delta-stepping] [--modules 25]

Each number of workers gives a line. The steps are those of the event `started`; `python_s` is the time before them,
in which Python and the command line are loaded. `first_solved_s` is their sum. The steps are those of the round with
the least sum. The rest are the least of all rounds: `start_cpu_s` is the processor time of the command's own process up
to the first batch, and `cpu_s` that of the whole command with its workers. Each run has one source for each batch and
few batches.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

from record import record

from sssp_pipeline.kernels.gpu.common.cuda.cupy_setup import gpu_missing
from sssp_pipeline.pipeline.graph_store.store import read_manifest
from sssp_pipeline.workflow.graph import Graph

#: The option of `prctl` with which this process gets the processes whose parents end.
PR_SET_CHILD_SUBREAPER = 36


def cpu_of_ended() -> float:
    """Return the CPU seconds of all processes that this one has started and waited for, with theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def cpu_of(process: int) -> float:
    """Return the CPU seconds of a process up to now, in steps of 0.01."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(command: list[str]) -> dict[str, float]:
    """Return the seconds of a run by step, and those of the command."""
    cpu_s, began_at, began = cpu_of_ended(), time.time(), time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        ends, start_cpu_s = {}, 0.0
        for line in process.stderr or ():
            entry = json.loads(line)
            ends[entry["event"]] = entry
            if entry["event"] == "started":
                start_cpu_s = cpu_of(process.pid)
    command_s = time.perf_counter() - began
    if process.returncode:
        sys.exit(f"{ends['failed']['message']}")
    while True:  # a worker's server ends after the command
        try:
            os.wait()
        except ChildProcessError:
            break
    steps = {key: value for key, value in ends["started"].items() if key.endswith("_s")}
    first_solved_s = datetime.fromisoformat(ends["started"]["time"]).timestamp() - began_at
    return {
        "python_s": first_solved_s - sum(steps.values()),
        **steps,
        "first_solved_s": first_solved_s,
        "command_s": command_s,
        "start_cpu_s": start_cpu_s,
        "cpu_s": cpu_of_ended() - cpu_s,
    }


def import_times(command: list[str]) -> list[dict[str, object]]:
    """Return what modules take before the first batch of a run of Python, the longest first."""
    command = [command[0], "-X", "importtime", *command[1:]]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)
    found: list[dict[str, object]] = []
    step = "begin"
    for line in done.stderr.splitlines():
        if line.startswith("{"):
            step = json.loads(line)["event"]
            if step == "started":
                break
        elif (match := re.match(r"import time: +(\d+) \| +(\d+) \| +(\S+)", line)) is not None:
            own, with_others = (int(number) / 1e6 for number in match.groups()[:2])
            found.append({"module": match[3], "step": step, "own_s": own, "with_others_s": with_others})
    return sorted(found, key=lambda row: -float(str(row["own_s"])))


#: What a process does before its first kernel on a GPU, in the order of a run.
GPU_STEPS = """
import ctypes, json, time
import numpy
seconds = {}
def timed(name, action):
    began = time.perf_counter()
    result = action()
    seconds[name] = round(time.perf_counter() - began, 3)
    return result
timed("driver_s", lambda: ctypes.CDLL("libcuda.so.1").cuInit(0))
cupy = timed("cupy_s", lambda: __import__("cupy"))
timed("devices_s", cupy.cuda.runtime.getDeviceCount)
timed("nvrtc_s", cupy.cuda.nvrtc.getSupportedArchs)
timed("context_s", cupy.cuda.runtime.memGetInfo)
timed("array_s", lambda: cupy.asarray(numpy.zeros(1)))
print(json.dumps(seconds))
"""


def record_details(command: list[str], n_modules: int) -> None:
    """Record what modules take, and what a GPU takes if there is one; `command` is a run that is not finished."""
    for row in import_times(command)[:n_modules]:
        record("start_up_modules", **row)
    if gpu_missing() is None:
        for _ in range(2):  # the first one reads the libraries from the disk
            steps = subprocess.run(
                [sys.executable, "-c", GPU_STEPS], capture_output=True, text=True, check=True
            )
        record("start_up_gpu", **json.loads(steps.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--input", default="generated:road?vertices=262144&seed=7")
    parser.add_argument("--folder", type=Path, default=Path(".bench"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--workers", default="auto,1,4", help="numbers of workers; `auto`: threads or one GPU"
    )
    parser.add_argument("--kind", default="local-cpu")
    parser.add_argument("--solver", default="delta-stepping")
    parser.add_argument("--sources", type=int, default=64)
    parser.add_argument(
        "--modules", type=int, default=0, help="show so many modules that take long to import"
    )
    given = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    given.folder.mkdir(exist_ok=True)
    workflow, run = given.folder / "start-up.yaml", given.folder / "start-up-run"
    store = str(given.folder / f"start-up-graph-{Graph(input=given.input).digest_in(str(given.folder))}")
    workflow.write_text(
        json.dumps(
            {
                "graph": {"input": given.input, "store": store},
                "sources": {"random": {"count": given.sources}},
                "solve": {"solver": given.solver, "batch": 1},
                "output": {"path": str(run), "distances": "none"},
                "verify": "off",
                "report": False,
            }
        )
    )
    program = [sys.executable, "-m", "sssp_pipeline.cli"]
    subprocess.run([*program, "ingest", str(workflow), "-q"], check=True)
    counts = given.workers.split(",")
    rounds: dict[str, list[dict[str, float]]] = {count: [] for count in counts}
    for number in range(given.rounds + 1):
        for count in counts:
            shutil.rmtree(run, ignore_errors=True)
            options = ["--set", f"cluster.kind={given.kind}", "--set", f"cluster.workers={count}"]
            found = measured([*program, "run", str(workflow), "--log-format", "json", *options])
            if number:  # the first round compiles
                rounds[count].append(found)
    manifest = read_manifest(store)
    for count, taken in rounds.items():
        best = min(taken, key=lambda steps: steps["first_solved_s"])
        best |= {key: min(steps[key] for steps in taken) for key in ("command_s", "start_cpu_s", "cpu_s")}
        record(
            "start_up",
            input=given.input if ":" in given.input else Path(given.input).name,
            n_vertices=manifest.n_vertices,
            n_edges=manifest.n_edges,
            solver=given.solver,
            kind=given.kind,
            workers=count,
            rounds=given.rounds,
            **{key: round(value, 3) for key, value in best.items()},
        )
    if given.modules:
        shutil.rmtree(run, ignore_errors=True)
        options = ["--set", f"cluster.kind={given.kind}", "--set", f"cluster.workers={counts[0]}"]
        record_details([*program, "run", str(workflow), "--log-format", "json", *options], given.modules)
    shutil.rmtree(run)


if __name__ == "__main__":
    main()
