"""Fixtures of the tests of GPU solvers."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def nvrtc():
    """Give the module `benchmarks/nvrtc.py`; tests that take it are skipped where NVRTC is not installed."""
    path = Path(__file__).parents[3] / "benchmarks" / "nvrtc.py"
    spec = importlib.util.spec_from_file_location("nvrtc", path)
    module = sys.modules["nvrtc"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if module.library() is None:
        pytest.skip("NVRTC is not installed: pip install nvidia-cuda-nvrtc-cu12")
    return module
