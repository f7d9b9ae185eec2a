"""METIS in a process of its own: it reads graphs from its standard input, and writes what METIS finds to its output.

    python -P -S metis_child.py FOLDER

`metis_processes.py` starts it, and says why. FOLDER has the package `pymetis`. Only the compiled module of that package
is imported, and NumPy is not: to import both whole would take ten times as long.

First the process writes one byte: how many bytes an index has. Then it answers one request after the other:

    request   3 int64: what is wanted, the number of offsets, the number of neighbours; then these, as indices; for
              coarse graphs also the weights of vertices and of neighbours
    answer    an int32 for each vertex
"""

from __future__ import annotations

import os
import sys
from array import array
from importlib import import_module

TYPE_CHECKING = False  # to import `typing` would take half of the time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

#: Requests: the vertices in the order in which METIS eliminates them; the same with METIS's own options; the part of
#: each vertex, from 0. Vertices and edges of coarse graphs have weights.
ORDER, FINE_ORDER, QUARTERS, COARSE_QUARTERS, HALVES, FINE_HALVES, COARSE_HALVES = range(7)
_COARSE = COARSE_QUARTERS, COARSE_HALVES
N_QUARTERS = 4
#: Options of METIS for `ORDER`. One pass over a separator instead of ten takes a tenth less time, and separators of
#: unequal halves are smaller, so roads have as many triangles as without options. Webs have a quarter more, and get a
#: `FINE_ORDER`. After thinning there is little to compress.
_OPTIONS = {"NITER": 1, "UFACTOR": 300, "COMPRESS": 0}
#: How many parts, and whether METIS finds them by bisection. Bisection finds smaller separators in roads and grids, and
#: one step in dense graphs.
_PARTS = {
    QUARTERS: (N_QUARTERS, False),
    COARSE_QUARTERS: (N_QUARTERS, False),
    HALVES: (2, True),
    FINE_HALVES: (2, False),
    COARSE_HALVES: (2, False),
}
#: The option `UFACTOR` of two parts is twice this, so that one may have 1.2 times its share; of four parts 1.4 times.
#: Parts of unequal sizes have smaller separators.
_UFACTOR_A_PART = 100
#: How many cuts METIS makes of a coarse graph, to take the best one. Each takes little time.
_COARSE_CUTS = 4


def found_by(
    metis: Any, request: int, offsets: Any, neighbours: Any, weights: Any = None, edge_weights: Any = None
) -> Sequence[int]:
    """Return the answer to a request; `metis` is the compiled module of `pymetis`, and the arrays have its indices."""
    n_parts, by_bisection = _PARTS.get(request, (0, False))
    options = metis.Options()
    n_cuts = _COARSE_CUTS if request in _COARSE else 1
    parts_options = {"UFACTOR": _UFACTOR_A_PART * n_parts, "NCUTS": n_cuts}
    for name, value in {ORDER: _OPTIONS, FINE_ORDER: {}}.get(request, parts_options).items():
        options._set(getattr(metis.options_indices, name), value)
    if n_parts:
        graph = offsets, neighbours, weights, edge_weights, None
        found: Sequence[int] = metis.part_graph(n_parts, *graph, options, by_bisection)[1]
    else:
        found = metis.edge_nd(offsets, neighbours, None, options)[0]
    return found


def _serve(folder: str) -> None:
    """Answer requests until the standard input ends."""
    sys.path.append(folder)
    metis = import_module("_internal")
    requests = os.fdopen(0, "rb")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what METIS prints is not an answer
    index_bytes = metis._idx_type_width() // 8
    answers.write(bytes([index_bytes]))
    answers.flush()
    while header := requests.read(24):
        request, *lengths = memoryview(header).cast("q")
        if request in _COARSE:
            lengths += [lengths[0] - 1, lengths[1]]
        given = [memoryview(requests.read(index_bytes * length)) for length in lengths]
        arrays = [numbers.cast("i" if index_bytes == 4 else "q") for numbers in given]
        answers.write(array("i", found_by(metis, request, *arrays)))
        answers.flush()
        del given, arrays
        if request in _PARTS:
            _give_memory_back()


def _give_memory_back() -> None:
    """Give the system the memory that this process has freed: after a cut, it orders smaller parts."""
    from ctypes import CDLL

    if (malloc_trim := getattr(CDLL(None), "malloc_trim", None)) is not None:  # not every C library has it
        malloc_trim(0)


if __name__ == "__main__":
    _serve(sys.argv[1])
