"""The image as far as it can be known without building it: what it copies is there, what it installs is locked.

`test_image.py` builds it.
"""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "deploy" / "container" / "Dockerfile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
#: What the image can do beyond solving on CPUs, as the Makefile locks it.
EXTRAS = {"cuda12", "http", "s3", "gcs", "azure", "kubernetes", "prometheus"}
#: A program that stands for another one, and prints its own name and its arguments.
SHOWS_ARGUMENTS = 'printf "%s" "${0##*/}"\n[ $# = 0 ] || printf " <%s>" "$@"'


def copied() -> list[str]:
    """Return the paths of the clone that the image is made from."""
    recipe = DOCKERFILE.replace("${LOCK}", "requirements.lock requirements-gpu.lock")
    lines = re.findall(r"^COPY (?!--from)(.+)$", recipe, re.MULTILINE)
    return [source for line in lines for source in line.split()[:-1]]


def wanted_by(texts: list[str]) -> list[Requirement]:
    """Return requirements, with those of an extra of this project in place of the extra."""
    extras = PROJECT["project"]["optional-dependencies"]
    found = []
    for requirement in map(Requirement, texts):
        if requirement.name == PROJECT["project"]["name"]:
            found += [inner for extra in requirement.extras for inner in wanted_by(extras[extra])]
        else:
            found.append(requirement)
    return found


def locked(name: str) -> dict[str, list[Requirement]]:
    """Return the packages of a lock."""
    lines = re.findall(r"^([a-z0-9].*?) *\\$", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
    pins: dict[str, list[Requirement]] = {}
    for line in lines:
        pin = Requirement(line)
        pins.setdefault(canonicalize_name(pin.name), []).append(pin)
    return pins


def test_what_is_copied_is_there_and_sent():
    patterns = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    allowed = {pattern[1:] for pattern in patterns if pattern.startswith("!")}
    assert patterns.index("*") < min(patterns.index(f"!{path}") for path in allowed)
    for source in copied():
        assert (ROOT / source).exists()
        assert source in allowed
    assert allowed == set(copied())


def test_what_is_sent_is_what_the_wheel_is_built_of():
    needed = [PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]]
    needed += PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {"pyproject.toml", *needed} <= set(copied())


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [
        ("requirements-build.lock", PROJECT["build-system"]["requires"]),
        (
            "requirements-gpu.lock",
            PROJECT["project"]["dependencies"]
            + [text for name in EXTRAS for text in PROJECT["project"]["optional-dependencies"][name]],
        ),
    ],
)
def test_the_locks_fit_the_project(lock, wanted):
    pins = locked(lock)
    for requirement in wanted_by(wanted):
        found = pins[canonicalize_name(requirement.name)]
        versions = [next(iter(pin.specifier)).version for pin in found]
        assert all(requirement.specifier.contains(version) for version in versions), requirement
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert all("--hash=sha256:" in package for package in re.split(r"\n(?=[a-z0-9])", text.strip()))


def test_the_image_has_the_same_releases_as_every_other_installation():
    everywhere, image = locked("requirements.lock"), locked("requirements-gpu.lock")
    for name, pins in everywhere.items():
        assert str(image[name]) == str(pins)


def test_the_makefile_locks_these_extras():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert set(re.findall(r"--extra (\w+)", makefile.split("GPU_EXTRAS =")[1].splitlines()[0])) == EXTRAS


def test_the_image_is_not_root_and_of_a_named_release():
    name, _, digest = re.findall(r"^ARG BASE=(\S+)", DOCKERFILE, re.MULTILINE)[0].partition("@sha256:")
    assert fnmatch(name, "nvidia/cuda:12.*-ubuntu24.04")
    assert re.fullmatch("[0-9a-f]{64}", digest)
    user, _, group = re.findall(r"^USER (.+)$", DOCKERFILE, re.MULTILINE)[-1].partition(":")
    assert int(user) > 0
    assert int(group) > 0


@pytest.mark.parametrize(
    ("arguments", "called"),
    [
        (["run", "a b.yaml"], "sssp-pipeline <run> <a b.yaml>"),
        (["dask", "worker", "tcp://a:1"], "dask <worker> <tcp://a:1>"),
        (["--help"], "sssp-pipeline <--help>"),
        ([], "sssp-pipeline"),
    ],
)
def test_the_entrypoint_calls_dask_or_the_pipeline(tmp_path, arguments, called):
    for name in ("dask", "sssp-pipeline"):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{SHOWS_ARGUMENTS}\n")
        program.chmod(0o755)
    path = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = [ROOT / "deploy" / "container" / "entrypoint.sh", *arguments]
    done = subprocess.run(command, env=path, capture_output=True, text=True, check=True)
    assert done.stdout == called


@pytest.mark.parametrize(
    ("image", "has_gpu", "called"),
    [
        ("a.sif", True, "apptainer <exec> <--pwd> <HERE> <--bind> <HERE> <--bind> </data> <--nv> <a.sif>"),
        ("a.sif", False, "apptainer <exec> <--pwd> <HERE> <--bind> <HERE> <--bind> </data> <a.sif>"),
        (
            "a.sqsh",
            True,
            "enroot <start> <--mount> <HERE:HERE:none:x-create=dir,rbind> <--mount> "
            "</data:/data:none:x-create=dir,rbind> <--env> <AWS_PROFILE> <--env> <SSSP_IMAGE> <--env> "
            "<SSSP_MOUNTS> <--env> <SSSP_FOLDER=HERE> <--rc> <FOLDER/enroot.rc> <a.sqsh>",
        ),
    ],
    ids=["apptainer", "without-gpu", "enroot"],
)
def test_a_job_runs_its_commands_in_the_image(tmp_path, image, has_gpu, called):
    programs = {
        "apptainer": SHOWS_ARGUMENTS,
        "enroot": SHOWS_ARGUMENTS,
        "nvidia-smi": f"exit {int(not has_gpu)}",
    }
    for name, script in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    folder = ROOT / "deploy" / "slurm" / "container"
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "AWS_PROFILE": "me",
        "SLURM_SUBMIT_DIR": str(tmp_path),
        "SSSP_IMAGE": image,
        "SSSP_MOUNTS": "/data",
    }
    command = [folder / "dask", "worker", "a b"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
    shown = done.stdout.replace(str(tmp_path), "HERE").replace(str(folder), "FOLDER")
    assert shown == f"{called} <dask> <worker> <a b>"


def test_enroot_starts_a_command_in_the_folder_of_the_job(tmp_path):
    script = ROOT / "deploy" / "slurm" / "container" / "enroot.rc"
    environment = {**os.environ, "SSSP_FOLDER": str(tmp_path)}
    done = subprocess.run(["sh", script, "pwd"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{tmp_path}\n"
