"""METIS in processes of its own.

While METIS works, its wrapper holds Python's lock, and METIS handles SIGTERM itself: in a thread, that signal ends the
process with a segmentation fault. So a child makes the order. It reads the graph from its standard input and writes the
order to its standard output. The calling thread waits without Python's lock. Ctrl-C on a terminal does not reach the
child, so the batches under way can be finished. The memory that METIS takes is given back with the child.

METIS orders on one core. So the child cuts a large graph into two halves, with METIS too, and a fork of it orders one
of them at the same time. The halves are cut in the same way, `MOST_CUTS` times in all. The fewest vertices that touch
all cut edges become the separator, which gets the highest ranks. The order does not depend on the number of cores.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
from contextlib import suppress
from importlib.util import find_spec

import numpy as np

from sssp_pipeline.errors import InputError, SsspError

#: METIS counts with 32 signed bits.
MOST = 2**31 - 1
#: How often a graph is cut, and from how many vertices on. A half is cut from twice as many on, since METIS alone finds
#: better separators: the first cut adds 1 to 7 % of triangles, a second one of small halves 14 % on a triangulation.
MOST_CUTS = 2
CUT_VERTICES = 2**16
#: The most cut edges, since finding the fewest vertices is slow. Roads have a few dozen, meshes a thousand.
_MOST_CUT_EDGES = 2**13
#: NumPy's libraries start threads of their own by these variables, which would take time from METIS.
_BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def missing() -> str | None:
    """Return why METIS cannot be used here, or None."""
    if find_spec("pymetis") is None:
        return (
            "it needs the package `pymetis`, which is not installed; it has wheels for Linux x86-64 and macOS"
        )
    return None


class MetisProcess:
    """A process that orders one graph. It starts with the `with` block, and has ended when the block ends.

    To start it takes a tenth of a second. In the meantime the calling thread can make the graph.
    """

    def __enter__(self) -> MetisProcess:
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-W", "ignore", "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            | dict.fromkeys(_BLAS_THREADS, "1"),
            start_new_session=True,
        )
        return self

    def __exit__(self, *error: object) -> None:
        with self._child:  # closes its pipes and waits for it
            if self._child.returncode is None:
                with suppress(OSError):  # it ended itself
                    os.killpg(self._child.pid, signal.SIGKILL)  # its forks too

    def order(self, offsets: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
        """Return the vertices (V,) int32 of a graph in the order in which METIS eliminates them; for one call.

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
        found, errors = self._child.communicate(given)
        order = np.frombuffer(found, np.int32) if len(found) % 4 == 0 else np.empty(0, np.int32)
        if self._child.returncode != 0 or len(order) != len(offsets) - 1:
            last_line = errors.decode(errors="replace").strip().rpartition("\n")[2]
            raise SsspError(
                f"METIS failed to order {len(offsets) - 1:,} vertices: exit code {self._child.returncode}; {last_line}",
                hint="give it more memory, or choose another solver",
            )
        return order


def _order_input() -> None:
    """Write the order of the graph in the standard input to the standard output."""
    import pymetis  # takes as long as the parent needs to make the graph  # noqa: F401

    given = sys.stdin.buffer.read()
    n_offsets, n_neighbours = np.frombuffer(given, np.int64, 2).tolist()
    arrays = np.frombuffer(given, np.int32, n_offsets + n_neighbours, offset=16)
    sys.stdout.buffer.write(_ordered(arrays[:n_offsets], arrays[n_offsets:]).tobytes())


