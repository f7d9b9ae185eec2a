"""Lease: one process at a time writes to a run folder or a graph store.

A local folder is locked by the kernel, which ends the lock with the process. An object store has no locks, but it
creates an object on the condition that there is none, and on that alone stands a lease:

```
<folder>/_lease/000001.json      who holds the folder, since when, and a beat that grows every `BEAT_S`
```

The holder is the one with the highest number. A newcomer watches the beat by its own clock. If the beat grows, the
newcomer is refused, or waits where it is told to. If it stands still for the time that the holder promised, the next
number is created, by one of however many newcomers. A holder that was frozen or cut off for so long finds the higher
number, or its own gone, and stops. The objects are removed when the block ends; those of a killed process expire.

Why a holder looks before each beat, and does not trust its own clock alone: `docs/design/0007-object-storage.md`.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import platform
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta

from sssp_pipeline.errors import InputError, SsspError
from sssp_pipeline.pipeline.storage import files
from sssp_pipeline.pipeline.storage.file_locks import is_in_place, try_lock
from sssp_pipeline.pipeline.storage.retries import impatient

#: Seconds between two beats of a lease, and without any until it has expired. When a store is back, a client that
#: waits between attempts of its own must be back before a newcomer has waited enough: the Azure SDK pauses up to 27 s.
BEAT_S, LEASE_S = 3.0, 45.0
#: Seconds between two looks at the lease of another.
LOOK_S = 0.5

_NUMBER = re.compile(r"(\d{6})\.json")
_log = logging.getLogger(__name__)


@contextmanager
def exclusive(url: str, on_wait: Callable[[str], None] | None = None) -> Iterator[Callable[[], None]]:
    """Hold the folder `url`, made if need be, for this process alone.

    While another process holds the folder, this one is refused. With `on_wait` it waits instead, and `on_wait` is
    called once, with the name of the other process.

    Gives a function to call before something that only the holder may do: it raises `SsspError` once the folder is
    another's, which can happen in an object store to a process that was frozen or cut off. Where there are neither
    locks nor conditions, such as `sftp://`, nothing is held, and a line in the log says so.

    Raises
    ------
    InputError
        Another process holds it and there is no `on_wait`, or it cannot be made.
    """
    if files.is_local(url):
        with _locked(url, on_wait):
            yield _always
    elif files.is_object_store(url):
        lease = _Lease(url, on_wait)
        lease.acquire()
        try:
            yield lease.check
        except InputError:
            lease.check()  # what was found amiss may be the work of the one who has taken over
            raise
        finally:
            lease.release()
    else:
        _log.warning("`%s` can be held by no process: see that no other writes to it", files.redacted(url))
        yield _always


def _always() -> None:
    """Nothing takes the folder from this process."""


@contextmanager
def _locked(url: str, on_wait: Callable[[str], None] | None) -> Iterator[None]:
    folder = _locked_folder(url, on_wait)
    try:
        try:
            yield
        finally:
            # Another process may hold a new folder of this name, if the locked one was removed meanwhile.
            if is_in_place(folder, files.filesystem(url)[1]):
                files.remove_if_empty(url)
    finally:
        os.close(folder)


def _locked_folder(url: str, on_wait: Callable[[str], None] | None) -> int:
    """Return the descriptor of the folder `url`, made if need be, and locked where its filesystem has locks."""
    fs, path = files.filesystem(url)
    is_told = False
    while True:
        with files.writing(url):
            fs.makedirs(path, exist_ok=True)
        # The holder may remove the folder when it ends: between these steps, or while this process waits.
        with suppress(FileNotFoundError), ExitStack() as closing:
            folder = os.open(path, os.O_RDONLY)
            closing.callback(os.close, folder)
            if _lock(folder):
                if is_in_place(folder, path):
                    closing.pop_all()
                    return folder
            elif on_wait is None:
                raise _refusal(url, "another process")
            else:
                if not is_told:
                    on_wait("another process")
                is_told = True
                time.sleep(LOOK_S)


def _lock(folder: int) -> bool:
    """Lock an open folder; return False if another process keeps the lock, which a check holds only for an instant."""
    for _ in range(_LOOKS):
        if try_lock(folder):
            return True
        time.sleep(_LOOK_AGAIN_S)
    return False


#: `is_held` and `remove_if_free` hold the lock for some microseconds: how often to try again, and the seconds between.
_LOOKS, _LOOK_AGAIN_S = 3, 0.02


def is_held(url: str) -> bool | None:
    """Return whether a process holds the folder `url` as `exclusive`: of this machine, or by a lease that lives.

    None where that cannot be told. A lease is judged by one look, from this machine's clock and the store's.
    """
    if files.is_object_store(url):
        times = files.file_times(files.join(url, "_lease")).values()
        if None in times:
            return None
        return any(datetime.now(UTC) - when < timedelta(seconds=LEASE_S) for when in times if when)
    if not files.is_local(url):
        return None
    try:
        folder = os.open(files.filesystem(url)[1], os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(folder)
    return False


def _refusal(url: str, who: str) -> InputError:
    return InputError(
        f"{who} is writing to `{files.redacted(url)}`", hint="wait until it ends, or choose another place"
    )


class _Lease:
    """A lease on the folder `url` of an object store, beaten by a thread of its own from `acquire` to `release`."""

    def __init__(self, url: str, on_wait: Callable[[str], None] | None = None) -> None:
        self._url = url
        self._on_wait = on_wait
        self._is_told = False
        self._token = uuid.uuid4().hex
        self._facts = {
            "holder": f"{platform.node()}:{os.getpid()}",
            "lease_s": LEASE_S,
            "token": self._token,
        }
        self._number = 0
        self._renewed = _now()
        self._lost = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)

    def acquire(self) -> None:
        """Become the holder, after waiting for another one with `on_wait`; raises `InputError` without it."""
        while True:
            last, there = self._last()
            if there is not None and not self._is_expired(last, there):
                continue
            self._number = last + 1
            self._renewed = _now()
            self._facts["since"] = datetime.now(UTC).isoformat(timespec="seconds")
            if files.create(self._at(self._number), self._content(0)):
                break
        if files.create(self._at(self._number), self._content(1)):
            shown = files.redacted(self._url)
            _log.warning(
                "the store of `%s` keeps no condition: two that begin at once are found out late", shown
            )
        self._thread.start()

    def check(self) -> None:
        """Raise `SsspError` unless this process still holds the folder."""
        # A process that stood still may come here before its own thread has noticed.
        if not self._lost and _now() - self._renewed > LEASE_S:
            self._look()
        if self._lost:
            raise SsspError(
                f"`{files.redacted(self._url)}` was taken over by another process while this one stood still "
                "or was cut off",
                hint="nothing is lost: the other process goes on with it",
            )

    def release(self) -> None:
        """Give the folder back; what cannot be removed now expires."""
        self._ended.set()
        self._thread.join(LEASE_S)
        try:
            with impatient():
                self._look()
                # Upwards, so that one's own goes last.
                for number in sorted(n for n in self._numbers() if n <= self._number and not self._lost):
                    files.remove(self._at(number))
        except SsspError as error:
            _log.warning("the lease could not be given back, it expires in %.0f s: %s", LEASE_S, error)

    def _last(self) -> tuple[int, bytes | None]:
        """Return the highest number and its content; 0 and None when there is no lease."""
        for number in sorted(self._numbers(), reverse=True):
            if (there := files.read_if_there(self._at(number))) is not None:
                return number, there
        return 0, None

    def _numbers(self) -> list[int]:
        names = files.list_files(files.join(self._url, "_lease"))
        return [int(found[1]) for name in names if (found := _NUMBER.fullmatch(name))]

    def _at(self, number: int) -> str:
        return files.join(self._url, "_lease", f"{number:06d}.json")

    def _content(self, beat: int) -> bytes:
        return json.dumps(self._facts | {"beat": beat}).encode()

    def _is_expired(self, number: int, there: bytes) -> bool:
        """Return whether a lease expires, or False when it is given back, or renewed while this process waits.

        Raises
        ------
        InputError
            It is renewed, and there is no `on_wait`.
        """
        try:
            facts = json.loads(there)
            who = f"process {facts['holder']}, since {facts['since']},"
            lease_s = float(facts["lease_s"])
        except (ValueError, KeyError, TypeError):  # half a lease has no holder who could renew it
            who, lease_s = "another process,", LEASE_S
        if not self._is_told:
            shown = files.redacted(self._url)
            _log.warning("`%s` is held by %s waiting %.0f s for a sign of life", shown, who, lease_s)
        began = _now()
        while _now() - began <= lease_s:
            time.sleep(LOOK_S)
            now = files.read_if_there(self._at(number))
            if now is None:
                return False
            if now != there:
                if self._on_wait is None:
                    raise _refusal(self._url, who.removesuffix(","))
                if not self._is_told:
                    self._on_wait(who.removesuffix(","))
                self._is_told = True
                return False
        return True

    def _keep(self) -> None:
        """Beat until the lease ends or is lost; what fails is tried again at the next beat."""
        beat = 0
        while not self._ended.wait(BEAT_S) and not self._lost:
            beat += 1
            try:
                with impatient():
                    self._beat(beat)
            except SsspError as error:
                _log.info("beat %d of the lease on `%s`: %s", beat, files.redacted(self._url), error)

    def _beat(self, beat: int) -> None:
        began = _now()
        self._look()
        if self._lost:
            return
        files.write_atomic(self._at(self._number), self._content(beat))
        if _now() - began > LEASE_S:
            # Frozen between look and beat: another may have come, and even gone again with all its marks.
            self._lost = True
            files.remove(self._at(self._number))
        else:
            self._renewed = began

    def _look(self) -> None:
        """Note whether the lease is another's: by a higher number, or one's own gone or overwritten."""
        there = files.read_if_there(self._at(self._number))
        mine = there is not None and self._token.encode() in there
        if not mine or any(number > self._number for number in self._numbers()):
            self._lost = True


def _now() -> float:
    """Return seconds that also count while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
