"""Searches that wait for blocks which do not run, as happens if another process uses the GPU too."""

from __future__ import annotations

import os
import subprocess
from pathlib import PurePath

from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.kernels.gpu.common.cuda.compile import cupy_module

#: The hint when a search was given up without an end in sight.
FREE_AGAIN = "the GPU is free again; if this repeats, report it with the graph, and use another solver"
#: The driver's answer takes a fraction of a second.
_ANSWER_S = 10.0
#: The server of NVIDIA's Multi-Process Service: processes share the GPU at the same time.
_MPS_SERVER = "nvidia-cuda-mps-server"


class StalledError(SsspError):
    """A search was given up because some of its blocks did not run. A second try may succeed.

    Parameters
    ----------
    message
        What was given up, and what was missing.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, hint=FREE_AGAIN)


def stalled_twice(second: StalledError) -> StalledError:
    """Return the error of a search that was given up twice. Its hint names other processes on the GPU, if known."""
    error = StalledError(f"{second.message}; the first of two tries was given up too")
    if others := other_processes():
        error.hint = (
            "a search needs room for all of its blocks at once, and other processes use this GPU: "
            f"{', '.join(others)}; wait until they end, or set CUDA_VISIBLE_DEVICES to another GPU"
        )
    return error


def other_processes() -> list[str]:
    """Return name and id of each other process that computes on the current device; [] if that is not known."""
    query = ["nvidia-smi", "--query-compute-apps=pid,process_name", "--format=csv,noheader"]
    try:
        query.append(f"--id={cupy_module().cuda.Device().pci_bus_id}")
        answer = subprocess.run(query, capture_output=True, text=True, timeout=_ANSWER_S, check=True)
    except Exception:  # without an answer, nothing is known
        return []
    return others_in(answer.stdout, os.getpid())


def others_in(answer: str, own: int) -> list[str]:
    """Return the other processes in an answer of `nvidia-smi`, which has a line `pid, name` for each process.

    In a container, the ids may be those of the host. Then this process is not found by its id `own`, and which are
    other processes is not known. Only a server of MPS is another one in any case.
    """
    processes = [(pid, PurePath(name.strip()).name) for pid, _, name in _fields(answer)]
    is_listed = str(own) in (pid for pid, _ in processes)
    return [
        f"{name} ({pid})" for pid, name in processes if pid != str(own) and (is_listed or name == _MPS_SERVER)
    ]


def _fields(answer: str) -> list[tuple[str, str, str]]:
    fields = [line.strip().partition(",") for line in answer.splitlines()]
    return [each for each in fields if each[0].isdigit()]
