"""Build the sdist and the wheel, and check what a user gets: `make package` calls it.

python release/check.py [FOLDER]    FOLDER keeps the sdist and the wheel; dist/ if not given

The wheel is built from the sdist. Each is installed into an empty environment: the wheel with the newest versions of
all packages, the sdist with those of `requirements.lock`. A run and a call from Python must give the right distances
with the wheel. The package from the sdist has the same files, so it only reads that run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: It installs in seconds where pip takes a minute.
UV = Path(sys.executable).with_name("uv")
#: What the sdist has next to the package. Hatchling adds the last three by itself.
NEXT_TO_PACKAGE = ("workflows/", "CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md", "pyproject.toml")
BY_HATCHLING = {"PKG-INFO", ".gitignore"}

EDGES = "from,to,minutes\nA,B,4\nB,C,3\nA,C,9\n"
READ = """
import sys
import sssp_pipeline as sp
assert not {"dask", "pyarrow", "numba"} & sys.modules.keys()
print(sp.open_run("results").distances()["distance"].to_pylist())
"""
SOLVE = 'print(sp.solve(sp.open_store("store"), "A").numpy().tolist())'
SIZE = """
import importlib.metadata
installed = list(importlib.metadata.distributions())
files = [file.locate() for each in installed for file in each.files or () if file.suffix != ".pyc"]
print(len(installed), round(sum(file.stat().st_size for file in files if file.is_file()) / 1e6))
"""


def called(*command: str | Path, cwd: Path = ROOT) -> str:
    """Return what a command prints; end this program with its messages if it fails."""
    # Neither the clone nor a user's settings may be seen by what was installed.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "SSSP_"))}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"error: `{' '.join(words)}` ended with {done.returncode}\n\n{done.stdout}{done.stderr}")
    return done.stdout


def built(folder: Path) -> tuple[Path, Path]:
    """Build into the empty `folder`; return the sdist and the wheel."""
    called(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    called(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
    return sdist, wheel


def clone_files(place: str) -> set[str]:
    """Return the names of the files at `place`, a file or a folder of the clone. Caches of Python are left out."""
    path = ROOT / place
    found = path.rglob("*") if path.is_dir() else [path]
    return {
        str(file.relative_to(ROOT)) for file in found if file.is_file() and file.parent.name != "__pycache__"
    }


def check_contents(sdist: Path, wheel: Path) -> None:
    """Refuse packages that lack a file of the clone, or have another one."""
    package = clone_files("sssp_pipeline/")
    beside = {name for place in NEXT_TO_PACKAGE for name in clone_files(place)}
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = {name for name in archive.namelist() if ".dist-info/" not in name}
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()} - BY_HATCHLING
    for file, found, wanted in ((wheel, in_wheel, package), (sdist, in_sdist, package | beside)):
        if found != wanted:
            lacks, more = sorted(wanted - found), sorted(found - wanted)
            sys.exit(f"error: `{file.name}` lacks {lacks} and has {more}, which is not expected")


def found_in(name: str, pattern: str) -> str:
    """Return the first match of `pattern` in a file of the clone, or "nothing"."""
    found = re.search(pattern, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else "nothing"


def check_version(wheel: Path) -> str:
    """Return the version, which the package, the wheel, the changes and the citation name."""
    places = {
        "sssp_pipeline/__init__.py": found_in("sssp_pipeline/__init__.py", r'^__version__ = "(.+)"$'),
        "CHANGELOG.md": found_in("CHANGELOG.md", r"^## (\S+)"),
        "CITATION.cff": found_in("CITATION.cff", r"^version: (\S+)"),
        wheel.name: wheel.name.split("-")[1],
    }
    if len(versions := set(places.values())) > 1:
        sys.exit(f"error: the versions differ: {places}")
    return versions.pop()


def check_installed(file: Path, version: str, lock: Path | None, folder: Path, work: Path) -> str:
    """Install `file` into an empty environment, use it in the folder `work`, and return a line about it.

    The first package that is installed runs and solves there. A second one reads this run.
    """
    begin = time.perf_counter()
    python = folder / "bin" / "python"
    called(UV, "venv", "--quiet", "--python", sys.executable, folder)
    install = [UV, "pip", "install", "--quiet", "--python", python]
    if lock is not None:
        called(*install, "--require-hashes", "-r", lock)
    called(*install, *(() if lock is None else ("--no-deps",)), file)
    installed_s = time.perf_counter() - begin
    program = folder / "bin" / "sssp-pipeline"
    in_python, expected = READ, "[0, 4, 7]"
    if is_first := not work.exists():
        work.mkdir()
        (work / "edges.csv").write_text(EDGES, encoding="utf-8")
        options = ("--from", "A", "--out", "results", "--set", "graph.store=store")
        called(program, "run", "edges.csv", *options, cwd=work)
        in_python, expected = READ + SOLVE, f"{expected}\n[{expected}]"
    printed = called(program, "--version", cwd=work).strip()
    distances = called(python, "-c", in_python, cwd=work).strip()
    if (printed, distances) != (version, expected):
        sys.exit(f"error: `{file.name}` gave version {printed} and distances {distances}")
    packages, megabytes = called(python, "-c", SIZE, cwd=work).split()
    whole_s = time.perf_counter() - begin
    return (
        f"{file.name}: {file.stat().st_size / 1e6:.1f} MB, installed {packages} packages of {megabytes} MB in "
        f"{installed_s:.0f} s; with {'a run and `sp.solve`' if is_first else 'reading that run'} {whole_s:.0f} s"
    )


def main(destination: Path) -> None:
    """Build, check, and put both files into `destination`."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        sdist, wheel = built(folder / "dist")
        check_contents(sdist, wheel)
        version = check_version(wheel)
        work, lock = folder / "work", ROOT / "requirements.lock"
        print(check_installed(wheel, version, None, folder / "of-wheel", work), flush=True)
        print(check_installed(sdist, version, lock, folder / "of-sdist", work), flush=True)
        destination.mkdir(exist_ok=True)
        for file in (sdist, wheel):
            shutil.copy(file, destination)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist")
