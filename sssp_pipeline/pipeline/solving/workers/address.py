"""The workers of a Dask scheduler that runs already: kind `address`, or the client of a call."""

from __future__ import annotations

import socket
import time

from distributed import Client, Security

from sssp_pipeline.base import interrupts
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.workflow.cluster import Cluster

#: Seconds for the handshake with a scheduler that accepts connections.
CONNECT_S = 20
#: Seconds between two attempts to connect.
_RETRY_S = 0.5


#: The keys of `cluster` that a run with the client of a call may have: they start no cluster and find none.
_KEYS_WITH_CLIENT = frozenset({"in_flight", "wait_s"})


def cluster_of_client(client: Client, spec: Cluster) -> Cluster:
    """Return the section `cluster` of a run on the workers of `client`; `spec` is the section of the workflow.

    Raises
    ------
    InputError
        The client cannot be used here, or a key of `spec` would start or find another cluster.
    """
    if not isinstance(client, Client):
        raise InputError(
            f"`client` is of type {type(client).__name__}, not a client of Dask",
            hint="make one with `distributed.Client(address)`, or with `cluster.get_client()` of a Dask cluster",
        )
    if client.asynchronous:
        raise InputError(
            "`client` is asynchronous in this thread, and a run waits for its workers",
            hint="make it without `asynchronous=True`, or run in another thread: "
            "`await asyncio.to_thread(sp.run, workflow, client=client)`",
        )
    if client.status != "running":
        raise InputError(
            f"`client` is not connected to a scheduler: its status is `{client.status}`",
            hint="make another client of the cluster",
        )
    others = Cluster.model_fields.keys() - _KEYS_WITH_CLIENT
    if given := sorted(key for key in others if getattr(spec, key) != Cluster.model_fields[key].default):
        raise InputError(
            f"`client` has workers of its own, and the workflow sets {', '.join(f'`cluster.{key}`' for key in given)}",
            hint="leave out `client`, or only set `in_flight` and `wait_s` in the section `cluster`",
        )
    return spec.model_copy(update={"kind": "address", "address": client.scheduler.address})


def connect(spec: Cluster) -> Client:
    """Return a client of the scheduler at `spec.address`; wait for the scheduler at most `cluster.wait_s`.

    Raises
    ------
    InputError
        No scheduler answers, or it does not accept the certificates of this process.
    """
    wait_for_scheduler(spec)
    try:
        return Client(spec.address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at `{spec.address}`: {error}",
            hint="check `cluster.address`; start one with `dask scheduler`",
        ) from error
    except TypeError as error:  # Dask raises it for a `tls://` address without usable certificates
        raise _untrusted(spec, str(error)) from error


def wait_for_scheduler(spec: Cluster) -> None:
    """Wait until a process accepts connections at `spec.address`, at most `cluster.wait_s`.

    Raises
    ------
    InputError
        No process does, or certificates are missing.
    """
    address = str(spec.address)
    protocol, _, place = address.partition("://")
    if protocol not in ("tcp", "tls"):
        return  # only Dask can connect
    if protocol == "tls" and Security().get_connection_args("client").get("ssl_context") is None:
        raise _untrusted(spec, "TLS needs certificates")
    host, _, port = place.rpartition(":")
    deadline = time.monotonic() + spec.first_wait_s
    while True:
        left_s = deadline - time.monotonic()
        try:
            # A host that drops packets never refuses, so there is a timeout.
            socket.create_connection((host.strip("[]"), int(port)), timeout=max(left_s, 1)).close()
            return
        except (OSError, OverflowError, ValueError) as error:
            if time.monotonic() + _RETRY_S > deadline:
                reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
                raise InputError(
                    f"no Dask scheduler answers at `{address}` in {spec.first_wait_s} s: {reason}",
                    hint="check `cluster.address`; start one with `dask scheduler`, or raise `cluster.wait_s`",
                ) from error
        interrupts.check()
        time.sleep(_RETRY_S)


def _untrusted(spec: Cluster, reason: str) -> InputError:
    return InputError(
        f"cannot communicate with the scheduler at `{spec.address}`: {reason}",
        hint="give the client its certificates by `DASK_DISTRIBUTED__COMM__TLS__CA_FILE` and the like",
    )
