"""Leases on a store that fails: requests are lost, answers are lost, and holders stand still."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.storage import files, lease

pytestmark = pytest.mark.medium

URL = "s3://bucket/run"


@dataclass
class FaultyStore:
    """Objects in memory; of the requests of a client that has faults, a share fails before or after its effect."""

    seed: int
    share: float
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

    def listed(self) -> list[str]:
        below = URL + "/_lease/"
        return sorted(name.removeprefix(below) for name in self.objects if name.startswith(below))


@pytest.fixture
def store(request, monkeypatch) -> FaultyStore:
    made = FaultyStore(*request.param)
    objects = made.objects
    monkeypatch.setattr(lease, "BEAT_S", 0.03)
    monkeypatch.setattr(lease, "LEASE_S", 0.4)
    monkeypatch.setattr(lease, "POLL_S", 0.02)
    monkeypatch.setattr(files, "is_local", lambda url: False)
    monkeypatch.setattr(files, "read_if_there", lambda url: made.request(lambda: objects.get(url)))
    monkeypatch.setattr(
        files, "write_atomic", lambda url, content: made.request(lambda: objects.__setitem__(url, content))
    )
    monkeypatch.setattr(
        files,
        "create",
        lambda url, content: made.request(lambda: objects.setdefault(url, content) == content),
    )
    monkeypatch.setattr(files, "remove", lambda url: made.request(lambda: objects.pop(url, None)))
    monkeypatch.setattr(files, "list_files", lambda url, deep=True: made.request(made.listed))
    return made


class Contender(threading.Thread):
    """Takes the folder again and again, and notes when it had it."""

    def __init__(self, seed: int, until: float) -> None:
        super().__init__()
        self._random, self._until = random.Random(seed), until
        #: For each time that this thread had the folder: when it got it, and when the last check began that said
        #: that the thread still has it.
        self.held: list[tuple[float, float]] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while time.monotonic() < self._until:
                self.hold_once()
        except BaseException as error:
            self.error = error

    def hold_once(self) -> None:
        held = lease._Lease(URL, on_wait=lambda holder: None)
        try:
            held.acquire()
        except SsspError:
            return  # a request was lost before the lease was got
        acquired = last_passed = time.monotonic()
        try:
            for _ in range(self._random.randrange(1, 40)):
                began = time.monotonic()
                held.check()
                last_passed = began
                time.sleep(self._random.choice((0.001, 0.01)))
        except SsspError:
            pass
        finally:
            held.release()
            self.held.append((acquired, last_passed))


@pytest.mark.parametrize(
    "store",
    [(1, 0.0), (2, 0.03), (3, 0.1)],
    indirect=True,
    ids=lambda param: f"{param[1]:.0%} lost",
)
def test_no_two_hold_a_folder_whatever_requests_are_lost(store):
    until = time.monotonic() + 4
    contenders = [Contender(seed, until) for seed in range(4)]
    for contender in contenders:
        contender.start()
    for contender in contenders:
        contender.join(60)
    assert [contender.error for contender in contenders if contender.error] == []
    held = sorted(one for contender in contenders for one in contender.held)
    assert len(held) >= 2, "the folder never changed hands"
    assert bool(store.n_lost) == bool(store.share)
    for (_, last_passed), (acquired, _) in pairwise(held):
        assert last_passed <= acquired, "a check passed after another one got the folder"


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
