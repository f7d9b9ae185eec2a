# shellcheck shell=bash
# Sourced by slurm/run.sbatch and ssh/run.sh: a scheduler on this machine, and the run that it serves. Under TLS, since
# Dask runs what anyone sends who reaches its ports, and on most clusters other people do.

deploy=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# start_scheduler FOLDER [OPTIONS]: with these options of `dask scheduler`; leaves its pid in $scheduler, its address in
# $address, and its log in FOLDER.
start_scheduler() {
    local folder=$1
    shift
    "$deploy/tls/make-certificates.sh" "$folder/tls"
    export DASK_CONFIG=$folder/tls
    # The dashboard is not under TLS: this machine's users see it, others through a tunnel. A session of its own keeps
    # Ctrl-C from it: the run ends first.
    setsid dask scheduler --port 0 --dashboard-address 127.0.0.1:0 --scheduler-file "$folder/scheduler.json" "$@" \
        >"$folder/scheduler.log" 2>&1 &
    scheduler=$!
    address=
    until [ -n "$address" ]; do
        if ! kill -0 "$scheduler" 2>/dev/null; then
            echo "error: the scheduler does not start: $(tail -n 1 "$folder/scheduler.log")" >&2
            return 1
        fi
        sleep 0.2
        address=$(sed -n 's/.*"address": "\(.*\)".*/\1/p' "$folder/scheduler.json" 2>/dev/null || true)
    done
}

# run_workflow WORKFLOW [OPTIONS]: with these options of `sssp-pipeline run`, on that scheduler's workers.
run_workflow() {
    sssp-pipeline run "$@" --set cluster.kind=address --set "cluster.address=$address"
}

# stop_scheduler FOLDER [PIDS]: its workers end with it; a worker that never found it ends with its process of PIDS.
stop_scheduler() {
    local folder=$1
    shift
    kill "${scheduler:-}" "$@" 2>/dev/null || true
    wait
    rm -rf "$folder/tls" "$folder/scheduler.json"
}
