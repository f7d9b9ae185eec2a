"""What a call of `phast-gpu` wants of the rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sssp_pipeline.base.csr import GraphTraits, largest_distance
from sssp_pipeline.kernels.answers.nearest import NearestOfRow
from sssp_pipeline.kernels.contract.kept import Nothing, Targets
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.phast_gpu.device_hierarchy import DeviceHierarchy
from sssp_pipeline.kernels.gpu.phast_gpu.host_hierarchy import HostHierarchy
from sssp_pipeline.kernels.gpu.phast_gpu.needed_tiles import NeededTiles, needed_tiles


@dataclass(frozen=True)
class Work:
    """What a call wants of the rows."""

    #: How many rows by place there is memory for: all, or those above the last band, if that is only counted.
    n_rows: int
    #: The vertices whose distances are written, source by source; None for all.
    targets: np.ndarray | None = None
    #: Whether these are what is kept.
    writes_kept: bool = False
    #: Whether rows are left as the sweep makes them, and reduced there; there are no targets then.
    leaves_rows: bool = False
    #: What is computed if nothing is counted; None for all tiles.
    needed: NeededTiles | None = None

    @classmethod
    def of(
        cls, traits: GraphTraits, host: HostHierarchy, hierarchy: DeviceHierarchy, options: SolveOptions
    ) -> Work:
        kept, none = options.kept, np.empty(0, np.uint32)
        n_all, n_upper = hierarchy.n_vertices, hierarchy.n_upper
        # A path that is too long for the type is searched in whole rows.
        is_safe = hierarchy.longest is not None and hierarchy.longest + traits.max_weight <= largest_distance(
            traits.weight_dtype
        )
        if is_safe and kept.takes_lanes:
            return cls(n_all if kept.reads_distances else n_upper, none, leaves_rows=True)
        if is_safe and kept.over_sources is None:
            if isinstance(kept, Nothing):
                return cls(n_upper, none, writes_kept=True)
            if isinstance(kept, Targets | NearestOfRow):
                work = cls(n_all, kept.read_vertices, writes_kept=isinstance(kept, Targets))
                if options.metrics or work.targets is None:
                    return work
                needed = needed_tiles(host, hierarchy.host_tiles, hierarchy.host_places[work.targets])
                return replace(work, n_rows=needed.n_rows, needed=needed)
        return cls(n_all)
