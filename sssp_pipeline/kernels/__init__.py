"""The solvers. They are imported on first access, by `registry`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sssp_pipeline.kernels.registry import SOLVERS as SOLVERS
    from sssp_pipeline.kernels.registry import WITH_HIERARCHY as WITH_HIERARCHY
    from sssp_pipeline.kernels.registry import solver_named as solver_named


def __getattr__(name: str) -> Any:
    if name in ("SOLVERS", "WITH_HIERARCHY", "solver_named"):
        from sssp_pipeline.kernels import registry

        return getattr(registry, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
