"""Pinned host memory: from CUDA, and from pages that several threads touched first.

    python benchmarks/pinning.py [--pieces 24] [--bytes 67108864] [--rounds 3]

Each round has new memory of both kinds. A line in `pinning.jsonl` has the median seconds of both. It needs a GPU.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from record import record

from sssp_pipeline.kernels.gpu.common.rows import pinned_memory


def seconds_of(allocate: Callable[[int], Any], pieces: int, n_bytes: int) -> float:
    """Return the seconds that it takes to allocate `pieces` of `n_bytes`."""
    began = time.perf_counter()
    kept = [allocate(n_bytes) for _ in range(pieces)]
    seconds = time.perf_counter() - began
    del kept
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pieces", type=int, default=24)
    parser.add_argument("--bytes", type=int, default=2**26)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    import cupy

    cupy.zeros(1)  # starts CUDA
    kinds = {"cuda_s": cupy.cuda.PinnedMemory, "touched_s": pinned_memory._Registered}
    rounds = [
        {name: seconds_of(allocate, given.pieces, given.bytes) for name, allocate in kinds.items()}
        for _ in range(given.rounds)
    ]
    found = {name: round(median(taken[name] for taken in rounds), 4) for name in kinds}
    record("pinning", pieces=given.pieces, bytes=given.bytes, rounds=given.rounds, **found)


if __name__ == "__main__":
    main()
