import errno
import os
import sys
import threading
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import _registry

from sssp_pipeline.base.errors import DiskFullError, InputError, SsspError
from sssp_pipeline.storage import atomic_files, files


def files_below(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def test_a_write_appears_whole_and_leaves_no_temporary(tmp_path):
    files.write_atomic(str(tmp_path / "a" / "b.txt"), b"content")
    assert (tmp_path / "a" / "b.txt").read_bytes() == b"content"
    assert files_below(tmp_path) == ["a", "a/b.txt"]


def test_an_error_inside_a_write_keeps_the_old_content(tmp_path):
    url = str(tmp_path / "file")
    files.write_atomic(url, b"old")
    with pytest.raises(RuntimeError, match="boom"), files.open_atomic(url) as handle:
        handle.write(b"new")
        raise RuntimeError("boom")
    assert Path(url).read_bytes() == b"old"
    assert files_below(tmp_path) == ["file"]
    with pytest.raises(RuntimeError), files.open_atomic("memory://bucket/half") as handle:
        handle.write(b"half")
        raise RuntimeError
    assert not files.exists("memory://bucket/half")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("plain", [False, True])
def test_a_full_disk_reads_the_same_whatever_meets_it(tmp_path, monkeypatch, plain):
    url, kind = str(tmp_path / "file"), (atomic_files if plain else pa, "_PlainFile" if plain else "OSFile")
    opened = getattr(*kind)
    monkeypatch.setattr(*kind, lambda path, **mode: opened("/dev/full", **mode))
    with pytest.raises(DiskFullError) as caught, files.open_atomic(url, plain=plain) as handle:
        handle.write(b"some")
    assert caught.value.message == f"`{url}` cannot be written: No space left on device"
    assert caught.value.hint == "free some space and run the same command again"
    assert files_below(tmp_path) == []


def test_other_write_failures_are_not_the_users_fault(tmp_path):
    with pytest.raises(SsspError) as caught, files.open_atomic(str(tmp_path / "file")):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("place", ["{}", "memory://bucket"])
def test_files_of_any_filesystem(tmp_path, place):
    url = place.format(tmp_path)
    for name in ("run/deep/b.txt", "run/a.txt", "run/.sssp-partial-1"):
        files.write_atomic(f"{url}/{name}", name.encode())
    assert files.list_files(f"{url}/run") == [".sssp-partial-1", "a.txt", "deep/b.txt"]
    assert files.list_files(f"{url}/run/deep/") == ["b.txt"]
    assert files.list_files(f"{url}/none") == files.list_files(f"{url}/run/a.txt") == []
    assert files.read_bytes(f"{url}/run/deep/b.txt") == b"run/deep/b.txt"
    assert files.expand([f"{url}/run/*.txt"]) == [f"{url}/run/a.txt"]
    files.remove(f"{url}/run")
    assert not files.exists(f"{url}/run/a.txt")


def test_a_file_is_read_without_asking_for_it_first(monkeypatch):
    files.write_atomic("memory://bucket/there", b"content")
    for question in ("exists", "info", "ls"):
        monkeypatch.setattr(MemoryFileSystem, question, lambda *_, **__: pytest.fail("asked"))
    assert files.read_if_there("memory://bucket/there") == b"content"
    assert files.read_if_there("memory://bucket/absent") is None


def test_a_file_that_may_not_be_read_is_not_taken_for_absent(monkeypatch):
    refusal = PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    monkeypatch.setattr(MemoryFileSystem, "cat_file", Mock(side_effect=refusal))
    with pytest.raises(InputError, match="`memory://bucket/there` may not be read: Permission denied"):
        files.read_if_there("memory://bucket/there")


def test_globs_are_sorted(tmp_path):
    for name in ("b.txt", "a.txt", "c.csv"):
        (tmp_path / name).touch()
    assert files.expand([f"{tmp_path}/*.txt"]) == [f"{tmp_path}/a.txt", f"{tmp_path}/b.txt"]
    (tmp_path / "edges[1].txt").touch()
    assert files.expand([f"{tmp_path}/edges[1].txt"]) == [f"{tmp_path}/edges[1].txt"]


def test_the_fingerprint_changes_with_the_file(tmp_path):
    (file := tmp_path / "edges.txt").touch()
    before = files.fingerprint(str(file))
    assert files.fingerprint(str(file)) == before
    os.utime(file, (1, 1))
    assert files.fingerprint(str(file)) != before
    # A file without any mark counts as changed.
    files.write_atomic("memory://bucket/unmarked", b"x")
    info = files.filesystem("memory://bucket/unmarked")[0].info("/bucket/unmarked")
    assert not set(info) & {"ETag", "mtime", "LastModified"}
    assert files.fingerprint("memory://bucket/unmarked") != files.fingerprint("memory://bucket/unmarked")


def test_leftovers_of_a_killed_process_are_removed(tmp_path):
    (tmp_path / "keep.parquet").touch()
    (tmp_path / f"{files.TEMP_PREFIX}4567-y.parquet").touch()
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / f"{files.TEMP_PREFIX}0123-x.parquet").touch()
    files.remove_temporaries(str(tmp_path))  # what lies deeper may be somebody else's
    files.remove_temporaries(str(tmp_path / "deep"), but=f"{files.TEMP_PREFIX}0123-x.parquet")
    assert len(list((tmp_path / "deep").iterdir())) == 1
    files.remove_temporaries(str(tmp_path / "deep"))
    assert files_below(tmp_path) == ["deep", "keep.parquet"]


