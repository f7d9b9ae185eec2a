"""A bench from its file to its lines: nothing is timed that was not checked, nothing is measured twice."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.bench import lines, measure
from sssp_pipeline.bench.lines import read
from sssp_pipeline.cli import app
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.kept import Nothing
from sssp_pipeline.kernels.cpu.delta_stepping import DeltaStepping

BENCH = """\
name: tiny
graphs:
  - {name: grid, graph: {input: "generated:grid?rows=12&cols=12"}}
  - {name: star, graph: {input: "generated:star?vertices=50"}, sources: {count: 1}}
solvers: [delta-stepping, dijkstra]
sources: {count: 2, min_reach: 0.5}
baseline: dijkstra
runs: 3
"""


class Counting(DeltaStepping):
    """Counts calls: those that ask for all distances, and the timed ones, which ask for none."""

    name = "counting"

    def __init__(self) -> None:
        super().__init__()
        self.checked, self.timed = 0, 0

    def solve(self, graph, sources, options):
        is_timed = isinstance(options.kept, Nothing)
        self.timed += is_timed
        self.checked += not is_timed
        solution = super().solve(graph, sources, options)
        self.change(solution, is_timed)
        return solution

    def change(self, solution, is_timed):
        """Change a solution, or raise an error."""


class Wrong(Counting):
    """One distance is too large."""

    name = "wrong"

    def change(self, solution, is_timed):
        if not is_timed:
            solution.distances[0, 7] += 1


class WrongLater(Counting):
    """Right while it is checked, and then not."""

    name = "wrong-later"

    def change(self, solution, is_timed):
        if is_timed:
            solution.metrics[:] = [replace(m, mean_distance=m.mean_distance + 1) for m in solution.metrics]


class Failing(Counting):
    """Gives up."""

    name = "failing"

    def change(self, solution, is_timed):
        raise SsspError("the search was given up")


class Slow(Counting):
    """Takes a tenth of a second for each source."""

    name = "slow"

    def change(self, solution, is_timed):
        time.sleep(0.1)


class Choosy(Counting):
    """Takes no graph."""

    name = "choosy"

    def supports(self, graph, options):
        return f"it takes no graph of {graph.n_vertices} vertices"


@pytest.fixture(autouse=True)
def fakes(monkeypatch):
    """Register solvers that stand in for others, for better or worse; give them by name."""
    found = {kind.name: kind() for kind in (Counting, Wrong, WrongLater, Failing, Slow, Choosy)}
    for name, solver in found.items():
        monkeypatch.setitem(SOLVERS, name, solver)
    return found


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run the bench with some of its values replaced; give the result and the lines so far."""
    monkeypatch.chdir(tmp_path)
    Path("tiny.yaml").write_text(BENCH, encoding="utf-8")

    def run_it(*overrides, options=()):
        words = [word for override in overrides for word in ("--set", override)]
        result = CliRunner().invoke(app, ["bench", "run", "tiny.yaml", "--output", "out", *words, *options])
        at = Path("out/lines.jsonl")
        return result, read(str(at)) if at.exists() else []

    return run_it


def states(found):
    return [(line.graph.name, line.label, line.state) for line in found]


def all_measured(*solvers):
    return [(graph, solver, "measured") for graph in ("grid", "star") for solver in solvers]


def test_a_line_tells_all_about_a_variant_on_a_graph(run):
    result, found = run()
    assert (result.exit_code, result.stdout) == (0, "out/lines.jsonl\n")
    assert states(found) == all_measured("delta-stepping", "dijkstra")
    line = found[1]
    assert (line.bench, line.baseline, line.subject, line.device) == ("tiny", "dijkstra", None, "cpu")
    assert (line.checked_by, line.runs_asked, line.options) == ("delta-stepping", 3, {})
    assert line.on.machine["cpu"]
    assert line.on.versions["numpy"]
    timing = line.timing
    assert [len(of_source) for of_source in timing.ms] == [3, 3]
    assert timing.median_ms == pytest.approx(np.median(timing.ms, axis=1).mean(), abs=1e-5)
    assert timing.mean_ms == pytest.approx(np.mean(timing.ms), abs=1e-5)
    assert timing.reached == [144, 144]
    assert timing.vertices_processed == [144, 144]
    assert timing.edges_relaxed == [528, 528]
    assert timing.mteps == pytest.approx(np.mean(528 / np.median(timing.ms, axis=1)) / 1e3, rel=1e-2)
    assert (timing.supersteps, timing.filter_share, timing.flushed_bytes, timing.work) == (None, None, 0, 1)
    assert len(found[2].sources) == 1
    assert "star: dijkstra: " in result.stderr


def test_each_source_is_checked_warmed_up_and_run(run, fakes):
    run("solvers=[counting]", "warm_ups=2", "baseline=null", options=("--graph", "grid"))
    assert (fakes["counting"].checked, fakes["counting"].timed) == (2, 2 * (2 + 3))


