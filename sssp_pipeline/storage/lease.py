"""Lease: one process at a time writes to a run folder or a graph store.

A folder on a disk of this machine is locked by the kernel, which releases the lock when the process ends. On a
filesystem that several machines share, such as NFS, each machine has locks of its own. An object store has no locks.
Both can create a file only if it does not exist yet, and the lease is built on this condition:

```
<folder>/_lease/000001.json      the holder, the time since when, and a beat that increases every `BEAT_S`
```

The process that created the highest number holds the folder. Another process that wants the folder reads the beat
again and again, and measures the time on its own clock. While the beat increases, this process is refused, or waits
if the caller wants that. If the beat does not change for the holder's `lease_s`, the process tries to create the next
number. Only one process succeeds. A holder that was frozen or cut off finds the higher number, or finds its own object
gone, and stops. The objects are removed when the block ends. Those of a killed process expire.

`docs/design/0007-object-storage.md` explains why a holder reads the lease before each beat: its own
clock is not enough.
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
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.storage import files
from sssp_pipeline.storage.atomic_files import in_folder
from sssp_pipeline.storage.file_locks import is_in_place, try_lock
from sssp_pipeline.storage.mounts import is_of_one_host
from sssp_pipeline.storage.retries import without_retries

#: Seconds between two beats of a lease.
BEAT_S = 3.0
#: Seconds without a beat after which a lease expires. After an outage the client of a holder must send a beat before
#: the lease expires, so this is longer than the clients' longest pause: the Azure SDK pauses up to 27 s.
LEASE_S = 45.0
#: Seconds between two reads of another process's lease, and between two attempts to lock a local folder.
POLL_S = 0.5

_NUMBER = re.compile(r"(\d{6})\.json")
_log = logging.getLogger(__name__)


@contextmanager
def exclusive(url: str, on_wait: Callable[[str], None] | None = None) -> Iterator[Callable[[], None]]:
    """Hold the folder `url` until the block ends, so that no other process writes to it. Create it if necessary.

    If another process holds the folder, this function raises. With `on_wait` it waits instead, and calls `on_wait`
    once with words for the other process.

    Gives a function to call before any step that only the holder may take. The function raises `SsspError` if another
    process has taken the folder over. That can happen to a process with a lease that was frozen or cut off.

    A filesystem with neither locks nor conditional writes, such as `sftp://`, cannot be held: a warning is logged, and
    the block runs.

    Raises
    ------
    InputError
        Another process holds the folder and there is no `on_wait`; or the folder cannot be created.
    """
    if _is_locked(url):
        with _locked(url, on_wait):
            yield _nothing_to_check
    elif _is_leased(url):
        lease = _Lease(url, on_wait)
        lease.acquire()
        try:
            yield lease.check
        except InputError:
            lease.check()  # the process that took over may have caused the error, so report the takeover instead
            raise
        finally:
            lease.release()
            files.remove_if_empty(url)
    else:
        _log.warning(
            "`%s` cannot be locked: make sure that no other process writes to it", files.redacted(url)
        )
        yield _nothing_to_check


def _is_locked(url: str) -> bool:
    return files.is_local(url) and is_of_one_host(files.filesystem(url)[1])


def _is_leased(url: str) -> bool:
    return files.is_object_store(url) or (files.is_local(url) and not _is_locked(url))


def _nothing_to_check() -> None:
    """Do nothing: no other process can take this folder over."""


@contextmanager
def _locked(url: str, on_wait: Callable[[str], None] | None) -> Iterator[None]:
    folder = _locked_folder(url, on_wait)
    try:
        try:
            yield
        finally:
            # If the locked folder was removed meanwhile, another process may hold a new folder of this name.
            if is_in_place(folder, files.filesystem(url)[1]):
                files.remove_if_empty(url)
    finally:
        os.close(folder)


def _locked_folder(url: str, on_wait: Callable[[str], None] | None) -> int:
    """Create the folder `url` if necessary, lock it if its filesystem has locks, and return its descriptor."""
    path = files.filesystem(url)[1]
    is_announced = False
    while True:
        with files.writing(url):
            folder = in_folder(path, partial(os.open, path, os.O_RDONLY))
        with ExitStack() as closing:
            closing.callback(os.close, folder)
            if _try_lock_repeatedly(folder):
                if is_in_place(folder, path):  # no: its holder removed the empty folder when it ended
                    closing.pop_all()
                    return folder
            elif on_wait is None:
                raise _in_use_error(url, "another process")
            else:
                if not is_announced:
                    on_wait("another process")
                is_announced = True
                time.sleep(POLL_S)


def _try_lock_repeatedly(folder: int) -> bool:
    """Lock an open folder; return False if another process keeps its lock for several attempts."""
    for _ in range(_LOCK_ATTEMPTS):
        if try_lock(folder):
            return True
        time.sleep(_LOCK_RETRY_S)
    return False


#: `is_held` and `remove_if_free` hold a lock for microseconds, so one failed attempt does not mean that it is held.
_LOCK_ATTEMPTS = 3
#: Seconds between two attempts.
_LOCK_RETRY_S = 0.02


def is_held(url: str) -> bool | None:
    """Return whether a process holds the folder `url` by `exclusive`; None if that cannot be found out.

    A lease counts as held if it was written less than `LEASE_S` ago, by the clocks of the storage and of this machine.
    """
    if _is_leased(url):
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


def _in_use_error(url: str, holder: str) -> InputError:
    return InputError(
        f"{holder} is writing to `{files.redacted(url)}`", hint="wait until it ends, or choose another place"
    )


class _Lease:
    """A lease on the folder `url`; from `acquire` to `release` a thread writes its beats."""

    def __init__(self, url: str, on_wait: Callable[[str], None] | None = None) -> None:
        self._url = url
        self._on_wait = on_wait
        self._is_announced = False
        self._token = uuid.uuid4().hex
        self._facts = {"holder": f"{platform.node()}:{os.getpid()}", "lease_s": LEASE_S, "token": self._token}
        self._number = 0
        self._renewed = _now()
        self._lost = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat_until_released, name="lease", daemon=True)

    def acquire(self) -> None:
        """Become the holder; if another process is the holder, wait with `on_wait`, else raise `InputError`."""
        while True:
            last, content = self._current()
            if content is not None and not self._wait_for_expiry(last, content):
                continue
            self._number = last + 1
            self._renewed = _now()
            self._facts["since"] = datetime.now(UTC).isoformat(timespec="seconds")
            if files.create(self._object_url(self._number), self._content(0)):
                # The list of numbers may have been old: a machine keeps what it has seen of a shared folder for a time.
                self._notice_takeover()
                if not self._lost:
                    break
                self._lost = False
        if files.create(self._object_url(self._number), self._content(1)):
            place = files.redacted(self._url)
            _log.warning(
                "the store of `%s` ignores conditional writes: two processes that start at once are detected late",
                place,
            )
        self._thread.start()

    def check(self) -> None:
        """Raise `SsspError` unless this process still holds the folder."""
        # After a freeze this may run before the thread of the lease has noticed the takeover.
        if not self._lost and _now() - self._renewed > LEASE_S:
            self._notice_takeover()
        if self._lost:
            raise SsspError(
                f"`{files.redacted(self._url)}` was taken over by another process while this one was frozen or cut off",
                hint="nothing is lost: the other process continues the work",
            )

    def release(self) -> None:
        """Remove the lease; if the store does not answer, the lease expires."""
        self._ended.set()
        self._thread.join(LEASE_S)
        try:
            with without_retries():
                self._notice_takeover()
                # In ascending order, so that the object of this process is removed last.
                for number in sorted(n for n in self._numbers() if n <= self._number and not self._lost):
                    files.remove(self._object_url(number))
                files.remove_if_empty(files.join(self._url, "_lease"))
        except SsspError as error:
            _log.warning("the lease could not be removed, it expires in %.0f s: %s", LEASE_S, error)

    def _current(self) -> tuple[int, bytes | None]:
        """Return the highest number and its content; 0 and None when there is no lease."""
        for number in sorted(self._numbers(), reverse=True):
            if (content := files.read_if_there(self._object_url(number))) is not None:
                return number, content
        return 0, None

    def _numbers(self) -> list[int]:
        names = files.list_files(files.join(self._url, "_lease"))
        return [int(found[1]) for name in names if (found := _NUMBER.fullmatch(name))]

    def _object_url(self, number: int) -> str:
        return files.join(self._url, "_lease", f"{number:06d}.json")

    def _content(self, beat: int) -> bytes:
        return json.dumps(self._facts | {"beat": beat}).encode()

    def _wait_for_expiry(self, number: int, content: bytes) -> bool:
        """Watch the lease `number` with this `content`; return True if it expires, False if the holder removes it.

        If it is renewed, return False, or raise `InputError` if there is no `on_wait`.
        """
        try:
            facts = json.loads(content)
            holder = f"process {facts['holder']}, since {facts['since']}"
            lease_s = float(facts["lease_s"])
        except (ValueError, KeyError, TypeError):  # damaged: no process can renew it
            holder, lease_s = "another process", LEASE_S
        if not self._is_announced:
            place = files.redacted(self._url)
            _log.warning("`%s` is held by %s, waiting %.0f s for a heartbeat", place, holder, lease_s)
        began = _now()
        while _now() - began <= lease_s:
            time.sleep(POLL_S)
            now = files.read_if_there(self._object_url(number))
            if now is None:
                return False
            if now != content:
                if self._on_wait is None:
                    raise _in_use_error(self._url, holder)
                if not self._is_announced:
                    self._on_wait(holder)
                self._is_announced = True
                return False
        return True

    def _beat_until_released(self) -> None:
        """Write a beat every `BEAT_S` until the lease is released or lost; a beat that fails is logged."""
        beat = 0
        while not self._ended.wait(BEAT_S) and not self._lost:
            beat += 1
            try:
                with without_retries():
                    self._beat(beat)
            except SsspError as error:
                _log.info("beat %d of the lease on `%s`: %s", beat, files.redacted(self._url), error)

    def _beat(self, beat: int) -> None:
        began = _now()
        self._notice_takeover()
        if self._lost:
            return
        files.write_atomic(self._object_url(self._number), self._content(beat))
        if _now() - began > LEASE_S:
            # This process was frozen between the read and the write. Meanwhile another process may have taken over and
            # even released its lease, so that no trace of it is left.
            self._lost = True
            files.remove(self._object_url(self._number))
        else:
            self._renewed = began

    def _notice_takeover(self) -> None:
        """Set `_lost` if there is a higher number, or if the object of this process is gone or overwritten."""
        content = files.read_if_there(self._object_url(self._number))
        is_ours = content is not None and self._token.encode() in content
        if not is_ours or any(number > self._number for number in self._numbers()):
            self._lost = True


def _now() -> float:
    """Return seconds that also count while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
