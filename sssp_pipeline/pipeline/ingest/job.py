"""Job: what an ingest reads, and what its steps share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sssp_pipeline.base.progress import Progress
from sssp_pipeline.base.scratch import Scratch
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.graph import Graph

if TYPE_CHECKING:  # not needed to know that a stored graph is up to date
    from sssp_pipeline.pipeline.formats.edge_list import InputEdges
    from sssp_pipeline.pipeline.ingest.ids.id_mapping import IdCollector
    from sssp_pipeline.pipeline.ingest.memory import Memory
    from sssp_pipeline.pipeline.ingest.spill import Spill


@dataclass(frozen=True, eq=False)
class Given:
    """What ingest reads for one weight: the section of the graph, its URLs, and their fingerprints."""

    spec: Graph
    urls: list[str]
    inputs: list[dict[str, Any]]
    #: The type that a path of the graph needs, if `auto` chose a narrower one before; None otherwise.
    wider: str | None = None


@dataclass(frozen=True, eq=False)
class Job:
    """What the steps of one ingest share."""

    spec: Graph
    edge_list: InputEdges
    ids: IdCollector
    spill: Spill
    memory: Memory
    progress: Progress
    scratch: Scratch = field(default_factory=Scratch)

    @property
    def threads(self) -> int:
        return self.memory.threads

    @property
    def input_name(self) -> str:
        """The words for the input in messages."""
        inputs = self.spec.inputs
        return f"`{files.redacted(inputs[0])}`" if len(inputs) == 1 else "the input"

    @property
    def drops_loops(self) -> bool:
        return self.spec.self_loops == "drop"

    @property
    def adds_reverses(self) -> bool:
        """Whether ingest adds the reverse of every edge."""
        listed = self.edge_list.symmetric
        return listed == "mirror" or (self.spec.directed is False and listed != "both-listed")
