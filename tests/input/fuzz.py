"""Mutated inputs against the program's readers, judged by the reference reader.

    python tests/input/fuzz.py --inputs 1000000 --seed 1 --format csv

An input is good if the program refuses it with a message and a hint, or stores the graph that the reference reader
understands. It is a failure if the program raises another exception, takes longer than `LIMIT_S`, or stores a graph
that the reference refuses or understands in another way. Inputs that the program refuses and the reference accepts are
counted with their reasons: the program may be stricter, but a high count is worth a look.

Every input follows from its format, the seed and its number. A failing input is written to the folder `--failures` as
bytes and options, from which `tests/input/corpus` is made.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import multiprocessing
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
from makers import MAKERS, made
from mutations import Input
from reference_graph import Graph, Refused, stored_edges, weight_types
from reference_reader import understood
from stored import graph_spec, weights_of

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.graph_store.manifest import Manifest, StoredPart, StoreManifest
from sssp_pipeline.pipeline.graph_store.writing.edges_files import WrittenEdges
from sssp_pipeline.pipeline.ingest import into_store as ingest_module
from sssp_pipeline.storage import files

#: An input may take so long; the first of a process compiles and loads, which `warm_up` does before.
LIMIT_S = 5.0
#: The process may grow by so much.
LIMIT_BYTES = 4 << 30
#: Graphs that declare more vertices may end for want of memory.
MANY_VERTICES = 1 << 24
#: How an input ends; "stricter" is one that the program refuses and the reference reader accepts.
ENDS = ("same", "both refuse", "stricter", "failure")
#: What the fuzzer asks for in every input: no edge is dropped, so that all can be compared.
KEEP_ALL = {"duplicates": "keep-all", "self_loops": "keep"}


class Hang(BaseException):
    """An input took longer than `LIMIT_S`."""


class _Now:
    """An executor that works at once: threads would take longer than the inputs."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> _Now:
        return self

    def __exit__(self, *_: object) -> None: ...

    def shutdown(self, *_: object, **__: object) -> None: ...

    def submit(self, work: Callable, *given: object, **named: object) -> Future:
        done: Future = Future()
        try:
            done.set_result(work(*given, **named))
        except BaseException as error:
            done.set_exception(error)
        return done

    def map(self, work: Callable, *given: Iterable) -> Iterator:
        return iter([work(*each) for each in zip(*given, strict=False)])


class _Memory:
    """Stands for the graph store's writer and keeps the graph."""

    graph: CsrGraph
    vertices: pa.Table | None
    manifest: Manifest

    def __init__(self, *_: object) -> None:
        self.vertices = None
        _Memory.last = self

    last: _Memory

    def __enter__(self) -> _Memory:
        return self

    def __exit__(self, *_: object) -> None: ...

    def write_edges(self, rows: Iterable[tuple], *_: object) -> WrittenEdges:
        degrees, col_indices, weights = (
            np.concatenate(arrays) for arrays in zip(*((np.diff(r[0]), *r[1:]) for r in rows), strict=True)
        )
        self.graph = graph = CsrGraph(np.append(0, np.cumsum(degrees)), col_indices, weights).check()
        edges = [_part(graph.n_edges, graph.n_vertices)] if graph.n_vertices else []
        offsets = [_part(graph.n_vertices + 1, graph.n_vertices + 1)]
        return WrittenEdges(offsets, edges, None, graph.traits, bool((graph.weights == 0).any()))

    def write_table(self, _: str, table: pa.Table) -> list[StoredPart]:
        self.vertices = table
        return [_part(len(table), len(table))]

    def commit(self, stored: StoreManifest, *_: object) -> None:
        self.manifest = stored.first

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


def _part(rows: int, last: int) -> StoredPart:
    return StoredPart(
        path="edges/part-00000000-00000.parquet",
        rows=rows,
        first=0,
        last=last,
        bytes=rows,
        crc32=0,
        content_sha256="",
    )


def _at_once(items: Iterable) -> Iterator:
    """Stand for `read_ahead`, without its thread."""
    yield from items


