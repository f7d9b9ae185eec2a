"""Children compile the kernels after the completion, while this process makes the completion."""

from __future__ import annotations

import numpy as np
import pytest

from sssp_pipeline.kernels.hierarchy import compile_ahead
from sssp_pipeline.kernels.host.kernel_threads import usable_cores

#: Solves in an environment without compiled kernels. Prints which kernels this process compiles, and whether the cache
#: has those of the children, before and after.
PROGRAM = """
import json, sys
import numpy as np
from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.generators import grid
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.hierarchy.compile_ahead import ARCS, SWEEPS, WEIGHTS, searched_type
from sssp_pipeline.kernels.registry import SOLVERS
made = grid(12, 9)
graph = csr_from_edges(made.src, made.dst, made.weights.astype(sys.argv[1]), made.n_vertices)
def are_compiled():
    return [group.is_compiled(searched_type(graph)) for group in (WEIGHTS, ARCS, SWEEPS)]
before = are_compiled()
rows = [SOLVERS[name].solve(graph, np.arange(20), SolveOptions()).distances for name in ("phast", "dijkstra")]
print(json.dumps([before, are_compiled(), bool((rows[0] == rows[1]).all()), names]))
"""
OF_CHILDREN = ("customization", "arcs", "sweep", "tiles", "lanes")
#: Compiles one group after the other. Prints of which the cache has the last kernel, before and after each.
GROUPS = """
import json
import numpy as np
from sssp_pipeline.kernels.cpu.compile_ahead import ORACLE, SEARCHES
from sssp_pipeline.kernels.gpu.phast_gpu.host_hierarchy import chunk_kernels
from sssp_pipeline.kernels.hierarchy.ordering import metis_processes
from sssp_pipeline.kernels.hierarchy.compile_ahead import LOOK, SWEEPS, groups_after_order, order_groups
from sssp_pipeline.pipeline.formats.parsing.compile_ahead import DECIMALS, DIGITS, ODD_ROWS
from sssp_pipeline.pipeline.ingest.rows.compile_ahead import GATHERING, GROUPING, ROWS
metis_processes.package = lambda: None  # so that all groups of an order are there
after_order = [group for groups in groups_after_order(SWEEPS) for group in groups]
of_text = [DIGITS, DECIMALS, ODD_ROWS]
groups = [*of_text, GROUPING, GATHERING, ROWS, SEARCHES, ORACLE, LOOK, *order_groups(), *after_order]
groups.append(chunk_kernels())
dtypes = [np.dtype("uint32"), np.dtype("uint64")]
def found():
    return [[group.is_compiled(dtype) for dtype in dtypes] for group in groups]
seen = [found()]
for group in groups:
    group.compile_for(np.dtype("uint32"))
    seen.append(found())
print(json.dumps([[group.dtype_of is not None for group in groups], seen]))
"""

#: Compiles the chunks, and prints which of their kernels a graph still needs.
CHUNKS = """
import json
import numpy as np
from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.generators import grid
from sssp_pipeline.kernels.gpu.phast_gpu.host_hierarchy import compile_chunks, host_hierarchy
compile_chunks(np.dtype("uint32"))
before = len(names)
made = grid(60, 40)
host = host_hierarchy(csr_from_edges(made.src, made.dst, made.weights, made.n_vertices))
assert 0 < len(host.low_by_height[0]) < len(host.next_chunks) == 2400
print(json.dumps([names[:before], names[before:]]))
"""


@pytest.mark.medium
@pytest.mark.skipif(usable_cores() < 2, reason="one core compiles nothing ahead")
def test_children_compile_what_follows_the_completion(printed):
    # Searches take weights of `int32` as `uint32`.
    before, after, is_equal, names = printed(PROGRAM, "int32")
    assert (before, after, is_equal) == ([False] * 3, [True] * 3, True)
    here = [name.rpartition(".")[0].rpartition(".")[2] for name in names if ".hierarchy." in name]
    assert "arc_completion" in here
    assert not set(here) & set(OF_CHILDREN)


@pytest.mark.slow
def test_a_group_is_compiled_after_its_last_kernel(printed):
    depend, seen = printed(GROUPS)
    n = len(depend)
    assert (n, sum(depend)) == (20, 7)
    expected = np.zeros((n + 1, n, 2), bool)
    for number in range(n):
        expected[number + 1 :, number, 0] = True
        expected[number + 1 :, number, 1] = not depend[number]
    np.testing.assert_array_equal(seen, expected)


@pytest.mark.parametrize(
    ("n_cores", "free_bytes", "expected"), [(1, 2**40, 0), (16, 2**40, 15), (16, 2**30, 2), (16, 0, 0)]
)
def test_cores_and_memory_limit_the_children(monkeypatch, n_cores, free_bytes, expected):
    monkeypatch.setattr(compile_ahead, "usable_cores", lambda: n_cores)
    monkeypatch.setattr(compile_ahead, "free_memory_bytes", lambda: free_bytes)
    assert compile_ahead.n_children() == expected


@pytest.mark.slow
def test_a_graph_needs_no_other_kernels_of_its_chunks(printed):
    ahead, later = printed(CHUNKS)
    assert "sssp_pipeline.kernels.hierarchy.completion.chunks._bound" in ahead
    assert [name for name in later if "chunks" in name or "host_hierarchy" in name] == []
