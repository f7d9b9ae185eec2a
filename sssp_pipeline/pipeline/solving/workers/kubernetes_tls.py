"""Clusters of Dask's operator under TLS: certificates in a secret of Kubernetes, and a client that uses them.

dask-kubernetes itself communicates without TLS. `docs/guides/clusters.md` explains the consequences.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from unittest.mock import patch

import kr8s
from dask_kubernetes.operator import KubeCluster, networking
from dask_kubernetes.operator.kubecluster import kubecluster
from distributed import Security
from distributed.core import rpc
from kr8s.objects import Secret

from sssp_pipeline.base.errors import SsspError


@contextmanager
def certificates(name: str, namespace: str | None, security: Security) -> Iterator[None]:
    """Store the certificate and the key of `security` in a secret of the cluster `name` during the block.

    Raises
    ------
    SsspError
        Kubernetes refuses the secret.
    """
    secret = Secret(secret_resource(name, security), namespace)
    try:
        secret.create()
    except Exception as error:  # kr8s has exceptions of its own and of its dependencies
        raise SsspError(
            f"Kubernetes refuses the certificates of the cluster: {error or type(error).__name__}",
            hint="get the right to create and delete secrets, or set `cluster.tls: false`",
        ) from error
    try:
        yield
    finally:
        with suppress(kr8s.NotFoundError):
            secret.delete()


def secret_resource(name: str, security: Security) -> dict[str, Any]:
    """Return the secret for `kubernetes.tls_environment`: one certificate for all, which is its own authority."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"{name}-tls"},
        "stringData": {"cert": security.tls_worker_cert, "key": security.tls_worker_key},
    }


class SecuredCluster(KubeCluster):
    """A `KubeCluster` that communicates with its scheduler under TLS."""

    def __init__(self, security: Security, **options: Any) -> None:
        self.security = security
        super().__init__(**options)

    async def _create_cluster(self) -> None:
        secured = partial(rpc, connection_args=self.security.get_connection_args("client"))
        # Both modules connect without certificates and have no parameter for them.
        with patch.object(kubecluster, "rpc", secured), patch.object(networking, "rpc", secured):
            await super()._create_cluster()

    async def _get_scheduler_address(self) -> str:
        address: str = await super()._get_scheduler_address()
        return address.replace("tcp://", "tls://", 1)
