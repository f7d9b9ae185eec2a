"""What the tests of the NetworkX backend share."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def python(tmp_path_factory) -> Callable[..., subprocess.CompletedProcess]:
    """Give a function that runs Python where the entry points of pyproject.toml are installed.

    The tests' own process may have been installed before the backend was added.
    """
    site = tmp_path_factory.mktemp("site")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    info = site / f"sssp_pipeline-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = [
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {entry}" for name, entry in entries.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")

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
