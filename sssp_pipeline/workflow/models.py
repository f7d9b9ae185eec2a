"""The workflow file as frozen pydantic models; its JSON schema and reference page are generated from them.

The models hold no file. `yaml_file` reads the YAML and reports each fault with its line. The run compares solver names
with the registry.
"""

from __future__ import annotations

import posixpath
import re
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from sssp_pipeline.storage.files import join
from sssp_pipeline.storage.pipes import is_pipe
from sssp_pipeline.storage.redaction import redacted
from sssp_pipeline.workflow.cluster import Cluster
from sssp_pipeline.workflow.contradictions import contradictions
from sssp_pipeline.workflow.graph import Graph, without_secrets_in
from sssp_pipeline.workflow.output import Output
from sssp_pipeline.workflow.section import Auto, Direction, Path, Positive, Section, Text, dotted
from sssp_pipeline.workflow.vertices import Sources


class Solve(Section):
    """How to solve."""

    weights: Annotated[tuple[Text, ...], Field(min_length=1, strict=False)] | None = None
    """Names of the weights to solve, of `graph.weights.several`. `null` means all of them."""

    solver: Text = "auto"
    """Name of a solver, or `auto`. `sssp-pipeline solvers` lists the solvers."""

    hierarchy: Literal["auto", "build", "off"] = "auto"
    """The hierarchy that `phast` and `phast-gpu` need. It is kept in the graph store. If it is missing, `auto` makes it
    if the run is expected to take less time with it, or if the solver is named. `build` makes it in any case. `off`
    uses none."""

    options: dict[str, bool | int | float | str] = {}  # noqa: RUF012 (pydantic copies it)
    """Options of the named solver; each solver has its own, listed among the [solvers](solvers.md)."""

    direction: Direction = "auto"
    """For `output.targets` and `output.nearest.of`: `forward` searches from the sources, and `metrics.parquet` has a
    row for each source. `backward` searches from these targets, along reversed edges, and `metrics.parquet` has a row
    for each different target. The files in `distances` are the same. It needs integer weights of zero or more. `auto`
    goes backward if that is expected to take at most half of the time, and no path can be too long. A run that was
    begun keeps its direction."""

    delta: Auto | Positive | Annotated[float, Field(gt=0)] = "auto"
    """Bucket width in the unit of the weights. It changes the speed and never the distances."""

    batch: Auto | Positive = "auto"
    """Number of sources in a batch. A batch is committed as a whole. More than 2,000 batches below 1 MiB are joined."""

    cutoff: Annotated[int, Field(ge=0)] | Annotated[float, Field(ge=0)] | None = None
    """Vertices farther than this count as unreached. `null` means no limit."""

    predecessors: bool = False
    """Whether to write the predecessor of each vertex: the vertex before it on a shortest path, the smallest id of
    several."""

    along: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    """Names of other weights, of `graph.weights.several`. The run writes the sum of each along the shortest path as a
    column next to `distance`: kilometres next to minutes. The path is the one that `predecessors` names; of parallel
    edges, the one with the smallest sum of the first of these weights."""

    trace_every_us: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Record the state of each search in the metrics at this interval, in microseconds. Only some solvers can."""

    deadline_s: Positive | Annotated[float, Field(gt=0)] = 86_400
    """Seconds that a search may take. A search has one source, or the sources that share a GPU kernel. A longer search
    fails: on a GPU at once, on a CPU at the end of the source. A GPU may take as long to prepare the graph."""

    retries: Annotated[int, Field(ge=0)] = 2
    """How many times a failed batch is tried again."""


class Storage(Section):
    """How files are written."""

    sync: Literal["commit", "off"] = "commit"
    """`commit` waits until files are on the disk before a record commits them: the manifest of the graph store, and
    `run.json`. So a power loss loses no committed graph and no finished run. `off` leaves it to the operating system.
    It matters only for files on disks of this machine. An object store keeps what it has confirmed."""


class Workflow(Section):
    """One run from an edge list to verified distances."""

    version: Literal[1] = 1
    """Version of the workflow format."""

    name: Text = "workflow"
    """Name in logs and in the report. The default is the name of the workflow file without its extension."""

    graph: Graph
    """The input and the graph store."""

    sources: Sources | None = None
    """The vertices to start from. Every run needs them, but one with `output.distances: pairs` or `flows`, whose
    file has them."""

    solve: Solve = Solve.model_construct()
    """Solver, batches and what to compute."""

    cluster: Cluster = Cluster.model_construct()
    """The machines that solve."""

    output: Output
    """The results."""

    storage: Storage = Storage.model_construct()
    """How files are written."""

    verify: Literal["off", "sample", "certificate"] = "sample"
    """`sample` solves some sources again with the oracle and compares. `certificate` proves every stored distance and
    needs the distances to every vertex."""

    report: bool = True
    """Whether to write `report.html`."""

    # Strings with a value of the environment, as the file has them. `resolved` returns these.
    _unexpanded: dict[Path, str] = PrivateAttr(default_factory=dict)

    # The weight that `with_weight` has chosen, and the workflow with all weights.
    _weight: str | None = PrivateAttr(default=None)
    _of_all: Workflow | None = PrivateAttr(default=None)

    # Whether the output path has the date or the time in it, so that loading the file again gives another path.
    _is_dated: bool = PrivateAttr(default=False)

    @property
    def is_dated(self) -> bool:
        """Whether the output path was written with `{date}` or `{time}`."""
        return self._is_dated

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        for path, message, _ in contradictions(self.model_dump(exclude_none=True)):
            raise ValueError(f"`{dotted(path)}`: {message}")
        return self

    @property
    def store(self) -> str:
        """URL of the graph store, with the default filled in."""
        return self.graph.store or self._default_store(self.output.path)

    @property
    def weights(self) -> list[str | None]:
        """The names of the weights to solve; None stands for an only weight."""
        return [*self.solve.weights] if self.solve.weights is not None else [*self.graph.by_weight]

    def with_weight(self, name: str | None) -> Workflow:
        """Return the workflow for only one of `weights`; its results are in a folder of their own."""
        if name is None:
            return self
        graph = self.graph.by_weight[name].model_copy(update={"store": self.store})
        output = self.output.model_copy(update={"path": join(self.output.path, name)})
        chosen = self.model_copy(update={"graph": graph, "output": output})
        chosen._weight, chosen._of_all = name, self
        return chosen

    @property
    def weight(self) -> str | None:
        """The name of the weight that `with_weight` has chosen."""
        return self._weight

    def resolved(self) -> dict[str, Any]:
        """Return every value, with defaults, as plain JSON types without secrets, for `run.json`.

        URLs lose their user, password and query. A string with a value of the environment keeps `${NAME}`. After
        `with_weight`, the section `graph` has all weights.
        """
        if self._of_all is not None:
            of_all = self._of_all.resolved()
            of_all["output"]["path"] = join(of_all["output"]["path"], str(self._weight))
            return of_all
        plain: dict[str, Any] = without_secrets_in(self.model_dump(mode="json"), (), self._unexpanded)
        plain["graph"]["store"] = plain["graph"]["store"] or self._default_store(plain["output"]["path"])
        return plain

    def _default_store(self, output_path: str) -> str:
        """Return the folder of the graph store without `graph.store`: next to the results, and named after the input.

        `output_path` may have `${NAME}` for a value of the environment.
        """
        here = _folder_of(self.output.path)
        ending = f"-graph-{self.graph.digest_in(here or self.output.path)}"
        if here is None or any(map(is_pipe, self.graph.inputs)):  # two pipes are two inputs
            return output_path.rstrip("/") + ending
        return join(_folder_of(output_path) or output_path, self._input_name + ending).removeprefix("./")

    @property
    def _input_name(self) -> str:
        """The name of the first input file without extensions, or of its pattern, without values of the environment."""
        keys: tuple[Path, Path] = ("graph", "input"), ("graph", "input", 0)
        first = next((self._unexpanded[key] for key in keys if key in self._unexpanded), self.graph.inputs[0])
        first = re.sub(r"\$\{[^}]*\}", "", redacted(first))
        last = re.split("[/:]", re.split("[?#]", first)[0])[-1].split(".")[0]
        return "_".join(re.findall(r"\w+(?:-\w+)*", last))[:_NAME_CHARACTERS] or "input"


#: Characters of the name of an input in the name of a store, which has 15 more. A name may have 255 bytes.
_NAME_CHARACTERS = 50


def _folder_of(path: str) -> str | None:
    """Return the folder in which the folder `path` lies; None for a bucket, which lies in no folder."""
    folder, _, last = path.rstrip("/").rpartition("/")
    if "://" in path:
        return None if folder.endswith(("/", ":")) else folder
    return join(path, "..") if "${" in last else posixpath.normpath(join(path, ".."))
