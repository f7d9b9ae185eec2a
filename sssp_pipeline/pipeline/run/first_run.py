"""What the first run on a machine prepares while its modules are imported. This module imports little."""

from __future__ import annotations

from sssp_pipeline.base import compile_children
from sssp_pipeline.kernels import WITH_HIERARCHY
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.models import Workflow

#: From this many sources on, `auto` may make a hierarchy before long. Fewer need one only on graphs that take longer to
#: read than the kernels take to compile, and then the children start when the graph is read.
MANY_SOURCES = 256
#: From this many cores on, one of them may load the compiler for nothing.
_MANY_CORES = 4


def prepare_to_compile(workflow: Workflow) -> None:
    """Have a child load the compiler of numba if the graph has to be read and the run may make a hierarchy.

    If nothing is to be compiled, `compile_children.start` ends it.
    """
    solve = workflow.solve
    may_make_one = solve.hierarchy != "off" and solve.solver in ("auto", *WITH_HIERARCHY)
    is_likely = (solve.hierarchy, solve.solver) != ("auto", "auto") or has_many_sources(workflow)
    is_new = files.is_local(workflow.store) and not files.exists(workflow.store)
    if may_make_one and is_likely and is_new and usable_cores() >= _MANY_CORES:
        compile_children.prepare()


def has_many_sources(workflow: Workflow) -> bool:
    """Return whether a run has many sources, as far as the workflow tells."""
    sources = workflow.sources
    if sources is None:
        return True  # a file of pairs
    if sources.random is not None:
        return sources.random.count >= MANY_SOURCES
    if sources.ids is not None:
        return len(sources.ids) >= MANY_SOURCES
    return sources.top_degree is None or sources.top_degree >= MANY_SOURCES
