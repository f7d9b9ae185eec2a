"""The seconds that `sssp-pipeline plan` expects over those measured, on graphs that no forecast was fitted to.

    python benchmarks/plan.py --folder FOLDER [--graphs held|fit|NAME,…] [--sources 1,32,1000,10000] [--most-s 2]
        [--gpu]
    python benchmarks/plan.py --table

Each graph gives one line. Each run of a line has its number of sources, what is kept, its solver, and `expected_s` of
the plan beside `took_s`. The program runs on one core without a GPU, and `took_s` is processor time: other programs
take wall time from it and hardly any processor time. With `--gpu` it runs on a GPU and all cores, and `took_s` is the
wall time of a second run, for which kernels are compiled. It counts from the plan to the last batch: a hierarchy that
the run makes, solving, and writing. A run that is expected to take longer than `--most-s` is left out. The compiled
solvers are loaded before.

The table leaves out runs that take and are expected to take less than 0.05 s, and a single time below that counts as
0.05 s.

`FIT` names the graphs on which the forecasts were fitted; those of files were used before this program existed. The
table is of `HELD`, which nothing was fitted to.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from record import RESULTS, processor_s, record
from scipy.spatial import Delaunay, cKDTree

import sssp_pipeline as sp
from sssp_pipeline.base.progress import Progress, Quiet
from sssp_pipeline.pipeline.run.plan_facts import describe_plan
from sssp_pipeline.workflow.models import Workflow
from sssp_pipeline.workflow.yaml_file import workflow_from_dict

#: A run below this is left out of the table.
LEAST_S = 0.05
#: What a run keeps of each row, by the name in a line.
OUTPUTS: dict[str, dict[str, Any]] = {
    "metrics": {"distances": "none"},
    "rows": {},
    "targets": {"targets": {"random": {"count": 100, "seed": 5}}},
}
#: The numbers of sources for these outputs. The output `metrics` takes the numbers of `--sources`.
COUNTS = {"rows": [32], "targets": [1000]}
#: As `sssp-pipeline plan` has it.
PROBE = 2
#: Whole rows of at most this many bytes are written.
MOST_BYTES = 2e9
Edges = tuple[np.ndarray, np.ndarray, int]


# ---- edges: each returns source and target (E,) and the number of vertices ----


def grid(random: np.random.Generator, rows: int, cols: int, keep: float = 1.0) -> Edges:
    vertex = np.arange(rows * cols).reshape(rows, cols)
    src = np.concatenate([vertex[1:].ravel(), vertex[:, 1:].ravel()])
    dst = np.concatenate([vertex[:-1].ravel(), vertex[:, :-1].ravel()])
    kept = random.random(len(src)) < keep
    return src[kept], dst[kept], rows * cols


def geometric(random: np.random.Generator, n: int, degree: float) -> Edges:
    points = random.random((n, 2))
    pairs = cKDTree(points).query_pairs((degree / (np.pi * n)) ** 0.5, output_type="ndarray")
    return pairs[:, 0], pairs[:, 1], n


def triangulated(random: np.random.Generator, n: int) -> Edges:
    corners = Delaunay(random.random((n, 2))).simplices
    sides = np.sort(np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]]), axis=1)
    src, dst = np.unique(sides, axis=0).T
    return src, dst, n


def erdos(random: np.random.Generator, n: int, edges: int) -> Edges:
    return *random.integers(0, n, (2, edges)), n


def rmat(random: np.random.Generator, scale: int, edges: int, a: float = 0.57, b: float = 0.19) -> Edges:
    src, dst = np.zeros((2, edges), np.int64)
    for _ in range(scale):
        draw = random.random(edges)
        src = 2 * src + (draw >= a + b)
        dst = 2 * dst + (((draw >= a) & (draw < a + b)) | (draw >= a + 2 * b))
    return src, dst, 2**scale


def grown(random: np.random.Generator, n: int, links: int, power: float = 2.0) -> Edges:
    """Each vertex is joined to earlier ones; with `power` above 1 to old ones, as Barabasi and Albert grow a graph."""
    src = np.repeat(np.arange(1, n), links)
    return src, (src * random.random(len(src)) ** power).astype(np.int64), n


def small_world(random: np.random.Generator, n: int, near: int, far: float) -> Edges:
    src = np.repeat(np.arange(n), near)
    dst = (src + np.tile(np.arange(1, near + 1), n)) % n
    leads_far = random.random(len(dst)) < far
    dst[leads_far] = random.integers(0, n, int(leads_far.sum()))
    return src, dst, n


def complete(random: np.random.Generator, n: int) -> Edges:
    src, dst = np.nonzero(~np.eye(n, dtype=bool))
    return src, dst, n


def star(random: np.random.Generator, n: int) -> Edges:
    return np.zeros(n - 1, np.int64), np.arange(1, n), n


def path(random: np.random.Generator, n: int) -> Edges:
    return np.arange(n - 1), np.arange(1, n), n


def tree(random: np.random.Generator, n: int, children: int) -> Edges:
    child = np.arange(1, n)
    return (child - 1) // children, child, n


def forward(random: np.random.Generator, n: int, degree: int, window: float = 1.0) -> Edges:
    """A graph without cycles: edges lead to later vertices, at most a share `window` of all vertices away."""
    src = np.repeat(np.arange(n - 1), degree)
    away = 1 + (random.random(len(src)) * window * n).astype(np.int64)
    return src, np.minimum(src + away, n - 1), n


def bipartite(random: np.random.Generator, left: int, right: int, degree: int) -> Edges:
    src = np.repeat(np.arange(left), degree)
    return src, left + random.integers(0, right, len(src)), left + right


def islands(random: np.random.Generator, count: int, size: int, degree: int) -> Edges:
    src = np.repeat(np.arange(count * size), degree)
    return src, src // size * size + random.integers(0, size, len(src)), count * size


def web(random: np.random.Generator, n: int, degree: int, core: float) -> Edges:
    """A directed web: pages link within a core, into it, or out of it, so that a search may reach all or nothing."""
    src = np.repeat(np.arange(n), degree)
    inside = int(core * n)
    dst = (random.random(len(src)) ** 3 * inside).astype(np.int64)
    leads_out = (src < inside) & (random.random(len(src)) < 0.1)
    dst[leads_out] = random.integers(n - inside, n, int(leads_out.sum()))
    kept = src < n - inside  # the last pages link nowhere
    return src[kept], dst[kept], n


def streets(random: np.random.Generator, side: int, one_way: float) -> Edges:
    """A grid with gaps in which a share of the streets leads one way only."""
    src, dst, n = grid(random, side, side, 0.8)
    back = random.random(len(src)) >= one_way
    return np.concatenate([src, dst[back]]), np.concatenate([dst, src[back]]), n


def cliques(random: np.random.Generator, count: int, size: int) -> Edges:
    """Groups in which all know each other, in a chain."""
    src, dst, _ = complete(random, size)
    first = size * np.repeat(np.arange(count), len(src))
    chain = size * np.arange(count - 1)
    return (
        np.concatenate([np.tile(src, count) + first, chain]),
        np.concatenate([np.tile(dst, count) + first, chain + size + 1]),
        count * size,
    )


# ---- weights (n,) ----

WEIGHTS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "equal": lambda random, n: np.ones(n, np.int64),
    "small": lambda random, n: random.integers(1, 11, n),
    "usual": lambda random, n: random.integers(1, 1001, n),
    "wide": lambda random, n: (10 ** random.uniform(0, 6, n)).astype(np.int64),
    "float": lambda random, n: random.exponential(1.0, n),
}


@dataclass(frozen=True)
class Made:
    """A graph that is made."""

    make: Callable[..., Edges]
    given: dict[str, Any]
    weights: str = "usual"
    directed: bool = False

    def write(self, file: Path, seed: int) -> None:
        random = np.random.default_rng(seed)
        src, dst, _ = self.make(random, **self.given)
        weights = WEIGHTS[self.weights](random, len(src))
        pq.write_table(pa.table({"source": src, "target": dst, "weight": weights}), file)


@dataclass(frozen=True)
class Real:
    """A graph of a file in the folder `SSSP_TEST_DATA`."""

    file: str
    directed: bool = True


FIT: dict[str, Made | Real] = {
    "enron": Real("Email-Enron.txt"),
    "facebook": Real("facebook_combined.txt", directed=False),
    "wiki-vote": Real("wiki-Vote.txt"),
    "rome": Real("rome99.gr"),
    "ny": Real("USA-road-d.NY.gr.gz"),
    "gnutella": Real("p2p-Gnutella31.txt"),
    "notredame": Real("web-NotreDame.txt.gz"),
    "fit-grid": Made(grid, {"rows": 200, "cols": 250}),
    "fit-dense": Made(erdos, {"n": 4000, "edges": 1_000_000}),
    "fit-complete": Made(complete, {"n": 500}),
    "fit-random": Made(erdos, {"n": 300_000, "edges": 1_500_000}),
    "fit-rmat": Made(rmat, {"scale": 14, "edges": 150_000}),
    "fit-path": Made(path, {"n": 30_000}),
    "fit-tree": Made(grown, {"n": 80_000, "links": 1, "power": 1.0}),
    "fit-islands": Made(islands, {"count": 1000, "size": 50, "degree": 4}),
}
HELD: dict[str, Made | Real] = {
    "grid-square": Made(grid, {"rows": 300, "cols": 300}),
    "grid-long": Made(grid, {"rows": 12, "cols": 20_000}),
    "grid-gaps": Made(grid, {"rows": 700, "cols": 500, "keep": 0.7}, "small"),
    "grid-equal": Made(grid, {"rows": 250, "cols": 400}, "equal"),
    "grid-float": Made(grid, {"rows": 150, "cols": 300}, "float"),
    "geometric": Made(geometric, {"n": 60_000, "degree": 8.0}),
    "geometric-dense": Made(geometric, {"n": 8_000, "degree": 60.0}, "float"),
    "delaunay": Made(triangulated, {"n": 120_000}),
    "delaunay-small": Made(triangulated, {"n": 2_000}, "wide"),
    "erdos-sparse": Made(erdos, {"n": 200_000, "edges": 220_000}),
    "erdos": Made(erdos, {"n": 50_000, "edges": 400_000}),
    "erdos-dense": Made(erdos, {"n": 6_000, "edges": 3_000_000}, directed=True),
    "erdos-million": Made(erdos, {"n": 1_000_000, "edges": 3_000_000}),
    "erdos-tiny": Made(erdos, {"n": 1_000, "edges": 5_000}, directed=True),
    "rmat": Made(rmat, {"scale": 16, "edges": 700_000}),
    "rmat-directed": Made(rmat, {"scale": 17, "edges": 1_000_000}, directed=True),
    "rmat-flat": Made(rmat, {"scale": 15, "edges": 400_000, "a": 0.4, "b": 0.22}, "equal"),
    "barabasi": Made(grown, {"n": 100_000, "links": 4}),
    "barabasi-equal": Made(grown, {"n": 30_000, "links": 8}, "equal"),
    "watts": Made(small_world, {"n": 80_000, "near": 4, "far": 0.1}),
    "watts-ring": Made(small_world, {"n": 40_000, "near": 3, "far": 0.001}, "wide"),
    "complete": Made(complete, {"n": 1_200}, directed=True),
    "star": Made(star, {"n": 150_000}),
    "path-long": Made(path, {"n": 200_000}),
    "tree-binary": Made(tree, {"n": 130_000, "children": 2}),
    "tree-grown": Made(grown, {"n": 300_000, "links": 1, "power": 1.4}, "float"),
    "forward": Made(forward, {"n": 50_000, "degree": 6}, directed=True),
    "forward-near": Made(forward, {"n": 100_000, "degree": 4, "window": 0.001}, directed=True),
    "bipartite": Made(bipartite, {"left": 20_000, "right": 2_000, "degree": 15}),
    "islands": Made(islands, {"count": 3_000, "size": 40, "degree": 5}),
    "web": Made(web, {"n": 150_000, "degree": 7, "core": 0.3}, "equal", directed=True),
    "web-weights": Made(web, {"n": 60_000, "degree": 12, "core": 0.2}, "small", directed=True),
    "streets": Made(streets, {"side": 350, "one_way": 0.4}, directed=True),
    "cliques": Made(cliques, {"count": 150, "size": 60}),
}


class Clock(Progress):
    """Notes the time when a run begins to solve, or to make a hierarchy, and when all is solved."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.began, self.ended, self.solver = 0.0, 0.0, ""

    def stage(self, name: str) -> None:
        if name.startswith(("hierarchy", "solve")) and not self.began:
            self.began = self.now()

    def say(self, line: str, event: str = "note", *, level: str = "info", **facts: Any) -> None:
        if event == "solver":
            self.solver = facts["solver"]
        if event == "all_solved":
            self.ended = self.now()


