"""A SLURM of one node on this machine, for tests: Debian's `slurm-wlm` and `munge`, as root.

`python tests/deploy/local_slurm.py` runs one until Ctrl-C, and prints what to export for it.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
#: Seconds for the daemons to answer.
START_S = 30


def slurm_missing() -> str | None:
    """Return why no SLURM can be started here, or None."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"no {', '.join(absent)}: install slurm-wlm and munge"
    return None if os.geteuid() == 0 else "SLURM's daemons need root"


@contextmanager
def local_slurm(folder: Path) -> Iterator[dict[str, str]]:
    """Give the environment in which `sbatch`, `srun` and `squeue` speak to a SLURM of one node.

    Jobs may take all cores and two GPUs, which are there by name only; daemons and jobs end with the block. `folder`
    gets configuration, state and logs; its path must be short enough for a socket.
    """
    conf = _write_configuration(folder)
    environment = {**os.environ, "SLURM_CONF": str(conf)}
    with ExitStack() as daemons:
        for command in (
            ["munged", "--foreground", f"--socket={folder}/munge.socket", f"--key-file={folder}/munge.key"]
            + [f"--{name}-file={folder}/munge.{name}" for name in ("pid", "log", "seed")],
            ["slurmctld", "-D", "-i", "-f", str(conf)],
            ["slurmd", "-D", "-f", str(conf)],
        ):
            daemons.enter_context(_daemon(command, folder / f"{command[0]}.out", environment))
        daemons.callback(_cancel_all, environment)
        _wait_until_idle(environment, folder)
        yield environment


def _write_configuration(folder: Path) -> Path:
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    # munged wants its folder closed to others, slurmctld its state to be there.
    folder.chmod(0o755)
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    host = socket.gethostname().split(".")[0]
    controller, node = _free_ports(2)
    (folder / "gres.conf").write_text("Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n")
    conf = folder / "slurm.conf"
    conf.write_text(f"""\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={controller}
SlurmdPort={node}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0,sched_interval=1
MpiDefault=none
ReturnToService=2
KillWait=5
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} RealMemory={psutil.virtual_memory().total >> 20} Gres=gpu:2
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
""")
    return conf


def _free_ports(n: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [listening.getsockname()[1] for listening in sockets]
    for listening in sockets:
        listening.close()
    return ports


@contextmanager
def _daemon(command: list[str], log: Path, environment: dict[str, str]) -> Iterator[None]:
    with (
        log.open("wb") as out,
        subprocess.Popen(command, stdout=out, stderr=out, env=environment) as process,
    ):
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait_until_idle(environment: dict[str, str], folder: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        answer = subprocess.run(
            ["sinfo", "--noheader", "--format=%T"],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        if answer.stdout.strip() == "idle":
            return
        time.sleep(0.2)
    logs = "\n".join(f"{log}: {log.read_text()}" for log in sorted(folder.glob("*.out")))
    raise RuntimeError(f"SLURM does not start: {answer.stdout}{answer.stderr}\n{logs}")


def _cancel_all(environment: dict[str, str]) -> None:
    subprocess.run(["scancel", "--user=root"], capture_output=True, env=environment, check=False)
    deadline = time.monotonic() + START_S
    while (
        time.monotonic() < deadline
        and subprocess.run(["squeue", "--noheader"], capture_output=True, env=environment, check=False).stdout
    ):
        time.sleep(0.2)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place, local_slurm(Path(place)) as there:
        print(f"export SLURM_CONF={there['SLURM_CONF']}", flush=True)
        try:
            while True:
                time.sleep(60)
        except KeyboardInterrupt:
            pass
