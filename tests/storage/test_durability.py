"""What is synced, and in which order."""

import errno
import os
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pytest

from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.storage import durability, files
from sssp_pipeline.storage.durability import syncing
from sssp_pipeline.storage.file_sums import write_parquet, write_summed


@pytest.fixture
def steps(monkeypatch, tmp_path):
    """What is synced and renamed, in order, by its path below `tmp_path`."""
    found = []
    real_sync, real_replace = os.fsync, os.replace

    def fsync(descriptor):
        real_sync(descriptor)
        found.append(("sync", os.path.relpath(Path(f"/proc/self/fd/{descriptor}").readlink(), tmp_path)))

    def replace(source, target):
        real_replace(source, target)
        found.append(("rename", os.path.relpath(target, tmp_path)))

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    return found


def test_a_synced_file_is_on_the_disk_before_its_name(tmp_path, steps):
    files.write_atomic(f"{tmp_path}/run/record.json", b"{}", synced=True)
    kinds = [(what, name) for what, name in steps if not name.startswith("..")]
    (first, temporary), *rest = kinds
    assert (first, temporary.startswith("run/.sssp-partial-")) == ("sync", True)
    assert rest == [("rename", "run/record.json"), ("sync", "run"), ("sync", ".")]


def test_files_come_before_their_folders(tmp_path, steps):
    for name in ("a/b/one", "a/two"):
        files.write_atomic(f"{tmp_path}/{name}", b"content")
    steps.clear()
    files.sync(str(tmp_path), ["a/b/one", "a/two"])
    synced = [name for _, name in steps]
    assert set(synced[:2]) == {"a/b/one", "a/two"}
    assert synced[2:5] == ["a", "a/b", "."]


def test_nothing_is_synced_when_it_is_off(tmp_path, steps):
    with syncing("off"):
        files.write_atomic(f"{tmp_path}/record.json", b"{}", synced=True)
        files.sync(str(tmp_path), ["record.json"])
    assert steps == [("rename", "record.json")]


def test_a_missing_folder_is_left_out(tmp_path):
    files.sync(f"{tmp_path}/gone/further")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP])
def test_a_filesystem_that_cannot_sync_folders_is_taken_as_it_is(tmp_path, monkeypatch, code):
    (tmp_path / "file").write_bytes(b"x")

    def fsync(descriptor):
        if Path(f"/proc/self/fd/{descriptor}").is_dir():
            raise OSError(code, "no")

    monkeypatch.setattr(os, "fsync", fsync)
    files.sync(str(tmp_path), ["file"])


def test_a_disk_that_fails_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"x")

    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(errno.EIO, os.strerror(errno.EIO))))
    with pytest.raises(SsspError, match=f"`{tmp_path}`"):
        files.sync(str(tmp_path), ["file"])


def test_an_object_store_needs_no_sync(steps):
    files.write_atomic("memory://bucket/record.json", b"{}", synced=True)
    files.sync("memory://bucket", ["record.json"])
    assert steps == []


def test_the_disk_begins_to_write_what_will_be_synced_and_nothing_when_that_is_off(tmp_path, monkeypatch):
    begun = []
    monkeypatch.setattr(
        durability,
        "_begin_to_write",
        lambda descriptor, *_: begun.append(Path(f"/proc/self/fd/{descriptor}").readlink().name),
    )
    write_summed(f"{tmp_path}/tiles", lambda summed: summed.write(b"removed before the run is finished"))
    write_summed(f"{tmp_path}/a.parquet", lambda summed: write_parquet(pa.table({"a": [1]}), summed))
    with syncing("off"):
        write_summed(f"{tmp_path}/b.parquet", lambda summed: write_parquet(pa.table({"a": [1]}), summed))
    assert begun == ["a.parquet"]
