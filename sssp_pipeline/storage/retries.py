"""Retries: an operation on a remote store is repeated while it fails for a temporary reason.

The clients (botocore, s3fs, gcsfs, the Azure SDK) retry for a few seconds on their own. All of their tries count as
one attempt here. The retries of this module cover longer outages: a store that restarts, a network that is down for a
minute, a request rate that stays too high.

If the host of a store is unknown or refuses the very first connection, the address is probably mistyped. So the first
connection to a store is tried only once. A store that has answered this process before gets the full `RETRY_S`.
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

from sssp_pipeline.base.errors import InputError, StoreUnavailableError
from sssp_pipeline.storage.redaction import error_text

#: Seconds of failed attempts after which an operation fails.
RETRY_S = 120.0
#: Seconds before the second attempt. Each later wait is twice as long as the one before it.
FIRST_WAIT_S = 0.5
#: The longest wait between two attempts, in seconds.
LONGEST_WAIT_S = 15.0

#: Seconds that `check_connection` waits for a connection.
_CONNECT_S = 2.0

T = TypeVar("T")
_log = logging.getLogger(__name__)
_is_single_attempt: ContextVar[bool] = ContextVar("single_attempt", default=False)


def call_with_retries(place: str, action: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Return the result of `action(*args, **kwargs)`, repeated while it fails for a temporary reason.

    Any other failure is raised at once, unchanged. `place` is the redacted URL that is read or written. `action` may
    safely be done twice.

    Raises
    ------
    StoreUnavailableError
        The attempts failed for `RETRY_S`; or the store has never answered and refuses connections; or an attempt
        failed after another call to this store had failed for `RETRY_S`.
    """
    store = _store_of(place)
    outage = _outages[store]
    began = time.monotonic()
    for attempt in count(1):
        try:
            result = action(*args, **kwargs)
        except Exception as error:
            if isinstance(error, FileNotFoundError) or http_status(error) != (None, None):
                _reached.add(store)
            if _is_single_attempt.get() or not is_temporary(error):
                raise
            if store not in _reached and is_unreachable(error):
                raise unreachable_error(place, error) from error
            tried_s = time.monotonic() - began
            if outage.has_given_up or tried_s >= RETRY_S:
                outage.has_given_up = True
                tried = f"{attempt} attempt{'s' if attempt > 1 else ''} in {tried_s:.0f} s"
                raise StoreUnavailableError(
                    f"`{place}` does not answer, after {tried}: {error_text(error)}",
                    hint="check the endpoint and the network, then run the same command again",
                ) from error
            outage.warn(place, error)
            # A random factor, so that many workers do not all return to the store at the same moment.
            wait_s = random.uniform(0.5, 1) * min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(attempt - 1, 10))
            time.sleep(min(wait_s, RETRY_S - tried_s))
        else:
            outage.has_given_up = False
            _reached.add(store)
            return result
    raise AssertionError("unreachable")


#: Stores that have answered this process, as scheme and host, or scheme and bucket.
_reached: set[str] = set()


def mark_reachable(*places: str) -> None:
    """Note that another process has reached the stores of `places`, so that this process retries them as well."""
    _reached.update(map(_store_of, places))


def was_reached(place: str) -> bool:
    """Return whether the store of `place` has answered this process, or was given to `mark_reachable`."""
    return _store_of(place) in _reached


def check_connection(place: str, endpoint: str) -> None:
    """Check that the server at the URL `endpoint`, which stores `place`, accepts connections.

    A host behind a proxy is not checked. A host that does not answer within the time limit passes the check.

    Raises
    ------
    StoreUnavailableError
        The host is unknown or refuses connections.
    InputError
        The port of `endpoint` is not a number up to 65535.
    """
    from urllib.request import getproxies, proxy_bypass  # slow to import, and not used for local files

    parts = urlsplit(endpoint)
    host = parts.hostname
    if host is None or (parts.scheme in getproxies() and not proxy_bypass(host)):
        return
    try:
        port = parts.port or {"http": 80}.get(parts.scheme, 443)
    except ValueError as error:
        raise InputError(
            f"`{place}` has a port that is not a number up to 65535", hint="correct the URL"
        ) from error
    try:
        socket.create_connection((host, port), _CONNECT_S).close()
    except OSError as error:
        if is_unreachable(error):
            raise unreachable_error(place, error) from error


def _store_of(place: str) -> str:
    scheme, _, rest = place.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


