import errno
import os
import random
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import chain, pairwise, repeat

import pytest

from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.storage import files, lease, mounts
from sssp_pipeline.storage.lease import exclusive, is_held
from sssp_pipeline.storage.local_files import LocalFiles

URL = "s3://bucket/run"


def files_below(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


def assert_is_held(url, holder=".*"):
    with pytest.raises(InputError, match=f"^{holder} is writing to `{url}`"), exclusive(url):
        pass


def test_a_folder_is_held_by_one_process_at_a_time(tmp_path):
    url = str(tmp_path / "run")
    with exclusive(url):
        assert_is_held(url, "another process")
        (tmp_path / "run" / "file").touch()
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
            assert self.leave.wait(60)


@pytest.fixture
def shared(monkeypatch):
    """Take every local filesystem for one that several machines share, and make its leases short."""
    monkeypatch.setattr(lease, "is_of_one_host", lambda path: False)
    monkeypatch.setattr(lease, "POLL_S", 0.02)
    monkeypatch.setattr(lease, "BEAT_S", 0.1)
    monkeypatch.setattr(lease, "LEASE_S", 1.5)


@dataclass
class FaultyStore:
    """Objects in memory; of the requests of a client that has faults, a share fails before or after its effect."""

    seed: int = 0
    share: float = 0.0
    objects: dict[str, bytes] = field(default_factory=dict)
    n_lost: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._lock = threading.Lock()

    def request(self, effect):
        with self._lock:
            fault = self._random.random() < self.share and self._random.choice(("request", "answer"))
            self.n_lost += bool(fault)
            if fault == "request":
                raise SsspError("the request is lost")
            result = effect()
            if fault == "answer":
                raise SsspError("the answer is lost")
            return result

    def replace_files(self, monkeypatch) -> None:
        """Have the module `files` use this store."""
        for name, effect in {
            "read_if_there": self.objects.get,
            "write_atomic": self.objects.__setitem__,
            "create": lambda url, content: self.objects.setdefault(url, content) == content,
            "remove": lambda url: self.objects.pop(url, None),
            "list_files": lambda url: self.listed(),
        }.items():
            monkeypatch.setattr(
                files, name, lambda *given, effect=effect: self.request(lambda: effect(*given))
            )
        monkeypatch.setattr(files, "is_local", lambda url: False)

    def listed(self) -> list[str]:
        below = URL + "/_lease/"
        return sorted(name.removeprefix(below) for name in self.objects if name.startswith(below))


@pytest.fixture(params=["local", "shared", "object store"])
def folder(request, tmp_path, monkeypatch):
    """Give the URL of a folder: a local one, a shared one, and one in an object store."""
    if request.param == "shared":
        request.getfixturevalue("shared")
    monkeypatch.setattr(lease, "POLL_S", 0.05)
    monkeypatch.setattr(lease, "BEAT_S", 0.1)
    if request.param != "object store":
        return str(tmp_path / "graph")
    FaultyStore().replace_files(monkeypatch)
    return URL


def test_a_waiting_process_is_notified_once_and_holds_next(folder):
    with exclusive(folder):
        waiting = Waiting(folder)
        assert waiting.waits.wait(60)
        time.sleep(0.5)
        assert not waiting.holds.is_set()
    assert waiting.holds.wait(60)
    assert_is_held(folder)
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
            assert_is_held(url)


# ---- three processes: a lock counts only on the folder that the path leads to ----


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
    remove_probe = LocalFiles.rm_file
    with ExitStack() as second:

        def another_process_takes_the_folder(fs, path):
            remove_probe(fs, path)
            second.enter_context(exclusive(url))

        monkeypatch.setattr(LocalFiles, "rm_file", another_process_takes_the_folder)
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


def test_the_filesystem_of_a_path(tmp_path, monkeypatch):
    monkeypatch.setattr(mounts, "_MOUNTS", tmp_path / "mountinfo")
    assert mounts.is_of_one_host("/home/ann/run")  # there is no list of mounts
    (tmp_path / "mountinfo").write_text(MOUNTS.lstrip())
    for path in ("/var/data", "/home/my disk/run", "/homes/ann", "/tmp/x"):
        assert mounts.is_of_one_host(path), path
    for path in ("/home/ann/run", "/scratch", "/mnt/s/x", "/twice/x"):
        assert not mounts.is_of_one_host(path), path


# ---- a store that fails: requests are lost, answers are lost, and holders stand still ----


def contend(seed: int, until: float) -> list[tuple[float, float]]:
    """Take the folder again and again.

    Return for each time when the thread got the folder, and when the last check began that said that it has it.
    """
    rng, times = random.Random(seed), []
    while time.monotonic() < until:
        held = lease._Lease(URL, on_wait=lambda holder: None)
        try:
            held.acquire()
        except SsspError:
            continue  # a request was lost before the lease was got
        acquired = last_passed = time.monotonic()
        with suppress(SsspError):
            for _ in range(rng.randrange(1, 40)):
                began = time.monotonic()
                held.check()
                last_passed = began
                time.sleep(rng.choice((0.001, 0.01)))
        held.release()
        times.append((acquired, last_passed))
    return times


@pytest.fixture
def store(request, monkeypatch) -> FaultyStore:
    made = FaultyStore(*request.param)
    monkeypatch.setattr(lease, "BEAT_S", 0.03)
    monkeypatch.setattr(lease, "LEASE_S", 0.4)
    monkeypatch.setattr(lease, "POLL_S", 0.02)
    made.replace_files(monkeypatch)
    return made


@pytest.mark.medium
@pytest.mark.parametrize(
    "store",
    [(1, 0.0), pytest.param((2, 0.03), marks=pytest.mark.slow), (3, 0.1)],
    indirect=True,
    ids=lambda param: f"{param[1]:.0%} lost",
)
def test_no_two_hold_a_folder_whatever_requests_are_lost(store):
    until = time.monotonic() + 2
    with ThreadPoolExecutor(4) as threads:
        held = sorted(chain.from_iterable(threads.map(contend, range(4), repeat(until, 4))))
    assert len(held) >= 2, "the folder never changed hands"
    assert bool(store.n_lost) == bool(store.share)
    for (_, last_passed), (acquired, _) in pairwise(held):
        assert last_passed <= acquired, "a check passed after another one got the folder"


@pytest.mark.medium
@pytest.mark.parametrize("store", [(5, 0.0)], indirect=True)
def test_a_holder_that_is_cut_off_loses_the_folder_and_notices_it(store):
    first, second = lease._Lease(URL), lease._Lease(URL)
    first.acquire()
    try:
        with pytest.raises(InputError, match="is writing to"):
            lease._Lease(URL).acquire()
        store.share = 1.0  # nothing gets through any more, also not the beats
        time.sleep(3 * lease.LEASE_S)
        with pytest.raises(SsspError, match="is lost"):
            first.check()
        store.share = 0.0
        first._ended.set()  # a beat would tell it before the other one comes
        first._thread.join(10)
        second.acquire()
        with pytest.raises(SsspError, match="was taken over by another process"):
            first.check()
        second.check()
    finally:
        store.share = 0.0
        first.release()
        second.release()
    assert store.objects == {}
