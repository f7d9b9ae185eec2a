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


def test_inputs_that_once_failed_and_mutated_ones(tmp_path):
    """The fuzzer has a process of its own, since an input may end it."""
    assert kept(CORPUS)
    options = ["--failures", str(tmp_path), "--seed", "1", "--inputs", "100", "--corpus", str(CORPUS)]
    done = subprocess.run(
        [sys.executable, str(HERE / "fuzz.py"), *options],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    for name in MAKERS:
        assert f"{name}: 100 inputs" in done.stdout


@pytest.mark.parametrize("name", MAKERS)
def test_an_input_follows_from_seed_and_number(name):
    assert made(name, 7, 11) == made(name, 7, 11)
    assert len({made(name, 7, number).content for number in range(20)}) > 15
