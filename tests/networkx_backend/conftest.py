"""What the tests of the NetworkX backend share."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def python(tmp_path_factory, entry_points) -> Callable[..., subprocess.CompletedProcess]:
    """Give a function that runs Python where the entry points of pyproject.toml are installed.

    The tests' own process may have been installed before the backend was added.
    """
    site = tmp_path_factory.mktemp("python") / "site"
    entry_points.install_entry_points(site)

    def run(*arguments: str, folder: Path = site, **environment: str) -> subprocess.CompletedProcess:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("NETWORKX_")}
        path = os.pathsep.join([str(site), str(folder), str(ROOT)])
        return subprocess.run(
            [sys.executable, *arguments],
            env=inherited | {"PYTHONPATH": path} | environment,
            capture_output=True,
            text=True,
            timeout=280,
            cwd=folder,
        )

    return run
