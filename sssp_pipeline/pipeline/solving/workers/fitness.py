"""Preflight: what the workers of other machines have, and whether they can take part, asked before they get work.

The functions below the line run on the workers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import distributed
from distributed import Client, Worker

from sssp_pipeline import __version__
from sssp_pipeline.errors import InputError, SsspError
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.gpu.common.cupy_setup import gpu_missing
from sssp_pipeline.kernels.gpu.common.device_graph import obtainable_bytes
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.graph_store.store import read_manifest
from sssp_pipeline.pipeline.graph_store.stored_graph import limit_resident_bytes
from sssp_pipeline.pipeline.machine import Machine
from sssp_pipeline.pipeline.results.run_folder import RunFolder
from sssp_pipeline.pipeline.solving.workers.memory import limit_of, needed_limit, usable_bytes
from sssp_pipeline.pipeline.solving.workers.needs import Needs
from sssp_pipeline.pipeline.storage import files
from sssp_pipeline.pipeline.storage.retries import mark_reachable
from sssp_pipeline.progress import plural

#: The releases that must be the same everywhere.
_OURS = {"sssp-pipeline": __version__, "distributed": distributed.__version__}
#: Seconds in which a worker must answer.
ANSWER_S = 60


@dataclass(frozen=True)
class Fitness:
    """Why a worker cannot take part at all, or has no GPU where one is needed; None where it can, and has."""

    fault: str | None = None
    no_gpu: str | None = None

    @property
    def reason(self) -> str | None:
        """Why it gets no task."""
        return self.fault or self.no_gpu


def survey(client: Client) -> Machine:
    """Return what the workers of a cluster have together.

    Where some have a GPU, only these count towards GPUs and their memory.

    Raises
    ------
    InputError
        The scheduler or a worker runs another release.
    """
    scheduler = client.sync(client.scheduler.versions)["packages"]["distributed"]
    if scheduler != _OURS["distributed"]:
        raise InputError(
            f"the scheduler runs distributed {scheduler}, this is {_OURS['distributed']}",
            hint="install the same release of Dask everywhere",
        )
    # Another release may not know the other questions, so each is asked for its own first.
    workers = list(client.nthreads())
    releases = client.sync(_ask, client, workers, _releases)
    _refuse_unfit({worker: _release_fault(answer) for worker, answer in releases.items()})
    answers = client.sync(_ask, client, workers, _equipment)
    _refuse_unfit({w: _reason(a) if isinstance(a, BaseException) else None for w, a in answers.items()})
    cores = {host: n_cores for host, n_cores, _ in answers.values()}
    gpus = {worker: gpu for worker, (_, _, gpu) in answers.items()}
    free = [gpu for gpu in gpus.values() if isinstance(gpu, int)]
    if free:
        return Machine(sum(cores.values()), min(free), n_gpus=len(free))
    reasons = _each({worker: str(gpu) for worker, gpu in gpus.items()})
    return Machine(sum(cores.values()), None, f"no worker has a GPU: {reasons}")


def fitness(client: Client, workers: Iterable[str], needs: Needs) -> dict[str, Fitness]:
    """Return for each of `workers`, by address, whether it can take part."""
    found: dict[str, Fitness] = client.sync(_fitness_of, client, list(workers), needs)
    return found


def ask_fitness(client: Client, worker: str, needs: Needs) -> Future[Fitness]:
    """Return the future of whether `worker` can take part; it is asked while the caller goes on."""

    async def ask() -> Fitness:
        return (await _fitness_of(client, [worker], needs))[worker]

    return asyncio.run_coroutine_threadsafe(ask(), client.loop.asyncio_loop)


async def _fitness_of(client: Client, workers: list[str], needs: Needs) -> dict[str, Fitness]:
    found: dict[str, Fitness] = {}
    for worker, answer in (await _ask(client, workers, _releases)).items():
        if (fault := _release_fault(answer)) is not None:
            found[worker] = Fitness(fault)
    rest = [worker for worker in workers if worker not in found]
    for worker, answer in (await _ask(client, rest, _fitness, needs)).items():
        found[worker] = Fitness(_reason(answer)) if isinstance(answer, BaseException) else answer
    return found


def check(found: dict[str, Fitness], solver: str) -> None:
    """Raise `InputError`, with all of them named, if workers cannot take part, or none has the GPU that is needed."""
    _refuse_unfit({worker: fit.fault for worker, fit in found.items()})
    if all(fit.no_gpu is not None for fit in found.values()):
        reasons = _each({worker: str(fit.no_gpu) for worker, fit in found.items()})
        raise InputError(
            f"solver `{solver}` needs a GPU, and no worker has one: {reasons}",
            hint="start workers where there is one, or set `solve.solver: delta-stepping`",
        )


async def _ask(
    client: Client, workers: list[str], question: Callable[..., Any], *given: Any
) -> dict[str, Any]:
    """Return what each of `workers` answers, an error where it fails or does not answer in time."""

    async def ask(worker: str) -> Any:
        answer = client.run(question, *given, workers=[worker], on_error="return")
        try:
            return (await asyncio.wait_for(answer, ANSWER_S)).get(worker, SsspError("it has gone"))
        except TimeoutError:
            return SsspError(f"it has not answered in {ANSWER_S} s")
        except OSError as error:
            return error

    return dict(zip(workers, await asyncio.gather(*map(ask, workers)), strict=True))


def _refuse_unfit(faults: dict[str, str | None]) -> None:
    unfit = {worker: fault for worker, fault in faults.items() if fault is not None}
    if unfit:
        raise InputError(
            f"{len(unfit)} of {plural(len(faults), 'worker')} cannot take part: {_each(unfit)}",
            hint="fix these workers or stop them; the run can continue on the others",
        )


def _release_fault(releases: Any) -> str | None:
    if isinstance(releases, BaseException):
        return f"it cannot run sssp-pipeline: {_reason(releases)}"
    for package, theirs in releases.items():
        if theirs != _OURS[package]:
            return f"it runs {package} {theirs}, this is {_OURS[package]}"
    return None


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _each(reasons: dict[str, str]) -> str:
    return "; ".join(f"{worker}: {reason}" for worker, reason in sorted(reasons.items()))


# ---------------------------------------------------------------------------------------------------------------------


def _releases() -> dict[str, str]:
    return _OURS


def _equipment() -> tuple[str, int, int | str]:
    """Return this worker's machine, the cores it may use, and free bytes of its GPU, or why there is none."""
    import platform

    no_gpu = gpu_missing()
    return platform.node(), usable_cores(), obtainable_bytes() if no_gpu is None else no_gpu


