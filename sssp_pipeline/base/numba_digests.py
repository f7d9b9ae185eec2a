"""Digests of numba's cache: whether a file in it fits the source of this package, and whether it is whole.

numba compiles functions and constants of other modules into a kernel. But its cache checks only the module that
contains the kernel. So the names of our cache files also contain a digest of `HELPERS`, and a new file replaces those
with other digests. Each file begins with a SHA-256 of the rest: what a full disk or a kill damaged is compiled again.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path

#: The modules from which kernels of other modules take functions or constants.
HELPERS = (
    *(f"base/{name}.py" for name in ("csr", "numba_cache")),
    *(f"kernels/cpu/{name}.py" for name in ("bit_rows", "buckets", "delta_stepping")),
    "kernels/answers/path_sums.py",
    "kernels/contract/over_sources.py",
    "kernels/gpu/common/cuda/struct_types.py",
    *(
        f"kernels/host/{name}.py"
        for name in ("mean", "numba_tools", "kernel_threads", "search_graph", "vectors", "xxh64")
    ),
    *(
        f"kernels/hierarchy/{name}.py"
        for name in (
            *("completion/arcs", "completion/lanes", "completion/subtrees"),
            *("dividing/bisection", "dividing/separators", "sweeps/path_lanes", "sweeps/tiles"),
        )
    ),
    *(
        f"pipeline/formats/parsing/{name}.py"
        for name in ("faults", "line_blocks", "numbers_in_text", "odd_rows", "plain_rows")
    ),
)

_PACKAGE = Path(__file__).parents[1]
_DIGEST_BYTES = 32


@cache
def helpers_digest() -> str:
    """Return a digest of the source of all `HELPERS`."""
    digest = hashlib.sha256()
    for name in HELPERS:
        digest.update(name.encode() + b"\0" + (_PACKAGE / name).read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def whole_content(path: Path) -> bytes | None:
    """Return the content of a file of the cache; None if the file is missing or damaged."""
    try:
        stored = path.read_bytes()
    except OSError:
        return None
    digest, content = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
    return content if digest == digest_of(content) else None


def digest_of(content: bytes) -> bytes:
    """Return what a file of the cache begins with, before its content."""
    return hashlib.sha256(content).digest()


def damaged_files() -> list[Path]:
    """Return the files of this package's cache, next to its modules or in `NUMBA_CACHE_DIR`, that are damaged."""
    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or _PACKAGE)
    found = (p for p in folder.rglob(f"*-{helpers_digest()}.*") if p.suffix in (".nbi", ".nbc"))
    return sorted(path for path in found if whole_content(path) is None)