#: The folder of the readers.
FORMATS = Path(importlib.import_module("sssp_pipeline.pipeline.formats").__file__ or "").parent
#: Where the program's own modules name what is slow beside small inputs: threads, locks, files of the store.
MODULES = [
    "sssp_pipeline.base.ordered",
    "sssp_pipeline.pipeline.ingest.edges",
    "sssp_pipeline.pipeline.ingest.reading",
    "sssp_pipeline.pipeline.ingest.into_store",
    "sssp_pipeline.pipeline.ingest.new_graph",
    "sssp_pipeline.pipeline.ingest.rows.reverses",
    "sssp_pipeline.pipeline.ingest.ids.id_mapping",
    "sssp_pipeline.pipeline.ingest.ids.id_runs",
    *(f"sssp_pipeline.storage.{name}" for name in ("files", "filesystems")),
    *(
        "sssp_pipeline.pipeline.formats." + ".".join(path.relative_to(FORMATS).with_suffix("").parts)
        for path in FORMATS.rglob("[a-z]*.py")
    ),
]
STAND_INS = {
    "StoreWriter": _Memory,
    "write_edges": _Memory.write_edges,
    "exclusive": lambda *_, **__: nullcontext(lambda: None),
    "ThreadPoolExecutor": _Now,
    "usable_cores": lambda: 1,
    "read_ahead": _at_once,
    "check_writable": lambda *_: None,
    "filesystem": functools.cache(files.filesystem),
    "BITMAP_IDS": 1 << 16,  # ids above it are rare else
}


@contextmanager
def in_memory() -> Iterator[None]:
    """Let ingest work without threads and without a store, as long as the block runs; all else is the program's own."""
    with ExitStack() as stack:
        for name in MODULES:
            module = importlib.import_module(name)
            for word, stand_in in STAND_INS.items():
                if hasattr(module, word):
                    stack.enter_context(mock.patch.object(module, word, stand_in))
        yield


def difference(path: Path, given: Input) -> tuple[str, str]:
    """Return what became of an input and why: "same", "both refuse", "stricter", or "failure".

    `path` is a file with the content of `given`. Only inside of `in_memory`.
    """
    try:
        spec = graph_spec(path, given.graph | KEEP_ALL)
    except ValueError as error:
        return "both refuse", f"options: {type(error).__name__}"
    meant = understood(given.content, given.file, given.graph)
    try:
        ingest_module.ingest(spec, str(path.parent / "graph"), Quiet())
    except SsspError as error:
        if not error.message.strip() or not (error.hint or "").strip():
            return "failure", f"no hint: {error.message!r}"
        return ("both refuse" if isinstance(meant, Refused) else "stricter"), error.message
    except MemoryError as error:
        declared = meant.vertices if isinstance(meant, Graph) else None
        if declared is not None and len(declared) > MANY_VERTICES:
            return "both refuse", "memory"
        return "failure", f"MemoryError: {error}"
    except Exception:
        return "failure", traceback.format_exc()
    found = _Memory.last
    if isinstance(meant, Refused):
        return "failure", f"accepted: {_shown(found)}, but it is to be refused: {meant}"
    fault = _unlike(found, meant, given.graph)
    return ("failure", fault) if fault else ("same", "")


def _edges_of(found: _Memory) -> list[tuple]:
    graph = found.graph
    sources = np.searchsorted(graph.row_offsets, np.arange(graph.n_edges), side="right") - 1
    if found.vertices is not None and "original_id" in found.vertices.column_names:
        ids = found.vertices["original_id"].to_pylist()
        ends = [[ids[v] for v in part.tolist()] for part in (sources, graph.col_indices)]
    else:
        first = found.manifest.ids.first_id
        ends = [[v + first for v in part.tolist()] for part in (sources, graph.col_indices)]
    return list(zip(*ends, weights_of(graph, found.manifest), strict=True))


def _shown(found: _Memory) -> str:
    edges = _edges_of(found)
    return f"{len(edges)} edges of {found.graph.weights.dtype}, {edges[:3]}"


