"""Runs a program with the CuPy of this folder: python run.py PROGRAM ARGUMENTS…"""

import runpy
import sys
from pathlib import Path

from sssp_pipeline.kernels.gpu.common.cuda import cupy_setup

found = tuple(cupy_setup.Finding(name, "ok", "emulated") for name in ("gpu", "cupy", "nvrtc"))
cupy_setup._look = lambda: found
sys.argv = sys.argv[1:]
sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))  # as Python does for a program
runpy.run_path(sys.argv[0], run_name="__main__")