def _fitness(needs: Needs, dask_worker: Worker) -> Fitness:
    """Return whether the worker on which this runs can take part."""
    n_threads = dask_worker.state.nthreads
    limit, share = limit_of(dask_worker)
    batches_bytes = max(n_threads * needs.task_memory, needs.least_bytes)
    room = usable_bytes(limit, share) - batches_bytes
    if room < needs.graph_bytes:
        needed = needed_limit(needs.graph_bytes + batches_bytes, share)
        return Fitness(
            f"its memory limit is {limit / 1e6:,.0f} MB, and with {plural(n_threads, 'thread')} it needs "
            f"{needed / 1e6:,.0f} MB, of which it can use {share:.0%}"
        )
    limit_resident_bytes(room)
    mark_reachable(files.redacted(needs.store), files.redacted(needs.run))
    try:
        read_manifest(needs.store, needs.content_id)
        folder = RunFolder(needs.run)
        if not folder.is_begun():
            return Fitness(f"`{files.redacted(needs.run)}` is another folder there: storage must be shared")
        files.check_writable(needs.run)
    except SsspError as error:
        return Fitness(error.message)
    if SOLVERS[needs.solver].device != "gpu":
        return Fitness()
    if (no_gpu := gpu_missing()) is not None:
        return Fitness(no_gpu=no_gpu)
    if (free := obtainable_bytes()) < needs.gpu_bytes:
        return Fitness(
            no_gpu=f"its GPU has {free / 2**30:.1f} GiB free, and {needs.gpu_bytes / 2**30:.1f} are needed"
        )
    return Fitness()
