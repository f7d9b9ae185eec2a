"""Kind `kubernetes`: scheduler and workers in pods, which Dask's operator makes from one resource."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from typing import Any

import dask
from dask.utils import parse_bytes

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.solving.workers.dask_start import (
    LOOPBACK,
    SETTINGS,
    needed_for,
    threads_of,
    tls_options,
)
from sssp_pipeline.pipeline.solving.workers.pod_templates import merge_template
from sssp_pipeline.workflow.cluster import Cluster, WorkerRange

#: The label that `deploy/kubernetes/network-policy.yaml` selects.
LABEL = {"app.kubernetes.io/part-of": "sssp-pipeline"}
#: How Kubernetes checks a scheduler whose dashboard listens on the loopback address.
_HEALTH_CODE = "from urllib.request import urlopen; urlopen('http://127.0.0.1:8787/health', timeout=5)"
_HEALTH_COMMAND = {"command": ["python3", "-c", _HEALTH_CODE]}
_HEALTH_CHECK = {"exec": _HEALTH_COMMAND, "periodSeconds": 5, "timeoutSeconds": 10}


def check_startable(spec: Cluster) -> None:
    """Raise `InputError` if the templates of the pods cannot be used, or Kubernetes does not answer."""
    with needed_for("kubernetes", "kubernetes"):
        cluster_resource(spec, "sssp")
    cluster_class()


def cluster_class() -> Any:
    """Return the class of a cluster of pods; raise `InputError` if Kubernetes does not answer."""
    with needed_for("kubernetes", "kubernetes"):
        import kr8s
        from dask_kubernetes.operator import KubeCluster
    try:
        kr8s.api().version()
    except Exception as error:  # kr8s has exceptions of its own and of its dependencies
        raise InputError(
            f"kind `kubernetes` cannot be started: {error or type(error).__name__}",
            hint="check with `kubectl version` that the cluster answers, and as which user",
        ) from error
    return KubeCluster


def cluster_class_and_options(spec: Cluster, resources: ExitStack) -> tuple[Any, dict[str, Any]]:
    """Return the class and the options of a cluster of pods. Its certificates are removed with `resources`."""
    plain_class = cluster_class()
    assert spec.kubernetes is not None
    name, namespace = f"sssp-{uuid.uuid4().hex[:8]}", spec.kubernetes.namespace
    options = {
        "custom_cluster_spec": cluster_resource(spec, name),
        "namespace": namespace,
        "resource_timeout": spec.first_wait_s,
        "quiet": True,
    }
    if not spec.is_secured:
        return plain_class, options
    from sssp_pipeline.pipeline.solving.workers import kubernetes_tls

    options["security"] = tls_options(spec)["security"]
    resources.enter_context(kubernetes_tls.certificates(name, namespace, options["security"]))
    return kubernetes_tls.SecuredCluster, options


def cluster_resource(spec: Cluster, name: str) -> dict[str, Any]:
    """Return the operator's resource `DaskCluster` with this `name` for a `spec` of kind `kubernetes`.

    The worker pods get the memory and the GPU of `spec`. The scheduler pod gets a fixed size and no GPU.

    Raises
    ------
    InputError
        As `merge_template`.
    """
    from dask_kubernetes.operator import make_cluster_spec

    pods = spec.kubernetes
    assert pods is not None
    threads = threads_of(spec, pods.gpus)
    n_workers = spec.workers if isinstance(spec.workers, int) else 1
    host, settings = spec.dashboard_host or LOOPBACK, dict(SETTINGS)
    if isinstance(spec.workers, WorkerRange):
        # The operator scales within the range. It asks the scheduler's HTTP server for the number of workers.
        n_workers, host = spec.workers.minimum, spec.dashboard_host or "0.0.0.0"
        routes = [*dask.config.get("distributed.scheduler.http.routes"), "distributed.http.scheduler.api"]
        settings["distributed.scheduler.http.routes"] = routes
    resource = make_cluster_spec(
        name,
        image=pods.image,
        n_workers=n_workers,
        env={_variable(key): str(value) for key, value in settings.items()},
        worker_command=f"dask worker --nthreads {threads} --memory-limit {spec.memory_limit.replace(' ', '')}",
    )
    memory = str(parse_bytes(spec.memory_limit))
    sizes = {"worker": {"cpu": str(threads), "memory": memory}, "scheduler": {"cpu": "1", "memory": "2Gi"}}
    for role, size in sizes.items():
        pod = resource["spec"][role]["spec"]
        container = pod["containers"][0]
        # A command replaces the image's entry point. The scheduler's command has another name since Dask 2026.
        arguments = container.pop("args")
        container["command"] = arguments
        if role == "scheduler":
            dashboard = ["--dashboard-address", f"{host}:8787"]
            container["command"] = ["dask", "scheduler", *arguments[1:], *dashboard]
            if host == LOOPBACK:  # Kubernetes cannot connect to it from outside the pod
                for probe in ("readinessProbe", "livenessProbe"):
                    del container[probe]["httpGet"]
                    container[probe] |= _HEALTH_CHECK
        if spec.is_secured:
            container["env"] += tls_environment(name)
        resource["spec"][role]["metadata"] = {"labels": dict(LABEL)}
        container["resources"] = {"requests": size, "limits": {"memory": size["memory"]}}
        if role == "worker" and pods.gpus:
            container["resources"]["limits"]["nvidia.com/gpu"] = str(pods.gpus)
        if role == "worker" and pods.secret is not None:
            container["envFrom"] = [{"secretRef": {"name": pods.secret}}]
        if pods.service_account is not None:
            pod["serviceAccountName"] = pods.service_account
        of_scheduler = role == "scheduler" and pods.scheduler_pod_template is not None
        template_key = "scheduler_pod_template" if of_scheduler else "pod_template"
        merge_template(resource["spec"][role], getattr(pods, template_key), template_key)
    return dict(resource)


def _variable(key: str) -> str:
    """Return the environment variable for a key of Dask's configuration."""
    return f"DASK_{key.upper().replace('-', '_').replace('.', '__')}"


def tls_environment(name: str) -> list[dict[str, Any]]:
    """Return the environment of a pod of the cluster `name` for TLS; it refers to the cluster's secret."""
    tls = "distributed.comm.tls"
    files = {f"{tls}.ca-file": "cert"} | {
        f"{tls}.{role}.{part}": part for role in ("scheduler", "worker") for part in ("cert", "key")
    }
    plain = {
        _variable("distributed.comm.default-scheme"): "tls",
        _variable("distributed.comm.require-encryption"): "True",
        # The operator's own value is `tcp://…`.
        "DASK_SCHEDULER_ADDRESS": f"tls://{name}-scheduler:8786",
    }
    return [
        *({"name": key, "value": value} for key, value in plain.items()),
        *(
            {"name": _variable(key), "valueFrom": {"secretKeyRef": {"name": f"{name}-tls", "key": part}}}
            for key, part in files.items()
        ),
    ]