def _unlike(found: _Memory, meant: Graph, graph: dict) -> str | None:
    """Return how the stored graph differs from what is meant, or None."""
    dtype = found.graph.weights.dtype.name
    if dtype not in weight_types(meant, graph):
        return f"weights are {dtype}, wanted {weight_types(meant, graph)}"
    got, wanted = Counter(_edges_of(found)), Counter(stored_edges(meant, graph, dtype))
    if got != wanted or {type(end) for edge in got for end in edge[:2]} != {
        type(end) for edge in wanted for end in edge[:2]
    }:
        return f"stored {list((got - wanted).items())[:3]}, wanted {list((wanted - got).items())[:3]}"
    if meant.vertices is not None:
        n_vertices = len(meant.vertices)
    else:
        n_vertices = len({end for edge in meant.edges for end in edge[:2]})
    if found.graph.n_vertices != n_vertices:
        return f"{found.graph.n_vertices} vertices, wanted {n_vertices}"
    return None


def _no_longer(*_: object) -> None:
    raise Hang


def judged(given: Input, folder: Path) -> tuple[str, str]:
    """Return `difference` of an input that is written to `folder`, or a failure if it takes too long."""
    path = folder / given.file
    path.write_bytes(given.content)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        return difference(path, given)
    except Hang:
        return "failure", f"longer than {LIMIT_S} s"
    except Exception:  # the reference reader's
        return "failure", traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        path.unlink(missing_ok=True)


@contextmanager
def fuzzing() -> Iterator[Path]:
    """Give a folder in memory for `judged`; time and memory are limited, and all is compiled."""
    memory = Path("/dev/shm")
    before = signal.signal(signal.SIGALRM, _no_longer)
    limits = resource.getrlimit(resource.RLIMIT_AS)
    with (
        tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None, prefix="fuzz-") as name,
        in_memory(),
    ):
        folder = Path(name)
        warm_up(folder)
        pages = (
            int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 0
        )
        if pages:
            resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + LIMIT_BYTES, limits[1]))
        try:
            yield folder
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limits)
            signal.signal(signal.SIGALRM, before)


def warm_up(folder: Path) -> None:
    """Compile and load what the readers use."""
    for name in MAKERS:
        for number in range(30):
            given = made(name, 0, number)
            path = folder / given.file
            path.write_bytes(given.content)
            difference(path, given)
            path.unlink()


def keep(given: Input, folder: Path, name: str, why: str) -> None:
    """Write an input to `folder`: its bytes, and its name and options as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.input").write_bytes(given.content)
    # Of a traceback the last line, since paths of a machine are no part of the corpus.
    facts = {"file": given.file, "graph": given.graph, "why": why.strip().splitlines()[-1]}
    (folder / f"{name}.json").write_text(
        json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


def kept(folder: Path) -> dict[str, Input]:
    """Return the inputs that `keep` wrote to `folder`, by name."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        facts = json.loads(path.read_text(encoding="utf-8"))
        found[path.stem] = Input(facts["file"], path.with_suffix(".input").read_bytes(), facts["graph"])
    return found


def _kind(why: str) -> str:
    """Return a reason without its values, so that alike ones are counted together."""
    last = why.strip().splitlines()[-1] if why.startswith("Traceback") else why
    return re.sub(r"`[^`]*`|'[^']*'|\[.*\]|[0-9]+", "…", last)[:150]


@dataclass
class Inputs:
    """Some inputs, each with a name; `given(i)` makes the same one always."""

    total: int
    name: Callable[[int], str]
    given: Callable[[int], Input]


def judge_all(inputs: Inputs, position: int, out: Connection) -> None:
    """Judge the inputs from `position` on, and send what became of each."""
    with fuzzing() as folder:
        for i in range(position, inputs.total):
            out.send(judged(inputs.given(i), folder))


