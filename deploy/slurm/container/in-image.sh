#!/usr/bin/env bash
# Runs `dask` or `sssp-pipeline` in the image $SSSP_IMAGE: one of Enroot if its name ends with .sqsh, else of Apptainer.
# run.sbatch puts the links to this file on the PATH. The container sees the folder of the job and those in $SSSP_MOUNTS.
# Apptainer passes all variables on. Enroot gets the ones of Dask, of this program and of object storage.
set -euo pipefail

command=${0##*/}
folders=("$SLURM_SUBMIT_DIR")
read -ra more <<<"${SSSP_MOUNTS:-}"
folders+=("${more[@]}")

options=()
if [[ $SSSP_IMAGE == *.sqsh ]]; then
    for folder in "${folders[@]}"; do
        options+=(--mount "$folder:$folder:none:x-create=dir,rbind")
    done
    # Names without values: every user of the node can read the arguments of a process.
    for name in $(compgen -e | grep -E '^(AWS|AZURE|DASK|GOOGLE|SSSP)_' || true); do
        options+=(--env "$name")
    done
    # The script takes the place of the entry point, which would leave the folder of the job.
    exec enroot start "${options[@]}" --env "SSSP_FOLDER=$PWD" --rc "$(dirname "$0")/enroot.rc" "$SSSP_IMAGE" \
        "$command" "$@"
fi
for folder in "${folders[@]}"; do
    options+=(--bind "$folder")
done
if nvidia-smi --list-gpus >/dev/null 2>&1; then
    options+=(--nv)
fi
unset PYTHONHOME PYTHONPATH # of the machine, not of the image
exec apptainer exec --pwd "$PWD" "${options[@]}" "$SSSP_IMAGE" "$command" "$@"
