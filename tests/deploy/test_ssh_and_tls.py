"""The ssh recipe, with a stand-in for ssh that stays on this machine, and the certificates that it makes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import sysconfig
from pathlib import Path

import dask
import pyarrow.parquet as pq
import pytest
import yaml
from distributed import LocalCluster
from distributed.security import Security

DEPLOY = Path(__file__).parents[2] / "deploy"
#: Knows no more of the caller's environment than a login does.
SSH = """\
#!/bin/bash
while [ "$1" = -o ]; do shift 2; done
echo "$1" >>{calls}
exec env -i HOME="$HOME" PATH=/usr/bin:/bin TMPDIR={there} bash -c "$2"
"""


@pytest.fixture
def place(tmp_path):
    """A folder with a workflow of a small graph, and an environment whose `ssh` stays on this machine."""
    (tmp_path / "small.yaml").write_text(
        'graph: {input: "generated:grid?rows=9&cols=9&seed=1"}\n'
        "sources: {ids: [0, 80]}\noutput: {path: results}\nverify: certificate\n"
    )
    (tmp_path / "bin").mkdir()
    (tmp_path / "there").mkdir()
    ssh = tmp_path / "bin" / "ssh"
    ssh.write_text(SSH.format(calls=tmp_path / "calls", there=tmp_path / "there"))
    ssh.chmod(0o755)
    path = f"{ssh.parent}:{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
    return tmp_path, {**os.environ, "PATH": path, "SSSP_HOST": "127.0.0.1"}


def run(place, *arguments: str) -> subprocess.CompletedProcess[str]:
    folder, environment = place
    command = [DEPLOY / "ssh" / "run.sh", *arguments]
    options = {"cwd": folder, "env": environment, "timeout": 120, "check": False}
    return subprocess.run(command, capture_output=True, text=True, **options)


@pytest.mark.medium
def test_a_run_on_listed_machines(place):
    folder, _ = place
    (folder / "hosts").write_text("# both are this machine\nuser@first\n\n  second  # the other\n")
    done = run(place, "hosts", "small.yaml", "--set", "solve.retries=1")
    assert done.returncode == 0, done.stderr
    assert set((folder / "calls").read_text().split()) == {"second", "user@first"}
    assert pq.read_table(folder / "results" / "distances").num_rows == 2 * 81
    [logs] = folder.glob("sssp-*")
    names = {"scheduler.log", "worker-user@first.log", "worker-second.log"}
    assert {path.name for path in logs.iterdir()} == names
    assert "Scheduler at:     tls://127.0.0.1:" in (logs / "scheduler.log").read_text()
    assert not list((folder / "there").rglob("*.pem"))  # the certificates went with the workers


@pytest.mark.medium
def test_it_ends_with_the_exit_code_of_the_run(place):
    folder, _ = place
    (folder / "hosts").write_text("first\n")
    done = run(place, "hosts", "small.yaml", "--set", "solve.solver=adss")
    assert done.returncode == 2
    assert "hint: did you mean `adds`?" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["hosts"], "usage: "),
        (["hosts", "small.yaml"], "error: `hosts` names no machine\n"),
    ],
)
def test_what_it_cannot_use_is_refused(place, arguments, said):
    folder, _ = place
    (folder / "hosts").write_text("# nobody\n")
    done = run(place, *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(said)
    assert not list(folder.glob("sssp-*"))


def made(folder: Path) -> dict:
    """Make certificates, and return the configuration that names them."""
    subprocess.run([DEPLOY / "tls" / "make-certificates.sh", folder, "2"], check=True)
    return yaml.safe_load((folder / "dask.yaml").read_text())


def test_certificates_are_strict_and_private(tmp_path):
    made(tmp_path / "a b")
    folder = tmp_path / "a b"
    assert {path.name for path in folder.iterdir()} == {"ca.pem", "cert.pem", "key.pem", "dask.yaml"}
    assert all(not stat.S_IMODE(path.stat().st_mode) & 0o077 for path in [folder, *folder.iterdir()])
    # As Python 3.13 does.
    command = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", "ca.pem", "cert.pem"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.stdout == "cert.pem: OK\n"
    command = [DEPLOY / "tls" / "make-certificates.sh", folder]
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 2
    assert again.stderr.startswith(f"error: `{folder}` has a key already\n\nhint: ")


#: A process of its own: where it is refused, Dask leaves coroutines behind that nobody awaits.
CLIENT = """
import sys
from distributed import Client, Security
with Client(sys.argv[1], security=Security() if sys.argv[1].startswith("tls") else None, timeout=sys.argv[2]) as client:
    print(client.submit(sum, [1, 2]).result())
"""


def entered(address: str, timeout: str, configuration: Path) -> subprocess.CompletedProcess:
    """Have a client in a process of its own enter the cluster at `address`."""
    return subprocess.run(
        [sys.executable, "-c", CLIENT, address, timeout],
        env={**os.environ, "DASK_CONFIG": str(configuration)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.medium
def test_only_those_who_hold_a_certificate_are_let_in(tmp_path):
    ours, others = (made(tmp_path / name) and tmp_path / name for name in ("ours", "others"))
    configuration = yaml.safe_load((ours / "dask.yaml").read_text())
    kind = {"protocol": "tls", "dashboard_address": "127.0.0.1:0", "n_workers": 1, "processes": False}
    with (
        dask.config.set(dask.config.merge(dask.config.config, configuration)),
        LocalCluster(security=Security(), **kind) as cluster,
    ):
        address = cluster.scheduler_address
        assert address.startswith("tls://")
        let_in = entered(address, "30s", ours)
        assert let_in.stdout == "3\n", let_in.stderr
        in_clear = entered(address.replace("tls://", "tcp://"), "3s", ours)
        assert "encryption required" in in_clear.stderr
        stranger = entered(address, "3s", others)
        assert "TLS certificate does not match" in stranger.stderr
        assert in_clear.returncode == stranger.returncode == 1
