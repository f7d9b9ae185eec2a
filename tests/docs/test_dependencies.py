"""The page of dependencies names every package that is installed, and every extra."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
ALWAYS, EXTRAS = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8").split("\n## Extras\n")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_page_names_the_packages_of_the_lock():
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    packages = re.findall(
        r"^\| ([a-z][a-z0-9-]+) \| ", ALWAYS.split("\n## Always installed\n")[1], re.MULTILINE
    )
    assert len(packages) == len(set(packages))
    assert set(packages) - {"package"} == {
        normal(name) for name in re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)
    }


def test_what_the_page_says_this_package_needs_is_declared():
    needed = re.findall(r"^\| ([a-z0-9-]+) \| [^|]* \| this package", ALWAYS, re.MULTILINE)
    declared = {normal(re.match(r"[\w.-]+", line)[0]) for line in PROJECT["dependencies"]}
    assert set(needed) == declared


def test_the_page_names_every_extra():
    first_cells = re.findall(r"^\| (`.+?) \|", EXTRAS, re.MULTILINE)
    named = [name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(named) == sorted(PROJECT["optional-dependencies"].keys() - {"dev"})


def test_all_has_every_extra_but_those_of_a_gpu():
    extras = PROJECT["optional-dependencies"]

    def inside(name: str) -> set[str]:
        inner = {each for line in extras[name] for each in re.findall(r"sssp-pipeline\[(.+)\]", line)}
        return {name}.union(*(inside(each) for names in inner for each in names.split(",")))

    assert inside("all") == extras.keys() - {"dev", "gpu", "cuda12", "cuda13"}
