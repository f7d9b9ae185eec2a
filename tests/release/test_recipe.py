"""The recipe for conda-forge needs what the package needs."""

from __future__ import annotations

import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement

import sssp_pipeline

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
RECIPE = yaml.safe_load((ROOT / "release" / "conda-forge" / "recipe.yaml").read_text(encoding="utf-8"))
#: Packages that have another name there.
NAMES = {"dask": "dask-core", "isal": "python-isal"}


def needed(lines: list[str]) -> dict[str, str]:
    """Return the bounds of each package."""
    found = map(Requirement, lines)
    return {NAMES.get(each.name, each.name): str(each.specifier) for each in found}


def test_it_needs_what_the_package_needs():
    run = [line for line in RECIPE["requirements"]["run"] if not line.startswith(("__", "python >"))]
    assert needed(run) == needed(PROJECT["project"]["dependencies"])
    (builds,) = PROJECT["build-system"]["requires"]
    assert needed([RECIPE["requirements"]["host"][-1]]) == needed([builds])


def test_it_is_of_this_release():
    assert RECIPE["context"]["version"] == sssp_pipeline.__version__
    name, program = next(iter(PROJECT["project"]["scripts"].items()))
    assert RECIPE["build"]["python"]["entry_points"] == [f"{name} = {program}"]
    assert RECIPE["about"]["license"] == PROJECT["project"]["license"]
