"""`LocalFiles` does what fsspec's filesystem of this machine does."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from sssp_pipeline.storage import files
from sssp_pipeline.storage.local_files import LocalFiles, local_path

OURS, THEIRS = LocalFiles(), LocalFileSystem()
#: Paths below the folder of `folder`.
PATHS = (
    "",
    "a.txt",
    "sub",
    "sub/deep",
    "sub/deep/b",
    "link",
    "link_to_folder",
    "dead",
    "missing",
    "a.txt/below",
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "sub/deep").mkdir(parents=True)
    (tmp_path / "a.txt").write_bytes(b"0123456789")
    (tmp_path / "sub/deep/b").write_bytes(b"b")
    (tmp_path / "link").symlink_to("a.txt")
    (tmp_path / "link_to_folder").symlink_to("sub")
    (tmp_path / "dead").symlink_to("nowhere")
    return tmp_path


def outcome(function, *given, **options):
    """Return what a call returns, or the class of the error that it raises."""
    try:
        return function(*given, **options)
    except OSError as error:
        return type(error)


@pytest.mark.parametrize(
    "url",
    [
        *(
            "/",
            "/a",
            "/a/",
            "//a//",
            "a",
            "./a",
            "./",
            ".",
            "..",
            "../a",
            "a/b/",
            "",
            "~",
            "~/a",
            "~nobody-here/a",
        ),
        *(
            "file:///a/b",
            "file:///a/",
            "file://a",
            "file:/a",
            "file:a",
            "local:///a",
            "file://~/a",
            "a:b",
            "-",
        ),
    ],
)
def test_a_local_url_names_the_path_that_it_names_for_fsspec(folder, url):
    fs, path = url_to_fs(url)
    assert isinstance(fs, LocalFileSystem)
    assert local_path(url) == path


@pytest.mark.parametrize(
    "url", ["s3://b/k", "memory://a", "https://h/a", "data:,a", "hdfs:///a", "ab://c", "zip://a"]
)
def test_other_urls_are_left_to_fsspec(url):
    assert local_path(url) is None


@pytest.mark.parametrize("name", PATHS)
def test_it_finds_what_fsspec_finds(folder, name):
    path = str(folder / name)
    for check in ("exists", "isfile", "isdir"):
        assert getattr(OURS, check)(path) == getattr(THEIRS, check)(path)
    ours, theirs = outcome(OURS.info, path), outcome(THEIRS.info, path)
    assert ours == (theirs if isinstance(theirs, type) else {key: theirs[key] for key in ("size", "mtime")})
    ours, theirs = outcome(OURS.ls, path, detail=False), outcome(THEIRS.ls, path, detail=False)
    assert ours == theirs if isinstance(theirs, type) else sorted(ours) == sorted(theirs)
    theirs = THEIRS.find(path, detail=True)
    theirs.pop(path, None)  # a file is not below itself
    expected = [(p, {key: facts[key] for key in ("size", "mtime")}) for p, facts in theirs.items()]
    assert list(OURS.find(path, detail=True).items()) == expected


@pytest.mark.parametrize("name", PATHS)
def test_it_reads_and_removes_what_fsspec_does(folder, name):
    path = str(folder / name)
    ranges = ((None, None), (0, 4), (3, None), (None, 4), (4, 99), (99, 100), (4, 4))
    for first, end in ranges:
        assert outcome(OURS.cat_file, path, first, end) == outcome(THEIRS.cat_file, path, first, end)
    expected = {p for p in THEIRS.find(str(folder)) if not f"{p}/".startswith(f"{path}/")}
    if not name:
        with pytest.raises(ValueError, match="current working directory"):
            OURS.rm(path, recursive=True)
    elif outcome(OURS.rm, path, recursive=True) is not None:
        assert outcome(THEIRS.rm, path, recursive=True) is outcome(OURS.rm, path, recursive=True)
    else:
        assert set(THEIRS.find(str(folder))) == expected
        assert not os.path.lexists(path)


def test_only_a_plain_file_of_this_machine_has_a_descriptor(folder):
    with files.open_read("a.txt") as handle:
        assert os.fstat(files.descriptor_of(handle)).st_size == 10
        with io.BufferedReader(handle) as around:
            assert files.descriptor_of(around) is None
    assert files.descriptor_of(io.BytesIO(b"a")) is None
    with Path("/dev/null").open("rb") as device:
        assert files.descriptor_of(device) is None
