"""numba's cache: the next process sees a change in a helper module, and what did not change is not compiled again."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import pytest

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.numba_digests import HELPERS, whole_content
from sssp_pipeline.base.numba_files import Cache, CheckedFiles

PACKAGE = Path(__file__).parents[2] / "sssp_pipeline"
HELPER = "pipeline/formats/parsing/numbers_in_text.py"

#: Prints where the first byte of "0" is that is below `SPACE`, a constant of `HELPER`: nowhere, or at 0.
PROBE = """
import numpy as np
from sssp_pipeline.pipeline.formats.parsing.tokenizer import control_at
print(control_at(np.frombuffer(b"0", np.uint8)))
"""


@pytest.fixture
def copy(tmp_path) -> Path:
    """Give a copy of the package that no process has used."""
    return shutil.copytree(PACKAGE, tmp_path / "sssp_pipeline", ignore=shutil.ignore_patterns("__pycache__"))


def started(copy: Path, **variables: str) -> subprocess.Popen:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    environment |= {"PYTHONPATH": str(copy.parent)} | variables
    return subprocess.Popen(
        [sys.executable, "-c", PROBE], env=environment, cwd=copy.parent, stdout=subprocess.PIPE, text=True
    )


def printed(process: subprocess.Popen) -> str:
    printed, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return printed


def set_space(copy: Path, value: int) -> None:
    helper = copy / HELPER
    helper.write_text(helper.read_text().replace("SPACE = 32\n", f"SPACE = {value}\n"))


def cached(folder: Path) -> dict[str, int]:
    """Return when each file of numba's cache below `folder` was written."""
    return {p.name: p.stat().st_mtime_ns for p in folder.rglob("*") if p.suffix in (".nbi", ".nbc")}


@pytest.mark.medium
@pytest.mark.parametrize(
    "place",
    ["package", *(pytest.param(place, marks=pytest.mark.slow) for place in ("NUMBA_CACHE_DIR", "user"))],
)
def test_a_change_in_a_helper_module_reaches_the_next_process(copy, tmp_path, place):
    folder = tmp_path / "cache"
    variables = {"NUMBA_CACHE_DIR": str(folder)} if place == "NUMBA_CACHE_DIR" else {}
    if place == "package":
        folder = copy
    if place == "user":  # as where the package cannot be written
        (copy / HELPER).with_name("__pycache__").touch()
        variables = {"XDG_CACHE_HOME": str(folder)}
    assert printed(started(copy, **variables)) == "-1\n"
    before = cached(folder)
    assert len(before) == 2
    assert printed(started(copy, **variables)) == "-1\n"
    assert cached(folder) == before, "compiled again without a change"

    set_space(copy, 64)
    assert printed(started(copy, **variables)) == "0\n"
    after = cached(folder)
    assert len(after) == 2, "the files of the older digest stay"
    assert not after.keys() & before.keys()


@pytest.mark.medium
def test_several_processes_that_start_at_once_after_a_change_all_see_it(copy):
    printed(started(copy))
    set_space(copy, 64)
    processes = [started(copy) for _ in range(3)]
    assert [printed(process) for process in processes] == ["0\n"] * 3
    assert len(cached(copy)) == 2


def test_a_cache_that_cannot_be_written_is_an_error(tmp_path, monkeypatch):
    module, taken = tmp_path / "module.py", tmp_path / "taken"
    module.write_text("def kernel(): pass\n")
    for file in (taken, tmp_path / "__pycache__"):
        file.touch()  # where a folder would be
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(taken))
    monkeypatch.setenv("XDG_CACHE_HOME", str(taken))
    names: dict[str, Any] = {}
    exec(compile(module.read_text(), module, "exec"), names)
    with pytest.raises(InputError) as raised:
        Cache(names["kernel"], before_compiling=print)
    assert str(raised.value) == (
        f"no folder for compiled kernels can be written: neither `{tmp_path}` nor `{taken}/numba`"
    )
    assert raised.value.hint == "set NUMBA_CACHE_DIR to a folder that can be written"


def altered(content: bytes, begin: int, new: bytes) -> bytes:
    return content[:begin] + new + content[begin + len(new) :]


@pytest.mark.medium
@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_a_damaged_file_is_compiled_again(copy, suffix):
    assert printed(started(copy)) == "-1\n"
    (path,) = (p for p in copy.rglob("*") if p.suffix == suffix)
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(altered(whole, middle, bytes([whole[middle] ^ 4])))
    assert whole_content(path) is None
    assert printed(started(copy)) == "-1\n"
    assert whole_content(path) is not None, "it stays damaged"


def test_every_truncation_and_every_flipped_bit_is_seen(tmp_path):
    file = tmp_path / "f.nbc"
    with CheckedFiles(str(tmp_path), "f", (0, 0))._open_for_write(str(file)) as opened:
        opened.write(b"machine code" * 9)
    stored = file.read_bytes()
    assert whole_content(file) == b"machine code" * 9
    for i in range(len(stored)):
        file.write_bytes(stored[:i])
        assert whole_content(file) is None
        for bit in range(8):
            file.write_bytes(altered(stored, i, bytes([stored[i] ^ 1 << bit])))
            assert whole_content(file) is None


def taken_names(tree: ast.Module) -> set[str]:
    """Return the names that the compiled functions and the constants of a module use."""
    parts = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            decorators = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
            if any(isinstance(d, ast.Name) and d.id in ("njit", "intrinsic") for d in decorators):
                parts += node.body
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            parts.append(node)
    return {node.id for part in parts for node in ast.walk(part) if isinstance(node, ast.Name)}


@pytest.mark.medium
def test_the_digest_holds_every_module_from_which_kernels_take_something():
    missing = []
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
        modules = {alias.name: node.module for node in imports for alias in node.names}
        from_numba = [node.module for node in imports if any(alias.name == "njit" for alias in node.names)]
        assert name == "numba_cache.py" or from_numba in ([], ["sssp_pipeline.base.numba_cache"]), name
        if not from_numba and name not in HELPERS:
            continue
        for taken in taken_names(tree) & modules.keys():
            module = modules[taken]
            if module.startswith("sssp_pipeline."):
                folder = module.removeprefix("sssp_pipeline.").replace(".", "/")
                helper = f"{folder}/{taken}.py" if (PACKAGE / folder).is_dir() else f"{folder}.py"
                if helper not in HELPERS:
                    missing.append(f"{name} takes {taken} of {helper}")
    assert not missing
