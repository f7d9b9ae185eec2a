"""What the tests of Dask workers share."""

from __future__ import annotations

import pytest
from distributed import Client


@pytest.fixture
def client(local):
    """Give a client of the cluster `local` of a test file."""
    with Client(local, set_as_default=False) as client:
        yield client
