"""Some kernels run as C++ on the CPU. This checks them, and the lab, without a GPU."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sssp_pipeline.base.generators import grid
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.kernels.gpu.common.cuda.compile import SOURCES, sources_digest
from sssp_pipeline.pipeline.ingest.into_store import ingest
from sssp_pipeline.workflow.graph import Graph

EMULATION = Path(__file__).with_name("emulation")
FUZZ = Path(__file__).parents[1] / "hierarchy" / "fuzz.py"
PATH_SUMS = Path(__file__).with_name("test_path_sums_on_device.py")
SECOND_COSTS = Path(__file__).with_name("test_second_costs_on_device.py")
PATH_SWEEP = Path(__file__).with_name("test_path_sweep.py")
PHAST_GPU = Path(__file__).with_name("test_phast_gpu.py")
ADDS_LANES = Path(__file__).with_name("test_adds_lanes.py")
LIGHT_EDGES = Path(__file__).with_name("test_light_edges.py")
BETWEENNESS = Path(__file__).parents[2] / "api" / "answers" / "test_betweenness_on_gpu.py"
PATHS_OF_PARTS = Path(__file__).with_name("test_paths_of_parts.py")
BETWEENNESS_OF_RUNS = (
    Path(__file__).parents[2] / "pipeline" / "results" / "answers" / "test_betweenness_of_runs.py"
)
LAB = Path(__file__).parents[3] / "benchmarks" / "lab.py"

#: What was compiled, by digests: most tests change one file.
COMPILED = Path(__file__).parents[3] / ".pytest_cache" / "emulation"

pytestmark = [
    pytest.mark.xdist_group("emulation"),
    pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed"),
    pytest.mark.skipif(
        sys.platform != "linux" or os.uname().machine != "x86_64", reason="threads are made for x86-64"
    ),
]


def planted(names: tuple[str, ...], faults: list[tuple[str, ...]], ids: list[str]) -> pytest.MarkDecorator:
    """Run a test with a sixth of `faults`, as each takes many seconds; with all if `SSSP_EVERY_FAULT` is set.

    The sources of the kernels decide which. So every change of a kernel runs some, and another change runs others.
    """
    step = 1 if os.environ.get("SSSP_EVERY_FAULT") else min(6, len(faults))
    some = slice(int(sources_digest(), 16) % step, None, step)
    return pytest.mark.parametrize(names, faults[some], ids=ids[some])


def emulated(program: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program on the package of the current folder with the emulation."""
    COMPILED.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join([str(EMULATION), str(Path.cwd()), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, str(EMULATION / "run.py"), str(program), *arguments],
        env=os.environ | {"PYTHONPATH": path, "EMULATION_CACHE": str(COMPILED)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("solver", "n"),
    [
        pytest.param("bits-gpu", 15, marks=pytest.mark.medium),
        pytest.param("phast-gpu", 60, marks=pytest.mark.slow),
    ],
)
def test_random_graphs_are_solved_as_by_dijkstra(solver, n):
    done = emulated(FUZZ, "--solver", solver, "--graphs", str(n), "--seed", "6")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{n} graphs, 0 differ" in done.stdout


@pytest.mark.slow
def test_tiles_leave_out_only_what_they_do_not_need():
    done = run_on_cpu(str(PHAST_GPU), "-k", "leaves_out")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@planted(
    ("file", "line", "fault"),
    [
        ("phast_gpu/climb.cu", "call.seeded[i] = 0;", ""),
        (
            "phast_gpu/climb.cu",
            "const bool is_above = i > 0 || matrix[word] < kInfinity;",
            "const bool is_above = true;",
        ),
        (
            "common/headers/row_layout.cuh",
            "return d < limit ? static_cast<distance_bits>(d) : kUnreached;",
            "return static_cast<distance_bits>(d);",
        ),
        ("phast_gpu/phast_gpu.cu", "found |= words[p] != 0;", ""),
        ("phast_gpu/climb.cu", "        rows[i] = kInfinities;\n", ""),
        ("phast_gpu/front_rows.cu", "item % n_parts * n_each, chunk.n_boundary", "0, chunk.n_boundary"),
        ("phast_gpu/front_rows.cu", "    if (is_own) {\n", "    if (is_own) {\n        return;\n"),
        ("phast_gpu/front_rows.cu", "atomicOr(is_near, 1u);", ""),
        ("phast_gpu/climb.cu", "atomicOr(&tiles, 1u << locals[entry] / kTile);", "tiles = 1;"),
        ("phast_gpu/fronts.cu", "atomicMin(weight, least[i][j]);", ""),
        ("phast_gpu/sweep_words.cuh", "i == 0 ? 0x1010 : 0x3232", "0x1010"),
        ("phast_gpu/phast_gpu.cu", "all_ - (upper_ << 16)", "all_"),
        (
            "phast_gpu/phast_gpu.cu",
            "(packed & 0xffff) < limit && packed >> 16 < limit",
            "(packed & 0xffff) < limit",
        ),
        (
            "phast_gpu/front_rows.cu",
            "return before.is_below(limit) || is_below(limit);",
            "return is_below(limit);",
        ),
        ("phast_gpu/matrices.cu", "min(words[i], sweep_word{kShortInfinity})", "words[i]"),
        ("phast_gpu/matrices.cu", "is_first = arc > 0 || b < a;", "is_first = true;"),
        ("phast_gpu/matrices.cu", "from == low ? arcs.up[arc] : arcs.down[arc]", "arcs.up[arc]"),
        (
            "phast_gpu/few.cu",
            "apart = kTile; apart < kTile * n_parts;",
            "apart = 16; apart < kTile * n_parts;",
        ),
        ("phast_gpu/few.cu", "other = 1; other < n_warps;", "other = 2; other < n_warps;"),
        ("phast_gpu/few.cu", "        seeded = ~0u;\n", ""),
        ("phast_gpu/few.cu", "call.summaries + lane + threadIdx.x", "call.summaries + threadIdx.x"),
        ("common/rows/reduce.cu", "if (threadIdx.x < 32 && share.is_row) {", "if (threadIdx.x < 32) {"),
        ("common/rows/harmonic.cu", "sum_of_lanes(sums[thread][row])", "sum_of_lanes(sums[row][thread])"),
    ],
    ids=[
        "seeds of an earlier batch",
        "vertices above other roots of a chunk",
        "distances beyond the cutoff are reduced",
        "chunks near the source count as far",
        "rows of an earlier batch",
        "every block takes the first part of a boundary",
        "chunks that sources climb together have no seeds",
        "fronts near the source count as far",
        "a way up takes the first tile of a chunk",
        "ways over a chunk are lost",
        "both lanes of a pair take the weight of the first row",
        "the sum of a lane has that of the lane beside it",
        "the second lane of a pair is not compared with the cutoff",
        "seeds of fronts near the source count as far",
        "infinity is not narrowed",
        "two boundary vertices are left out, each for the other",
        "a boundary vertex is left out for a way in the other direction",
        "ways over half of a boundary are lost where sources are few",
        "ways of the second warp of a tile are lost",
        "seeds that sources find together are lost where sources are few",
        "counts of the second group of sources are those of the first",
        "empty lanes count",
        "sums of lanes instead of rows",
    ],
)
def test_a_kernel_with_a_fault_is_found(tmp_path, monkeypatch, file, line, fault):
    assert_found(tmp_path, monkeypatch, file, line, fault)


@pytest.mark.slow
@planted(
    ("file", "line", "fault"),
    [
        (
            "bits_gpu.cu",
            "const bool has_targets = call.target_words == nullptr || totals[1] < call.n_targets;",
            "const bool has_targets = call.target_words == nullptr || totals[1] + 1 < call.n_targets;",
        ),
        ("bits_gpu.cu", "n_edges == 0 || !has_targets || (is_beyond && call.is_limited)", "n_edges == 0"),
        ("bits_gpu.cu", "                shared.counts[i] = 0;\n", ""),
        ("bits_gpu.cu", "if (has_bit(active, chunk.x)) {", "if (false) {"),
        ("bit_pull.cuh", "call.hub_parts[item.z] = 0;", ""),
        ("bit_pull.cuh", "edges.before += before;", ""),
        (
            "bit_pull.cuh",
            "row[j] = *part_of(call.front(depth), ",
            "row[j] = *part_of(call.front(depth + 1), ",
        ),
        ("bit_pull.cuh", "is_closed |= is_full(all) ? 1u << place : 0;", "is_closed |= 1u << place;"),
        ("lane_counts.cuh", "row.words[i] = carry;", "row.words[i] = 0;"),
    ],
    ids=[
        "one target is missing",
        "targets and cutoff do not end",
        "counts of an earlier depth",
        "edges of hubs are not marked",
        "parts of a hub of an earlier depth count",
        "every part of a hub takes the same edges",
        "rows of another depth",
        "every vertex is closed",
        "counts without carries",
    ],
)
def test_a_fault_in_bits_gpu_is_found(tmp_path, monkeypatch, file, line, fault):
    assert_found(tmp_path, monkeypatch, f"bits_gpu/{file}", line, fault, solver="bits-gpu")


def run_on_cpu(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run tests that need a GPU with the emulation."""
    options = "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "gpu and not slow"
    return emulated(Path(pytest.__file__).with_name("__main__.py"), *options, *arguments)


#: Tests of `adds-lanes` that take seconds on a CPU.
SHORT_LANES = "-k", "cutoff or unaligned or tiny or (every_size and 33)"


@pytest.mark.slow
def test_lanes_are_exact():
    done = run_on_cpu(str(ADDS_LANES), *SHORT_LANES)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@planted(
    ("file", "line", "fault"),
    [
        ("lane_passes.cuh", "< highest[v];", "+ 1.0f < highest[v];"),
        ("lane_passes.cuh", "? -kLeastNormal : sum;", "? sum : sum;"),
        ("adds_lanes.cu", "unaligned == 0 ?", "true ?"),
        ("adds_lanes.cu", "begin + last - n_own;", "begin;"),
        ("lane_passes.cuh", "seen = line_of_row[j];", ""),
    ],
    ids=[
        "an edge that lowers a lane by 1 is left out",
        "a bound is flushed to zero",
        "lanes that do not reach the hub count as aligned",
        "the threads of a warp list their chunks at one place",
        "a line is compared with that of another vertex",
    ],
)
def test_a_fault_in_lanes_is_found(tmp_path, monkeypatch, file, line, fault):
    plant(tmp_path, monkeypatch, f"adds_lanes/{file}", line, fault)
    assert run_on_cpu(str(ADDS_LANES), "-x", *SHORT_LANES).returncode == 1


@pytest.mark.slow
def test_light_edges_first_are_exact():
    # The blocks of a larger grid wait for each other.
    done = run_on_cpu(str(LIGHT_EDGES), "-k", "not all")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@planted(
    ("file", "line", "fault"),
    [
        ("relax_rows.cuh", "wanted[i] && sum_of(next.held->least, edges[i].weight) < bounds[i];", "false;"),
        ("frontier_bellman_ford.cu", "tentative.distance(v) > reach", "tentative.distance(v) >= limit"),
        ("frontier_bellman_ford.cu", "atomicMin(&held.least, d);", "held.least = limit - 1;"),
        ("light_edges.cu", "sum_of(kAtSource, edge.weight) <= bound", "edge.weight <= bound"),
    ],
    ids=[
        "heavy edges lower nothing",
        "only vertices without a path read heavy edges",
        "heavy edges are expected to begin farther away than they do",
        "an edge of -0.0 is heavy",
    ],
)
def test_a_fault_in_light_edges_is_found(tmp_path, monkeypatch, file, line, fault):
    plant(tmp_path, monkeypatch, f"frontier_bellman_ford/{file}", line, fault)
    done = run_on_cpu(str(LIGHT_EDGES), "-x", "-k", "true_distances and (uint32 or float32)")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    "files", [(PATH_SUMS, PATH_SWEEP, BETWEENNESS), (PATHS_OF_PARTS, BETWEENNESS_OF_RUNS)]
)
def test_sums_along_paths_are_those_of_the_cpu(files):
    # Blocks of `adds-lanes` wait for each other.
    done = run_on_cpu(*map(str, files), "-k", "not adds-lanes")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@planted(
    ("line", "fault"),
    [
        ("is_equal && from[i] < to[i]", "is_equal"),
        ("            waiting[v] = 0;\n", ""),
        (
            "more.lower < more.lower) {\n        upper += 1;  // P1\n    }",
            "more.lower < more.lower) {\n    }",
        ),
        ("(total.lower < added.lower ? 1 : 0)", "0"),
        ("upper < upper;", "upper > upper;"),
        ("to_u.upper >> 63 != 0", "false"),
        ("begin = waiting[order[begin]];  // P3", "begin = 0;"),
        ("begin == 0);", "false);"),
        ("before = __dadd_rn(before,", "before = __dadd_rn(0.0,"),
        ("e < last && is_tight(e)", "e < last"),
        ("call.decay > 0.0 && amount > 0.0", "false"),
        ("add_wide(ends(), as_wide(amount));", "add_wide(ends(), as_wide(1.0));"),
    ],
    ids=[
        "a weight that a float loses is tight",
        "counters of an earlier row",
        "sums without carries",
        "totals of rows without carries",
        "a sum that is too large is kept",
        "a number of paths of 128 bits is kept",
        "the rounds before the last one are one",
        "the source is a target",
        "a hub has the rate of its last edge",
        "edges that are not tight",
        "no decay",
        "each path counts 1 at its source",
    ],
)
def test_a_fault_in_sums_along_paths_is_found(tmp_path, monkeypatch, line, fault):
    plant(tmp_path, monkeypatch, "common/rows/path_sums.cu", line, fault)
    done = run_on_cpu("-x", str(PATH_SUMS))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed" in done.stdout


@pytest.mark.slow
def test_second_costs_are_those_of_the_cpu():
    # Blocks of `adds-lanes` wait for each other.
    done = run_on_cpu(str(SECOND_COSTS), "-k", "not adds-lanes")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@planted(
    ("line", "fault"),
    [
        ("from < to && sum_of(from, weight) == to;", "sum_of(from, weight) == to;"),
        ("for (word32 i = kTogether; i-- > 0;) {", "for (word32 i = 0; i < kTogether; ++i) {"),
        ("__ffs(tight) - 1", "31 - __clz(tight)"),
        ("totals[i] -= passed[v];  // I2", ""),
        ("links[call.n_walks + i] = 0;", "links[call.n_walks + i] = kNone;"),
        ("links[to + i] = links[from + other];", "links[to + i] = kNone;"),
        ("sum - passed[v] + (owner", "sum + (owner"),
        ("                    shared.is_left = 1;\n", ""),
        ("            call.left[shared.row] = 1;\n", ""),
        ("* 2 * call.n_columns + i", "* call.n_columns + i"),
    ],
    ids=[
        "a weight that a float loses is tight",
        "the last tight edge of a vertex",
        "the last tight edge of a hub",
        "a walk counts what the other one passed before they met",
        "sums that are not there yet",
        "a walk needs no more than the one that it met",
        "a vertex counts what its walk passed before",
        "a walk that cannot go on has a sum",
        "rows are not marked as left",
        "the nearest vertices of another row",
    ],
)
def test_a_fault_in_second_costs_is_found(tmp_path, monkeypatch, line, fault):
    plant(tmp_path, monkeypatch, "common/rows/second_costs.cu", line, fault)
    done = run_on_cpu("-x", str(SECOND_COSTS), "-k", "not adds-lanes")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed" in done.stdout


def assert_found(tmp_path, monkeypatch, file, line, fault, solver="phast-gpu"):
    """Assert that the fuzzer fails if `file` has `fault` in place of `line`."""
    plant(tmp_path, monkeypatch, file, line, fault)
    done = emulated(FUZZ, "--solver", solver, "--graphs", "150", "--seed", "6", "--most-failures", "1")
    assert done.returncode == 1
    assert "FAILURE" in done.stdout


def plant(tmp_path, monkeypatch, file, line, fault):
    """Go to a copy of the package in which `file` has `fault` in place of `line`."""
    copy = tmp_path / "copy"
    shutil.copytree(Path(__file__).parents[3] / "sssp_pipeline", copy / "sssp_pipeline")
    source = copy / "sssp_pipeline" / "kernels" / "gpu" / file
    text = source.read_text(encoding="utf-8")
    assert text.count(line) == 1
    source.write_text(text.replace(line, fault), encoding="utf-8")
    monkeypatch.chdir(copy)


@pytest.fixture
def lab(tmp_path):
    """Give a function that runs the lab for `phast-gpu` on a small graph with a file in the place of `climb.cu`."""
    made = grid(rows=9, cols=9, keep=0.8)
    np.savetxt(tmp_path / "edges.txt", np.stack([made.src, made.dst, made.weights], axis=1), "%d")
    store, source = str(tmp_path / "store"), tmp_path / "my_climb.cu"
    ingest(Graph(input=str(tmp_path / "edges.txt"), store=store), store, Quiet())

    def run(old: str, new: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        text = SOURCES["climb"].read_text(encoding="utf-8")
        assert text.count(old) == 1
        source.write_text(text.replace(old, new), encoding="utf-8")
        size = "--graph", store, "--sources", "40", "--rounds", "2", "--arch", "90"
        return emulated(LAB, "phast-gpu", *size, "--source-file", str(source), *arguments)

    return run


def cells(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines() if line]


@pytest.mark.medium
def test_the_lab_shows_launches_and_equal_rows(lab):
    done = lab("call.seeded[i] = 0;", "call.seeded[i] = 0u;")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = cells(done.stdout)
    climb = [line for line in lines if line[0] == "climb_kernel"]
    assert [line[1] for line in climb] == ["package", "my_climb.cu"]
    assert {line[-1] for line in climb} == {"1"}
    assert [line[0] for line in lines if "16 of 16" in " ".join(line)] == ["package", "my_climb.cu"]


@pytest.mark.medium
def test_the_lab_finds_a_fault_of_a_changed_kernel(lab):
    done = lab("call.seeded[i] = 0;", "")
    assert done.returncode == 1
    assert "16 of 16" in next(
        " ".join(line) for line in cells(done.stdout) if line[:1] == ["package"] and "of" in line
    )
    assert "error: my_climb.cu is wrong from source " in done.stderr


@pytest.mark.medium
def test_a_kernel_that_was_not_launched_is_no_success(lab):
    done = lab("call.seeded[i] = 0;", "call.seeded[i] = 0u;", "--kernel", "clear_kernel")
    assert done.returncode == 1
    assert "error: package: `clear_kernel` was not launched, so nothing was compared" in done.stderr
