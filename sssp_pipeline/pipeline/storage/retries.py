"""Patience: what fails at a store elsewhere and passes by itself is tried again, here and nowhere else.

The clients try again too, each in its own way and for seconds: botocore five times, s3fs, gcsfs and the Azure SDK
likewise. All of that is one attempt here. What it outlasts is what they do not: a store that is started again, a
network that is away for a minute, a request rate that stays too high.

A host that is unknown, or refuses the first connection, is more likely mistyped than away for a minute. So the first
contact with a store is tried once; a store that has answered before is waited for.
"""

from __future__ import annotations

import errno
import logging
import math
import random
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from sssp_pipeline.errors import InputError, StoreAwayError
from sssp_pipeline.pipeline.storage.redaction import told

#: Seconds after which a store that still does not answer is an error.
PATIENCE_S = 120.0
#: Seconds before the second attempt; each later wait is twice as long, none longer than the last of these.
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 15.0

#: Seconds that the check of an endpoint waits for a connection.
_CONNECT_S = 2.0

T = TypeVar("T")
_log = logging.getLogger(__name__)
_impatient: ContextVar[bool] = ContextVar("impatient", default=False)


def patiently(place: str, action: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Return what `action` returns, called again while it fails for a reason that passes.

    Parameters
    ----------
    place
        What is read or written, as it may be shown.
    action
        Safe to be done twice.

    Raises
    ------
    StoreAwayError
        It failed for `PATIENCE_S`, or once after another call to this store had failed for so long, or no connection
        was made and the store has never answered. What does not pass is raised as it is, at once.
    """
    store = _store_of(place)
    outage = _outages[store]
    began = time.monotonic()
    for attempt in count(1):
        try:
            result = action(*args, **kwargs)
        except Exception as error:
            if isinstance(error, FileNotFoundError) or http_status(error) != (None, None):
                _answered.add(store)
            if _impatient.get() or not passes(error):
                raise
            if store not in _answered and is_unconnected(error):
                raise unreachable(place, error) from error
            tried_s = time.monotonic() - began
            if outage.is_over_patience or tried_s >= PATIENCE_S:
                outage.is_over_patience = True
                tried = f"{attempt} attempt{'s' if attempt > 1 else ''} in {tried_s:.0f} s"
                raise StoreAwayError(
                    f"`{place}` does not answer, after {tried}: {told(error)}",
                    hint="check the endpoint and the network, then run the same command again: "
                    "what is committed is kept",
                ) from error
            outage.warn(place, error)
            # Shortened at random, so that many workers do not come back to a store all at once.
            wait_s = random.uniform(0.5, 1) * min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(attempt - 1, 10))
            time.sleep(min(wait_s, PATIENCE_S - tried_s))
        else:
            outage.is_over_patience = False
            _answered.add(store)
            return result
    raise AssertionError("unreachable")


#: Stores that have answered this process, by scheme and host or bucket.
_answered: set[str] = set()


def expect_answers(*places: str) -> None:
    """Retry the stores of `places` as if they had answered this process: another process has reached them."""
    _answered.update(map(_store_of, places))


def has_answered(place: str) -> bool:
    """Return whether the store of `place` has answered this process, or is expected to."""
    return _store_of(place) in _answered


def check_connection(place: str, endpoint: str) -> None:
    """Raise `StoreAwayError` if the host of the URL `endpoint`, where `place` is, is unknown or refuses connections.

    Nothing is said of a host that a proxy reaches, or that does not answer at all. A port that is none is an
    `InputError`.
    """
    parts = urlsplit(endpoint)
    host = parts.hostname
    if host is None or (parts.scheme in getproxies() and not proxy_bypass(host)):
        return
    try:
        port = parts.port or {"http": 80}.get(parts.scheme, 443)
    except ValueError as error:
        raise InputError(
            f"`{place}` has a port that is no number up to 65535", hint="correct the URL"
        ) from error
    try:
        socket.create_connection((host, port), _CONNECT_S).close()
    except OSError as error:
        if is_unconnected(error):
            raise unreachable(place, error) from error


def _store_of(place: str) -> str:
    scheme, _, rest = place.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


class _Outage:
    """What all threads of this process know of one store that does not answer."""

    def __init__(self) -> None:
        #: One call has waited to the end: until a call to this store succeeds, no other needs to wait.
        self.is_over_patience = False
        self._lock = threading.Lock()
        self._warned_at = -math.inf

    def warn(self, place: str, error: Exception) -> None:
        """Say so once an outage, and not once a thread and attempt."""
        with self._lock:
            if (now := time.monotonic()) - self._warned_at < PATIENCE_S:
                return
            self._warned_at = now
        _log.warning("`%s` does not answer, trying again for %.0f s: %s", place, PATIENCE_S, told(error))


#: By store, as in `_answered`: the outage of one store says nothing about another.
_outages: defaultdict[str, _Outage] = defaultdict(_Outage)


@contextmanager
def impatient() -> Iterator[None]:
    """Let `patiently` try once only in this thread: for what is done again later anyway."""
    before = _impatient.set(True)
    try:
        yield
    finally:
        _impatient.reset(before)


def passes(error: BaseException | None) -> bool:
    """Return whether `error` may be gone at the next attempt: nothing is wrong with what was asked."""
    while error is not None:
        if (verdict := _verdict(error)) is not None:
            return verdict
        error = error.__cause__
    return False


def is_unconnected(error: BaseException | None, depth: int = 0) -> bool:
    """Return whether `error` says that no host has this name, or that it refuses connections."""
    if error is None or depth > _DEEPEST_CAUSE:
        return False
    if isinstance(error, socket.gaierror) or getattr(error, "errno", None) == errno.ECONNREFUSED:
        return True
    if {kind.__name__ for kind in type(error).__mro__} & _UNCONNECTED:
        return True
    # Clients keep what they caught in attributes of their own as well: aiohttp, the Azure SDK, urllib3, botocore.
    kept = (getattr(error, name, None) for name in ("os_error", "inner_exception", "reason"))
    wrapped = [*kept, getattr(error, "kwargs", {}).get("error"), *error.args]
    causes = [e for e in (error.__cause__, error.__context__, *wrapped) if isinstance(e, BaseException)]
    return any(is_unconnected(cause, depth + 1) for cause in causes)


def unreachable(place: str, error: BaseException) -> StoreAwayError:
    """Return the message of an error that `is_unconnected`, for a user who wanted to reach `place`."""
    return StoreAwayError(
        f"`{place}` cannot be reached: {told(error)}",
        hint="check the address, the endpoint and the network, then run the same command again",
    )


#: The longest chain of causes that is followed.
_DEEPEST_CAUSE = 8
#: By name, as below: of botocore, aiohttp and urllib3.
_UNCONNECTED = frozenset(("EndpointConnectionError", "ClientConnectorDNSError", "NameResolutionError"))


def _verdict(error: BaseException) -> bool | None:
    """Return whether `error` passes, None where only its cause can tell."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & _NEVER:
        return False
    if names & _TLS_ERRORS:
        return "certificate" not in str(error).lower()
    status, code = http_status(error)
    if status is not None or code is not None:
        return status in _STATUSES or code in _CODES
    if names & _CLIENT_ERRORS or isinstance(error, ConnectionError | TimeoutError):
        return True
    if isinstance(error, OSError) and (error.errno in _ERRNOS or isinstance(error, socket.gaierror)):
        return True
    return None


def http_status(error: BaseException) -> tuple[int | None, str | None]:
    """Return the HTTP status and the store's own code that a client's error tells, None for what it does not."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):  # botocore's
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        return status, response.get("Error", {}).get("Code")
    for name in ("status_code", "status", "code"):  # the Azure SDK's, aiohttp's, gcsfs's
        found = getattr(error, name, None)
        if isinstance(found, int) or (isinstance(found, str) and found.isdecimal()):
            return int(found), None
    return None, None


#: By name, since no client need be installed.
_NEVER = frozenset(
    ("SsspError", "NoCredentialsError", "PartialCredentialsError", "ClientConnectorCertificateError")
)
#: A connection that breaks may hold the next time; a certificate does not become valid by waiting.
_TLS_ERRORS = frozenset(("SSLError", "ClientSSLError"))
#: Of botocore, aiohttp, requests, urllib3 and the Azure SDK: what says nothing but that no answer came, or half of one.
_CLIENT_ERRORS = frozenset(
    (
        *("HTTPClientError", "EndpointConnectionError", "ConnectTimeoutError", "ProxyConnectionError"),
        *("ResponseParserError", "IncompleteRead", "ClientConnectionError", "ClientPayloadError"),
        *(
            "ConnectionError",
            "Timeout",
            "ChunkedEncodingError",
            "ServiceRequestError",
            "ServiceResponseError",
        ),
        *("IncompleteReadError",),
    )
)
_STATUSES = frozenset((408, 429, 500, 502, 503, 504))
#: Of S3, where the status is another or none.
_CODES = frozenset(
    (
        *(
            "InternalError",
            "ServiceUnavailable",
            "SlowDown",
            "RequestTimeout",
            "Throttling",
            "ThrottlingException",
        ),
        *("OperationAborted", "ConditionalRequestConflict", "RequestLimitExceeded", "TooManyRequests"),
    )
)
_ERRNOS = frozenset((errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTDOWN))
