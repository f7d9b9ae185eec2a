import shutil
import threading
import time
from contextlib import ExitStack

import pytest
from fsspec.implementations.local import LocalFileSystem

from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline.storage import files, lease
from sssp_pipeline.pipeline.storage.lease import exclusive


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


@pytest.fixture(params=["local", "object store"])
def folder(request, tmp_path, monkeypatch):
    """Give the URL of a folder: a local one, and one in an object store that is a dictionary."""
    monkeypatch.setattr(lease, "POLL_S", 0.05)
    if request.param == "local":
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
