import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from sssp_pipeline.base import interrupts
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.solving.workers import local, memory
from sssp_pipeline.pipeline.solving.workers.needs import Needs, with_shared_tasks
from sssp_pipeline.pipeline.solving.workers.source import worker_source
from sssp_pipeline.workflow.cluster import Cluster

MB = 10**6


@pytest.fixture
def machine(monkeypatch, request):
    """Make this machine one of 8 cores and 1 GB, or the parameter, all of it free."""
    monkeypatch.setattr(local, "usable_cores", lambda: 8)
    n_bytes = getattr(request, "param", 1000 * MB)
    for where, name in ((local, "free_memory_bytes"), (local, "memory_bytes"), (memory, "memory_bytes")):
        monkeypatch.setattr(where, name, lambda: n_bytes)


#: A machine of 3 GB: Dask's workers take 400 MB each, and leave a fifth of the rest.
LARGE = pytest.mark.parametrize("machine", [3000 * MB], indirect=True)


def load(n_batches=100, expected_s=0.0, *, graph_mb=0, batch_mb=1, batches_per_task=1, on_gpu=False) -> Needs:
    solver = "adds" if on_gpu else "delta-stepping"
    sizes = n_batches, graph_mb * MB, batch_mb * MB, batches_per_task
    return Needs("store", "id", "run", solver, *sizes, expected_s=expected_s)


@contextmanager
def workers_of(spec, needs):
    with worker_source(spec) as source, source.workers(needs) as workers:
        yield workers


@pytest.mark.parametrize(
    ("needs", "n_solving", "batches_per_task"),
    [
        (load(400, 0.1), 8, 1),  # a second of scheduling
        (load(4_000, 0.1), 8, 10),
        (load(4_000, 100.0), 8, 2),  # a twentieth of the time
        (load(4_000, 1000.0), 8, 1),
        (load(4_000, 0.1), 250, 4),  # four tasks each
        (load(4_000, 0.1, batch_mb=20), 8, 3),  # as many distances as a large batch has
        (load(4_000, 1000.0, batches_per_task=64, on_gpu=True), 8, 64),
        (load(1_000, 1000.0, batches_per_task=64, on_gpu=True), 100, 10),  # a task for each GPU
        (load(3, 1000.0, batches_per_task=64, on_gpu=True), 100, 1),
    ],
)
def test_small_batches_share_a_task_of_dask(needs, n_solving, batches_per_task):
    assert with_shared_tasks(needs, n_solving).batches_per_task == batches_per_task


@pytest.mark.parametrize(
    ("needs", "threads"),
    [
        (load(), 8),
        (load(on_gpu=True), 9),  # one has the GPU, eight write
        (load(n_batches=3, on_gpu=True), 3),
        (load(graph_mb=400, batch_mb=100), 3),  # each thread holds a batch twice
        (load(graph_mb=400, batch_mb=200, on_gpu=True), 1),
        (load(batches_per_task=10), 8),  # one for each core: each holds memory of its search
        (load(batches_per_task=10, on_gpu=True), 5),  # the writers of a task are its own
        (load(batch_mb=20, batches_per_task=10, on_gpu=True), 2),
    ],
)
def test_as_many_threads_as_have_work_and_fit_the_memory(machine, needs, threads):
    with workers_of(Cluster(), needs) as workers:
        assert (workers.n_processes, workers.n_threads, workers.in_flight) == (0, threads, 2 * threads)
        assert workers.dashboard is None
        assert workers.submit(abs, -32).result() == 32


