"""The selection stage: what a workflow names on the graph of a run. Sources in batches, and what is stored of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sssp_pipeline.base.csr import GraphTraits
from sssp_pipeline.base.progress import Progress, plural
from sssp_pipeline.base.vertex_amounts import VertexAmounts
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.planning.along import second_costs
from sssp_pipeline.pipeline.planning.snapping import Snapper
from sssp_pipeline.pipeline.planning.sources import Skipped, VertexSelection
from sssp_pipeline.pipeline.planning.work import cut
from sssp_pipeline.pipeline.results.folder.distance_files import DistanceFormat, check_unreached
from sssp_pipeline.pipeline.results.outputs.outputs import ChosenPairs, RowOutput, output_of
from sssp_pipeline.workflow.flows import Flows
from sssp_pipeline.workflow.models import Workflow
from sssp_pipeline.workflow.pairs import Pairs
from sssp_pipeline.workflow.reduce import Amounts

if TYPE_CHECKING:
    from sssp_pipeline.kernels.answers.trip_sums import Trips


class Searched(NamedTuple):
    """What a run solves."""

    #: The vertices (n,) uint32 of each batch to search from.
    batches: list[np.ndarray]
    #: What a batch stores.
    output: RowOutput


@dataclass(frozen=True, eq=False)
class Selected:
    """What a workflow names on the graph of a run."""

    #: The sources (n,) uint32 of each batch.
    batches: list[np.ndarray]
    #: What is stored of each row.
    output: RowOutput
    #: The ids that were left out.
    skipped: Skipped
    #: Has the vertices of points.
    snapper: Snapper
    #: The searches from the targets that take the place of those from the sources, if the run goes backward.
    turned: Searched | None = None

    @property
    def searched(self) -> Searched:
        """What is solved: the sources, or the targets of a run backward."""
        return Searched(self.batches, self.output) if self.turned is None else self.turned


@dataclass(frozen=True, eq=False)
class _Chooser(VertexSelection):
    """Finds what the `output` of a workflow names, as `outputs.Chooser`."""

    traits: GraphTraits = field(kw_only=True)
    is_symmetric: bool = field(kw_only=True)
    is_sample: bool = field(kw_only=True)

    def pairs(self, spec: Pairs) -> ChosenPairs:
        """Return the pairs; as `chosen_pairs`."""
        from sssp_pipeline.pipeline.planning.pairs import chosen_pairs

        return chosen_pairs(spec, self)

    def trips(self, spec: Flows) -> Trips:
        """Return the trips; as `chosen_trips`."""
        from sssp_pipeline.pipeline.planning.trips import chosen_trips

        return chosen_trips(spec, self)

    def amounts(self, spec: Amounts, key: str) -> VertexAmounts:
        """Return the amounts; as `read_amounts`."""
        from sssp_pipeline.pipeline.planning.amounts import read_amounts

        return read_amounts(spec, key, self)


def select(workflow: Workflow, stored: StoredGraph, progress: Progress) -> Selected:
    """Return what `workflow` names on a stored graph. Report points that were snapped, and ids that were left out.

    Raises
    ------
    InputError
        The graph lacks something that the workflow names, a file cannot be read, or an option does not fit the weights.
    """
    progress.stage("plan")
    given, solve, traits = workflow.output, workflow.solve, stored.manifest.traits
    scale = stored.manifest.weights.scale
    if scale is None:  # with a scale, distances are written as float64
        check_unreached(given.unreached, traits.weight_dtype)
    skipped, snapper = Skipped(), Snapper(stored)
    is_symmetric = bool(stored.manifest.symmetric)
    drawn = None if workflow.sources is None else workflow.sources.random
    of_graph: dict[str, Any] = {
        "traits": traits,
        "is_symmetric": is_symmetric,
        "is_sample": drawn is not None,
    }
    chooser = _Chooser(stored.ids, stored.graph, skipped, snapper, **of_graph)
    sources = None if workflow.sources is None else chooser.sources(workflow.sources)
    along = second_costs(solve.along, stored, given.unreached, solve.cutoff)
    form = DistanceFormat(given.layout, given.unreached, given.compression, solve.predecessors, scale, along)
    output = output_of(form, given, chooser)
    if sources is None:
        sources = output.searches
        assert sources is not None, "checked as a contradiction"
        progress.say(
            "; ".join(f"{name}: {value}" for name, value in output.facts()), "searches", total=len(sources)
        )
    for sentence in snapper.sentences:
        progress.say(sentence, "snapped")
    for sentence in skipped.sentences():
        progress.say(sentence, level="warning")
    columns = given.columns_per_file if output.layout.has_columns else None
    batches = cut(traits, sources, solve, output.kept, columns)
    if batches and solve.batch != "auto" and len(batches[0]) > solve.batch:
        progress.say(
            f"`solve.batch: {solve.batch}` would make {-(-len(sources) // solve.batch):,} small files: "
            f"a batch has {plural(len(batches[0]), 'source')}",
            "batches_joined",
            batch=len(batches[0]),
        )
    return Selected(batches, output, skipped, snapper)
