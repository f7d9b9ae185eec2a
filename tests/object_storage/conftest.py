"""A store of each kind for the session, an empty bucket for each test, and the environment that leads there."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from sssp_pipeline.base.generators import road_like
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.storage import files, lease, retries

for _name in ("stores", "runs"):  # the modules beside this one, which tests import by these names
    _spec = importlib.util.spec_from_file_location(_name, Path(__file__).with_name(f"{_name}.py"))
    _spec.loader.exec_module(sys.modules.setdefault(_name, importlib.util.module_from_spec(_spec)))
import runs  # noqa: E402
import stores  # noqa: E402

ROOT = Path(__file__).parents[2]


def installed(variable: str, folder: str, file: str, how: str) -> Path:
    """Return where a store is installed: where `variable` says, and then it must be there, or in `folder`."""
    environment = Path(os.environ.get(variable, ROOT / folder)).absolute()
    if not (environment / file).exists():
        if variable in os.environ:
            pytest.fail(f"{variable} is {environment}, which has no {file}", pytrace=False)
        pytest.skip(f"{folder} has no {file}: `{how}` installs it")
    return environment


@pytest.fixture(scope="session")
def swift(tmp_path_factory):
    """Give a running Swift."""
    environment = installed("SSSP_SWIFT", ".swift", "bin/swift-proxy-server", "make test-s3")
    store = stores.Swift(environment, tmp_path_factory.mktemp("swift"))
    try:
        store.start()
        yield store
    finally:
        store.stop()


@pytest.fixture
def login(swift, monkeypatch):
    """Give a function that leads all that reads the environment to the Swift, as one of its users."""
    import s3fs

    def become(user: str, secret: str) -> None:
        s3fs.S3FileSystem.clear_instance_cache()  # they keep the credentials they found at first
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", user)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret)

    monkeypatch.setenv("AWS_ENDPOINT_URL", swift.url)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")  # what botocore's own attempts hide is what is tested
    yield become
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def bucket(login) -> str:
    """Return the URL of a bucket of `OWNER`, empty and of its own name, after logging in."""
    import s3fs

    login(*stores.OWNER)
    name = f"bucket-{os.urandom(4).hex()}"
    s3fs.S3FileSystem().mkdir(name)
    return f"s3://{name}"


@pytest.fixture(scope="session")
def azurite(tmp_path_factory):
    """Give a running Azurite."""
    environment = installed(
        "SSSP_AZURITE", ".azurite", "node_modules/azurite/package.json", "make test-azure"
    )
    store = stores.Azurite(environment, tmp_path_factory.mktemp("azurite"))
    try:
        yield store
    finally:
        store.stop()


@pytest.fixture
def connect(azurite, monkeypatch):
    """Give a function that leads all that reads the environment to the Azurite, with one key or another."""
    import adlfs

    def by(key: str) -> None:
        adlfs.AzureBlobFileSystem.clear_instance_cache()
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", azurite.connection(key))

    by(azurite.key)
    yield by
    adlfs.AzureBlobFileSystem.clear_instance_cache()


@pytest.fixture
def container(connect) -> str:
    """Return the URL of an empty container."""
    import adlfs

    name = f"container-{os.urandom(4).hex()}"
    adlfs.AzureBlobFileSystem().mkdir(name)
    return f"abfs://{name}"


@pytest.fixture(scope="session")
def edges() -> bytes:
    """Return an edge list of 2,000 vertices as text."""
    made = road_like(2000, seed=5)
    rows = zip(made.src, made.dst, made.weights, strict=True)
    return "\n".join(f"{u} {v} {w}" for u, v, w in rows).encode()


@pytest.fixture(scope="session")
def undisturbed(edges, tmp_path_factory) -> dict[str, str]:
    """Return the digests of the distances of a run on local files."""
    place = tmp_path_factory.mktemp("undisturbed")
    (place / "edges.txt").write_bytes(edges)
    run(runs.made(str(place)), Quiet())
    return runs.digests(str(place / "run"))


@pytest.fixture
def place(bucket, edges) -> str:
    """Return the URL of a bucket that holds the edges."""
    files.write_atomic(files.join(bucket, "edges.txt"), edges)
    return bucket


@pytest.fixture
def quick(monkeypatch):
    """Let leases expire and stores be given up within seconds."""
    monkeypatch.setattr(lease, "BEAT_S", 0.5)
    monkeypatch.setattr(lease, "LEASE_S", 4.0)
    monkeypatch.setattr(lease, "POLL_S", 0.2)
    monkeypatch.setattr(retries, "RETRY_S", 30.0)
    monkeypatch.setattr(retries, "LONGEST_WAIT_S", 1.0)
    monkeypatch.setattr(retries, "_outages", defaultdict(retries._Outage))