def test_a_check_for_writing_leaves_nothing(tmp_path):
    files.check_writable(str(tmp_path / "a" / "b"))
    assert files_below(tmp_path) == []


def test_a_check_for_writing_goes_on_while_others_remove_the_empty_folder(tmp_path):
    place = tmp_path / "a" / "b"
    is_over = threading.Event()

    def remove():
        while not is_over.wait(0.0002):
            files.remove_if_empty(str(place))
            files.remove_if_empty(str(place.parent))

    other = threading.Thread(target=remove)
    other.start()
    try:
        for _ in range(300):
            files.check_writable(str(place))
    finally:
        is_over.set()
        other.join()
    assert [path for path in files_below(tmp_path) if not (tmp_path / path).is_dir()] == []


def test_free_space_is_that_of_the_place_that_will_be(tmp_path):
    there = files.free_bytes(str(tmp_path))
    assert files.free_bytes(f"{tmp_path}/not/yet/there") == pytest.approx(there, rel=0.1)
    assert files.free_bytes("memory://bucket") is None


@pytest.mark.parametrize(
    "url", ["http://host/x", "https://host/x", "data:text/plain,x", "zip://a/b", "github://a/b", "-"]
)
def test_what_can_only_be_read_is_no_destination(url, monkeypatch):
    monkeypatch.setattr(files, "filesystem", lambda _: pytest.fail("asked"))
    with pytest.raises(InputError) as caught:
        files.check_writable(url)
    assert caught.value.message == f"`{files.redacted(url)}` cannot be written"
    assert caught.value.hint == "name a folder on this machine or in a store: ./results, s3://bucket/results"


@pytest.mark.parametrize(
    "url", ["./data/run", "/data:x/run", "s3://bucket/run", "memory://run", "file:///run", "ftp://host/run"]
)
def test_other_places_may_be_written(url):
    assert not files.is_read_only(url)


def test_a_path_that_the_locale_cannot_hold(monkeypatch):
    monkeypatch.setattr(os, "fsencode", lambda path: path.encode("ascii"))
    for ask in (files.read_bytes, files.check_writable, lambda url: files.expand([url])):
        with pytest.raises(InputError) as caught:
            ask("résultats")
        assert caught.value.message == (
            "`résultats` has a character that paths here cannot have: their encoding is ascii"
        )
        assert "LC_ALL=C.UTF-8" in caught.value.hint


