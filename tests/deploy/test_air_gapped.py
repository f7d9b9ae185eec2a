"""A folder of wheels is made by one command, and another installs from it without an index; with one small wheel."""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def wheel(folder: Path, name: str) -> Path:
    """Write a wheel that holds a module and nothing else."""
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": "there = True\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(text)}\n"
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inside, text in {**files, f"{info}/RECORD": record + f"{info}/RECORD,,\n"}.items():
            archive.writestr(inside, text)
    return path


pytestmark = pytest.mark.medium

#: Stands where hatchling does: `pip wheel` calls it without a network.
BACKEND = """\
import shutil
def build_wheel(directory, config_settings=None, metadata_directory=None):
    shutil.copy({wheel!r}, directory)
    return {name!r}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A clone with one dependency, the folder that was made from it, and an environment that reaches no index."""
    place = tmp_path_factory.mktemp("air-gapped")
    clone, index = place / "clone", place / "index"
    shutil.copytree(ROOT / "deploy" / "air-gapped", clone / "deploy" / "air-gapped")
    index.mkdir()
    digest = hashlib.sha256(wheel(index, "dependency").read_bytes()).hexdigest()
    project = wheel(place, "sssp_pipeline")
    (clone / "requirements-gpu.lock").write_text(f"dependency==1.0 --hash=sha256:{digest}\n")
    (clone / "requirements-build.lock").write_text("")
    (clone / "backend.py").write_text(BACKEND.format(wheel=str(project), name=project.name))
    (clone / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    )
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("PIP_")},
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": "http://127.0.0.1:9/",  # nobody answers there
        "PYTHON": sys.executable,
    }
    folder = place / "wheels folder"
    script = clone / "deploy" / "air-gapped" / "make-wheels.sh"
    found_there = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index)}
    done = run(script, folder, environment={**environment, **found_there})
    assert done.returncode == 0, done.stderr
    return clone, folder, environment


def run(*command, environment) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)


def test_the_folder_is_whole_and_installs_without_an_index(made, tmp_path):
    _, folder, environment = made
    assert {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()} == {
        "SHA256SUMS",
        "install.sh",
        "python-version",
        "requirements.lock",
        "wheels/dependency-1.0-py3-none-any.whl",
        "wheels/sssp_pipeline-1.0-py3-none-any.whl",
    }
    done = run(folder / "install.sh", tmp_path / "venv", environment=environment)
    assert (done.returncode, done.stderr) == (0, "")
    python = tmp_path / "venv/bin/python"
    asked = run(python, "-c", "import dependency, sssp_pipeline", environment=environment)
    assert (asked.returncode, asked.stderr) == (0, "")


@pytest.fixture
def changed(made, tmp_path):
    """A copy of the folder that was made, to be changed."""
    return shutil.copytree(made[1], tmp_path / "changed")


def test_a_wheel_that_was_changed_is_refused_before_anything_is_installed(made, changed, tmp_path):
    with (changed / "wheels" / "dependency-1.0-py3-none-any.whl").open("ab") as file:
        file.write(b"more")
    done = run(changed / "install.sh", tmp_path / "venv", environment=made[2])
    assert done.returncode == 1
    assert "./wheels/dependency-1.0-py3-none-any.whl: FAILED" in done.stdout
    assert not (tmp_path / "venv").exists()


def test_another_python_is_refused(made, changed, tmp_path):
    (changed / "python-version").write_text("3.99\n")
    done = run(changed / "install.sh", tmp_path / "venv", environment=made[2])
    found = "{}.{}".format(*sys.version_info)
    assert done.returncode == 2
    assert done.stderr == (
        f"error: `{sys.executable}` is Python {found}, the wheels are for 3.99\n\n"
        f"hint: set PYTHON=python3.99, or make the folder again with PYTHON=python{found}\n"
    )


def test_a_folder_that_holds_something_is_left_alone(made):
    clone, folder, environment = made
    before = sorted(folder.rglob("*"))
    done = run(clone / "deploy" / "air-gapped" / "make-wheels.sh", folder, environment=environment)
    assert (done.returncode, done.stderr) == (2, f"error: `{folder}` is not empty\n")
    assert sorted(folder.rglob("*")) == before
