"""What Kubernetes is asked for: the scheduler and the workers of a run as a resource of Dask's operator."""

from __future__ import annotations

from typing import Any

import dask
from dask.utils import parse_bytes

from sssp_pipeline.pipeline.solving.workers.dask_settings import LOOPBACK, SETTINGS, threads_of
from sssp_pipeline.workflow.cluster import Cluster, WorkerRange

#: What `deploy/kubernetes/network-policy.yaml` selects.
LABEL = {"app.kubernetes.io/part-of": "sssp-pipeline"}
_HEALTHY = [
    "python3",
    "-c",
    "from urllib.request import urlopen; urlopen('http://127.0.0.1:8787/health', timeout=5)",
]


def kubernetes_resource(spec: Cluster, name: str) -> dict[str, Any]:
    """Return the operator's `DaskCluster` of this `name` for a `spec` of kind `kubernetes`.

    Workers have the memory and the GPU that `spec` asks for, the scheduler has neither.
    """
    from dask_kubernetes.operator import make_cluster_spec

    pods = spec.kubernetes
    assert pods is not None
    threads = threads_of(spec, pods.gpus)
    wanted = spec.workers if isinstance(spec.workers, int) else 1
    host, settings = spec.dashboard_host or LOOPBACK, dict(SETTINGS)
    if isinstance(spec.workers, WorkerRange):
        # The operator keeps the range: it asks the scheduler, where the dashboard is, how many workers it wants.
        wanted, host = spec.workers.minimum, spec.dashboard_host or "0.0.0.0"
        routes = [*dask.config.get("distributed.scheduler.http.routes"), "distributed.http.scheduler.api"]
        settings["distributed.scheduler.http.routes"] = routes
    resource = make_cluster_spec(
        name,
        image=pods.image,
        n_workers=wanted,
        env={_variable(key): str(value) for key, value in settings.items()},
        worker_command=f"dask worker --nthreads {threads} --memory-limit {spec.memory_limit.replace(' ', '')}",
    )
    memory = str(parse_bytes(spec.memory_limit))
    sizes = {"worker": {"cpu": str(threads), "memory": memory}, "scheduler": {"cpu": "1", "memory": "2Gi"}}
    for role, size in sizes.items():
        pod = resource["spec"][role]["spec"]
        container = pod["containers"][0]
        # As its command, whatever the image would start; the scheduler's has had another name since Dask 2026.
        started = container.pop("args")
        container["command"] = started
        if role == "scheduler":
            container["command"] = ["dask", "scheduler", *started[1:], "--dashboard-address", f"{host}:8787"]
            if host == LOOPBACK:  # where Kubernetes cannot look itself
                for probe in ("readinessProbe", "livenessProbe"):
                    del container[probe]["httpGet"]
                    container[probe] |= {
                        "exec": {"command": _HEALTHY},
                        "periodSeconds": 5,
                        "timeoutSeconds": 10,
                    }
        if spec.is_secured:
            container["env"] += tls_environment(name)
        resource["spec"][role]["metadata"] = {"labels": LABEL}
        container["resources"] = {"requests": size, "limits": {"memory": size["memory"]}}
        if role == "worker" and pods.gpus:
            container["resources"]["limits"]["nvidia.com/gpu"] = str(pods.gpus)
        if role == "worker" and pods.secret is not None:
            container["envFrom"] = [{"secretRef": {"name": pods.secret}}]
        if pods.service_account is not None:
            pod["serviceAccountName"] = pods.service_account
    return dict(resource)


def _variable(key: str) -> str:
    """Return the variable that sets a key of Dask's configuration for a process elsewhere."""
    return f"DASK_{key.upper().replace('-', '_').replace('.', '__')}"


def tls_environment(name: str) -> list[dict[str, Any]]:
    """Return the environment of a pod of the cluster `name` that talks under TLS, with the keys of its secret."""
    tls = "distributed.comm.tls"
    files = {f"{tls}.ca-file": "cert"} | {
        f"{tls}.{role}.{part}": part for role in ("scheduler", "worker") for part in ("cert", "key")
    }
    plain = {
        _variable("distributed.comm.default-scheme"): "tls",
        _variable("distributed.comm.require-encryption"): "True",
        # The operator would say `tcp://`.
        "DASK_SCHEDULER_ADDRESS": f"tls://{name}-scheduler:8786",
    }
    return [
        *({"name": key, "value": value} for key, value in plain.items()),
        *(
            {"name": _variable(key), "valueFrom": {"secretKeyRef": {"name": f"{name}-tls", "key": part}}}
            for key, part in files.items()
        ),
    ]
