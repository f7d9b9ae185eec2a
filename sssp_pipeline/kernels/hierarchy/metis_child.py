"""METIS in a process of its own: it reads graphs from its standard input, and writes what METIS finds to its output.

    python -P -S metis_child.py FOLDER

`metis_processes.py` starts it, and says why. FOLDER has the package `pymetis`. Only the compiled module of that package
is imported, and NumPy is not: to import both whole would take ten times as long.

First the process writes one byte: how many bytes an index has. Then it answers one request after the other:

    request   3 int64: what is wanted, the number of offsets, the number of neighbours; then these, as indices
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

#: Requests: the vertices in the order in which METIS eliminates them; the part in which each lies, from 0 to `N_PARTS`;
#: an order with METIS's own options.
ORDER, PARTS, FINE_ORDER = 0, 1, 2
#: A power of 2.
N_PARTS = 4
#: Options of METIS for `ORDER`. One pass over a separator instead of ten takes a tenth less time, and separators of
#: unequal halves are smaller, so roads have as many triangles as without options. Webs have a quarter more, and get a
#: `FINE_ORDER`. After thinning there is little to compress.
_OPTIONS = {"NITER": 1, "UFACTOR": 300, "COMPRESS": 0}
#: Options for `PARTS`. A part may have 1.4 times its share: parts of unequal sizes have smaller separators.
_PARTS_OPTIONS = {"UFACTOR": 400}


def found_by(metis: Any, request: int, offsets: Any, neighbours: Any) -> Sequence[int]:
    """Return the answer to a request; `metis` is the compiled module of `pymetis`, and the arrays have its indices."""
    options = metis.Options()
    for name, value in {ORDER: _OPTIONS, PARTS: _PARTS_OPTIONS}.get(request, {}).items():
        options._set(getattr(metis.options_indices, name), value)
    if request == PARTS:
        parts: Sequence[int] = metis.part_graph(
            N_PARTS, offsets, neighbours, None, None, None, options, False
        )[1]
        return parts
    order: Sequence[int] = metis.edge_nd(offsets, neighbours, None, options)[0]
    return order


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
        given = [memoryview(requests.read(index_bytes * length)) for length in lengths]
        offsets, neighbours = (numbers.cast("i" if index_bytes == 4 else "q") for numbers in given)
        answers.write(array("i", found_by(metis, request, offsets, neighbours)))
        answers.flush()


if __name__ == "__main__":
    _serve(sys.argv[1])
