"""What is summed along the shortest paths from many sources; `answers/path_sums.py` makes the sums.

A vertex or an edge has a sum of 128 bits over the sources, and perhaps a sum of squares. Words are integers, so parts
may be merged in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from sssp_pipeline.base.csr import GraphTraits
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.vertex_amounts import VertexAmounts

#: The least number of sources of a part. Each of them adds to the sums of all vertices and edges. So to write and to
#: merge the sums takes a small share of the time.
_SOURCES_A_PART = 32
#: The same if the sums are made over a hierarchy. On New York, to unpack a part takes as long as 200 sources.
_SOURCES_A_SWEEP = 1024
#: Places whose words a GPU packs at a time.
PLACES_PACKED = 2**20
#: With amounts, what passes a vertex or an edge from one source is below 2 to the power of this. Without, it is at most
#: the number of vertices, which has as many bits.
_ROW_BITS = 32
#: The unit of sums is 2 to a power within this, so that float64 holds their values.
_UNIT_BITS = 900


@dataclass(frozen=True, eq=False)
class PathAmounts:
    """How much a path counts: the product of two amounts, and less if it is long.

    The amounts are those of its source and its target. A length d makes it exp(-`decay` · d) times as much.
    """

    #: (V,) float64 of zero or more, scaled to the range of the sums.
    of_sources: np.ndarray
    of_targets: np.ndarray
    #: In the unit of the graph's weights.
    decay: float
    #: What 1 in a sum stands for, a power of two.
    unit: float

    @classmethod
    def of(cls, sources: VertexAmounts, targets: VertexAmounts, decay: float) -> PathAmounts:
        """Return the amounts of sources and targets, one row each and none below zero.

        Raises
        ------
        InputError
            The products of both are out of the range of float64.
        """
        (of_sources,), (of_targets,) = sources.values, targets.values
        source_bits = int(of_sources.max(initial=0)).bit_length()
        target_bits = int(of_targets.sum()).bit_length()
        given = sum(amounts.exponents[0] or 0 for amounts in (sources, targets))
        power = source_bits + target_bits + given - _ROW_BITS
        if abs(power) > _UNIT_BITS:
            raise InputError(
                f"the amount of a source times all amounts of targets is about 2^{power + _ROW_BITS}, and float64 "
                "holds no such sums",
                hint="write the amounts in another unit",
            )
        scaled = np.ldexp(of_sources.astype(np.float64), _ROW_BITS - source_bits)
        return cls(scaled, np.ldexp(of_targets.astype(np.float64), -target_bits), decay, np.ldexp(1.0, power))


@dataclass(frozen=True, eq=False)
class PathSumsAsked:
    """What is summed along the shortest paths."""

    vertices: bool = True
    edges: bool = False
    #: Whether sums of squares are wanted, for the standard error of an estimate.
    squares: bool = False
    #: Whether a path counts for its source and its target too.
    endpoints: bool = False
    #: (V,) bool: the vertices whose paths count; None for all.
    is_target: np.ndarray | None = None
    #: Whether the sums are made over the arcs of a hierarchy, else along rows. The last digits of both differ.
    on_hierarchy: bool = False
    #: Whether a GPU makes them over the hierarchy. It adds in another order than a CPU.
    on_gpu: bool = False
    #: Whether `amounts` say how much a path counts, in the place of `is_target`. They may not be read yet.
    is_weighted: bool = False
    amounts: PathAmounts | None = None

    #: Whether a GPU can make the sums.
    is_for_gpus: ClassVar[bool] = True

    @property
    def unit(self) -> float:
        """What 1 in a sum stands for."""
        return 1.0 if self.amounts is None else self.amounts.unit

    def n_bytes(self, traits: GraphTraits) -> int:
        """Return the memory of a `PathSums`."""
        return self.word_bytes(traits) + 44 * traits.n_vertices + 4 * (1 + self.edges) * traits.n_edges

    def word_bytes(self, traits: GraphTraits) -> int:
        """Return the bytes of the words of all vertices and edges."""
        return self.place_bytes * self.n_places(traits.n_vertices, traits.n_edges)

    def fixed_device_bytes(self, n_vertices: int, n_edges: int) -> int:
        """Return the device memory of the sums, of what packs them, of where each edge begins, and of the amounts."""
        n_places = self.n_places(n_vertices, n_edges)
        of_sums = self.place_bytes * (n_places + min(n_places, PLACES_PACKED)) + n_places // 8
        return of_sums + 4 * n_edges + 8 * n_vertices * self.is_weighted

    @staticmethod
    def slot_device_bytes(n_vertices: int, n_edges: int) -> int:
        """Return the device memory of a row while it is added up, besides its distances."""
        return 24 * n_vertices + 4 * -(-n_edges // 32)

    def device_bytes(self, n_vertices: int, n_edges: int) -> int:
        """Return the least device memory of the sums."""
        return self.fixed_device_bytes(n_vertices, n_edges) + self.slot_device_bytes(n_vertices, n_edges)

    def n_places(self, n_vertices: int, n_edges: int) -> int:
        """Return how many sums there are: of vertices first, then of edges."""
        return n_vertices * self.vertices + n_edges * self.edges

    @property
    def n_words(self) -> int:
        """How many words a vertex or an edge has."""
        return 4 if self.squares and not self.squares_groups else 2

    @property
    def place_bytes(self) -> int:
        """The bytes of the words of a vertex or an edge."""
        return 8 * self.n_words

    @property
    def sources_a_part(self) -> int:
        """The least number of sources of a part, if nothing else limits it."""
        return _SOURCES_A_SWEEP if self.on_hierarchy else _SOURCES_A_PART

    @property
    def squares_groups(self) -> bool:
        """Whether sums of groups of sources are squared. Words have no squares then: `add_group` makes them."""
        return self.squares and self.on_hierarchy

    @property
    def n_totals(self) -> int:
        """How many totals a row has: of the vertices that its paths pass, then of the edges."""
        return int(self.vertices) + int(self.edges)

    @staticmethod
    def refusal(traits: GraphTraits) -> str | None:
        """Return why the paths of such a graph cannot be counted, or None."""
        if traits.n_edges and traits.min_weight <= 0:
            return f"shortest paths are counted only where all weights are above zero, and one is {traits.min_weight}"
        if traits.weight_dtype == np.float32:
            return "the weights are float32, in which rounding makes some paths equally long"
        return None


class RowSums(Protocol):
    """Sums over the rows that were added so far; one thread at a time adds to it."""

    @property
    def part_words(self) -> np.ndarray:
        """The words (P, W) uint64 of the vertices, then of the edges; only those that are asked for."""
        ...

    def add(self, rows: np.ndarray, sources: np.ndarray) -> np.ndarray:
        """Add the distances `rows` (S, V) from `sources` (S,) uint32; return the totals (S, T) float64 of each row."""
        ...
