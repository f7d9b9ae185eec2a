"""A short run of the fuzzer, and every input that has ever failed."""

import subprocess
import sys
from pathlib import Path

import pytest
from fuzz import kept
from makers import MAKERS, made

pytestmark = pytest.mark.medium

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"


def fuzzed(tmp_path: Path, *options: str) -> str:
    """Return what the fuzzer prints; it must find no failure. It has a process of its own, since inputs may end it."""
    done = subprocess.run(
        [sys.executable, str(HERE / "fuzz.py"), "--failures", str(tmp_path), *options],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize("n_inputs", [100, pytest.param(600, marks=pytest.mark.slow)])
def test_mutated_inputs(tmp_path, n_inputs):
    printed = fuzzed(tmp_path, "--inputs", str(n_inputs), "--seed", "1")
    for name in MAKERS:
        assert f"{name}: {n_inputs} inputs" in printed


def test_inputs_that_once_failed(tmp_path):
    assert kept(CORPUS)
    fuzzed(tmp_path, "--corpus", str(CORPUS))


@pytest.mark.parametrize("name", MAKERS)
def test_an_input_follows_from_seed_and_number(name):
    assert made(name, 7, 11) == made(name, 7, 11)
    assert len({made(name, 7, number).content for number in range(50)}) > 40