LONG, CHAIN = "x" * 300, "zip://a.txt::https://user:secret@host/f.zip?signature=secret"


@pytest.fixture
def odd_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    Path("loop").symlink_to("loop")
    Path("broken").symlink_to("absent")


@pytest.mark.parametrize(
    ("url", "message", "hint"),
    [
        (LONG, f"`{LONG}` cannot be read: File name too long", "correct the path"),
        (f"{LONG}/edges.txt", f"`{LONG}/edges.txt` cannot be read: File name too long", "correct the path"),
        ("a\0b", "`a\\0b` has a NUL character in it", "correct the path"),
        ("a\ud800b", "`a\\ud800b` has a character that paths here cannot have", "LC_ALL=C.UTF-8"),
        ("loop", "`loop` cannot be read: Too many levels of symbolic links", "correct the path"),
        ("broken", "`broken` is a link to `absent`, which does not exist", "check the path, or the bucket and key"),
        ("nope/edges.txt", "`nope/edges.txt` does not exist", "check the path, or the bucket and key"),
        ("file/edges.txt", "`file/edges.txt` cannot be read: Not a directory", "correct the path"),
        ("gopher://key:secret@x/y", "`gopher://x/y` cannot be opened", "known schemes: abfs, file"),
        ("s3://key:secret@bucket/x", "`s3://bucket/x` was given with a password in it", "leave it out: credentials"),
        (CHAIN, "`zip://a.txt::https://host/f.zip` is a chain of URLs, which cannot be read", ""),
        (".", "`.` is a folder, not a file", "name "),
        ("*/x.txt", "`*/x.txt` matches no file", "check the pattern and the folder"),
        ("loop/*.txt", "`loop/*.txt` cannot be read: Too many levels of symbolic links", "correct the path"),
    ],
)  # fmt: skip
def test_paths_that_lead_nowhere(odd_paths, url, message, hint):
    for read in (lambda url: files.expand([url]), files.read_bytes)[: 1 if "*" in url else 2]:
        with pytest.raises(InputError) as caught:
            read(url)
        assert caught.value.message.startswith(message)
        assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("url", "package", "extra"),
    [("https://host/x", "aiohttp", "http"), ("s3://b/k", "s3fs", "s3"), ("gs://b/k", "gcsfs", "gcs")],
)
def test_the_extra_of_a_place_is_named(monkeypatch, url, package, extra):
    # Another test may have opened such a place: fsspec keeps its class.
    monkeypatch.delitem(_registry, url.partition("://")[0], raising=False)
    monkeypatch.delitem(sys.modules, "fsspec.implementations.http", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError) as caught:
        files.read_bytes(url)
    assert caught.value.message.startswith(f"`{url}` cannot be opened: ")
    assert caught.value.hint == f"install the extra that reads it: pip install 'sssp-pipeline[{extra}]'"


@pytest.mark.parametrize(
    ("url", "message", "hint"),
    [
        (LONG, f"`{LONG}` cannot be written: File name too long", "correct the path"),
        ("a\0b", "`a\\0b` has a NUL character in it", "correct the path"),
        ("loop", "`loop` cannot be written: it is a file, not a folder", "name another folder"),
        ("loop/run", "`loop/run` cannot be written: Too many levels of symbolic links", "correct the path"),
        ("broken", "`broken` cannot be written: it is a file, not a folder", "name another folder"),
        ("file", "`file` cannot be written: it is a file, not a folder", "name another folder"),
        ("file/run", "`file/run` cannot be written: Not a directory", "choose a place that may be written"),
    ],
)
def test_places_that_cannot_be_written(odd_paths, tmp_path, url, message, hint):
    with pytest.raises(InputError) as caught:
        files.check_writable(url)
    assert (caught.value.message, caught.value.hint) == (message, hint)
    assert files_below(tmp_path) == ["broken", "file", "loop"]
