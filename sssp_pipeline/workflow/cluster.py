"""The `cluster` section of the workflow: who starts the workers, how many, and with what."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from sssp_pipeline.errors import InputError
from sssp_pipeline.workflow.section import (
    Auto,
    Path,
    Positive,
    Section,
    Text,
)


class WorkerRange(Section):
    """Adaptive scaling: as many workers as there is work for, within bounds."""

    minimum: Positive = 1
    """Workers that are always there."""

    maximum: Positive
    """The most there may be."""


class Slurm(Section):
    """The jobs in which the workers of kind `slurm` run."""

    queue: Text | None = None
    """Partition; `null` means the site's default."""

    account: Text | None = None
    """Account that is charged."""

    walltime: Annotated[str, Field(pattern=r"^([0-9]{1,5}-)?[0-9]{1,7}(:[0-9]{2}){0,2}$")] = "1:00:00"
    """How long a job may run; a worker whose job ends is replaced."""

    gpus: Annotated[int, Field(ge=0)] = 0
    """GPUs of a job; each gets a worker of its own."""

    interface: Text | None = None
    """Network interface that reaches all machines, such as `ib0`."""

    prologue: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    """Lines of shell that each job runs first, such as `module load cuda`."""

    directives: Annotated[tuple[Text, ...], Field(strict=False)] = ()
    """More options of `sbatch`, such as `--constraint=h200`."""


class Kubernetes(Section):
    """The pods in which the scheduler and the workers of kind `kubernetes` run."""

    image: Text
    """Container image with this release of sssp-pipeline."""

    namespace: Text | None = None
    """Namespace; `null` means that of the current context."""

    gpus: Annotated[int, Field(ge=0, le=1)] = 0
    """GPUs of a worker."""

    secret: Text | None = None
    """Name of a secret whose keys become environment variables of the workers: the credentials of the storage."""

    service_account: Text | None = None
    """Service account of scheduler and workers."""


class Cluster(Section):
    """Where the batches are solved."""

    kind: Literal["auto", "local-cpu", "local-cuda", "address", "slurm", "kubernetes"] = "auto"
    """`local-cpu` solves on this machine, `local-cuda` on each of its GPUs, `address` on the workers of a Dask
    scheduler that runs already, `slurm` in jobs, `kubernetes` in pods; `auto` takes this machine, and all its GPUs
    where there is enough to do."""

    address: Text | None = None
    """Address of that scheduler, such as `tcp://10.0.0.1:8786`; only with kind `address`."""

    workers: Auto | Positive | WorkerRange = "auto"
    """How many Dask workers to start, or a range with kind `slurm` and `kubernetes`. `auto` is one job or pod there,
    one a GPU with `local-cuda`; with `local-cpu` none, and threads of the run's own process solve."""

    threads_per_worker: Auto | Positive = "auto"
    """Threads of each worker; they share one copy of the graph."""

    memory_limit: (
        Auto | Annotated[str, Field(pattern=r"^[0-9]{1,15}(\.[0-9]{1,15})? ?([kMGT]i?)?B$", examples=["4GB"])]
    ) = "auto"
    """Memory limit of a worker process, of which Dask lets it use 80 %; with a limit, `auto` workers of `local-cpu` is
    one process, which can be held to it. What a job or pod is given with kind `slurm` and `kubernetes`, which need
    it."""

    in_flight: Auto | Positive = "auto"
    """How many tasks may be submitted and not yet done: a task is what one call solves, a batch or several."""

    wait_s: Auto | Annotated[int, Field(ge=0)] = "auto"
    """Seconds to wait for the scheduler of kind `address` to answer, then for a first worker, and while there is none,
    or Dask has paused all for lack of memory; `auto` is 20 for the first two with kind `address`, where both should be
    there already, and 300 otherwise."""

    tls: Auto | bool = "auto"
    """Whether client, scheduler and workers talk under TLS, with certificates made for the run; `auto` does with kind
    `slurm` and `kubernetes`. With kind `address` the scheme `tls://` and Dask's own configuration say so."""

    dashboard_host: Text | None = None
    """Address on which the dashboards of kind `slurm` and `kubernetes` listen. `null` means 127.0.0.1, which only the
    scheduler's machine or pod can reach; `0.0.0.0` lets everyone see them who reaches that machine."""

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
    def is_secured(self) -> bool:
        """Whether the run makes certificates for its cluster."""
        return self.kind in _ELASTIC if self.tls == "auto" else self.tls

    @property
    def later_wait_s(self) -> int:
        """Seconds to wait while all workers are gone."""
        return 300 if self.wait_s == "auto" else self.wait_s


