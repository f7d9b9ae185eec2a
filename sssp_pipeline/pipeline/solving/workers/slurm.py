"""Kind `slurm`: workers in jobs."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

from dask.utils import parse_bytes

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.planning.machine import profiler_may_deadlock
from sssp_pipeline.pipeline.solving.workers.dask_start import LOOPBACK, needed_for, threads_of, tls_options
from sssp_pipeline.workflow.cluster import Cluster, Slurm

#: A shell line of a job. The shell starts the worker, so a setting travels as a variable.
_WITHOUT_PROFILER = "export DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED=False"


def cluster_class() -> Any:
    """Return the class of a cluster of SLURM jobs; raise `InputError` if SLURM does not answer."""
    with needed_for("slurm", "slurm"):
        from dask_jobqueue import SLURMCluster
    # Otherwise the run would wait for a job that was never submitted.
    for command in ("sbatch", "sinfo"):
        if shutil.which(command) is None:
            raise InputError(
                f"kind `slurm` cannot be started: there is no `{command}` here",
                hint="start the run on a machine with SLURM",
            )
    answer = subprocess.run(["sinfo", "--noheader"], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise InputError(
            f"kind `slurm` cannot be started: `sinfo` says {' '.join(answer.stderr.split())}",
            hint="start the run on a machine where SLURM answers",
        )
    return SLURMCluster


def cluster_options(spec: Cluster) -> dict[str, Any]:
    """Return the options of the cluster of jobs that `spec` describes."""
    slurm = spec.slurm or Slurm()
    processes = workers_per_job(spec)
    threads = threads_of(spec, slurm.gpus)
    host = spec.dashboard_host or LOOPBACK
    return {
        "queue": slurm.queue,
        "account": slurm.account,
        "walltime": slurm.walltime,
        "cores": threads * processes,
        "memory": f"{parse_bytes(spec.memory_limit) * processes}B",
        "processes": processes,
        "interface": slurm.interface,
        "job_script_prologue": [*([_WITHOUT_PROFILER] if profiler_may_deadlock() else []), *slurm.prologue],
        "job_extra_directives": [*([f"--gres=gpu:{slurm.gpus}"] if slurm.gpus else []), *slurm.directives],
        # The command of dask-cuda starts a worker for each GPU of the job, on the cores near that GPU.
        **({"worker_command": "dask_cuda.cli"} if slurm.gpus else {}),
        "scheduler_options": {"dashboard_address": f"{host}:0"},
        "worker_extra_args": ["--dashboard-address", f"{host}:0"],
        # For certificates, which every job reads.
        "shared_temp_directory": "~",
        **tls_options(spec),
    }


def workers_per_job(spec: Cluster) -> int:
    """Return the number of workers of a job: one for each GPU, otherwise one."""
    return max(1, spec.slurm.gpus) if spec.slurm is not None else 1


def remove_key_files(cluster: Any) -> None:
    """Remove the files with the certificates of the jobs; dask-jobqueue leaves them to garbage collection."""
    for name in ("_job_ca_file", "_job_cert", "_job_key"):
        if (file := getattr(cluster, name, None)) is not None:
            file.close()
