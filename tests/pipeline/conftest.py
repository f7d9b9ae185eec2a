"""What the tests of several stages share."""

from __future__ import annotations

import pytest
from distributed import LocalCluster


@pytest.fixture(scope="session")
def address():
    """Give the section `cluster` of a workflow for a scheduler of two worker processes, which all tests share."""
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
        yield {"kind": "address", "address": cluster.scheduler_address}


@pytest.fixture(params=["threads", pytest.param("process", marks=pytest.mark.medium)])
def cluster(request):
    """Give the section `cluster` of a workflow, once for threads of this process and once for worker processes."""
    return {} if request.param == "threads" else request.getfixturevalue("address")
