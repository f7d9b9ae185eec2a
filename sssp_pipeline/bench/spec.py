"""The bench file as frozen pydantic models; its JSON schema and reference page are generated from them."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field

from sssp_pipeline.kernels.contract.tunable import Value
from sssp_pipeline.workflow.graph import Graph
from sssp_pipeline.workflow.section import Positive, Section, Text
from sssp_pipeline.workflow.vertices import RandomVertices, Sources


class RandomSources(Section):
    """Vertices drawn at random, the same ones for the same graph and seed."""

    count: Positive
    """How many different sources to draw."""

    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the draw."""

    min_reach: Positive | Annotated[float, Field(gt=0, lt=1)] = 1
    """Draw only vertices that reach at least this many vertices, themselves included; below 1, this share of all."""

    def of(self, n_vertices: int) -> Sources:
        """Return these sources as a section of a workflow, for a graph with `n_vertices`."""
        reach = self.min_reach if self.min_reach >= 1 else max(1, math.ceil(self.min_reach * n_vertices))
        random = RandomVertices(count=self.count, seed=self.seed, min_reach=int(reach))
        return Sources(random=random)


class BenchGraph(Section):
    """A graph: `graph` describes how it is read or made, or `store` is an existing graph store."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", examples=["grid-2048"])]
    """Name in lines and tables, and of the folder in which its graph store is kept."""

    graph: Graph | None = None
    """The input, as the [`graph` section of a workflow](workflow.md#graph)."""

    store: Text | None = None
    """URL of an existing graph store, in place of `graph`."""

    hashed_weights: Annotated[int, Field(ge=1, le=2**24)] | None = None
    """The largest of hashed weights, which replace those of the input: whole numbers from 1 on that depend on the ends
    of an edge alone. Their type is that of the graph; for an input it is uint32, unless the input names another."""

    sources: RandomSources | None = None
    """The sources on this graph, in place of the common ones."""


class BenchSolver(Section):
    """A solver in one or several variants."""

    solver: Text
    """Name of the solver."""

    options: dict[str, Value | Annotated[tuple[Value, ...], Field(min_length=1, strict=False)]] = {}  # noqa: RUF012
    """Options of the solver, each with a value or a list of values; every combination is a variant."""

    together: Positive = 1
    """How many sources are solved in one call, by repeating the drawn ones; the time of a source is its share."""


class Bench(Section):
    """A matrix of graphs and solvers, and how it is measured."""

    name: Text = "bench"
    """Name in the lines and over the report."""

    graphs: Annotated[tuple[BenchGraph, ...], Field(min_length=1, strict=False)]
    """The graphs."""

    solvers: Annotated[tuple[Text | BenchSolver, ...], Field(min_length=1, strict=False)]
    """The solvers: names, or sections. A variant that occurs twice is measured once."""

    sources: RandomSources
    """The sources on each graph."""

    baseline: Text | None = None
    """The variant over which the report gives speed-ups, by its name in the tables: `near-far`, `adds x256`."""

    subject: Text | None = None
    """The variant whose speed-up and work over each other variant the report gives."""

    runs: Positive = 8
    """Timed runs of each source."""

    warm_ups: Annotated[int, Field(ge=0)] = 1
    """Runs of each source before the timed runs. Runs that check distances come on top."""

    most_s: Positive | Annotated[float, Field(gt=0)] = 60
    """Seconds for warm-ups and runs of a variant on a graph; a slow variant has fewer runs, but at least one."""
