"""The lines of a bench: their content, how they are written and read, and which of several counts."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.bench.variants import label
from sssp_pipeline.kernels.contract.tunable import Value
from sssp_pipeline.pipeline.planning.machine import hardware, versions
from sssp_pipeline.storage import files

#: The result of a variant on a graph. `refuted`: a distance is not the true one.
State = Literal["measured", "unsupported", "failed", "refuted"]


class _Record(BaseModel):
    """A record written as JSON. Keys that a later release adds are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class GraphFacts(_Record):
    """The graph of a line."""

    name: str
    #: A digest of the stored graph and of the weights that replace its own.
    content: str
    n_vertices: int
    n_edges: int
    weight_dtype: str
    min_weight: float
    max_weight: float
    mean_degree: float
    max_degree: int
    #: Standard deviation of the out-degrees.
    degree_deviation: float
    #: A lower bound of the diameter: the most hops of several breadth-first searches.
    diameter_hops: int


class Timing(_Record):
    """The measurement. Each list has an entry for each source, in the order of `Line.sources`."""

    #: Milliseconds of each run of each source: device time on a GPU, wall time on a CPU.
    ms: list[list[float]]
    #: Mean over the sources of the median, and of the mean, over the runs.
    median_ms: float
    mean_ms: float
    #: Vertices reached.
    reached: list[int]
    #: Mean over the runs.
    vertices_processed: list[float]
    edges_relaxed: list[float]
    #: Millions of edges of reached vertices a second, at the median time; the mean over the sources.
    mteps: float
    #: Mean over sources and runs; None where the solver has none.
    supersteps: float | None
    #: Share of the time that finds the edges to relax; None where that is not a separate step.
    filter_share: float | None
    #: Bytes written on the GPU before each run, so that its L2 cache has nothing of the run before; 0 on a CPU.
    flushed_bytes: int

    @property
    def runs(self) -> int:
        return len(self.ms[0])

    @property
    def work(self) -> float:
        """Vertices processed a reached vertex, the mean over the sources: 1 for Dijkstra's algorithm."""
        shares = [p / r for p, r in zip(self.vertices_processed, self.reached, strict=True)]
        return sum(shares) / len(shares)


class Circumstances(_Record):
    """When, on which code and on which machine a line was measured."""

    date: str
    commit: str | None
    dirty: bool | None
    machine: dict[str, Any]
    versions: dict[str, str]


class Line(_Record):
    """One variant of a solver on one graph."""

    format: Literal["sssp-pipeline bench 1"] = "sssp-pipeline bench 1"
    #: As the bench file has them (`runs`).
    bench: str
    baseline: str | None
    subject: str | None
    on: Circumstances
    graph: GraphFacts
    solver: str
    device: Literal["cpu", "gpu"]
    #: All options of the solver. `changed` has the options that do not have their defaults.
    options: dict[str, Value]
    changed: dict[str, Value]
    together: int = Field(ge=1)
    #: A digest of the request, by which a later bench finds the line.
    asked: str
    #: The result, and the reason where nothing was measured.
    state: State
    reason: str | None = None
    #: Internal vertex numbers.
    sources: list[int]
    #: The solver that found the true distances, which were compared before the timing; None where nothing was timed.
    checked_by: str | None = None
    runs_asked: int
    #: None where it was not measured.
    timing: Timing | None = None

    @property
    def label(self) -> str:
        return label(self.solver, self.changed, self.together)

    @property
    def is_settled(self) -> bool:
        """Whether a repetition would give the same. What failed or was refuted is tried again."""
        return self.state in ("measured", "unsupported")

    @property
    def processor(self) -> str:
        """The GPU with its driver, or the CPU with its number of cores."""
        machine = self.on.machine
        return str(machine["gpu"]) if self.device == "gpu" else f"{machine['cpu']}, {machine['cores']} cores"


def digest_of(*asked: Any) -> str:
    """Return a digest of plain JSON values."""
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def circumstances(besides: Path) -> Circumstances:
    """Return the present circumstances; files under `besides`, the folder of results, do not make it dirty."""
    return Circumstances(date=now(), **revision(besides), machine=hardware(), versions=versions())


def now() -> str:
    """Return date and time of day."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def revision(besides: Path) -> dict[str, Any]:
    """Return the commit of this checkout, and whether files outside `besides` differ; None without a checkout.

    `SSSP_BENCH_COMMIT` names the commit of a copy without history.
    """
    if named := os.environ.get("SSSP_BENCH_COMMIT"):
        return {"commit": named.removesuffix("+"), "dirty": named.endswith("+")}
    # A package that is installed inside another checkout does not belong to that checkout.
    if _git("ls-files", "--error-unmatch", Path(__file__).name) is None:
        return {"commit": None, "dirty": None}
    commit, top = _git("rev-parse", "HEAD"), _git("rev-parse", "--show-toplevel")
    besides = besides.resolve()
    inside = top is not None and besides.is_relative_to(top) and besides != Path(top)
    excluded = [f":(exclude,top){besides.relative_to(str(top)).as_posix()}"] if inside else []
    status = _git("status", "--porcelain", "--untracked-files=all", "--", ":/", *excluded)
    return {"commit": commit, "dirty": None if status is None else status != ""}


def resume(path: Path) -> list[Line]:
    """Return the lines of an earlier bench in the file at `path`, and remove an incomplete last line.

    Without a file there are no lines.

    Raises
    ------
    InputError
        As `read`.
    """
    if not path.exists():
        return []
    found = read(str(path))
    content = path.read_bytes()
    if not content.endswith(b"\n"):
        path.write_bytes(content[: content.rfind(b"\n") + 1])
    return found


def append(path: Path, line: Line) -> None:
    """Append `line` to the file at `path`.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    with writing(path), path.open("a", encoding="utf-8") as file:
        file.write(line.model_dump_json() + "\n")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an `OSError` in the block into an `InputError`: `path` cannot be written."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"`{path}` cannot be written: {error.strerror}", hint="choose a place that may be written"
        ) from error


def read(url: str) -> list[Line]:
    """Return the lines in the file at `url`, without an incomplete last line.

    Raises
    ------
    InputError
        The file cannot be read, or a line is not a line of a bench.
    """
    shown = files.redacted(url)
    texts = files.read_bytes(url).decode("utf-8", errors="replace").splitlines(keepends=True)
    found = []
    for number, text in enumerate(texts, 1):
        if number == len(texts) and not text.endswith("\n"):
            break
        try:
            found.append(Line.model_validate_json(text))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise InputError(
                f"`{shown}` line {number} is no line of a bench: {where + ': ' if where else ''}{first['msg']}",
                hint="name files that `sssp-pipeline bench run` wrote",
            ) from error
    return found


def newest(lines: Sequence[Line]) -> list[Line]:
    """Return the line that counts for each graph and variant, in the order in which they first occur.

    The newest line counts. But a line `unsupported` does not replace a measurement, because it may come from a machine
    without a GPU. If the content of a graph has changed, the lines of its old content are left out.
    """
    by_date = sorted(lines, key=lambda line: line.on.date)
    contents = {line.graph.name: line.graph.content for line in by_date}
    found: dict[tuple[str, str], Line] = {}
    for line in by_date:
        key = line.graph.name, line.label
        hides = line.state == "unsupported" and key in found and found[key].state == "measured"
        if line.graph.content == contents[line.graph.name] and not hides:
            found[key] = line
    return list(found.values())


def _git(*arguments: str) -> str | None:
    folder = str(Path(__file__).parent)
    answer = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True, check=False)
    return answer.stdout.strip() if answer.returncode == 0 else None