def outcomes(inputs: Inputs) -> Iterator[tuple[str, str]]:
    """Give for each input how it ended and why.

    A process of its own judges them. If an input ends that process, or stops it for good, that is a failure, and
    another process goes on with the next input.
    """
    position = 0
    while position < inputs.total:
        ours, theirs = multiprocessing.Pipe(duplex=False)
        judge = multiprocessing.get_context("fork").Process(target=judge_all, args=(inputs, position, theirs))
        judge.start()
        theirs.close()
        is_alive = True
        while is_alive and position < inputs.total:
            try:
                # The first one waits until all is compiled.
                is_alive = ours.poll(300)
                yield ours.recv() if is_alive else ("failure", "a hang that no signal ends")
            except EOFError:
                judge.join()
                is_alive = False
                yield "failure", f"the process ended with exit code {judge.exitcode}"
            position += 1
        if not is_alive:
            judge.kill()
        judge.join()


def run(inputs: Inputs, failures: Path, shown: int = 3) -> dict[str, Counter]:
    """Judge inputs, write those that fail to `failures`, and print what happens.

    Returns how many inputs of each format, the first word of their names, ended in which way, and by which kind of
    reason.
    """
    counts: dict[str, Counter] = defaultdict(Counter)
    last = began = time.monotonic()
    for i, (end, why) in enumerate(outcomes(inputs)):
        name = inputs.name(i)
        group = name.partition(" ")[0]
        of = counts[group]
        of[end] += 1
        kind = (end, _kind(why))
        of[kind] += end in ("stricter", "failure")
        if end == "failure":
            given = inputs.given(i)
            if of[kind] <= shown:
                print(f"FAILURE {name}: {why}\n  {given.graph} {given.content[:300]!r}")
            if of[kind] <= 20:
                keep(given, failures, name.replace(" ", "-"), why)
        is_last = i + 1 == inputs.total or inputs.name(i + 1).partition(" ")[0] != group
        if time.monotonic() - last > 10 or is_last:
            last = time.monotonic()
            each = 1000 * (last - began) / (i + 1)
            ends = ", ".join(f"{of[word]} {word}" for word in ENDS)
            print(
                f"{group}: {sum(of[word] for word in ENDS)} inputs: {ends}; {each:.2f} ms each so far",
                flush=True,
            )
    return counts


def mutated(names: list[str], seed: int, numbers: range) -> Inputs:
    """Return the inputs `numbers` of each format in turn."""
    n = len(numbers)
    return Inputs(
        n * len(names),
        lambda i: f"{names[i // n]} {seed} {numbers[i % n]}",
        lambda i: made(names[i // n], seed, numbers[i % n]),
    )


def after_corpus(folder: Path, later: Inputs) -> Inputs:
    """Return the inputs that `keep` wrote to `folder`, and then others."""
    found = list(kept(folder).items())
    n = len(found)
    return Inputs(
        n + later.total,
        lambda i: found[i][0] if i < n else later.name(i - n),
        lambda i: found[i][1] if i < n else later.given(i - n),
    )


def main() -> int:
    """Run the command line; return 1 if an input failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--inputs", type=int, default=10_000, help="how many of each format")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--format", action="append", choices=list(MAKERS), help="all of them unless given")
    parser.add_argument(
        "--failures", type=Path, default=Path("fuzz-failures"), help="folder for failing inputs"
    )
    parser.add_argument("--corpus", type=Path, help="judge the inputs in this folder first")
    chosen = parser.parse_args()
    numbers = range(chosen.first, chosen.first + chosen.inputs)
    inputs = mutated(chosen.format or list(MAKERS), chosen.seed, numbers)
    if chosen.corpus:
        inputs = after_corpus(chosen.corpus, inputs)
    counts = run(inputs, chosen.failures)
    print(f"at most {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10} MiB")
    for name, of in counts.items():
        kinds = [(kind, count) for kind, count in of.items() if isinstance(kind, tuple) and count]
        for (end, why), count in sorted(kinds, key=lambda item: (item[0][0], -item[1])):
            print(f"{name} {count:7} {end}: {why}")
    return 1 if any(of["failure"] for of in counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
