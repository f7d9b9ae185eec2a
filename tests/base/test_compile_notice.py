"""The notice that kernels are being compiled: once in a process, and only if they are."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from sssp_pipeline.base import compile_notice
from sssp_pipeline.kernels.gpu.common.cuda import compile as _compile
from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit

NOTICE = "compiling, once: later runs find the compiled kernels"


@pytest.fixture
def notified(monkeypatch):
    """Give the list of notices of a process that has compiled nothing yet."""
    monkeypatch.setattr(compile_notice, "_has_notified", False)
    notices: list[str] = []
    with compile_notice.on_first_compilation(lambda: notices.append("compiling")):
        yield notices


@pytest.mark.medium
def test_a_run_says_once_that_it_compiles_and_never_again(tmp_path):
    (tmp_path / "edges.txt").write_text("0 1 5\n1 2 6\n2 0 1\n")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    for folder, times in (("first", 1), ("second", 0)):
        command = f"-m sssp_pipeline.cli run edges.txt --from 0 --out {folder}".split()
        done = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr.splitlines().count(NOTICE) == times


@pytest.mark.medium
def test_a_call_from_python_says_once_that_it_compiles_and_never_again(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    solve = "sp.solve(numpy.ones((2, 2), numpy.uint32), 0, solver='dijkstra');"
    for expected in (f"{NOTICE}\n", ""):
        command = [sys.executable, "-c", f"import numpy, sssp_pipeline as sp; {solve} {solve}"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stderr == expected


def test_the_first_kernel_is_notified_once(notified):
    compile_notice.compilation_began()
    compile_notice.compilation_began()
    assert notified == ["compiling"]


@pytest.mark.parametrize(("takes_s", "expected"), [(0.0, []), (0.5, ["compiling"])])
def test_a_slow_nvrtc_is_notified_and_a_binary_from_the_cache_is_not(
    notified, monkeypatch, takes_s, expected
):
    function = SimpleNamespace(num_regs=8, local_size_bytes=0)

    class Module:
        def __init__(self, **_):
            pass

        def compile(self, log_stream):
            time.sleep(takes_s)

        def get_function(self, name):
            return function

    compiler = SimpleNamespace(CompileException=RuntimeError)
    cupy = SimpleNamespace(RawModule=Module, cuda=SimpleNamespace(compiler=compiler))
    monkeypatch.setattr(_compile, "cupy_module", lambda: cupy)
    monkeypatch.setattr(_compile, "_COMPILES_S", 0.1)
    unit = Unit("near_far", ("near_far_kernel",))
    kernels = _compile._load.__wrapped__(
        0, unit, unit.kernels, _compile.kernel_options(unit, np.dtype("uint32"))
    )
    assert kernels["near_far_kernel"].registers == 8
    time.sleep(0.2)
    assert notified == expected
