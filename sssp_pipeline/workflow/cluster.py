"""The section `cluster` of the workflow: where workers run, how many, what each gets, and what contradicts that."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.workflow.section import Auto, Contradiction, Plain, Positive, Section, Text

#: The kinds whose number of workers can change during a run.
ELASTIC_KINDS = ("slurm", "kubernetes")


class WorkerRange(Section):
    """Bounds for a number of workers that follows the work."""

    minimum: Positive = 1
    """The fewest workers."""

    maximum: Positive
    """The most workers."""


class Slurm(Section):
    """The jobs in which the workers of kind `slurm` run."""

    queue: Text | None = None
    """Partition. `null` means the default of the site."""

    account: Text | None = None
    """Account to charge."""

    walltime: Annotated[str, Field(pattern=r"^([0-9]{1,5}-)?[0-9]{1,7}(:[0-9]{2}){0,2}$")] = "1:00:00"
    """How long a job may run. A worker whose job ends is replaced."""

    gpus: Annotated[int, Field(ge=0)] = 0
    """GPUs of a job. Each GPU gets its own worker."""

    interface: Text | None = None
    """Network interface that connects all machines, such as `ib0`."""

    prologue: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    """Shell lines that each job runs first, such as `module load cuda`."""

    directives: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    """More options of `sbatch`, such as `--constraint=h200`."""


class Kubernetes(Section):
    """The pods in which the scheduler and the workers of kind `kubernetes` run."""

    image: Text
    """Container image with this release of sssp-pipeline."""

    namespace: Text | None = None
    """Namespace. `null` means the namespace of the current context."""

    gpus: Annotated[int, Field(ge=0, le=1)] = 0
    """GPUs of a worker."""

    secret: Text | None = None
    """Name of a Kubernetes secret. Its keys become environment variables of the workers, such as storage
    credentials."""

    service_account: Text | None = None
    """Service account of scheduler and workers."""

    pod_template: Text | dict[str, Any] | None = None
    """What to add to the pods of workers and scheduler: `metadata` and `spec` of a pod, such as tolerations, volumes
    and pull secrets. URL of a YAML file, or its keys."""

    scheduler_pod_template: Text | dict[str, Any] | None = None
    """What to add to the scheduler's pod in place of `pod_template`. `{}` adds nothing."""


class PodTemplate(Section):
    """A pod as far as it differs from the pods that a run builds."""

    apiVersion: Literal["v1"] = "v1"  # noqa: N815 (Kubernetes names it)
    """Version of the kind."""

    kind: Literal["Pod"] = "Pod"
    """Kind of the resource."""

    metadata: dict[str, Any] = {}  # noqa: RUF012 (pydantic copies it)
    """Labels and annotations."""

    spec: dict[str, Any] = {}  # noqa: RUF012 (pydantic copies it)
    """Specification of the pod. Its first container is the one of Dask."""


class Cluster(Section):
    """The workers that solve the batches."""

    kind: Literal["auto", "local-cpu", "local-cuda", "address", "slurm", "kubernetes"] = "auto"
    """`local-cpu` solves on this machine and `local-cuda` on each of its GPUs. `address` uses the workers of a Dask
    scheduler that runs already. `slurm` starts jobs and `kubernetes` starts pods. `auto` takes this machine, and all
    its GPUs if the run is long enough."""

    address: Text | None = None
    """Address of a Dask scheduler, such as `tcp://10.0.0.1:8786`. Only with kind `address`."""

    workers: Auto | Positive | WorkerRange = "auto"
    """How many Dask workers to start. With kind `slurm` and `kubernetes` it may be a range, and `auto` is one job or
    pod. With `local-cuda`, `auto` is one worker per GPU. With `local-cpu`, `auto` starts none: threads of the run's own
    process solve."""

    threads_per_worker: Auto | Positive = "auto"
    """Threads of each worker. They share one copy of the graph."""

    memory_limit: (
        Auto | Annotated[str, Field(pattern=r"^[0-9]{1,15}(\.[0-9]{1,15})? ?([kMGT]i?)?B$", examples=["4GB"])]
    ) = "auto"
    """Memory limit of a worker process. Dask lets a worker use 80 % of it. With `local-cpu` and `workers: auto`, a
    limit starts one worker process. Kinds `slurm` and `kubernetes` need a limit and request this much memory for each
    worker."""

    in_flight: Auto | Positive = "auto"
    """How many tasks may be submitted and not yet done. A task is one call of a solver, for one batch or several."""

    wait_s: Auto | Annotated[int, Field(ge=0)] = "auto"
    """Seconds to wait for the scheduler of kind `address`, for the first worker, and later while no worker can take
    tasks: none is left, or Dask has paused all for lack of memory. `auto` is 300, but 20 for the scheduler and the
    first worker of kind `address`."""

    tls: Auto | bool = "auto"
    """Whether client, scheduler and workers communicate under TLS, with certificates made for the run. `auto` means yes
    for every cluster that the run starts, and needs the extra `tls` of this package. With kind `address` use the scheme
    `tls://` and Dask's own configuration."""

    dashboard_host: Text | None = None
    """Address on which the dashboards of kind `slurm` and `kubernetes` listen. `null` means 127.0.0.1, which only the
    scheduler's machine or pod can reach. `0.0.0.0` shows the dashboards to everyone who can reach that machine."""

    slurm: Slurm | None = None
    """The jobs of kind `slurm`."""

    kubernetes: Kubernetes | None = None
    """The pods of kind `kubernetes`."""

    @property
    def first_wait_s(self) -> int:
        """Seconds to wait for the scheduler to answer, and for a first worker."""
        if self.wait_s == "auto":
            return 20 if self.kind == "address" else 300
        return self.wait_s

    @property
    def is_here(self) -> bool:
        """Whether the workers run on this machine."""
        return self.kind in ("auto", "local-cpu", "local-cuda")

    @property
    def is_secured(self) -> bool:
        """Whether the run makes certificates for its cluster."""
        return self.kind != "address" if self.tls == "auto" else self.tls

    @property
    def later_wait_s(self) -> int:
        """Seconds to wait while no worker can take tasks."""
        return 300 if self.wait_s == "auto" else self.wait_s


