"""`release/check.py` refuses packages that lack a file, have one too many, or are of another version."""

from __future__ import annotations

import runpy
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHECK = runpy.run_path(str(ROOT / "release" / "check.py"))
VERSION = runpy.run_path(str(ROOT / "sssp_pipeline" / "__init__.py"))["__version__"]


@pytest.fixture
def packages(tmp_path):
    """Give a function that makes an sdist and a wheel of the files of the clone, without and with some names."""

    def make(lacks: str = "", more: str = "") -> tuple[Path, Path]:
        places = ("sssp_pipeline/", *CHECK["NEXT_TO_PACKAGE"])
        names = sorted(name for place in places for name in CHECK["clone_files"](place))
        sdist, wheel = tmp_path / "s.tar.gz", tmp_path / f"sssp_pipeline-{VERSION}-py3-none-any.whl"
        names = [name for name in [*names, more] if name not in (lacks, "")]
        with tarfile.open(sdist, "w") as archive, zipfile.ZipFile(wheel, "w") as zipped:
            for name in names:
                archive.addfile(tarfile.TarInfo(f"sssp_pipeline-{VERSION}/{name}"))
                if name.startswith("sssp_pipeline/"):
                    zipped.writestr(name, b"")
            zipped.writestr(f"sssp_pipeline-{VERSION}.dist-info/METADATA", b"")
        return sdist, wheel

    return make


def test_packages_have_the_files_of_the_clone(packages):
    CHECK["check_contents"](*packages())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"lacks": "sssp_pipeline/py.typed"}, "lacks ['sssp_pipeline/py.typed'] and has []"),
        ({"lacks": "LICENSE"}, "`s.tar.gz` lacks ['LICENSE'] and has []"),
        ({"more": "sssp_pipeline/notes.txt"}, "lacks [] and has ['sssp_pipeline/notes.txt']"),
    ],
)
def test_other_files_are_refused(packages, change, message):
    with pytest.raises(SystemExit, match="error: ") as caught:
        CHECK["check_contents"](*packages(**change))
    assert message in str(caught.value)


def test_one_version_is_named_everywhere(packages):
    _, wheel = packages()
    assert CHECK["check_version"](wheel) == VERSION
    with pytest.raises(SystemExit, match="error: the versions differ"):
        CHECK["check_version"](wheel.with_name("sssp_pipeline-9.9-py3-none-any.whl"))


def test_a_command_that_fails_ends_the_check_with_its_messages():
    with pytest.raises(SystemExit, match="error: `sh -c echo no >&2; exit 3` ended with 3\n\nno\n"):
        CHECK["called"]("sh", "-c", "echo no >&2; exit 3")
