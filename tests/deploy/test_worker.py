"""What a machine joins a cluster with: its GPUs, or its cores."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

WORKER = Path(__file__).parents[2] / "deploy" / "worker.sh"


@pytest.mark.parametrize(
    ("nvidia_smi", "called"),
    [
        ("exit 0", "cuda worker --nthreads 3 --death-timeout 60 tls://a:1 --interface ib0"),
        # A driver without a GPU.
        ("exit 6", "worker --nworkers 1 --death-timeout 60 tls://a:1 --interface ib0"),
    ],
)
def test_a_worker_per_gpu_or_one_for_all_cores(tmp_path, nvidia_smi, called):
    for name, body in (("nvidia-smi", nvidia_smi), ("dask", 'echo "$*"')):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = [WORKER, "tls://a:1", "--interface", "ib0"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == called + "\n"