def workflow(name: str, store: Path, solver: str, n_sources: int, output: str) -> Workflow:
    graph = {**HELD, **FIT}[name]
    file = (
        Path(os.environ["SSSP_TEST_DATA"], graph.file)
        if isinstance(graph, Real)
        else store.parent / f"{name}.parquet"
    )
    return workflow_from_dict(
        {
            "graph": {"input": str(file), "store": str(store), "directed": graph.directed},
            "sources": {"random": {"count": n_sources, "seed": 3}},
            "solve": {"solver": solver},
            "output": {"path": str(store.parent / f"{name}-run"), **OUTPUTS[output]},
            "verify": "off",
            "report": False,
        }
    )


def took(flow: Workflow, now: Callable[[], float]) -> tuple[float, str]:
    """Return the seconds of a run, and the solver that it began with."""
    clock = Clock(now)
    sp.run(flow, overwrite=True, progress=clock)
    shutil.rmtree(flow.output.path)
    return clock.ended - clock.began, clock.solver


def cells(
    name: str, folder: Path, counts: list[int], solvers: list[str], most_s: float, on_gpu: bool
) -> Iterator[dict]:
    """Yield the plan and the time of each run."""
    now = time.perf_counter if on_gpu else processor_s
    store = folder / f"{name}-store"
    n_vertices = describe_plan(workflow(name, store, "auto", 1, "metrics"), 0, Quiet())["n_vertices"]
    for solver in solvers:
        for output in OUTPUTS if not on_gpu else ():
            took(workflow(name, store, "delta-stepping" if solver == "auto" else solver, 1, output), now)
        for output in OUTPUTS if solver == "auto" else ["metrics"]:
            for n_sources in sorted({min(count, n_vertices) for count in COUNTS.get(output, counts)}):
                if output == "rows" and 8 * n_sources * n_vertices > MOST_BYTES:
                    break
                shutil.rmtree(store / "hierarchy", ignore_errors=True)
                flow = workflow(name, store, solver, n_sources, output)
                facts = describe_plan(flow, PROBE, Quiet())
                if facts["expected_s"] > most_s:
                    break
                for _ in range(1 + on_gpu):
                    shutil.rmtree(store / "hierarchy", ignore_errors=True)
                    took_s, used = took(flow, now)
                yield {
                    "asked": solver,
                    "solver": used,
                    "output": output,
                    "n_sources": n_sources,
                    "expected_s": round(facts["expected_s"], 5),
                    "pace": facts["measured"] and round(facts["measured"]["pace"], 3),
                    "took_s": round(took_s, 5),
                }
                if took_s > most_s:
                    break


