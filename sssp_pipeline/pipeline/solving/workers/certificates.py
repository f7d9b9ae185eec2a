"""The package that makes the certificates of `cluster.tls`, which is not always installed."""

from __future__ import annotations

from sssp_pipeline.base.lazy import optional_package


def check_certificates() -> None:
    """Raise `InputError` if certificates cannot be made here. Dask is not imported."""
    optional_package("cryptography", "`cluster.tls` makes certificates, and that needs", "tls")
