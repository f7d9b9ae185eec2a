"""The bench file as frozen pydantic models; its JSON schema and reference page are generated from them."""

from __future__ import annotations

import math
from typing import Annotated

from pydantic import Field

from sssp_pipeline.workflow import models as workflow
from sssp_pipeline.workflow.section import Positive, Section, Text
from sssp_pipeline.workflow.vertices import RandomVertices, Sources

Value = bool | int | float | str


class RandomSources(Section):
    """Vertices drawn at random, the same ones for the same graph and seed."""

    count: Positive
    """How many different sources to draw."""

    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the draw."""

    min_reach: Positive | Annotated[float, Field(gt=0, lt=1)] = 1
    """Draw only vertices that reach at least so many vertices, themselves included; below 1, such a share of all."""

    def of(self, n_vertices: int) -> Sources:
        """Return the same as a workflow says it of a graph with so many vertices."""
        reach = self.min_reach if self.min_reach >= 1 else max(1, math.ceil(self.min_reach * n_vertices))
        random = RandomVertices(count=self.count, seed=self.seed, min_reach=int(reach))
        return Sources(random=random)


class BenchGraph(Section):
    """A graph: `graph` says how it is read or made, or `store` where it is stored already."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", examples=["grid-2048"])]
    """Name in lines and tables, and of the folder in which its graph store is kept."""

    graph: workflow.Graph | None = None
    """The input, as the [`graph` section of a workflow](workflow.md#graph)."""

    store: Text | None = None
    """URL of a graph store that is there already, in place of `graph`."""

    hashed_weights: Annotated[int, Field(ge=1, le=2**24)] | None = None
    """Weights in place of the input's: whole numbers from 1 to this one that depend on the ends of an edge alone, in
    the graph's weight type; that of an input is uint32 then, unless it names another."""

    sources: RandomSources | None = None
    """The sources on this graph, in place of those for all."""


class BenchSolver(Section):
    """A solver in one or several variants."""

    solver: Text
    """Name of the solver."""

    options: dict[str, Value | Annotated[tuple[Value, ...], Field(min_length=1, strict=False)]] = {}  # noqa: RUF012
    """Options of the solver, each with a value or a list of them; lists make a variant of every combination."""

    together: Positive = 1
    """How many sources are solved in one call, the drawn ones again and again; a source's time is its share."""


class Bench(Section):
    """A matrix of graphs and solvers, and how it is measured."""

    name: Text = "bench"
    """Name in the lines and over the report."""

    graphs: Annotated[tuple[BenchGraph, ...], Field(min_length=1, strict=False)]
    """The graphs."""

    solvers: Annotated[tuple[Text | BenchSolver, ...], Field(min_length=1, strict=False)]
    """The solvers: names, or sections. A variant that comes up twice is measured once."""

    sources: RandomSources
    """From where paths are searched on each graph."""

    baseline: Text | None = None
    """The variant over which the report gives speed-ups, as the tables call it: `near-far`, `adds x256`."""

    subject: Text | None = None
    """The variant whose speed-up and work over each other one the report gives."""

    runs: Positive = 8
    """Timed runs of each source."""

    warm_ups: Annotated[int, Field(ge=0)] = 1
    """Runs of each source before the timed ones, besides those that check the distances."""

    most_s: Positive | Annotated[float, Field(gt=0)] = 60
    """Seconds that warm-ups and runs of a variant on a graph may take: then there are fewer runs, but one at least."""