def warm_up(folder: Path) -> None:
    """Load what a hierarchy needs."""
    for dtype in ("uint32", "uint64"):
        graph = {"input": "generated:grid?rows=30&cols=40", "weights": {"dtype": dtype}}
        sp.run(
            {
                "graph": {**graph, "store": str(folder / f"warm-{dtype}")},
                "sources": {"random": {"count": 20}},
                "solve": {"solver": "phast"},
                "output": {"path": str(folder / f"warm-{dtype}-run")},
            },
            overwrite=True,
        )


def measure(given: argparse.Namespace) -> None:
    if not given.gpu:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    names = {"held": list(HELD), "fit": list(FIT)}.get(given.graphs) or given.graphs.split(",")
    given.folder.mkdir(parents=True, exist_ok=True)
    warm_up(given.folder)
    for seed, (name, graph) in enumerate({**HELD, **FIT}.items(), start=20261125):
        if name not in names:
            continue
        if isinstance(graph, Made):
            graph.write(given.folder / f"{name}.parquet", seed)
        counts = [int(n) for n in given.sources.split(",")]
        runs = list(cells(name, given.folder, counts, given.solvers.split(","), given.most_s, given.gpu))
        record("plan", graph=name, held=name in HELD, on_gpu=given.gpu, load=os.getloadavg()[0], runs=runs)
        shutil.rmtree(given.folder / f"{name}-store")


