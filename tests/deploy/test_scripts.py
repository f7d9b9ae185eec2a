"""What can be said of deploy/ without running it: scripts and Dockerfile are clean, every folder explains itself."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted([*(ROOT / "deploy").rglob("*.sh"), *(ROOT / "deploy").rglob("*.sbatch")])


def checked(tool: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [Path(sysconfig.get_path("scripts"), tool), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)


def test_scripts_are_clean_and_those_that_are_called_can_be():
    scripts = [script.relative_to(ROOT) for script in SCRIPTS]
    done = checked("shellcheck", "--external-sources", "--enable=quote-safe-variables", *scripts)
    assert (done.returncode, done.stdout) == (0, "")
    for script in SCRIPTS:
        is_sourced = "# shellcheck shell=" in script.read_text().splitlines()[0]
        assert bool(script.stat().st_mode & 0o111) != is_sourced, script


def test_the_dockerfile_is_clean():
    done = checked("hadolint", "deploy/container/Dockerfile")
    assert (done.returncode, done.stdout) == (0, "")


def test_every_recipe_explains_itself():
    for folder in (path for path in (ROOT / "deploy").iterdir() if path.is_dir()):
        assert (folder / "README.md").is_file(), f"{folder.name} has no README.md"
        guide = (ROOT / "docs" / "guides" / "deployment.md").read_text(encoding="utf-8")
        assert f"(../../deploy/{folder.name}/README.md)" in guide