def cluster_named(where: str) -> Cluster:
    """Return the cluster that a command line names: `here` for threads of this process, or a scheduler's address.

    Raises
    ------
    InputError
        It names neither.
    """
    if where == "here":
        return Cluster()
    if (fault := _address_fault(where)) is not None:
        problem, hint = fault
        raise InputError(f"`--cluster {where}`: {problem}", hint=f"{hint}, or `here`")
    return Cluster(kind="address", address=where)


def _address_fault(address: str) -> tuple[str, str] | None:
    if re.fullmatch(r"\w+://.+:[0-9]+", address):
        return None
    return f"`{address}` is no address of a scheduler", "give protocol, host and port: `tcp://host:8786`"


def cluster_contradictions(cluster: Mapping[str, Any]) -> Iterator[tuple[Path, str, str]]:
    """Yield, as `workflow.contradictions` does, what cannot be meant together in a `cluster` section."""
    kind, address = cluster.get("kind", "auto"), cluster.get("address")
    if kind not in _KINDS:
        return
    for key, kinds in _KINDS_OF.items():
        if kind not in kinds and cluster.get(key) not in (None, False, "auto"):
            yield (
                ("cluster", key),
                f"`cluster.{key}` is not used with kind `{kind}`",
                f"set `cluster.kind: {kinds[0]}`, or remove it"
                if len(kinds) == 1
                else _UNUSED_HINTS.get(kind, "remove it"),
            )
    workers = cluster.get("workers")
    if isinstance(workers, Mapping):
        low, high = workers.get("minimum", 1), workers.get("maximum")
        if kind not in _ELASTIC:
            yield (
                ("cluster", "workers"),
                f"kind `{kind}` has a fixed number of workers, not a range",
                "give a number, or set `cluster.kind: slurm` or `kubernetes`",
            )
        elif isinstance(low, int) and isinstance(high, int) and low > high:
            yield (
                ("cluster", "workers"),
                f"`minimum` is `{low}`, above `maximum`, which is `{high}`",
                "exchange them",
            )
    if kind == "address" and address is None:
        yield ("cluster", "kind"), "kind `address` needs `cluster.address`", "add `address: tcp://host:8786`"
    elif kind == "address" and isinstance(address, str) and (fault := _address_fault(address)) is not None:
        yield ("cluster", "address"), *fault
    if kind in _ELASTIC and cluster.get("memory_limit", "auto") == "auto":
        yield (
            ("cluster", "kind"),
            f"kind `{kind}` needs `cluster.memory_limit`: what each worker asks for",
            "add `memory_limit: 16GB`, or what `sssp-pipeline plan` says a worker needs",
        )
    if kind == "kubernetes" and not isinstance(cluster.get("kubernetes"), Mapping):
        yield (
            ("cluster", "kind"),
            "kind `kubernetes` needs an image with sssp-pipeline",
            "add `kubernetes: {image: registry/sssp-pipeline:0.1.0}`",
        )


_KINDS = get_args(Cluster.model_fields["kind"].annotation)
_ELASTIC = ("slurm", "kubernetes")
_STARTED = ("auto", "local-cpu", "local-cuda", *_ELASTIC)
#: With which kinds a key means something.
_KINDS_OF: dict[str, tuple[str, ...]] = {
    "address": ("address",),
    "slurm": ("slurm",),
    "kubernetes": ("kubernetes",),
    "workers": _STARTED,
    "threads_per_worker": _STARTED,
    "memory_limit": _STARTED,
    "tls": _STARTED,
    "dashboard_host": _ELASTIC,
}
_UNUSED_HINTS = {"address": "remove it: the workers of that cluster run already"}
