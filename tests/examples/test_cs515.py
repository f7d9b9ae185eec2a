"""The assignment's command line, its output file and its two lines."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from sssp_pipeline.base.generators import rmat
from sssp_pipeline.pipeline.planning import machine

PROGRAM = Path(__file__).parents[2] / "examples" / "cs515" / "cs515.py"
_spec = importlib.util.spec_from_file_location("cs515", PROGRAM)
cs515 = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cs515)

#: Figure 1 of the assignment, not in order, and an edge that leads nowhere near.
FIGURE = "# from to weight\n4 3 4\n0\t1\t4\n0 2 2\n1 2 5\n1 3 10\n2 4 3\n3 5 11\n7 0 1\n"
SOLVED = "0:0\n1:4\n2:2\n3:9\n4:5\n5:20\n7:inf\n"
LINE = r"The total (computation|filtering) kernel time on (CPU|GPU) \[[^]]+\] is \d+\.\d{3} milli-seconds\n"
NO_GPU = "no NVIDIA driver (libcuda.so.1)"


@pytest.fixture
def at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text(FIGURE)
    return tmp_path


@pytest.fixture
def no_gpu(monkeypatch):
    """Whether there is a GPU or not, there is none."""
    for module in (cs515, machine):
        monkeypatch.setattr(module, "gpu_missing", lambda: NO_GPU)


@pytest.fixture
def invoke(capsys):
    """Give a function that runs the program and returns its exit code and what it printed."""

    def run(*arguments: str):
        exit_code = 0
        try:
            cs515.main(arguments)
        except SystemExit as ended:
            exit_code = ended.code
        out, err = capsys.readouterr()
        return SimpleNamespace(exit_code=exit_code, stdout=out, stderr=err)

    return run


def test_opt_on_the_figure(at, no_gpu, invoke):
    result = invoke("-input", "in.txt", "-output", "out.txt", "-method", "opt")
    assert result.exit_code == 0, result.stderr
    assert re.fullmatch(2 * LINE, result.stdout)
    assert result.stdout.count("on CPU [") == 2
    assert result.stdout.splitlines()[1].endswith("] is 0.000 milli-seconds")
    assert Path("out.txt").read_text() == SOLVED


def test_weights_are_1_and_the_source_is_0_unless_given(at, no_gpu, invoke):
    Path("in.txt").write_text("0 1\n1 2\n2 9\n1 1\n1 2\n")
    assert invoke("--input", "in.txt", "--output", "a.txt", "--method", "opt").exit_code == 0
    assert Path("a.txt").read_text() == "0:0\n1:1\n2:2\n9:3\n"
    assert invoke("--input", "in.txt", "--output", "b.txt", "--method", "opt", "--source", "2").exit_code == 0
    assert Path("b.txt").read_text() == "0:inf\n1:inf\n2:0\n9:1\n"


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (
            ["--method", "bmf"],
            f"`--method bmf` needs a GPU: {NO_GPU}",
            "`--method opt` chooses the fastest solver on this machine; without a GPU that is a CPU solver",
        ),
        (
            ["--method", "tpe", "--order", "source"],
            "solver `work-efficient` has no option `order`",
            "Options: block_count, block_size, filter, sync",
        ),
        (
            ["--method", "opt", "--sync", "incore", "--bcount", "4"],
            "`--method opt` does not go with `--sync`, `--bcount`",
            "it chooses the solver that is expected to finish first, with its own defaults",
        ),
        (
            ["--method", "opt", "--source", "6"],
            "source `6` is not in the graph",
            "the 7 ids of the graph run from 0 to 7",
        ),
    ],
)
def test_what_cannot_be_is_told_and_the_output_stays_as_it_was(at, no_gpu, invoke, options, message, hint):
    Path("out.txt").write_text("before")
    result = invoke("--input", "in.txt", "--output", "out.txt", *options)
    assert result.exit_code == 2
    assert result.stderr.endswith(f"error: {message}\n\nhint: {hint}\n")
    assert result.stdout == ""
    assert Path("out.txt").read_text() == "before"
    assert sorted(p.name for p in at.iterdir()) == ["in.txt", "out.txt"]


def test_a_word_that_is_no_choice_is_refused(at, invoke):
    for option in (["--method", "dijkstra"], ["--method", "opt", "--sync", "in-core"]):
        assert invoke("--input", "in.txt", "--output", "out.txt", *option).exit_code == 2


def test_lines_of_several_pieces_and_of_fractions(at, monkeypatch):
    monkeypatch.setattr(cs515, "LINES_PER_WRITE", 2)
    ids = pa.array([3, 5, 8, 13, 21])
    cs515.write_distances("out.txt", ids, np.array([0, 0.1, np.inf, 1e30, 2], np.float32))
    assert Path("out.txt").read_text() == "3:0\n5:0.1\n8:inf\n13:1e+30\n21:2\n"
    cs515.write_distances("out.txt", ids, np.array([0, -7, 2**31 - 1, 4, 5], np.int32))
    assert Path("out.txt").read_text() == "3:0\n5:-7\n8:inf\n13:4\n21:5\n"


@pytest.mark.gpu
@pytest.mark.parametrize("sync", ["incore", "outcore"])
@pytest.mark.parametrize("method", ["bmf", "tpe"])
def test_the_assignments_command_line_on_a_gpu(at, invoke, method, sync):
    line = f"-input in.txt -bsize 256 -bcount 8 -output out.txt -method {method} -sync {sync}"
    result = invoke(*line.split())
    assert result.exit_code == 0, result.stderr
    assert re.fullmatch(2 * LINE, result.stdout)
    assert result.stdout.count("on GPU [NVIDIA") == 2
    filtering = float(result.stdout.splitlines()[1].split()[-2])
    assert (filtering > 0) == (method == "tpe")
    assert Path("out.txt").read_text() == SOLVED


@pytest.mark.gpu
def test_by_destination_with_segments_on_a_gpu(at, invoke):
    made = rmat(scale=10)
    lines = zip(made.src.tolist(), made.dst.tolist(), made.weights.tolist(), strict=True)
    Path("in.txt").write_text("".join(f"{u} {v} {w}\n" for u, v, w in lines))
    options = ["--input", "in.txt", "--source", str(int(made.src[0]))]
    assert invoke(*options, "--output", "opt.txt", "--method", "opt").exit_code == 0
    by_target = ["--sync", "outcore", "--order", "destination", "--segment-minimum"]
    assert invoke(*options, "--output", "bmf.txt", "--method", "bmf", *by_target).exit_code == 0
    assert Path("bmf.txt").read_text() == Path("opt.txt").read_text()
    assert Path("opt.txt").read_text().count(":inf") < made.n_vertices
