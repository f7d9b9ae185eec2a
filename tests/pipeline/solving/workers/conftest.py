"""What the tests of Dask workers share."""

from __future__ import annotations

from functools import partial

import pytest
from distributed import Client, LocalCluster


@pytest.fixture(scope="session")
def two_workers():
    """Give a function that starts two workers in this process, so that they see what a test patches."""
    options = {"n_workers": 2, "processes": False, "dashboard_address": "127.0.0.1:0"}
    return partial(LocalCluster, **options)


@pytest.fixture
def client(local):
    """Give a client of the cluster `local` of a test file."""
    with Client(local, set_as_default=False) as client:
        yield client