@pytest.mark.parametrize(
    ("spec", "needs", "batches_per_task"),
    [
        (Cluster(), load(batch_mb=40, batches_per_task=10, on_gpu=True), 10),
        (Cluster(), load(graph_mb=400, batch_mb=50, batches_per_task=10, on_gpu=True), 6),
        (Cluster(), load(graph_mb=900, batch_mb=50, batches_per_task=10, on_gpu=True), 1),
        (Cluster(threads_per_worker=2), load(graph_mb=200, batch_mb=50, batches_per_task=10, on_gpu=True), 4),
    ],
)
def test_a_call_takes_fewer_batches_where_memory_is_short(machine, spec, needs, batches_per_task):
    with worker_source(spec) as source:
        fit = source.fitted(needs)
    assert (fit.batches_per_task, fit.n_tasks) == (batches_per_task, -(-100 // batches_per_task))


# With two workers each has 1,500 MB. Dask lets it use 1,200, and the worker itself takes 400.
@LARGE
@pytest.mark.parametrize(("spec", "fit"), [(Cluster(workers=2), 6), (Cluster(memory_limit="1050MB"), 2)])
def test_a_call_of_a_worker_takes_what_dask_lets_it_use(machine, spec, fit):
    with worker_source(spec) as source:
        needs = source.fitted(load(graph_mb=200, batch_mb=50, batches_per_task=10, on_gpu=True))
    assert needs.batches_per_task == fit


def test_what_is_asked_for_is_taken(machine):
    with workers_of(Cluster(threads_per_worker=2, in_flight=1), load()) as workers:
        assert (workers.n_threads, workers.in_flight) == (2, 1)


@pytest.mark.parametrize(
    ("spec", "needs", "size"),
    [
        (Cluster(workers=2), load(), (2, 4)),
        (Cluster(workers=3), load(n_batches=2), (3, 1)),
        (Cluster(workers=2), load(graph_mb=100, batch_mb=100), (2, 3)),
        (Cluster(threads_per_worker=3), load(), (1, 3)),
        (Cluster(threads_per_worker=3, memory_limit="900MB"), load(), (2, 3)),
        (Cluster(memory_limit="900MB"), load(), (1, 8)),
        (Cluster(memory_limit="900MB"), load(graph_mb=100, batch_mb=50), (1, 2)),
    ],
)
@LARGE
def test_how_many_processes_of_how_many_threads(machine, spec, needs, size):
    assert local._processes_and_threads(spec, needs) == size


@pytest.mark.medium
def test_a_memory_limit_takes_a_process():
    with workers_of(Cluster(memory_limit="3GB"), load(n_batches=1)) as workers:
        assert (workers.n_processes, workers.n_threads) == (1, 1)
        assert workers.dashboard.startswith("http://127.0.0.1:")


def test_a_graph_that_does_not_fit_is_refused(machine):
    with pytest.raises(InputError) as caught, workers_of(Cluster(), load(graph_mb=900, batch_mb=100)):
        pass
    assert caught.value.message == (
        "1 worker of 1 thread would take 1.0 GiB of memory, and this run may use 0.9 GiB"
    )
    with pytest.raises(InputError) as caught, workers_of(Cluster(workers=2), load(graph_mb=600)):
        pass
    assert caught.value.message.startswith("2 workers of 1 thread would take 1.1 GiB of memory")


@pytest.mark.parametrize(
    ("spec", "graph_mb", "has", "needs"),
    [
        # Dask would pause it at 480 MB. The graph takes 160, and the worker more than 300.
        (Cluster(memory_limit="600MB"), 160, "600 MB", "703 MB"),
        (Cluster(workers=4, threads_per_worker=1), 300, "750 MB", "878 MB"),
    ],
)
@LARGE
def test_a_worker_that_dask_would_pause_for_good_is_refused(machine, spec, graph_mb, has, needs):
    with pytest.raises(InputError) as caught, workers_of(spec, load(graph_mb=graph_mb)):
        pass
    told = f"a worker of 1 thread has {has} of memory, but needs {needs}, of which it can use 80%"
    assert caught.value.message == told
    assert caught.value.hint.startswith("raise `cluster.memory_limit`, or lower `workers`")


def test_the_block_ends_when_what_is_under_way_has_ended(machine):
    ended = []

    def slow(number):
        begun.wait(10)
        ended.append(number)

    begun = threading.Event()
    with pytest.raises(KeyboardInterrupt), workers_of(Cluster(threads_per_worker=1), load()) as workers:
        for number in range(3):
            workers.submit(slow, number)
        threading.Timer(0.2, begun.set).start()
        raise KeyboardInterrupt
    assert ended == [0]


def test_an_interrupt_that_python_dropped_ends_the_wait_for_the_tasks_under_way():
    release = threading.Event()
    with ThreadPoolExecutor(1) as executor:
        threads = local.WorkerThreads(executor, 1, 1)
        threads.submit(release.wait, 60)
        with pytest.raises(KeyboardInterrupt):
            interrupts.press(signal.SIGINT, None)
        with pytest.raises(KeyboardInterrupt):
            threads.close()
        release.set()
        threads.close()  # it was told once