def _ordered(offsets: np.ndarray, neighbours: np.ndarray, n_cuts: int = 0) -> np.ndarray:
    """Return the order (V,) int32 of a part of a graph that was cut `n_cuts` times; forks this process."""
    import pymetis

    graph = pymetis.CSRAdjacency(offsets, neighbours)
    if n_cuts < MOST_CUTS and len(offsets) > CUT_VERTICES << n_cuts:
        parts = _cut(offsets, neighbours, np.asarray(pymetis.part_graph(2, graph)[1], np.bool_))
        if parts is not None:
            *halves, separator = parts
            first, second = (_within(offsets, neighbours, half) for half in halves)
            read, write = os.pipe()
            if (fork := os.fork()) == 0:
                try:
                    os.close(read)
                    with os.fdopen(write, "wb") as pipe:
                        pipe.write(_ordered(*second, n_cuts + 1).tobytes())
                    os._exit(0)
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(1)
            os.close(write)
            of_first = _ordered(*first, n_cuts + 1)
            with os.fdopen(read, "rb") as pipe:
                of_second = np.frombuffer(pipe.read(), np.int32)
            if os.waitpid(fork, 0)[1] != 0:
                raise RuntimeError("a fork that ordered one half failed")
            return np.concatenate([halves[0][of_first], halves[1][of_second], separator])
    return np.asarray(pymetis.nested_dissection(graph)[0], np.int32)


def _cut(offsets: np.ndarray, neighbours: np.ndarray, side: np.ndarray) -> list[np.ndarray] | None:
    """Return the vertices (n,) int32 of two halves and of a separator, given on which side of a cut each vertex lies.

    No neighbours are in different halves. If too many edges are cut, or a half is empty, the result is None.
    """
    tails = np.repeat(np.arange(len(side), dtype=np.int32), np.diff(offsets))
    is_cut = side[tails] & ~side[neighbours]
    if np.count_nonzero(is_cut) > _MOST_CUT_EDGES:
        return None
    is_separator = np.zeros(len(side), np.bool_)
    is_separator[_cover(tails[is_cut].tolist(), neighbours[is_cut].tolist())] = True
    masks = (side & ~is_separator, ~side & ~is_separator, is_separator)
    parts = [np.flatnonzero(mask).astype(np.int32) for mask in masks]
    return parts if len(parts[0]) and len(parts[1]) else None


def _cover(left: list[int], right: list[int]) -> list[int]:
    """Return the fewest vertices that touch all edges (left[i], right[i]); no vertex is in both lists.

    By König's theorem they follow from a largest matching, which is found by augmenting paths.
    """
    edges: dict[int, list[int]] = {}
    for u, v in zip(left, right, strict=True):
        edges.setdefault(u, []).append(v)
    partner: dict[int, int] = {}  # of each matched vertex, in both directions

    def search(roots: list[int]) -> tuple[dict[int, int], int | None]:
        """Return from where each vertex on the right is reached by alternating paths, and an unmatched one, or None."""
        reached_from: dict[int, int] = {}
        for u in roots:  # grows
            for v in edges[u]:
                if v not in reached_from:
                    reached_from[v] = u
                    if v not in partner:
                        return reached_from, v
                    roots.append(partner[v])
        return reached_from, None

    unmatched = []
    for u in edges:
        reached_from, end = search([u])
        if end is None:
            unmatched.append(u)
        while end is not None:  # each vertex on the path changes its partner
            before = reached_from[end]
            partner[end], partner[before], end = before, end, partner.get(before)
    reached, _ = search(unmatched.copy())
    is_reached = {*unmatched, *(partner[v] for v in reached)}
    return [*reached, *(u for u in edges if u not in is_reached)]


def _within(offsets: np.ndarray, neighbours: np.ndarray, half: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the graph of the vertices `half`, numbered by their places there."""
    places = np.full(len(offsets) - 1, -1, np.int32)
    places[half] = np.arange(len(half), dtype=np.int32)
    to = places[neighbours]
    is_within = np.repeat(places, np.diff(offsets)) >= 0
    is_within &= to >= 0
    before = np.zeros(len(neighbours) + 1, np.int32)
    np.cumsum(is_within, out=before[1:])
    ends = before[offsets]
    return np.append(ends[half], ends[-1]), to[is_within]


if __name__ == "__main__":
    _order_input()
