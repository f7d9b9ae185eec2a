"""The second costs of device batches. The device sums them, and the host sums the rows that the device leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.kernels.contract.kept import KeptOfRow
from sssp_pipeline.kernels.gpu.common.cuda.compile import cupy_module
from sssp_pipeline.kernels.gpu.common.rows.second_costs_on_device import SecondCostsOnDevice, SummedRows
from sssp_pipeline.kernels.gpu.common.rows.transfers import pinned_array
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.kernels.host.second_costs import SecondCosts, rows_at_once
from sssp_pipeline.kernels.host.tight_edges import LANES


@dataclass(frozen=True, eq=False)
class CostsOfRows:
    """Sums second costs to the vertices that are kept of each row."""

    graph: CsrGraph
    kept: KeptOfRow
    on_host: SecondCosts
    on_device: SecondCostsOnDevice

    def pinned(self, n_rows: int) -> tuple[np.ndarray, ...]:
        """Return host memory (n_rows, columns) for each second cost."""
        shape = n_rows, self.on_device.n_columns
        return tuple(pinned_array(shape, dtype) for dtype in self.on_host.dtypes)

    def complete(self, summed: SummedRows, rows: Any, sources: np.ndarray, sums: list[Any]) -> None:
        """Fill the `sums` of the rows that the launch `summed` has left. It must be over.

        The other parameters are those of `SecondCostsOnDevice.add`.
        """
        left, n_threads = summed.left(), usable_cores()
        at_once = min(int(LANES) * n_threads, rows_at_once(self.graph.traits))
        for first in range(0, len(left), at_once):
            places = left[first : first + at_once]
            whole = np.stack([rows[place].get() for place in places.tolist()]).view(self.graph.weight_dtype)
            costs = self.on_host.of_rows(sources[places], whole, n_threads, self.kept.read_vertices)
            kept = np.empty(self.kept.n_columns(self.graph.n_vertices), self.kept.dtype(whole.dtype))
            for row, place in enumerate(places.tolist()):
                self.kept.reduce(whole[row], kept)
                for of_rows, into in zip(costs, sums, strict=True):
                    taken = np.empty(into.shape[1], of_rows.dtype)
                    self.kept.take_costs(kept, of_rows[row], taken)
                    into[place].set(taken)
        if len(left):  # they are copied on another stream
            cupy_module().cuda.get_current_stream().synchronize()
