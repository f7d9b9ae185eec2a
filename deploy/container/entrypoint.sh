#!/bin/sh
# `dask scheduler`, `dask worker`, `dask cuda worker`: Dask's commands, so that one image serves every pod of a cluster.
# All else goes to sssp-pipeline: `docker run IMAGE run workflow.yaml`.
set -eu
if [ "${1-}" != dask ]; then
    set -- sssp-pipeline "$@"
fi
exec "$@"
