"""Checks of workers on other machines before they get tasks: release, memory, storage and GPU.

The functions below the line run on the workers.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import distributed
from distributed import Client, Worker

import sssp_pipeline
from sssp_pipeline import __version__
from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.base.progress import plural
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.gpu.common.cuda.cupy_setup import gpu_missing
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import obtainable_bytes
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.graph_store.store import read_manifest
from sssp_pipeline.pipeline.graph_store.stored_graph import limit_resident_bytes
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.solving.workers.memory import limit_of
from sssp_pipeline.pipeline.solving.workers.needs import IngestNeeds, Needs
from sssp_pipeline.storage import files
from sssp_pipeline.storage.retries import mark_reachable

#: Seconds that a worker has for its answer.
ANSWER_S = 60


@dataclass(frozen=True)
class WorkerCheck:
    """The result of the checks of one worker."""

    #: Why the worker can solve nothing of the run; None if it can.
    fault: str | None = None
    #: Why the worker has no GPU for a solver that needs one; None if it has one, or needs none.
    no_gpu: str | None = None
    #: The memory that each thread of the worker has for a task of an ingest.
    task_bytes: int = 0

    @property
    def reason(self) -> str | None:
        """Why the worker gets no task; None if it gets tasks."""
        return self.fault or self.no_gpu


def total_of_workers(client: Client) -> Machine:
    """Return the total of all workers of a cluster as one `Machine`.

    If some workers have a GPU, its free memory is the minimum over these workers.

    Raises
    ------
    InputError
        The scheduler or a worker runs another release.
    """
    scheduler = client.sync(client.scheduler.versions)["packages"]["distributed"]
    if scheduler != (ours := _ours()["distributed"]):
        raise InputError(
            f"the scheduler runs distributed {scheduler}, this is {ours}",
            hint="install the same release of Dask everywhere",
        )
    # Another release may lack the other functions, so the release is checked first.
    workers = list(client.nthreads())
    releases = client.sync(_run_on_each, client, workers, _releases)
    _raise_faults({worker: _release_fault(answer) for worker, answer in releases.items()})
    answers = client.sync(_run_on_each, client, workers, _cores_and_gpu)
    _raise_faults({w: _reason(a) if isinstance(a, BaseException) else None for w, a in answers.items()})
    cores = {host: n_cores for host, n_cores, _ in answers.values()}
    gpus = {worker: gpu for worker, (_, _, gpu) in answers.items()}
    free = [gpu for gpu in gpus.values() if isinstance(gpu, int)]
    if free:
        return Machine(sum(cores.values()), min(free), n_gpus=len(free))
    reasons = _each({worker: str(gpu) for worker, gpu in gpus.items()})
    return Machine(sum(cores.values()), None, f"no worker has a GPU: {reasons}")


def check_workers(
    client: Client, workers: Iterable[str], needs: Needs | IngestNeeds
) -> dict[str, WorkerCheck]:
    """Return the checks of `workers`, by address."""
    found: dict[str, WorkerCheck] = client.sync(_checks_of, client, list(workers), needs)
    return found


def start_check(client: Client, worker: str, needs: Needs | IngestNeeds) -> Future[WorkerCheck]:
    """Start the checks of `worker` in the background; return the future of the result."""

    async def check() -> WorkerCheck:
        return (await _checks_of(client, [worker], needs))[worker]

    return asyncio.run_coroutine_threadsafe(check(), client.loop.asyncio_loop)


async def _checks_of(
    client: Client, workers: list[str], needs: Needs | IngestNeeds
) -> dict[str, WorkerCheck]:
    found: dict[str, WorkerCheck] = {}
    for worker, answer in (await _run_on_each(client, workers, _releases)).items():
        if (fault := _release_fault(answer)) is not None:
            found[worker] = WorkerCheck(fault)
    rest = [worker for worker in workers if worker not in found]
    for worker, answer in (await _run_on_each(client, rest, _check_this_worker, needs)).items():
        found[worker] = WorkerCheck(_reason(answer)) if isinstance(answer, BaseException) else answer
    return found


def raise_unless_usable(found: dict[str, WorkerCheck], needs: Needs | IngestNeeds) -> None:
    """Raise `InputError` if workers have faults, or if no worker has a GPU that a solver needs; name all of them."""
    _raise_faults({worker: check.fault for worker, check in found.items()})
    if isinstance(needs, Needs) and all(check.no_gpu is not None for check in found.values()):
        reasons = _each({worker: str(check.no_gpu) for worker, check in found.items()})
        raise InputError(
            f"solver `{needs.solver}` needs a GPU, and no worker has one: {reasons}",
            hint="start workers on a machine with a GPU, or set `solve.solver: delta-stepping`",
        )


async def _run_on_each(
    client: Client, workers: list[str], function: Callable[..., Any], *arguments: Any
) -> dict[str, Any]:
    """Return the result of `function` on each of `workers`: an error if it fails or takes too long."""

    async def run_on(worker: str) -> Any:
        answer = client.run(function, *arguments, workers=[worker], on_error="return")
        try:
            return (await asyncio.wait_for(answer, ANSWER_S)).get(worker, SsspError("it has stopped"))
        except TimeoutError:
            return SsspError(f"it has not answered in {ANSWER_S} s")
        except OSError as error:
            return error

    return dict(zip(workers, await asyncio.gather(*map(run_on, workers)), strict=True))


def _raise_faults(faults: dict[str, str | None]) -> None:
    found = {worker: fault for worker, fault in faults.items() if fault is not None}
    if found:
        raise InputError(
            f"{len(found)} of {plural(len(faults), 'worker')} cannot take part: {_each(found)}",
            hint="fix these workers or stop them; the run can continue on the others",
        )


def _release_fault(releases: Any) -> str | None:
    if isinstance(releases, BaseException):
        return f"it cannot run sssp-pipeline: {_reason(releases)}"
    ours = _ours()
    for package, theirs in releases.items():
        if theirs != ours[package]:
            return f"it runs {package} {theirs}, this is {ours[package]}"
    return None


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _each(reasons: dict[str, str]) -> str:
    return "; ".join(f"{worker}: {reason}" for worker, reason in sorted(reasons.items()))


# ---------------------------------------------------------------------------------------------------------------------


def _releases() -> dict[str, str]:
    return _ours()


@cache
def _ours() -> dict[str, str]:
    """Return the releases of the packages that must be the same everywhere. Builds of one release may differ."""
    root = Path(sssp_pipeline.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.suffix in (".py", ".cu", ".cuh")):
        digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    code = f"{__version__} (code {digest.hexdigest()[:8]})"
    return {"sssp-pipeline": code, "distributed": distributed.__version__}


def _cores_and_gpu() -> tuple[str, int, int | str]:
    """Return the name of this worker's machine, its usable cores, and the free bytes of its GPU or why it has none."""
    import platform

    no_gpu = gpu_missing()
    return platform.node(), usable_cores(), obtainable_bytes() if no_gpu is None else no_gpu