def test_variants_take_turns(run, monkeypatch):
    told = []

    class Telling(Counting):
        def change(self, solution, is_timed):
            told.append(self.name if is_timed else "check")

    for name in ("a", "b"):
        solver = Telling()
        solver.name = name
        monkeypatch.setitem(SOLVERS, name, solver)
    run("solvers=[a, b]", "baseline=null", "runs=2", "warm_ups=0", options=("--graph", "star"))
    assert told == ["check", "check", "a", "b", "a", "b"]


def test_many_sources_in_one_call_share_its_time(run, fakes):
    _, found = run("solvers=[{solver: counting, together: 5}]", "baseline=null", options=("--graph", "grid"))
    assert fakes["counting"].timed == 1 + 1 + 3  # checked, warm-up, runs: a call each
    assert (found[0].label, found[0].together) == ("counting x5", 5)
    assert [len(of_source) for of_source in found[0].timing.ms] == [3, 3]


def test_running_again_measures_what_is_not_there(run, fakes):
    run("solvers=[counting]", "baseline=null", options=("--graph", "grid"))
    timed = fakes["counting"].timed
    result, found = run("solvers=[counting, dijkstra]", "baseline=null")
    assert states(found) == all_measured("counting", "dijkstra")
    assert "grid: 1 variant there already (--again measures them anew)" in result.stderr
    assert fakes["counting"].timed == timed + 4  # on the star, from one source
    assert run("solvers=[counting, dijkstra]", "baseline=null")[1] == found
    assert len(run("solvers=[counting, dijkstra]", "baseline=null", options=("--again",))[1]) == 8


@pytest.mark.parametrize("changed", ["runs=2", "sources={count: 1}", "warm_ups=0"])
def test_what_is_asked_for_otherwise_is_measured(run, changed):
    run(options=("--graph", "grid"))
    assert len(run(changed, options=("--graph", "grid"))[1]) == 4


def test_another_commit_is_measured(run, monkeypatch):
    for commit in ("a" * 40, "a" * 40, "b" * 40, "b" * 40 + "+"):
        monkeypatch.setenv("SSSP_BENCH_COMMIT", commit)
        _, found = run("solvers=[dijkstra]", options=("--graph", "star"))
    assert [(line.on.commit[0], line.on.dirty) for line in found] == [("a", False), ("b", False), ("b", True)]


def test_a_line_that_was_cut_off_is_measured_anew(run):
    run()
    at = Path("out/lines.jsonl")
    whole = at.read_text()
    at.write_text(whole[:-20])
    _, found = run()
    assert states(found)[3] == ("star", "dijkstra", "measured")
    assert at.read_text().startswith("".join(whole.splitlines(keepends=True)[:3]))


def test_a_wrong_distance_ends_with_3_and_is_not_timed(run, fakes):
    result, found = run("solvers=[dijkstra, wrong, counting]")
    assert result.exit_code == 3
    first, second = found[1], found[4]
    assert (first.state, first.timing, first.checked_by) == ("refuted", None, None)
    source, true = first.sources[0], found[0]
    assert true.state == "measured"
    assert f"error: `wrong` on `grid`: the distance from vertex {source} to 7 is" in result.stderr
    assert "by `delta-stepping`; 1 distances differ" in first.reason
    assert second.state == "refuted"
    assert fakes["wrong"].timed == 0
    assert fakes["counting"].timed > 0
    # It is tried again, the others are not.
    result, again = run("solvers=[dijkstra, wrong, counting]")
    assert result.exit_code == 3
    assert states(again[6:]) == [("grid", "wrong", "refuted"), ("star", "wrong", "refuted")]


def test_a_run_that_comes_to_something_else_ends_with_3(run):
    result, found = run("solvers=[dijkstra, wrong-later]", options=("--graph", "grid"))
    assert result.exit_code == 3
    assert states(found) == [("grid", "dijkstra", "measured"), ("grid", "wrong-later", "refuted")]
    assert found[1].reason.startswith(
        f"from vertex {found[1].sources[0]} a run reached 144 vertices, the farthest at"
    )


def test_a_failure_ends_with_1_and_the_others_are_measured(run):
    result, found = run("solvers=[failing, dijkstra]", options=("--graph", "grid"))
    assert result.exit_code == 1
    assert result.stderr.endswith(
        "error: `failing` on `grid`: the search was given up\n\n"
        "hint: the others are measured; the same command tries these again\n"
    )
    assert states(found) == [("grid", "failing", "failed"), ("grid", "dijkstra", "measured")]


def test_what_a_solver_does_not_take_is_a_line_with_the_reason(run):
    result, found = run("solvers=[dijkstra, choosy]")
    assert result.exit_code == 0
    assert [(line.graph.name, line.reason) for line in found if line.state == "unsupported"] == [
        ("grid", "it takes no graph of 144 vertices"),
        ("star", "it takes no graph of 50 vertices"),
    ]


