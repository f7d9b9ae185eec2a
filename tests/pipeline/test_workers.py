import threading
from contextlib import contextmanager
from types import SimpleNamespace

import psutil
import pytest

from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline import workers
from sssp_pipeline.pipeline.workers import Demands, Load, assembled
from sssp_pipeline.workflow_cluster import Cluster

MB = 10**6


@pytest.fixture
def machine(monkeypatch):
    """Make this machine one of 8 cores and 1 GB."""
    monkeypatch.setattr(workers, "usable_cores", lambda: 8)
    memory = SimpleNamespace(total=1000 * MB, available=1000 * MB)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)


#: Only workers of another machine are asked whether they can.
ANY = Demands("store", "id", "run", "adds")


@contextmanager
def hire(spec, asked):
    with assembled(spec) as crew, crew.hired(asked, ANY) as hired:
        yield hired


def load(n_batches=100, graph_mb=0, batch_mb=1, together=1, on_gpu=False) -> Load:
    return Load(n_batches, graph_mb * MB, batch_mb * MB, together, on_gpu)


def waiting(n_batches, expected_s, *, batch_mb=0, together=1, on_gpu=False) -> Load:
    return Load(n_batches, 0, batch_mb * MB, together, on_gpu, expected_s)


@pytest.mark.parametrize(
    ("asked", "n_solving", "together"),
    [
        (waiting(400, 0.1), 8, 1),  # a second of scheduling
        (waiting(4_000, 0.1), 8, 10),
        (waiting(4_000, 100.0), 8, 2),  # a twentieth of the time
        (waiting(4_000, 1000.0), 8, 1),
        (waiting(4_000, 0.1), 250, 4),  # four tasks each
        (waiting(4_000, 0.1, batch_mb=10), 8, 3),  # as many distances as a large batch has
        (waiting(4_000, 1000.0, together=64, on_gpu=True), 8, 64),
        (waiting(1_000, 1000.0, together=64, on_gpu=True), 100, 10),  # a task for each GPU
        (waiting(3, 1000.0, together=64, on_gpu=True), 100, 1),
    ],
)
def test_small_batches_share_a_task_of_dask(asked, n_solving, together):
    assert workers.sharing(asked, n_solving).together == together


@pytest.mark.parametrize(
    ("asked", "threads"),
    [
        (load(), 8),
        (load(on_gpu=True), 9),  # one has the GPU, eight write
        (load(n_batches=3, on_gpu=True), 3),
        (load(graph_mb=400, batch_mb=100), 3),  # each thread holds a batch twice
        (load(graph_mb=400, batch_mb=200, on_gpu=True), 1),
        (load(together=10, on_gpu=True), 3),  # the writers of a task are its own
        (load(batch_mb=20, together=10, on_gpu=True), 2),
    ],
)
def test_as_many_threads_as_have_work_and_fit_the_memory(machine, asked, threads):
    with hire(Cluster(), asked) as hired:
        assert (hired.n_processes, hired.n_threads, hired.in_flight) == (0, threads, 2 * threads)
        assert hired.dashboard is None
        assert hired.submit(abs, -32).result() == 32


@pytest.mark.parametrize(
    ("spec", "asked", "together"),
    [
        (Cluster(), load(batch_mb=40, together=10, on_gpu=True), 10),
        (Cluster(), load(graph_mb=400, batch_mb=50, together=10, on_gpu=True), 6),
        (Cluster(), load(graph_mb=900, batch_mb=50, together=10, on_gpu=True), 1),
        (Cluster(threads_per_worker=2), load(graph_mb=200, batch_mb=50, together=10, on_gpu=True), 4),
        (Cluster(workers=2), load(graph_mb=200, batch_mb=50, together=10, on_gpu=True), 3),
        (Cluster(memory_limit="800MB"), load(graph_mb=200, batch_mb=50, together=10, on_gpu=True), 2),
    ],
)
def test_a_call_takes_fewer_batches_where_memory_is_short(machine, spec, asked, together):
    with assembled(spec) as crew:
        fit = crew.fitted(asked)
    assert (fit.together, fit.n_tasks) == (together, -(-100 // together))


def test_what_is_asked_for_is_taken(machine):
    with hire(Cluster(threads_per_worker=2, in_flight=1), load()) as hired:
        assert (hired.n_threads, hired.in_flight) == (2, 1)


@pytest.mark.parametrize(
    ("spec", "asked", "size"),
    [
        (Cluster(workers=2), load(), (2, 4)),
        (Cluster(workers=3), load(n_batches=2), (3, 1)),
        (Cluster(workers=2), load(graph_mb=100, batch_mb=100), (2, 2)),
        (Cluster(threads_per_worker=3), load(), (2, 3)),
        (Cluster(memory_limit="900MB"), load(), (1, 8)),
    ],
)
def test_how_many_processes_of_how_many_threads(machine, spec, asked, size):
    assert workers._size(spec, asked) == size


def test_a_memory_limit_takes_a_process():
    with hire(Cluster(memory_limit="3GB"), load(n_batches=1)) as hired:
        assert (hired.n_processes, hired.n_threads) == (1, 1)
        assert hired.dashboard.startswith("http://127.0.0.1:")


def test_a_graph_that_does_not_fit_is_refused(machine):
    with pytest.raises(InputError) as caught, hire(Cluster(), load(graph_mb=900, batch_mb=100)):
        pass
    assert (
        caught.value.message == "1 worker of 1 thread would take 1.0 GiB of memory, this machine has 0.9 GiB"
    )
    with pytest.raises(InputError) as caught, hire(Cluster(workers=2), load(graph_mb=600)):
        pass
    assert caught.value.message.startswith("2 workers of 1 thread would take 1.1 GiB of memory")


def test_the_block_ends_when_what_is_under_way_has_ended(machine):
    ended = []

    def slow(number):
        begun.wait(10)
        ended.append(number)

    begun = threading.Event()
    with pytest.raises(KeyboardInterrupt), hire(Cluster(threads_per_worker=1), load()) as hired:
        for number in range(3):
            hired.submit(slow, number)
        threading.Timer(0.2, begun.set).start()
        raise KeyboardInterrupt
    assert ended == [0]
