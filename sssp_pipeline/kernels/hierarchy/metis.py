"""METIS in a process of its own.

While METIS works, its wrapper holds Python's lock, and METIS handles SIGTERM itself: in a thread, that signal ends the
process with a segmentation fault. So a child makes the order. It reads the graph from its standard input and writes the
order to its standard output. The calling thread waits without Python's lock. Ctrl-C on a terminal does not reach the
child, so the batches under way can be finished. The memory that METIS takes is given back with the child.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np

from sssp_pipeline.errors import InputError, SsspError

#: METIS counts with 32 signed bits.
MOST = 2**31 - 1


def missing() -> str | None:
    """Return why METIS cannot be used here, or None."""
    if find_spec("pymetis") is None:
        return (
            "it needs the package `pymetis`, which is not installed; it has wheels for Linux x86-64 and macOS"
        )
    return None


def nested_dissection(offsets: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
    """Return the vertices (V,) int32 of a graph in the order in which METIS eliminates them.

    Parameters
    ----------
    offsets
        (V+1,) integers; the neighbours of vertex `v` are `offsets[v]:offsets[v + 1]`.
    neighbours
        (N,) integers; each pair of neighbours stands there in both directions.

    Raises
    ------
    InputError
        The graph is too large for METIS.
    SsspError
        METIS failed, for example for lack of memory.
    """
    if max(len(offsets), len(neighbours)) > MOST:
        raise InputError(
            f"the graph has {len(neighbours)} pairs of neighbours, more than METIS takes ({MOST})",
            hint="choose another solver; `sssp-pipeline solvers` lists all",
        )
    sizes = np.array([len(offsets), len(neighbours)], np.int64)
    given = b"".join(
        (sizes.tobytes(), offsets.astype(np.int32).tobytes(), neighbours.astype(np.int32).tobytes())
    )
    done = subprocess.run(
        [sys.executable, "-P", "-W", "ignore", "-m", __name__],
        input=given,
        capture_output=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,
        check=False,
    )
    order = np.frombuffer(done.stdout, np.int32) if len(done.stdout) % 4 == 0 else np.empty(0, np.int32)
    if done.returncode != 0 or len(order) != len(offsets) - 1:
        last_line = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise SsspError(
            f"METIS failed to order {len(offsets) - 1:,} vertices: exit code {done.returncode}; {last_line}",
            hint="give it more memory, or choose another solver",
        )
    return order


def _order_input() -> None:
    """Write the order of the graph in the standard input to the standard output."""
    import pymetis

    given = sys.stdin.buffer.read()
    n_offsets, n_neighbours = np.frombuffer(given, np.int64, 2).tolist()
    arrays = np.frombuffer(given, np.int32, n_offsets + n_neighbours, offset=16)
    order, _ = pymetis.nested_dissection(pymetis.CSRAdjacency(arrays[:n_offsets], arrays[n_offsets:]))
    sys.stdout.buffer.write(np.asarray(order, np.int32).tobytes())


if __name__ == "__main__":
    _order_input()
