"""Jobs for many programs: the questions that people ask of road networks, and jobs that users found too slow.

    python benchmarks/jobs.py --data FOLDER [--jobs 'ny-*,city'] [--with sssp-pipeline,scipy,…] [--seconds 20]

Three graphs have these jobs: `ny`, the roads of New York; `made`, generated roads; `web`, the links of cnr-2000. The
last one has only `one`, `1k` and `nearest`, because a program without a hierarchy takes minutes for the others.

| job | sources | answers |
| --- | --- | --- |
| one | 1 | the distances to every vertex |
| 1k | 1,000 | the distances to 1,000 vertices |
| 10k | 10,000 | the distances to 10,000 vertices |
| nearest | 1,000 | the distances to the nearest 3 of 500 vertices |
| nearest-all | every vertex | the same |

Three jobs were reported. Their graphs are made at the reported sizes, because the reported graphs are not public:

| job | reported | graph | answers |
| --- | --- | --- | --- |
| all-sources | cugraph 1320: 2 hours | 44,000 vertices, 10^6 edges | eccentricity, closeness, 10 nearest of 500 |
| city | osmnx 153: 14 hours | generated roads, 90,000 vertices | closeness of every vertex |
| radii | pandana 172: over 6 hours | generated roads, 1,324,602 vertices | vertices within 3 radii of 49,460 |

The radii are 10, 20 and 30 minutes at 15 km/h. The user of pandana asked for the last one.

Every program reads the same CSV files in a process of its own. The programs take `--rounds` turns. `read_s` is the
time to read and prepare the graph, and `read_cpu_s` the time of all processors for it. A program then gets larger and
larger parts of the job. The whole job is one call if that is expected to take less than `--seconds`. Otherwise the
largest part counts, and `is_extrapolated` is true. `sssp-pipeline` always gets the whole job, because it decides by the
number of sources whether it makes a hierarchy. `whole_cpu_s` is the time of all processors for the whole job, and
`total_s` the wall time, `read_s` included. `peak_bytes` is the most memory that the process has had. `failed` says why
there is no time: for example, a step took more than `--limit` seconds.

Imports and compilation are not timed: each program solves a small graph first. If two programs have different
distances for the first sources, the run ends. Programs that are not installed are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from itertools import groupby, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from graphs import read
from papers.cnr_2000 import adjacency_list
from programs import PROGRAMS, Network, Program, Question, distribution_of, module_of, version_of
from record import record

from sssp_pipeline.base.generators import GeneratedEdges, hashed_weights, random_edges, road_like

#: The first sources, for which all programs must have the same answers.
SAMPLE = 3
#: The size of the first graph, which is not timed.
SMALL = 0.01
#: Calls that take less than this are repeated, and the median counts.
SHORT_S = 0.5
#: How far a vertex may be in the job `radii`, in metres: 10, 20 and 30 minutes at 15 km/h.
RADII = (2500, 5000, 7500)


@dataclass(frozen=True)
class Job:
    """What is asked of a graph: sources, targets, and answers for each source."""

    #: A name of `GRAPHS`.
    graph: str
    #: `distances`, `values`, `within` and `nearest` of the question.
    asked: dict[str, Any]
    #: The number of sources and of targets; None for every vertex.
    n_sources: int | None = None
    n_targets: int | None = None

    def question(self, n_vertices: int, share: float) -> Question:
        random = np.random.default_rng(1)
        sources, targets = random.permutation(n_vertices), random.permutation(n_vertices)
        if self.n_sources is not None:
            sources = sources[: math.ceil(self.n_sources * share)]
        return Question(sources, None if self.n_targets is None else targets[: self.n_targets], **self.asked)


def random_graph(data: Path | None, share: float) -> GeneratedEdges:
    return random_edges(vertices=int(44_000 * share), edge_factor=23)


def roads(vertices: int, seed: int, data: Path | None, share: float) -> GeneratedEdges:
    return road_like(vertices=int(vertices * share), seed=seed)


def new_york(data: Path | None, share: float) -> GeneratedEdges:
    src, dst, weights, n_vertices = read(Path(data or "") / "USA-road-d.NY.gr.gz")
    places = pd.read_csv(
        Path(data or "") / "USA-road-d.NY.co.gz", sep=" ", skiprows=7, names=("v", "id", "x", "y")
    )
    return GeneratedEdges(
        src, dst, weights, n_vertices, (places["x"].to_numpy() / 1e6, places["y"].to_numpy() / 1e6)
    )


def web(data: Path | None, share: float) -> GeneratedEdges:
    src, dst, n_vertices = adjacency_list(Path(data or "") / "cnr-2000.graph-txt.gz")
    return GeneratedEdges(src, dst, hashed_weights(src, dst, 100), n_vertices)


#: Edges of a share of the size; real graphs are cut later.
GRAPHS: dict[str, Callable[[Path | None, float], GeneratedEdges]] = {
    "ny": new_york,
    "made": lambda data, share: roads(150_000, 38, data, share),
    "web": web,
    "all-sources": random_graph,
    "city": lambda data, share: roads(90_000, 7, data, share),
    "radii": lambda data, share: roads(1_324_602, 7, data, share),
}
FROM_FILES = ("ny", "web")
QUESTIONS: dict[str, dict[str, Any]] = {
    "one": {"asked": {"distances": True}, "n_sources": 1},
    "1k": {"asked": {"distances": True}, "n_sources": 1_000, "n_targets": 1_000},
    "10k": {"asked": {"distances": True}, "n_sources": 10_000, "n_targets": 10_000},
    "nearest": {"asked": {"nearest": 3}, "n_sources": 1_000, "n_targets": 500},
    "nearest-all": {"asked": {"nearest": 3}, "n_targets": 500},
}
JOBS = {
    **{
        f"{graph}-{name}": Job(graph, **QUESTIONS[name])
        for graph, names in (("ny", QUESTIONS), ("made", QUESTIONS), ("web", ("one", "1k", "nearest")))
        for name in names
    },
    "all-sources": Job("all-sources", {"values": ("max_distance", "closeness"), "nearest": 10}, None, 500),
    "city": Job("city", {"values": ("closeness",)}),
    "radii": Job("radii", {"within": RADII}, 49_460),
}


def simple(made: GeneratedEdges, share: float) -> GeneratedEdges:
    """Return the graph of a share of the vertices, without the edges for which programs have different rules.

    These are self-loops and parallel edges, of which the shortest stays. Vertices without edges are left out, and the
    others numbered again.
    """
    most = int(made.n_vertices * share)
    pairs = pd.DataFrame({"src": made.src, "dst": made.dst, "weight": made.weights}, dtype=np.int64)
    pairs = pairs[(pairs["src"] != pairs["dst"]) & (pairs[["src", "dst"]].max(axis=1) < most)]
    pairs = pairs.groupby(["src", "dst"], as_index=False).min()
    left, ends = np.unique(pairs[["src", "dst"]].to_numpy(), return_inverse=True)
    src, dst = ends.reshape(-1, 2).T
    places = made.coordinates or tuple(np.random.default_rng(1).random((2, made.n_vertices)))
    return GeneratedEdges(
        src, dst, pairs["weight"].to_numpy(), len(left), tuple(axis[left] for axis in places)
    )


def network_of(name: str, made: GeneratedEdges, folder: Path) -> Network:
    """Return the graph with its edges and places in `folder`."""
    folder.mkdir()
    edges, places = folder / "edges.csv", folder / "places.csv"
    pd.DataFrame({"from": made.src, "to": made.dst, "weight": made.weights}).to_csv(edges, index=False)
    # Two vertices at one place would be one for pandana.
    apart = 1e-9 * np.arange(made.n_vertices)
    assert made.coordinates is not None
    pd.DataFrame({"x": made.coordinates[0] + apart, "y": made.coordinates[1]}).to_csv(places, index=False)
    return Network(name, edges, places, made.n_vertices, len(made.src))


@dataclass(frozen=True)
class Spent:
    """Seconds of wall time, and of the processors for all threads and children of the process."""

    wall_s: float
    cpu_s: float

    @classmethod
    def now(cls) -> Spent:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return cls(time.perf_counter(), time.process_time() + children.ru_utime + children.ru_stime)

    def __sub__(self, other: Spent) -> Spent:
        return Spent(self.wall_s - other.wall_s, self.cpu_s - other.cpu_s)


@dataclass(frozen=True)
class Answer:
    """What a program tells of a job."""

    job: str
    read: Spent
    #: The timed call, which had `done` of the `n_searches`.
    solve: Spent
    done: int
    n_searches: int
    peak_bytes: int
    #: The answers for the first sources; infinity stands for "no path".
    sample: dict[str, np.ndarray]


def answer(name: str, small: Network, network: Network, given: argparse.Namespace, pipe: Any) -> None:
    """Send an `Answer` for each job that the program can do, or its error. It runs in a process of its own."""
    os.dup2(2, 1)  # standard output is for the lines; pandana writes there
    try:
        for found in all_answers(PROGRAMS[name], small, network, given):
            pipe.send(found)
    except Exception as error:
        pipe.send(str(error).partition("\n")[0])
        raise


def all_answers(
    kind: type[Program], small: Network, network: Network, given: argparse.Namespace
) -> Iterator[Answer]:
    """Give an `Answer` for each job that the program can do."""
    program, read = None, Spent(0, 0)
    for job in given.names:
        question = JOBS[job].question(network.n_vertices, given.share)
        if not kind.can_answer(question):
            continue
        if program is None or kind.reads_again:
            kind.warm_up(small, JOBS[job].question(small.n_vertices, given.share * SMALL))
            del program
            began = Spent.now()
            program = kind(network)
            read = Spent.now() - began
        done, spent, found = solve(program, question, given.seconds)
        if done < program.n_searches(question):
            found = program.answers(replace(question, sources=question.sources[:SAMPLE]))
        sample = {key: finite(values[:SAMPLE], program.unreached) for key, values in found.items()}
        yield Answer(job, read, spent, done, program.n_searches(question), peak_bytes(), sample)


def peak_bytes() -> int:
    """Return the most memory that this process has had."""
    status = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(status["VmHWM"].split()[0])


def finite(values: np.ndarray, unreached: float) -> np.ndarray:
    return np.where(values == unreached, np.inf, values.astype(float))


def solve(program: Program, question: Question, limit_s: float) -> tuple[int, Spent, dict[str, np.ndarray]]:
    """Return how many searches the timed call had, its time and its answers.

    Small parts come first, since the rate of a few searches may be too low, and a long call cannot be stopped.
    """
    whole, left_s = program.n_searches(question), limit_s
    step = 1 if program.takes_parts else whole
    while True:
        part = program.part(question, step)
        spent, found = timed(program, part)
        left_s -= spent.wall_s
        if step == whole:
            if spent.wall_s < SHORT_S:
                again = [timed(program, part)[0] for _ in range(5)]
                spent = sorted(again, key=lambda one: one.cpu_s)[2]
            return step, spent, found
        if spent.wall_s * whole / step <= limit_s:
            step = whole
        elif (larger := min(whole, 8 * step, int(left_s * step / spent.wall_s))) > step:
            step = larger
        else:
            return step, spent, found


def timed(program: Program, question: Question) -> tuple[Spent, dict[str, np.ndarray]]:
    began = Spent.now()
    found = program.answers(question)
    return Spent.now() - began, found


def answers_of_process(
    name: str, small: Network, network: Network, given: argparse.Namespace
) -> Iterator[Answer | str]:
    """Give what `answer` sends, and at last why there is no more, if jobs are left."""
    # Threads of OpenMP that wait keep a core busy; where other programs run too, that takes several times as long.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=answer, args=(name, small, network, given, sender))
    process.start()
    sender.close()
    try:
        while receiver.poll(given.limit):
            yield (found := receiver.recv())
            if isinstance(found, str):
                return
        yield f"more than {given.limit:g} s"
    except EOFError:
        process.join()
        if process.exitcode:
            yield f"ended with exit code {process.exitcode}"
    finally:
        process.kill()
        process.join()


def measure(graph: str, given: argparse.Namespace) -> None:
    """Record a line for each job of a graph, program and round; exits if two programs have different answers."""
    expected: dict[str, dict[str, np.ndarray]] = {}
    with tempfile.TemporaryDirectory() as folder:
        made = GRAPHS[graph](given.data, given.share)
        cut = given.share if graph in FROM_FILES else 1.0
        network = network_of(graph, simple(made, cut), Path(folder) / "whole")
        small = network_of(graph, simple(made, cut * SMALL), Path(folder) / "small")
        del made
        for turn, name in product(range(given.rounds), given.programs):
            line = {"graph": graph, "program": name, "round": turn}
            line |= {"vertices": network.n_vertices, "edges": network.n_edges}
            questions = {job: JOBS[job].question(network.n_vertices, given.share) for job in given.names}
            left = [job for job, question in questions.items() if PROGRAMS[name].can_answer(question)]
            if not left:
                continue
            for found in answers_of_process(name, small, network, given):
                if isinstance(found, str):
                    for job in left:
                        record_line(given.lines, line, job, failed=found)
                else:
                    left.remove(found.job)
                    check_same(name, found.sample, expected.setdefault(found.job, found.sample))
                    record_line(given.lines, line, found.job, **measured(found))


def measured(found: Answer) -> dict[str, Any]:
    parts = found.n_searches / found.done
    return {
        "sources": found.n_searches,
        "solved": found.done,
        "read_s": round(found.read.wall_s, 3),
        "read_cpu_s": round(found.read.cpu_s, 3),
        "solve_s": round(found.solve.wall_s, 5),
        "sources_per_s": round(found.done / found.solve.wall_s, 2),
        "whole_cpu_s": round(found.solve.cpu_s * parts, 5),
        "total_s": round(found.read.wall_s + found.solve.wall_s * parts, 3),
        "is_extrapolated": found.done < found.n_searches,
        "peak_bytes": found.peak_bytes,
    }


def record_line(name: str, line: dict[str, Any], job: str, **facts: Any) -> None:
    version = version_of(line["program"])
    record(name, job=job, **line, program_version=version, **facts, load=os.getloadavg()[0])


def check_same(program: str, found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """Exit if `program` has found something else; only closeness is rounded, and nearly the same in each program."""
    for name, values in expected.items():
        rounding = 1e-12 if name == "closeness" else 0
        if not np.allclose(found[name], values, rtol=rounding, atol=0):
            sys.exit(f"{program} finds another {name}: {found[name]}, expected {values}")


def chosen(parser: argparse.ArgumentParser, listed: str | None) -> Sequence[str]:
    """Return the programs to run: those listed, or all that are installed."""
    missing = [name for name in PROGRAMS if importlib.util.find_spec(module_of(name)) is None]
    if listed is None:
        for name in missing:
            sys.stderr.write(f"{name} is not installed, and is left out\n")
        return [name for name in PROGRAMS if name not in missing]
    names = listed.split(",")
    for name in names:
        if name not in PROGRAMS:
            parser.error(f"unknown program `{name}`; programs: {', '.join(PROGRAMS)}")
        if name in missing:
            parser.error(f"{name} is not installed: `pip install {distribution_of(name)}`")
    return names


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("SSSP_TEST_DATA"))
    parser.add_argument("--jobs", default="*", help="with commas; `ny-*` stands for all jobs of New York")
    parser.add_argument("--with", dest="programs", help="with commas; all that are installed by default")
    parser.add_argument("--lines", default="jobs", help="name of the file in results/ for the lines")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20.0, help="of solving for each job and program")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which a program is ended")
    parser.add_argument("--share", type=float, default=1.0, help="of the sizes, for a quick try")
    given = parser.parse_args()
    given.programs = chosen(parser, given.programs)
    patterns = given.jobs.split(",")
    if unknown := [p for p in patterns if not any(fnmatch(name, p) for name in JOBS)]:
        parser.error(f"unknown job `{unknown[0]}`; jobs: {', '.join(JOBS)}")
    every = [name for name in JOBS if any(fnmatch(name, pattern) for pattern in patterns)]
    graphs = {graph: list(names) for graph, names in groupby(every, lambda name: JOBS[name].graph)}
    if given.data is None and (needed := set(graphs) & set(FROM_FILES)):
        parser.error(f"graph `{needed.pop()}` is read from a file: set --data or SSSP_TEST_DATA")
    for graph, given.names in graphs.items():
        measure(graph, given)


if __name__ == "__main__":
    main()
