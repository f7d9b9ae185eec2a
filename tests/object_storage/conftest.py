"""A Swift for the session, an empty bucket for each test, and the environment that leads there."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("swift_daemons", Path(__file__).with_name("swift.py"))
swift_daemons = sys.modules.setdefault("swift_daemons", importlib.util.module_from_spec(_spec))
_spec.loader.exec_module(swift_daemons)

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def swift(tmp_path_factory):
    """Give a running Swift; `SSSP_SWIFT` names its environment, and then it must be there."""
    environment = Path(os.environ.get("SSSP_SWIFT", ROOT / ".swift")).absolute()
    if not (environment / "bin" / "swift-proxy-server").exists():
        if "SSSP_SWIFT" in os.environ:
            pytest.fail(f"SSSP_SWIFT is {environment}, where there is no Swift", pytrace=False)
        pytest.skip("there is no Swift in .swift/: `make test-s3` installs it")
    store = swift_daemons.Swift(environment, tmp_path_factory.mktemp("swift"))
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
def bucket(login):
    """Give the URL of a bucket of `OWNER`, empty and of its own name, after logging in."""
    import s3fs

    login(*swift_daemons.OWNER)
    name = f"bucket-{os.urandom(4).hex()}"
    s3fs.S3FileSystem().mkdir(name)
    return f"s3://{name}"