def test_a_slow_variant_runs_less_often_but_once_at_least(run, fakes):
    _, found = run("solvers=[slow, dijkstra]", "most_s=0.25", "runs=4", options=("--graph", "star"))
    slow, other = (next(line for line in found if line.solver == name) for name in ("slow", "dijkstra"))
    # One warm-up, one run, and another would be too long.
    assert (slow.timing.runs, other.timing.runs) == (1, 4)
    _, found = run("solvers=[slow, dijkstra]", "most_s=0.01", "runs=4", options=("--graph", "star"))
    assert found[-1].timing.runs + found[-2].timing.runs == 1 + 4


def test_graphs_can_be_prepared_beforehand(run):
    result, found = run(options=("--prepare",))
    assert (result.exit_code, found) == (0, [])
    assert sorted(p.name.split("-")[0] for p in Path("out/graphs").iterdir()) == ["grid", "star"]
    assert "write graph store" not in run()[0].stderr


def test_an_input_that_is_not_there_is_told_before_anything_is_done(run):
    missing = "graphs=[{name: star, graph: {input: 'generated:star'}}, {name: e, graph: {input: e.txt}}]"
    result, found = run(missing)
    assert (result.exit_code, found, Path("out").exists()) == (2, [], False)
    assert result.stderr.startswith("error: graph `e`: `e.txt`")


def test_an_unknown_graph_is_refused(run):
    result, _ = run(options=("--graph", "gird"))
    assert result.exit_code == 2
    assert result.stderr == (
        "error: the bench has no graph `gird`\n\nhint: did you mean `grid`? Graphs: grid, star\n"
    )


def test_an_output_that_is_a_file_is_refused(run):
    Path("out").write_text("")
    result, _ = run()
    assert result.exit_code == 2
    assert result.stderr.startswith("error: `out` cannot be written: ")


def test_the_cache_of_a_gpu_is_flushed_before_each_run_and_not_before_the_check(run, fakes, monkeypatch):
    told = []

    class OnGpu(Counting):
        name = "on-gpu"
        device = "gpu"

        def change(self, solution, is_timed):
            told.append("run" if is_timed else "check")

    memory = SimpleNamespace(memset_async=lambda value, n_bytes: told.append(n_bytes))
    cuda = SimpleNamespace(
        Device=lambda: SimpleNamespace(attributes={"L2CacheSize": 1000}),
        get_current_stream=lambda: SimpleNamespace(synchronize=lambda: told.append("waited")),
    )
    cupy = SimpleNamespace(cuda=cuda, empty=lambda n_bytes, dtype: SimpleNamespace(data=memory))
    monkeypatch.setattr(measure, "cupy_module", lambda: cupy)
    monkeypatch.setattr(measure, "gpu_missing", lambda: None)
    monkeypatch.setitem(SOLVERS, "on-gpu", OnGpu())
    _, found = run("solvers=[on-gpu, dijkstra]", "runs=1", "warm_ups=0", options=("--graph", "grid"))
    assert told == ["check", "check", *[2000, "waited", "run"] * 2]
    assert [line.timing.flushed_bytes for line in found] == [2000, 0]


def test_without_a_gpu_its_solvers_say_so(run, monkeypatch):
    monkeypatch.setattr(measure, "gpu_missing", lambda: "no GPU here")
    _, found = run("solvers=[adds]", "baseline=null", options=("--graph", "star"))
    assert [(line.state, line.reason, line.device) for line in found] == [
        ("unsupported", "no GPU here", "gpu")
    ]


def test_files_of_results_make_no_checkout_differ(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "_git", _Git(tmp_path))
    assert lines.revision(tmp_path / "out" / "deep") == {"commit": "c" * 40, "dirty": False}
    assert lines.revision(tmp_path.parent) == {"commit": "c" * 40, "dirty": True}
    monkeypatch.setattr(lines, "_git", lambda *arguments: None)
    assert lines.revision(tmp_path) == {"commit": None, "dirty": None}


class _Git:
    """Answers as a checkout in `top` of which all files but those in `out/deep` are committed."""

    def __init__(self, top: Path) -> None:
        self._top = top

    def __call__(self, *arguments: str) -> str:
        if arguments[0] == "status":
            return "" if arguments[-1] == ":(exclude,top)out/deep" else "?? out/deep/lines.jsonl"
        answers = {"ls-files": "lines.py", "HEAD": "c" * 40, "--show-toplevel": str(self._top)}
        return answers[arguments[0] if arguments[0] in answers else arguments[-1]]


def test_lines_are_json_without_a_place_on_this_machine(run, tmp_path):
    run()
    for text in Path("out/lines.jsonl").read_text().splitlines():
        assert json.loads(text)["format"] == "sssp-pipeline bench 1"
        assert str(tmp_path) not in text


@pytest.mark.gpu
def test_every_solver_of_a_gpu_is_checked_and_timed_on_it(run):
    names = ", ".join(name for name, s in SOLVERS.items() if s.device == "gpu" and not s.takes_equal_only)
    _, found = run(f"solvers=[{names}, dijkstra]", "baseline=near-far")
    assert {line.state for line in found} == {"measured"}
    for line in found:
        assert (line.timing.flushed_bytes >= 2**20) == (line.device == "gpu")
        assert all(ms > 0 for of_source in line.timing.ms for ms in of_source)
