"""What can be said of deploy/ without running it: scripts and Dockerfile are clean, every folder explains itself."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted([*(ROOT / "deploy").rglob("*.sh"), *(ROOT / "deploy").rglob("*.sbatch")])


def checked(tool: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [Path(sysconfig.get_path("scripts"), tool), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_scripts_are_clean(script):
    done = checked(
        "shellcheck", "--external-sources", "--enable=quote-safe-variables", script.relative_to(ROOT)
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_dockerfile_is_clean():
    done = checked("hadolint", "deploy/container/Dockerfile")
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_scripts_that_are_called_can_be(script):
    sourced = "# shellcheck shell=" in script.read_text().splitlines()[0]
    assert bool(script.stat().st_mode & 0o111) != sourced


def test_every_recipe_explains_itself():
    for folder in (path for path in (ROOT / "deploy").iterdir() if path.is_dir()):
        assert (folder / "README.md").is_file(), f"{folder.name} has no README.md"
        guide = (ROOT / "docs" / "guides" / "deployment.md").read_text(encoding="utf-8")
        assert f"(../../deploy/{folder.name}/README.md)" in guide
