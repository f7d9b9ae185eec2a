"""Patience: what fails at a store elsewhere and passes by itself is tried again, here and nowhere else.

The clients try again too, each in its own way and for seconds: botocore five times, s3fs, gcsfs and the Azure SDK
likewise. All of that is one attempt here. What it outlasts is what they do not: a store that is started again, a
network that is away for a minute, a request rate that stays too high.
"""

from __future__ import annotations

import errno
import logging
import math
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, TypeVar

from sssp_pipeline.errors import StoreAwayError
from sssp_pipeline.pipeline.shown import told

#: Seconds after which a store that still does not answer is an error.
PATIENCE_S = 120.0
#: Seconds before the second attempt; each later wait is twice as long, none longer than the last of these.
FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 15.0

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
        It failed for `PATIENCE_S`, or once after another call had failed for so long. What does not pass is raised as
        it is, at once.
    """
    began = time.monotonic()
    for attempt in count(1):
        try:
            result = action(*args, **kwargs)
        except Exception as error:
            if _impatient.get() or not passes(error):
                raise
            tried_s = time.monotonic() - began
            if _outage.is_over_patience or tried_s >= PATIENCE_S:
                _outage.is_over_patience = True
                tried = f"{attempt} attempt{'s' if attempt > 1 else ''} in {tried_s:.0f} s"
                raise StoreAwayError(
                    f"`{place}` does not answer, after {tried}: {told(error)}",
                    hint="check the endpoint and the network, then run the same command again: "
                    "what is committed is kept",
                ) from error
            _outage.warn(place, error)
            # Shortened at random, so that many workers do not come back to a store all at once.
            wait_s = random.uniform(0.5, 1) * min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(attempt - 1, 10))
            time.sleep(min(wait_s, PATIENCE_S - tried_s))
        else:
            _outage.is_over_patience = False
            return result
    raise AssertionError("unreachable")


class _Outage:
    """What all threads of this process know of a store that does not answer."""

    def __init__(self) -> None:
        #: Somebody has waited to the end: until something succeeds again, nobody else needs to.
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


_outage = _Outage()


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
    if isinstance(error, OSError) and error.errno in _ERRNOS:
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
