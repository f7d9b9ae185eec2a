"""The SLURM script on a real SLURM of one node, which is started here where Debian's packages are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
#: Seconds for a job: four starts of Python with Dask, on a busy machine.
JOB_S = 120


@pytest.fixture
def clone(tmp_path):
    """A folder to submit from, with a workflow of a small graph."""
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    (tmp_path / "small.yaml").write_text(
        'graph: {input: "generated:grid?rows=9&cols=9&seed=1"}\n'
        "sources: {ids: [0, 80]}\noutput: {path: results}\nverify: certificate\n"
    )
    return tmp_path


def submitted(slurm: dict[str, str], clone: Path, *arguments: str, **variables: str) -> tuple[str, str, str]:
    """Submit the script, wait for its end, and return the job's number, how it ended, and what it printed."""
    path = f"{clone}:{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
    environment = {**slurm, "PATH": path, **variables}

    def asked(*command: str) -> str:
        done = subprocess.run(command, capture_output=True, text=True, cwd=clone, env=environment, check=True)
        return done.stdout

    job = asked("sbatch", "--parsable", "deploy/slurm/run.sbatch", *arguments).strip()
    deadline = time.monotonic() + JOB_S
    while asked("squeue", "--noheader", f"--jobs={job}", "--states=PD,R,CG"):
        assert time.monotonic() < deadline, (clone / f"sssp-{job}.log").read_text()
        time.sleep(0.2)
    ended = next(part for part in asked("scontrol", "show", "job", job).split() if "ExitCode=" in part)
    return job, ended, (clone / f"sssp-{job}.log").read_text()


def standing_in(folder: Path, program: str, then: str) -> None:
    """Put a `program` into `folder` that writes its arguments to `called`, and then runs the rest of them."""
    path = folder / program
    path.write_text(f'#!/bin/sh\necho "$*" >>"{folder}/called"\n{then}\nexec "$@"\n')
    path.chmod(0o755)


def test_a_job_runs_the_workflow_on_workers_of_its_own(slurm, clone):
    job, ended, printed = submitted(slurm, clone, "small.yaml", "--set", "solve.retries=1")
    assert ended == "ExitCode=0:0", printed
    assert "cluster: 1 worker, " in printed
    assert "verified 2 sources (certificate): every distance is exact" in printed
    assert pq.read_table(clone / "results" / "distances").num_rows == 2 * 81
    logs = {path.name for path in (clone / f"sssp-{job}").iterdir()}
    [worker_log] = logs - {"scheduler.log"}
    assert worker_log.startswith("worker-")
    assert "Scheduler at:     tls://" in (clone / f"sssp-{job}" / "scheduler.log").read_text()


def test_a_job_in_an_image_ends_with_the_exit_code_of_the_run_and_leaves_no_key(slurm, clone):
    standing_in(
        clone, "apptainer", 'while [ "$1" != sssp.sif ]; do shift; done; shift; PATH=${PATH#*container:}'
    )
    arguments = ("small.yaml", "--set", "solve.solver=adss")
    job, ended, printed = submitted(slurm, clone, *arguments, SSSP_IMAGE="sssp.sif")
    called = [
        line.partition("sssp.sif ")[2].split()[:2] for line in (clone / "called").read_text().splitlines()
    ]
    assert called[0] == ["dask", "scheduler"]
    assert ["sssp-pipeline", "run"] in called
    assert ended == "ExitCode=2:0"
    assert "hint: did you mean `adds`?" in printed
    assert not list((clone / f"sssp-{job}").glob("**/*.pem"))