def _check_this_worker(needs: Needs | IngestNeeds, dask_worker: Worker) -> WorkerCheck:
    """Return the checks of the worker on which this runs."""
    n_threads, limit = dask_worker.state.nthreads, limit_of(dask_worker)
    needed = needs.process_bytes(n_threads)
    if limit.usable_bytes < needed:
        use = " to ingest" if isinstance(needs, IngestNeeds) else f", of which it can use {limit.share:.0%}"
        return WorkerCheck(
            f"its memory limit is {limit}, and with {plural(n_threads, 'thread')} it needs "
            f"{limit.needed_mb(needed)}{use}"
        )
    try:
        fault = _ingest_fault(needs) if isinstance(needs, IngestNeeds) else _run_fault(needs)
    except SsspError as error:
        fault = error.message
    if isinstance(needs, IngestNeeds):
        return WorkerCheck(fault, task_bytes=limit.usable_bytes // (2 * n_threads))
    limit_resident_bytes(limit.usable_bytes - needed + needs.graph_bytes)
    return WorkerCheck(fault, _gpu_fault(needs) if fault is None else None)


def _run_fault(needs: Needs) -> str | None:
    """Return why this worker cannot use graph store and run folder, None if it can; or raise `SsspError`."""
    mark_reachable(files.redacted(needs.store), files.redacted(needs.run))
    read_manifest(needs.store, needs.content_id)
    if not RunFolder(needs.run).is_begun():
        return f"`{files.redacted(needs.run)}` is another folder there: storage must be shared"
    files.check_writable(needs.run)
    return None


def _ingest_fault(needs: IngestNeeds) -> str | None:
    """Return why this worker cannot use the graph store and the inputs, None if it can; or raise `SsspError`."""
    mark_reachable(files.redacted(needs.folder))
    if not files.exists(files.join(needs.folder, "here")):
        return "the graph store is another folder there"
    files.check_writable(needs.folder)
    for url, before in needs.inputs:
        if files.has_changed(before, files.fingerprint(url)):
            return f"`{files.redacted(url)}` is another file there"
    return None


def _gpu_fault(needs: Needs) -> str | None:
    """Return why this worker has no GPU for the solver; None if it has one, or if the solver needs none."""
    if SOLVERS.device_of(needs.solver) != "gpu":
        return None
    if (no_gpu := gpu_missing()) is not None:
        return no_gpu
    if (free := obtainable_bytes()) < needs.gpu_bytes:
        return f"its GPU has {free / 2**30:.1f} GiB free, and {needs.gpu_bytes / 2**30:.1f} are needed"
    return None
