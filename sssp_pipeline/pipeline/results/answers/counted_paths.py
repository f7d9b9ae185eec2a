"""Which shortest paths a run counts, and how much each of them counts: `output.reduce.paths` of the workflow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.vertex_amounts import VertexAmounts
from sssp_pipeline.kernels.contract.path_sums_asked import PathAmounts
from sssp_pipeline.pipeline.results.outputs.vertex_table import Originals
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.betweenness import AMOUNTS, PATHS
from sssp_pipeline.workflow.section import dotted

if TYPE_CHECKING:
    from sssp_pipeline.pipeline.results.outputs.outputs import Chooser
    from sssp_pipeline.workflow.reduce import Paths


#: How many numbers each vertex has.
ROWS = 2


@dataclass(frozen=True)
class CountedPaths:
    """Which paths count, and how much. The numbers of each vertex are apart: `read` returns them."""

    #: Whether only paths to some vertices count.
    some_targets: bool
    #: The columns with the amounts of sources and of targets; None if all are 1.
    source_amounts: str | None
    target_amounts: str | None
    #: In the unit of the input; 0 for no decay.
    decay: float
    #: The power of two by which each row is multiplied.
    exponents: tuple[int, ...] = ()

    @classmethod
    def asked_by(cls, paths: Paths) -> CountedPaths:
        """Return what the workflow asks for, without what its files say."""
        of_sources, of_targets = (
            None if amounts is None else amounts.names[0]
            for amounts in (paths.source_amounts, paths.target_amounts)
        )
        return cls(paths.targets is not None, of_sources, of_targets, float(paths.decay or 0))

    @classmethod
    def recorded(cls, identity: dict[str, Any]) -> CountedPaths:
        """Return what has this `identity`."""
        return cls(**{**identity, "exponents": tuple(identity["exponents"])})

    def identity(self) -> dict[str, Any]:
        """Return its part of the identity of a run."""
        return {**asdict(self), "exponents": list(self.exponents)}

    def read(self, paths: Paths, choose: Chooser) -> tuple[CountedPaths, np.ndarray]:
        """Return this with its exponents, and the rows (2, V) int64: amounts of sources, then of targets.

        An amount is zero or more. A vertex that is no target has 0.

        Raises
        ------
        InputError
            A file cannot be used, an amount is negative, or the amounts are too large or too small.
        """
        rows, exponents = np.ones((ROWS, choose.traits.n_vertices), np.int64), [0, 0]
        for place, key in enumerate(AMOUNTS):
            if (spec := getattr(paths, key)) is not None:
                amounts = choose.amounts(spec, dotted((*PATHS, key)))
                check_amounts(amounts, choose.ids, f"`{files.redacted(spec.file)}`: ")
                rows[place], exponents[place] = amounts.values[0], amounts.exponents[0] or 0
        if paths.targets is not None:
            is_target = np.zeros(rows.shape[1], np.bool_)
            is_target[choose.vertices(paths.targets, dotted((*PATHS, "targets")))] = True
            rows[1] *= is_target
        found = replace(self, exponents=tuple(exponents))
        found.asked(rows, None)  # raises if a product is out of range
        return found, rows

    @property
    def is_weighted(self) -> bool:
        """Whether some paths count more than others."""
        return bool(self.source_amounts or self.target_amounts or self.decay)

    def asked(self, rows: np.ndarray, scale: int | None) -> dict[str, Any]:
        """Return the fields of `PathSumsAsked` that `rows` decide, for weights that are `scale` times the input's."""
        if not self.is_weighted:
            return {"is_target": rows[1] != 0}
        of_sources, of_targets = map(VertexAmounts, rows[:, np.newaxis], zip(self.exponents))
        return {"amounts": PathAmounts.of(of_sources, of_targets, self.decay / (scale or 1))}

    def facts(self) -> Iterator[str]:
        """Yield what is said of the paths in the report."""
        if self.some_targets:
            yield "to some targets"
        for column, end in ((self.source_amounts, "source"), (self.target_amounts, "target")):
            if column is not None:
                yield f"times `{column}` of the {end}"
        if self.decay:
            yield f"times exp(-{self.decay} · length)"


def check_amounts(amounts: VertexAmounts, ids: Originals, place: str) -> None:
    """Raise `InputError` if a column of `amounts` has a negative one, or none above 0; `place` begins the message."""
    (row,), (exponent,) = amounts.values, amounts.exponents
    if (negative := np.flatnonzero(row < 0)).size:
        vertex = int(negative[0])
        amount = int(row[vertex]) if exponent is None else float(np.ldexp(float(row[vertex]), exponent))
        raise InputError(
            f"{place}vertex `{ids.original(vertex)}` has the amount {amount}",
            hint="an amount is a number of 0 or more",
        )
    if not row.any():
        raise InputError(
            f"{place}no vertex has an amount above 0",
            hint="without amounts, no path counts: name some vertices",
        )
