"""The image of deploy/container/, built from this machine's Debian packages and run: not as root, on a read-only root.

Neither NVIDIA's base nor the CUDA packages are in it: `BASE` is Debian, `LOCK` is the lock for CPUs.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = ("mmdebstrap", "buildah", "podman", "runc")
#: What an image and its containers take while they are built and run, in bytes.
ROOM = 6 << 30
IMAGE = "localhost/sssp-pipeline"
#: The certificates that this machine trusts: a proxy may have its own.
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
ADDRESS = "tls://127.0.0.1:8786"
#: As on Kubernetes with `runAsNonRoot`, `readOnlyRootFilesystem` and no capabilities.
#: Podman's own limits are higher than root may set on some machines.
RESTRICTED = ["--read-only", "--cap-drop=all", "--security-opt=no-new-privileges"]
RESTRICTED += ["--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096"]

pytestmark = pytest.mark.slow


def missing() -> str | None:
    """Return why no image can be built here, or None."""
    if absent := [name for name in PROGRAMS if shutil.which(name) is None]:
        return f"no {', '.join(absent)}: install them with apt-get"
    if os.geteuid() != 0:
        return "an image is built and run as root here"
    is_debian = platform.freedesktop_os_release()["ID"] == "debian"
    return None if is_debian else "the base is made of Debian's packages"


class Containers:
    """The images and containers of one folder."""

    def __init__(self, folder: Path) -> None:
        self.base = folder / "base.tar"
        self.store = [f"--root={folder}/store", f"--runroot={folder}/run"]
        # They need no systemd, and runc takes both kinds of cgroups.
        self.podman = ["podman", *self.store, "--cgroup-manager=cgroupfs", "--runtime=runc"]
        self.podman.append(f"--tmpdir={folder}/podman")

    def build(self) -> None:
        """Build the image from a base of Debian packages."""
        release = platform.freedesktop_os_release()["VERSION_CODENAME"]
        packages = ["mmdebstrap", "--variant=minbase", "--include=ca-certificates,python3-venv,tini"]
        packages += [f"--customize-hook=copy-in {AUTHORITIES} {AUTHORITIES.parent}", release, str(self.base)]
        checked(packages)
        trusted = f"--change=ENV=PIP_CERT={AUTHORITIES}"
        checked([*self.podman, "import", trusted, str(self.base), "localhost/base"])
        # Containers of buildah's own would need other cgroups than some machines have.
        command = ["buildah", *self.store, "build", "--isolation=chroot", "--network=host", f"--tag={IMAGE}"]
        command += ["--build-arg=BASE=localhost/base", "--build-arg=LOCK=requirements.lock"]
        checked([*command, "--file=deploy/container/Dockerfile", "."])

    def run(self, *command: str, options: list[str]) -> subprocess.CompletedProcess[str]:
        """Run a command of the image with these options of `podman run`."""
        return checked([*self.podman, "run", *RESTRICTED, *options, IMAGE, *command])

    def log(self, name: str) -> str:
        """Return what a container that was started has printed."""
        done = checked([*self.podman, "logs", name])
        return done.stdout + done.stderr

    @contextmanager
    def started(self, name: str, *command: str, options: list[str]) -> Iterator[None]:
        """Run a command of the image in the background. It must end well when it is asked to."""
        self.run(*command, options=[*options, "--detach", f"--name={name}"])
        try:
            yield
            checked([*self.podman, "stop", "--time=60", name])
            assert checked([*self.podman, "inspect", "--format={{.State.ExitCode}}", name]).stdout == "0\n"
        except BaseException:
            print(self.log(name))
            raise
        finally:
            checked([*self.podman, "rm", "--force", "--time=0", name])


def checked(command: list[str], **options) -> subprocess.CompletedProcess[str]:
    """Run a command, which must succeed."""
    options |= {"capture_output": True, "text": True, "cwd": ROOT, "timeout": 500}
    done = subprocess.run(command, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def remove(folder: Path) -> None:
    """Remove containers, what is still mounted in `folder`, and `folder`."""
    command = [*Containers(folder).podman, "rm", "--all", "--force", "--time=0"]
    subprocess.run(command, check=False, capture_output=True)
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for place in sorted((p for p in mounted if p.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "--lazy", place], check=False)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def image() -> Iterator[Containers]:
    """Give what runs containers of the image; skipped where it cannot be built."""
    if reason := missing():
        pytest.skip(reason)
    # In memory where there is room: dpkg and podman wait for the disk after every file.
    memory = Path("/dev/shm")
    has_room = memory.is_dir() and shutil.disk_usage(memory).free > ROOM
    folder = Path(tempfile.mkdtemp(prefix="image-", dir=memory if has_room else None))
    containers = Containers(folder)
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("TMPDIR", str(folder))
            containers.build()
        yield containers
    finally:
        remove(folder)


def folder_of(folder: Path, owner: int) -> Path:
    """Make a folder that belongs to the user `owner` and return it."""
    folder.mkdir()
    os.chown(folder, owner, owner)
    return folder


def test_the_quickstart_runs_without_root_and_network(image, tmp_path):
    work = folder_of(tmp_path / "work", 10001)
    shutil.copy(ROOT / "workflows" / "quickstart.yaml", work)
    done = image.run(
        "run", "quickstart.yaml", options=["--rm", "--network=none", "--tmpfs=/tmp", f"--volume={work}:/work"]
    )
    assert "verified 8 sources (sample): every distance is exact\n" in done.stderr
    assert pq.read_table(work / "quickstart/run/distances", columns=["source"]).num_rows == 64 * 262_144
    assert {path.stat().st_uid for path in work.joinpath("quickstart").rglob("*")} == {10001}


def test_a_scheduler_and_two_workers_under_tls(image, tmp_path, wait_until):
    # A user that the image does not know, as on OpenShift.
    user = 54321
    work, tls = folder_of(tmp_path / "work", user), tmp_path / "tls"
    checked(["deploy/tls/make-certificates.sh", str(tls)])
    for path in [tls, *tls.iterdir()]:
        os.chown(path, user, user)
    (work / "small.yaml").write_text(
        'graph: {input: "generated:road?vertices=4096&seed=1"}\n'
        "sources: {random: {count: 8, seed: 1}}\noutput: {path: results}\nverify: certificate\n"
    )
    # Kernels that one container compiles, the others find in the home.
    volumes = [f"{work}:/work", f"{folder_of(tmp_path / 'home', user)}:/tmp", f"{tls}:{tls}:ro"]
    options = [f"--user={user}:{user}", f"--env=DASK_CONFIG={tls}"]
    options += [f"--volume={volume}" for volume in volumes]
    own, shared = ([*options, f"--network={network}"] for network in ("none", "container:scheduler"))
    with ExitStack() as running:
        start = running.enter_context
        dashboard = "--dashboard-address=127.0.0.1:0"
        start(image.started("scheduler", "dask", "scheduler", dashboard, options=own))
        for name in ("first", "second"):
            start(image.started(name, "dask", "worker", ADDRESS, dashboard, options=shared))
        there = ["--set", "cluster.kind=address", "--set", f"cluster.address={ADDRESS}"]
        wait_until(lambda: image.log("scheduler").count("Register worker") == 2, timeout_s=120)
        done = image.run("run", "small.yaml", *there, options=["--rm", *shared])
    assert "cluster: 2 workers, " in done.stderr
    assert "verified 8 sources (certificate): every distance is exact\n" in done.stderr
    assert pq.read_table(work / "results/distances").num_rows == 8 * 4096
