#!/usr/bin/env bash
# Joins this machine to a cluster: a worker for each of its GPUs, or one for all its cores where it has none.
#
#   worker.sh ADDRESS [OPTIONS]      # options of `dask worker` and `dask cuda worker`
set -euo pipefail

# The scheduler is there first, so one that is not found soon cannot be reached. A worker whose scheduler ends does too.
common=(--death-timeout 60)
if nvidia-smi --list-gpus >/dev/null 2>&1; then
    # Of three threads one solves, one writes and one waits for the GPU.
    exec dask cuda worker --nthreads 3 "${common[@]}" "$@"
fi
# Dask takes the cores that a container allows; `nproc` would count those of the machine.
exec dask worker --nworkers 1 "${common[@]}" "$@"