class _Outage:
    """What the threads of this process share about one store that does not answer."""

    def __init__(self) -> None:
        #: True after a call has failed for `RETRY_S`. Other calls then fail at once, until one succeeds.
        self.has_given_up = False
        self._lock = threading.Lock()
        self._warned_at = -math.inf

    def warn(self, place: str, error: Exception) -> None:
        """Log the outage once, not once for each thread and attempt."""
        with self._lock:
            if (now := time.monotonic()) - self._warned_at < RETRY_S:
                return
            self._warned_at = now
        _log.warning("`%s` does not answer, trying again for %.0f s: %s", place, RETRY_S, error_text(error))


#: One for each store, with the keys of `_reached`.
_outages: defaultdict[str, _Outage] = defaultdict(_Outage)


@contextmanager
def without_retries() -> Iterator[None]:
    """Make `call_with_retries` try only once in this thread, for work that is repeated later anyway."""
    before = _is_single_attempt.set(True)
    try:
        yield
    finally:
        _is_single_attempt.reset(before)


def is_temporary(error: BaseException | None) -> bool:
    """Return whether the next attempt may succeed: the request itself is not at fault."""
    while error is not None:
        if (verdict := _is_temporary_alone(error)) is not None:
            return verdict
        error = error.__cause__
    return False


def is_unreachable(error: BaseException | None, depth: int = 0) -> bool:
    """Return whether `error`, or one of its causes, means an unknown host or a refused connection."""
    if error is None or depth > _DEEPEST_CAUSE:
        return False
    if isinstance(error, socket.gaierror) or getattr(error, "errno", None) == errno.ECONNREFUSED:
        return True
    if {kind.__name__ for kind in type(error).__mro__} & _UNCONNECTED:
        return True
    # aiohttp, the Azure SDK, urllib3 and botocore keep the error that they caught in attributes of their own.
    kept = (getattr(error, name, None) for name in ("os_error", "inner_exception", "reason"))
    wrapped = [*kept, getattr(error, "kwargs", {}).get("error"), *error.args]
    causes = [e for e in (error.__cause__, error.__context__, *wrapped) if isinstance(e, BaseException)]
    return any(is_unreachable(cause, depth + 1) for cause in causes)


def unreachable_error(place: str, error: BaseException) -> StoreUnavailableError:
    """Return the error to raise for an `error` that `is_unreachable`, met while reaching `place`."""
    return StoreUnavailableError(
        f"`{place}` cannot be reached: {error_text(error)}",
        hint="check the address, the endpoint and the network, then run the same command again",
    )


#: How many causes of an error are followed, one behind the other.
_DEEPEST_CAUSE = 8
#: Classes of botocore, aiohttp and urllib3, by name: none of them need be installed.
_UNCONNECTED = frozenset(("EndpointConnectionError", "ClientConnectorDNSError", "NameResolutionError"))


def _is_temporary_alone(error: BaseException) -> bool | None:
    """Return whether `error` is temporary; None if that depends on its cause."""
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
    """Return the HTTP status and the store's own error code from a client's error; None for one that it lacks."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):  # botocore's
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        return status, response.get("Error", {}).get("Code")
    for name in ("status_code", "status", "code"):  # the Azure SDK's, aiohttp's, gcsfs's
        found = getattr(error, name, None)
        if isinstance(found, int) or (isinstance(found, str) and found.isdecimal()):
            return int(found), None
    return None, None


#: Classes of errors that are never temporary, by name.
_NEVER = frozenset(
    ("SsspError", "NoCredentialsError", "PartialCredentialsError", "ClientConnectorCertificateError")
)
#: Classes of TLS errors. A broken connection is temporary, an invalid certificate is not.
_TLS_ERRORS = frozenset(("SSLError", "ClientSSLError"))
#: Classes of botocore, aiohttp, requests, urllib3 and the Azure SDK that mean no answer, or an incomplete one.
_CLIENT_ERRORS = frozenset(
    (
        *("HTTPClientError", "EndpointConnectionError", "ConnectTimeoutError", "ProxyConnectionError"),
        *("ResponseParserError", "IncompleteRead", "ClientConnectionError", "ClientPayloadError"),
        *("ConnectionError", "Timeout", "ChunkedEncodingError", "ServiceRequestError"),
        *("ServiceResponseError", "IncompleteReadError"),
    )
)
#: HTTP statuses of temporary failures.
_STATUSES = frozenset((408, 429, 500, 502, 503, 504))
#: S3's own error codes of temporary failures that come with another status, or with none.
_CODES = frozenset(
    (
        *("InternalError", "ServiceUnavailable", "SlowDown", "RequestTimeout"),
        *("Throttling", "ThrottlingException"),
        *("OperationAborted", "ConditionalRequestConflict", "RequestLimitExceeded", "TooManyRequests"),
    )
)
#: Temporary failures of the network.
_ERRNOS = frozenset((errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTDOWN))
