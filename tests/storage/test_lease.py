import errno
import os
import shutil
import threading
import time
from contextlib import ExitStack

import pytest
from fsspec.implementations.local import LocalFileSystem

from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.storage import files, lease, mounts
from sssp_pipeline.storage.lease import exclusive, is_held


def files_below(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def test_a_folder_is_held_by_one_process_alone(tmp_path):
    url = str(tmp_path / "run")
    with exclusive(url):
        with pytest.raises(InputError) as caught, exclusive(url):
            pass
        (tmp_path / "run" / "file").touch()
    assert caught.value.message == f"another process is writing to `{url}`"
    with exclusive(url):
        pass
    assert files_below(tmp_path) == ["run", "run/file"]


class Waiting(threading.Thread):
    """Waits for a folder, and holds it until `leave` is set."""

    def __init__(self, url: str):
        super().__init__()
        self.url, self.holders = url, []
        self.waits, self.holds, self.leave = threading.Event(), threading.Event(), threading.Event()
        self.start()

    def run(self):
        def on_wait(holder):
            self.holders.append(holder)
            self.waits.set()

        with exclusive(self.url, on_wait):
            self.holds.set()
            assert self.leave.wait(20)


@pytest.fixture
def shared(monkeypatch):
    """Take every local filesystem for one that several machines share, and make its leases short."""
    monkeypatch.setattr(lease, "is_of_one_host", lambda path: False)
    monkeypatch.setattr(lease, "POLL_S", 0.02)
    monkeypatch.setattr(lease, "BEAT_S", 0.1)
    monkeypatch.setattr(lease, "LEASE_S", 1.5)


@pytest.fixture(params=["local", "shared", "object store"])
def folder(request, tmp_path, monkeypatch):
    """Give the URL of a folder: a local one, a shared one, and one in an object store that is a dictionary."""
    monkeypatch.setattr(lease, "POLL_S", 0.05)
    if request.param == "local":
        return str(tmp_path / "graph")
    if request.param == "shared":
        request.getfixturevalue("shared")
        return str(tmp_path / "graph")
    monkeypatch.setattr(lease, "BEAT_S", 0.1)
    objects: dict[str, bytes] = {}

    def listed(url, deep=True):
        return sorted(name.removeprefix(url + "/") for name in list(objects) if name.startswith(url + "/"))

    monkeypatch.setattr(files, "read_if_there", objects.get)
    monkeypatch.setattr(files, "write_atomic", objects.__setitem__)
    monkeypatch.setattr(files, "create", lambda url, content: objects.setdefault(url, content) == content)
    monkeypatch.setattr(files, "remove", lambda url: objects.pop(url, None))
    monkeypatch.setattr(files, "list_files", listed)
    monkeypatch.setattr(files, "is_local", lambda url: False)
    return "s3://bucket/graph"


def test_a_waiting_process_is_notified_once_and_holds_next(folder):
    with exclusive(folder):
        waiting = Waiting(folder)
        assert waiting.waits.wait(20)
        time.sleep(0.5)
        assert not waiting.holds.is_set()
    assert waiting.holds.wait(20)
    with pytest.raises(InputError, match="is writing to"), exclusive(folder):
        pass
    waiting.leave.set()
    waiting.join(20)
    assert len(waiting.holders) == 1
    with exclusive(folder):
        pass


def test_the_lock_of_a_removed_folder_does_not_count(tmp_path, monkeypatch):
    # The holder removes the empty folder when it ends: the lock that a waiting process then gets is on no folder.
    monkeypatch.setattr(lease, "POLL_S", 0.05)
    url = str(tmp_path / "graph")
    locks = []
    real = lease._try_lock_repeatedly

    def opened_before_the_removal(handle):
        if not locks:
            shutil.rmtree(url)
        locks.append(handle)
        return real(handle)

    with monkeypatch.context() as patched:
        patched.setattr(lease, "_try_lock_repeatedly", opened_before_the_removal)
        with exclusive(url):
            assert len(locks) == 2
            patched.undo()
            with pytest.raises(InputError), exclusive(url):
                pass


# ---- three processes: a lock counts only on the folder that the path leads to ----


def assert_is_held(url):
    with pytest.raises(InputError, match="another process is writing to"), exclusive(url):
        pass


def test_the_end_of_a_holder_whose_folder_was_removed_leaves_the_folder_of_the_next_one(tmp_path):
    url = str(tmp_path / "run")
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(exclusive(url))
        (tmp_path / "run").rmdir()
        second.enter_context(exclusive(url))
        first.close()
        assert_is_held(url)


def test_a_check_for_writing_leaves_the_folder_that_another_process_holds_by_then(tmp_path, monkeypatch):
    url = str(tmp_path / "run")
    remove_probe = LocalFileSystem.rm_file
    with ExitStack() as second:

        def another_process_takes_the_folder(fs, path):
            remove_probe(fs, path)
            second.enter_context(exclusive(url))

        monkeypatch.setattr(LocalFileSystem, "rm_file", another_process_takes_the_folder)
        files.check_writable(url)
        assert_is_held(url)
    assert files_below(tmp_path) == []


# ---- filesystems that several machines share: a lease takes the place of the lock ----


def test_a_lease_on_a_shared_folder_leaves_nothing(tmp_path, shared):
    url = str(tmp_path / "run")
    with exclusive(url) as still_ours:
        assert is_held(url)
        still_ours()
        assert files_below(tmp_path) == ["run", "run/_lease", "run/_lease/000001.json"]
    assert files_below(tmp_path) == []


def test_a_lease_of_a_killed_process_is_taken_over(tmp_path, shared):
    url = str(tmp_path / "run")
    dead = lease._Lease(url)
    assert files.create(dead._object_url(1), dead._content(0) + b" ")
    began = time.monotonic()
    with exclusive(url):
        assert time.monotonic() - began > 1.5
        assert files_below(tmp_path / "run/_lease") == ["000001.json", "000002.json"]
    assert files_below(tmp_path) == []


def test_a_lease_that_is_overwritten_or_removed_is_lost(tmp_path, shared):
    def overwritten(url):
        files.write_atomic(url, b'{"token": "of another"}')

    for strike in (overwritten, files.remove):
        with exclusive(str(tmp_path / "held")) as still_ours:
            strike(f"{tmp_path}/held/_lease/000001.json")
            time.sleep(0.5)
            with pytest.raises(SsspError, match="was taken over by another process"):
                still_ours()
        files.remove(f"{tmp_path}/held")


def test_an_old_list_of_numbers_gives_no_second_holder(tmp_path, shared, monkeypatch):
    # Another machine has released number 1 and taken number 2, and this one still sees the old list.
    url = str(tmp_path / "run")
    assert files.create(f"{url}/_lease/000002.json", b'{"token": "of another"}')
    real = lease._Lease._numbers
    lists = []

    def old_at_first(self):
        lists.append(real(self))
        return [] if len(lists) == 1 else lists[-1]

    monkeypatch.setattr(lease._Lease, "_numbers", old_at_first)
    began = time.monotonic()
    with exclusive(url):
        assert time.monotonic() - began > 1.5  # it has waited until the other lease expired
        assert (tmp_path / "run/_lease/000003.json").exists()


def test_many_processes_take_turns_on_a_shared_folder(tmp_path, shared):
    url, at_once, most = str(tmp_path / "run"), [], []

    def hold():
        with exclusive(url, lambda holder: None) as still_ours:
            at_once.append(1)
            most.append(len(at_once))
            time.sleep(0.05)
            still_ours()
            at_once.pop()

    threads = [threading.Thread(target=hold) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert most == [1] * 6
    assert files_below(tmp_path) == []


@pytest.mark.parametrize("code", [None, errno.EPERM, errno.ENOTSUP])
def test_a_file_is_created_once(tmp_path, monkeypatch, code):
    def link(source, target):
        raise OSError(code, "no links")

    if code is not None:
        monkeypatch.setattr(os, "link", link)
    url = f"{tmp_path}/folder/only"
    assert files.create(url, b"first")
    assert not files.create(url, b"second")
    assert files.create(url, b"first")  # as after an answer that was lost
    assert files_below(tmp_path) == ["folder", "folder/only"]
    assert files.read_bytes(url) == b"first"


MOUNTS = r"""
21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 21 0:40 / /home rw,relatime - nfs4 server:/home rw,vers=4.2
31 30 0:41 / /home/my\040disk rw - xfs /dev/sdb rw
32 21 0:42 / /scratch rw - lustre 10.0.0.1@o2ib:/scratch rw
33 21 0:43 / /mnt/s rw - fuse.sshfs host:/ rw
34 21 0:44 / /twice rw - ext4 /dev/sdc rw
35 21 0:45 / /twice rw - nfs server:/ rw
36 21 0:46 / /tmp rw master:1 - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("path", "is_local"),
    [
        ("/var/data", True),
        ("/home/ann/run", False),
        ("/home/my disk/run", True),
        ("/homes/ann", True),
        ("/scratch", False),
        ("/mnt/s/x", False),
        ("/twice/x", False),
        ("/tmp/x", True),
    ],
)
def test_the_filesystem_of_a_path(path, is_local, tmp_path, monkeypatch):
    (tmp_path / "mountinfo").write_text(MOUNTS.lstrip())
    monkeypatch.setattr(mounts, "_MOUNTS", tmp_path / "mountinfo")
    assert mounts.is_of_one_host(path) is is_local


def test_a_machine_without_a_list_of_mounts_has_locks(tmp_path, monkeypatch):
    monkeypatch.setattr(mounts, "_MOUNTS", tmp_path / "none")
    assert mounts.is_of_one_host("/anywhere")
