"""The lab for kernels, without a GPU: kernels are compiled by NVRTC. `test_emulated.py` runs them."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.gpu.common.cuda.compile import SOURCES, kernel_options
from sssp_pipeline.pipeline.ingest.into_store import ingest
from sssp_pipeline.workflow.graph import Graph

NEAR_FAR = SOLVERS["near-far"].units[0], np.dtype("uint32")
KERNEL = "near_far_search_kernel"


@pytest.fixture
def lab(benchmark_module, monkeypatch, tmp_path, capsys):
    """Give a function that runs the lab for a small graph and returns exit code, output and errors."""
    program = benchmark_module("lab")
    if program.nvrtc.library() is None:
        pytest.skip("NVRTC is not installed: pip install nvidia-cuda-nvrtc-cu12")
    monkeypatch.setattr(program, "gpu_missing", lambda: "no GPU is used")
    monkeypatch.delenv("SSSP_TEST_DATA", raising=False)
    (tmp_path / "edges.txt").write_text("1 2 3\n2 5 4\n5 1 1\n")
    store = str(tmp_path / "store")
    ingest(Graph(input=str(tmp_path / "edges.txt"), store=store), store, Quiet())

    before = kernel_options(*NEAR_FAR)

    def run(*arguments: str) -> tuple[int, str, str]:
        graph = () if "--graph" in arguments else ("--graph", store)
        monkeypatch.setattr(sys, "argv", ["lab.py", "--sources", "2", "--arch", "90", *graph, *arguments])
        with pytest.raises(SystemExit) as ended:
            program.main()
        assert kernel_options(*NEAR_FAR) == before, "the next program compiles the package again"
        return ended.value.code, *capsys.readouterr()

    return run


@pytest.fixture
def changed(tmp_path):
    """Give a function that writes a changed `near_far.cu`."""

    def write(old: str, new: str, name: str = "my_near_far.cu") -> str:
        text = SOURCES["near_far"].read_text(encoding="utf-8")
        assert text.count(old) > 0
        (tmp_path / name).write_text(text.replace(old, new), encoding="utf-8")
        return str(tmp_path / name)

    return write


def rows(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines() if line.startswith(KERNEL)]


@pytest.mark.medium
def test_registers_of_the_package_and_of_a_changed_file_are_side_by_side(lab, changed):
    limits = "__launch_bounds__(SSSP_THREADS, SSSP_BLOCKS_PER_SM)"
    file = changed(limits, "__launch_bounds__(SSSP_THREADS, 4)")
    code, output, errors = lab("near-far", "--source-file", file)
    assert (code, errors) == (0, "compiled and not run: no GPU is used\n")
    package, mine = rows(output)
    assert package[1:4] == ["package", "THREADS=512", "BLOCKS_PER_SM=2"]
    assert mine[1] == "my_near_far.cu"
    registers = [int(row[4]) for row in (package, mine)]
    assert registers[0] > registers[1]
    assert registers[1] <= 65536 // 2048
    assert int(mine[5]) > 0, "so few registers spill"


@pytest.mark.medium
def test_a_changed_header_next_to_the_file_comes_first(lab, changed, tmp_path):
    text = (SOURCES["near_far"].parent / "piles.cuh").read_text(encoding="utf-8")
    (tmp_path / "piles.cuh").write_text("#error changed\n" + text, encoding="utf-8")
    code, _, errors = lab("near-far", "--source-file", changed("//", "//"))
    assert code == 2
    assert f"{tmp_path}/piles.cuh(1): catastrophic error: #error directive: changed" in errors


@pytest.mark.medium
def test_one_kernel_is_shown_with_each_of_its_builds(lab):
    code, output, _ = lab("adds-lanes", "--kernel", "adds_lanes_rows_kernel")
    lines = [line.split() for line in output.splitlines()[3:] if line]
    assert (code, [line[0] for line in lines]) == (0, ["adds_lanes_rows_kernel"] * 2)
    assert [line[4] for line in lines] == ["NARROW=0", "NARROW=1"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            ["near-fra"],
            "error: unknown solver `near-fra`\n\nhint: did you mean `near-far`? Solvers: near-far,",
        ),
        (["dijkstra"], "error: solver `dijkstra` has no kernels on a GPU\n\nhint: Solvers: near-far,"),
        (
            ["near-far", "--kernel", "near_far_kernel"],
            "error: `near-far` has no kernel `near_far_kernel` for uint32 weights\n\nhint: did you mean "
            f"`{KERNEL}`? Kernels: {KERNEL}\n",
        ),
        (["near-far", "--graph", "nyy"], "lab.py: error: unknown graph `nyy`; graphs: ny, "),
        (["near-far", "--graph", "ny"], "graph `ny` is read from a file: set --data or SSSP_TEST_DATA\n"),
        (["near-far", "--source-file", "absent.cu"], "error: there is no file `absent.cu`\n"),
        (
            ["near-far", "--sources", "4"],
            "error: there cannot be 4 sources\n\nhint: --sources is 1 to 3: vertices with edges\n",
        ),
        (["near-far", "--arch", "91"], "error: NVRTC does not compile for sm_91\n\nhint: --arch is one of ["),
        (["phast-gpu", "--dtype", "float32"], "error: `phast-gpu` cannot solve this: it adds weights in"),
    ],
)
def test_what_is_unknown_is_one_error(lab, arguments, error):
    code, output, errors = lab(*arguments)
    assert (code, output) == (2, "")
    assert error in errors
    assert "Traceback" not in errors


def test_a_folder_without_a_graph_is_refused(lab, tmp_path):
    (tmp_path / "empty").mkdir()
    code, _, errors = lab("near-far", "--graph", str(tmp_path / "empty"))
    assert code == 2
    assert "is not a graph store" in errors


def test_a_file_that_replaces_nothing_is_refused(lab, changed):
    file = changed("//", "//", name="mine.cu")
    code, _, errors = lab("near-far", "--source-file", file)
    assert code == 2
    assert errors == (
        f"error: `{file}` has the name of no file of `near-far`\n\n"
        "hint: let its name end with one of these, or add --kernel: near_far.cu\n"
    )


@pytest.mark.medium
@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (
            "kTogether = 2;",
            "kTogether = two;",
            "error: my_near_far.cu does not compile\n{file}({line}): error: ",
        ),
        (
            "kTogether = 2;",
            "kTogether = 2;\n#warning careless",
            "error: my_near_far.cu: `near_far.cu` compiles",
        ),
        (KERNEL, "other_kernel", f"error: my_near_far.cu: there is no kernel `{KERNEL}`\n\nhint: a file in"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_error_with_its_line(lab, changed, old, new, error):
    file = changed(old, new)
    before = SOURCES["near_far"].read_text(encoding="utf-8").partition(old)[0]
    code, output, errors = lab("near-far", "--source-file", file)
    assert (code, output) == (2, "")
    assert errors.startswith(error.format(file=file, line=before.count("\n") + 1))
    assert "Traceback" not in errors


@pytest.mark.medium
def test_the_profiler_gets_the_same_command_with_one_call(lab, changed, monkeypatch, tmp_path):
    file = changed("//", "//")
    monkeypatch.setenv("PATH", str(tmp_path))
    code, output, errors = lab("near-far", "--ncu", "--source-file", file)
    assert (code, errors) == (0, "not run: `ncu` (NVIDIA Nsight Compute) is not on the PATH\n")
    assert output.startswith("ncu --clock-control none ")
    assert f"--kernel-name 'regex:^({KERNEL})$'" in output
    assert "--ncu" not in output
    assert output.endswith(f" --source-file {file} --one-build --rounds 0\n")

    (tmp_path / "ncu").write_text("")
    (tmp_path / "ncu").chmod(0o755)
    run = []
    monkeypatch.setattr("os.execvp", lambda program, command: run.append((program, command)))
    code, output, _ = lab("near-far", "--ncu", "--kernel", KERNEL)
    assert (code, output, len(run)) == (0, "", 1)
    assert run[0][0] == run[0][1][0] == "ncu"
    assert run[0][1][-3:] == ["--one-build", "--rounds", "0"]