#: The values of `cluster.kind`.
KINDS = get_args(Cluster.model_fields["kind"].annotation)


def cluster_named(where: str) -> Cluster:
    """Return the cluster that a command line names: `here` for threads of this process, or a scheduler's address.

    Raises
    ------
    InputError
        It names neither.
    """
    if where == "here":
        return Cluster()
    if (fault := address_fault(where)) is not None:
        raise InputError(f"`--cluster {where}`: {fault[0]}", hint=f"{fault[1]}, or `here`")
    return Cluster(kind="address", address=where)


def address_fault(address: str) -> tuple[str, str] | None:
    """Return why `address` is not the address of a scheduler, and a hint; None if it is one."""
    if re.fullmatch(r"\w+://.+:[0-9]+", address):
        return None
    return f"`{address}` is no address of a scheduler", "give protocol, host and port: `tcp://host:8786`"


_STARTED_KINDS = ("auto", "local-cpu", "local-cuda", *ELASTIC_KINDS)
#: Keys of the cluster section that only some kinds use.
_KINDS_OF_KEYS: dict[str, tuple[str, ...]] = {
    "address": ("address",),
    "slurm": ("slurm",),
    "kubernetes": ("kubernetes",),
    "workers": _STARTED_KINDS,
    "threads_per_worker": _STARTED_KINDS,
    "memory_limit": _STARTED_KINDS,
    "tls": _STARTED_KINDS,
    "dashboard_host": ELASTIC_KINDS,
}


def cluster_contradictions(cluster: Plain) -> Iterator[Contradiction]:
    """Yield the contradictions of a `cluster` section, given as plain values."""
    kind, address = cluster.get("kind", "auto"), cluster.get("address")
    if kind not in KINDS:
        return
    for key, kinds in _KINDS_OF_KEYS.items():
        if kind not in kinds and cluster.get(key) not in (None, False, "auto"):
            if len(kinds) == 1:
                hint = f"set `cluster.kind: {kinds[0]}`, or remove it"
            elif kind == "address":
                hint = "remove it: the workers of that cluster run already"
            else:
                hint = "remove it"
            yield Contradiction(("cluster", key), f"`cluster.{key}` is not used with kind `{kind}`", hint)
    if isinstance(cluster.get("workers"), Mapping):
        yield from _range_contradictions(kind, cluster["workers"])
    if kind == "address" and address is None:
        text, hint = "kind `address` needs `cluster.address`", "add `address: tcp://host:8786`"
        yield Contradiction(("cluster", "kind"), text, hint)
    elif kind == "address" and isinstance(address, str) and (fault := address_fault(address)) is not None:
        yield Contradiction(("cluster", "address"), *fault)
    if kind in ELASTIC_KINDS and cluster.get("memory_limit", "auto") == "auto":
        text = f"kind `{kind}` needs `cluster.memory_limit`: the memory of each worker"
        hint = "add `memory_limit: 16GB`, or what `sssp-pipeline plan` says a worker needs"
        yield Contradiction(("cluster", "kind"), text, hint)
    if kind == "kubernetes" and not isinstance(cluster.get("kubernetes"), Mapping):
        text = "kind `kubernetes` needs an image with sssp-pipeline"
        hint = "add `kubernetes: {image: registry/sssp-pipeline:0.2.0}`"
        yield Contradiction(("cluster", "kind"), text, hint)


def _range_contradictions(kind: str, workers: Plain) -> Iterator[Contradiction]:
    low, high = workers.get("minimum", 1), workers.get("maximum")
    if kind not in ELASTIC_KINDS:
        text = f"kind `{kind}` has a fixed number of workers, not a range"
        hint = "give a number, or set `cluster.kind: slurm` or `kubernetes`"
        yield Contradiction(("cluster", "workers"), text, hint)
    elif isinstance(low, int) and isinstance(high, int) and low > high:
        text = f"`minimum` is `{low}`, above `maximum`, which is `{high}`"
        yield Contradiction(("cluster", "workers"), text, "exchange them")
