#!/usr/bin/env bash
# One workflow on machines that ssh reaches: a scheduler and the run here, a worker per GPU on each of them.
#
#   deploy/ssh/run.sh HOSTS WORKFLOW [OPTIONS]
#
# HOSTS is a file with a machine a line, as ssh takes it (`name`, `user@name`, a Host of ~/.ssh/config); this machine is
# one only if it is listed. OPTIONS are those of `sssp-pipeline run`. Ends with the run's exit code.
#
#   SSSP_BIN    folder of `dask` on the machines; that of this machine if not set
#   SSSP_HOST   name or address of this machine that they reach; that of its default route if not set
set -euo pipefail

if [ $# -lt 2 ]; then
    echo "usage: $0 HOSTS WORKFLOW [OPTIONS]" >&2
    exit 2
fi
mapfile -t hosts < <(sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$1")
if [ ${#hosts[@]} -eq 0 ]; then
    echo "error: \`$1\` names no machine" >&2
    exit 2
fi
shift
# shellcheck source=deploy/scheduler.sh
source "$(dirname "$0")/../scheduler.sh"
bin=${SSSP_BIN:-$(dirname "$(command -v dask)")}

on() {
    ssh -o BatchMode=yes -o ServerAliveInterval=15 "$@"
}

# join HOST: starts its workers and stays as long as the scheduler does. The certificates travel on the way that ssh
# protects, into a folder that goes with the workers.
join() {
    local folder
    # shellcheck disable=SC2016  # the other machine makes the folder
    folder=$(tar -C "$logs/tls" -c . -C "$deploy" worker.sh |
        on "$1" 'umask 077 && folder=$(mktemp -d) && tar -C "$folder" -x && echo "$folder"')
    # What comes from here has no content: its end, also that of a broken line, tells the other machine to stop. Workers
    # run in the folder of this name, so that on a shared one relative paths mean the same.
    tail --pid="$scheduler" -f /dev/null | on "$1" "
        sed -i 's|$logs/tls|$folder|' $folder/dask.yaml
        cd $(printf %q "$PWD") || cd /
        PATH=$(printf %q "$bin"):\$PATH DASK_CONFIG=$folder $folder/worker.sh $address &
        cat >/dev/null
        for second in 1 2 3 4 5; do  # a worker that still looks for its scheduler does not hear the first
            kill \$! 2>/dev/null || break
            sleep 1
        done
        wait
        rm -rf $folder"
}

logs=$(mktemp -d "$PWD/sssp-XXXXXX")
echo "logs: $logs"
trap 'stop_scheduler "$logs"' EXIT
start_scheduler "$logs" ${SSSP_HOST:+--host "$SSSP_HOST"}
for host in "${hosts[@]}"; do
    join "$host" >"$logs/worker-$host.log" 2>&1 &
done
run_workflow "$@"
