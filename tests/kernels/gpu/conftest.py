"""Fixtures of the tests of GPU solvers."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def nvrtc():
    """Give the module `nvrtc.py`; tests that take it are skipped where NVRTC is not installed."""
    spec = importlib.util.spec_from_file_location("nvrtc", Path(__file__).with_name("nvrtc.py"))
    module = sys.modules["nvrtc"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if module.library() is None:
        pytest.skip("NVRTC is not installed: pip install nvidia-cuda-nvrtc-cu12")
    return module