def print_table() -> None:
    """Print the newest lines of each held graph by solver: the runs, the share within 2 times, and the worst."""
    lines = [json.loads(line) for line in (RESULTS / "plan.jsonl").read_text().splitlines()]
    newest = {(line["graph"], line.get("on_gpu", False)): line for line in lines if line["held"]}
    found: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for (name, on_gpu), line in newest.items():
        for run in line["runs"]:
            if max(run["expected_s"], run["took_s"]) < LEAST_S:
                continue
            times = max(run["expected_s"], LEAST_S) / max(run["took_s"], LEAST_S)
            what = f"{name}, {run['n_sources']:,} sources, {run['output']}: "
            what += f"{run['expected_s']:.3g} of {run['took_s']:.3g} s"
            of = f"{run['asked']}, GPU" if on_gpu else run["asked"]
            for group in (of, f"{of}, {run['n_sources']:,} sources"):
                found[group].append((times, what))
    print(f"{len({graph for graph, _ in newest})} graphs")
    print("| solver | runs | within 2 times | median | worst |\n| --- | --- | --- | --- | --- |")
    for group, runs in sorted(found.items()):
        near = sum(0.5 <= times <= 2 for times, _ in runs)
        worst, what = max(runs, key=lambda run: abs(np.log(run[0])))
        median = statistics.median(times for times, _ in runs)
        print(
            f"| {group} | {len(runs)} | {100 * near / len(runs):.0f} % | {median:.2f} | {worst:.2f} ({what}) |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, help="where the graphs are kept meanwhile")
    parser.add_argument("--graphs", default="held", help="held, fit, or names")
    parser.add_argument("--sources", default="1,32,1000,10000")
    parser.add_argument("--solvers", default="auto")
    parser.add_argument("--most-s", type=float, default=2.0)
    parser.add_argument("--gpu", action="store_true", help="run on the GPU of this machine")
    parser.add_argument("--table", action="store_true", help="print the newest lines as a table")
    given = parser.parse_args()
    if given.table:
        print_table()
    elif given.folder is None:
        parser.error("--folder is missing")
    else:
        measure(given)


if __name__ == "__main__":
    main()
