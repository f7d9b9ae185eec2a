"""Kernels that make rows, in groups that children compile while this process compiles what reads the input."""

from __future__ import annotations

from typing import Any

import numpy as np

from sssp_pipeline.base.compile_children import KernelGroup
from sssp_pipeline.pipeline.formats.parsing import tokenizer
from sssp_pipeline.pipeline.ingest.rows import edge_runs, grouping, reverses, sorted_rows
from sssp_pipeline.pipeline.ingest.rows.grouping import grouped_by_source

#: What most weights of roads fit, which wait for their rows in the smallest type.
_WAITING = np.dtype("uint16")


def compile_grouping(dtype: np.dtype) -> None:
    """Compile what checks text and groups edges, with weights of `dtype`, in memory."""
    tokenizer.control_at(np.zeros(1, np.uint8))
    ends, weights = np.array([0, 1], np.uint32), np.ones(2, dtype)
    grouped_by_source(ends, ends[::-1].copy(), weights.astype(_WAITING), False, False)


def compile_gathering(dtype: np.dtype) -> None:
    """Compile what takes grouped edges together, with weights of `dtype`, in memory."""
    # A run without edges.
    begins, places, one = np.zeros((3, 1), np.int64), np.zeros((5, 1), np.int64), np.arange(1)
    edge_runs._find_groups(one, np.zeros(2, np.int64), np.arange(2), 0, 1, places)
    for like, out in ((np.empty(0, np.uint32),) * 2, (np.empty(0, _WAITING), np.empty(0, dtype))):
        edge_runs._gather(begins[2], begins[2], places, one, like, False, 1.0, out)


def compile_rows(dtype: np.dtype) -> None:
    """Compile what makes the rows of grouped edges, with weights of `dtype`, in memory."""
    ends, weights = np.array([0, 1], np.uint32), np.ones(2, dtype)
    bounds = sorted_rows.Bounds.of(2, 1, 1, dtype)
    rows = sorted_rows.rows_between(0, 2, ends, ends[::-1].copy(), weights, bounds=bounds, lightest=True)
    reverses.first_one_way(*rows, 0)
    reverses.reverse_difference(0, *rows, reverses.random_keys())


def _gathered(types: tuple[Any, ...]) -> str:
    """Return the type of the weights that `_gather` copies; it copies ids too."""
    return types[7].dtype.name if types[4].dtype.name == _WAITING.name else ""


GROUPING = KernelGroup(compile_grouping, grouping._group)
GATHERING = KernelGroup(compile_gathering, edge_runs._gather, _gathered)
ROWS = KernelGroup(compile_rows, reverses._difference, lambda types: types[3].dtype.name)
