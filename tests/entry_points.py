"""The entry points of pyproject.toml for a Python that was installed before they were written there."""

from __future__ import annotations

import tomllib
from pathlib import Path

from sssp_pipeline import __version__

ROOT = Path(__file__).parents[1]


def install_entry_points(site: Path) -> None:
    """Write the package's metadata to the new folder `site`; it counts where `site` comes first in `PYTHONPATH`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = site / f"sssp_pipeline-{__version__}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {__version__}\n"
    )
    lines = [
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {entry}" for name, entry in entries.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
