import numpy as np
import pytest

from sssp_pipeline.csr import GraphTraits
from sssp_pipeline.errors import InputError
from sssp_pipeline.kernels import SOLVERS, _gpu
from sssp_pipeline.kernels.solver import SolveOptions
from sssp_pipeline.pipeline.plan import BATCH_BYTES, choose_solver, make_plan
from sssp_pipeline.workflow import Output, Solve


def traits(n_vertices=1000, dtype="uint32", low=1.0) -> GraphTraits:
    return GraphTraits(n_vertices, 3 * n_vertices, np.dtype(dtype), low, 9.0, 5.0)


def plan(n_sources, solve=None, n_vertices=1000, dtype="uint32"):
    sources = np.arange(n_sources, dtype=np.uint32)
    return make_plan(traits(n_vertices, dtype), sources, solve or Solve(), Output(path="x"))


def test_batches_hold_every_source_once_in_order():
    for n, size in ((0, "auto"), (1, "auto"), (64, "auto"), (1000, "auto"), (10, 3)):
        batches = plan(n, Solve(batch=size)).batches
        assert [s for b in batches for s in b] == list(range(n))


def test_batches_are_many_enough_to_share_and_small_enough_to_hold():
    assert len(plan(64).batches) == 1  # 256 kB in all
    assert len(plan(64, n_vertices=2**18).batches) == 64
    assert len(plan(1024, n_vertices=2**18).batches) == 64
    large = plan(10_000, n_vertices=2**20)
    assert len(large.batches[0]) * 4 * 2**20 == BATCH_BYTES
    assert [len(b) for b in plan(3, n_vertices=2**30).batches] == [1, 1, 1]


def test_predecessors_count_as_bytes():
    assert plan(8, Solve(predecessors=True)).written_bytes == 2 * plan(8).written_bytes


def test_auto_takes_the_first_registered_solver_that_can():
    solver, reason = choose_solver("auto", traits(), SolveOptions())
    able = [s for s in SOLVERS.values() if s.supports(traits(), SolveOptions()) is None]
    assert solver is able[0]
    for refused in list(SOLVERS.values())[: list(SOLVERS.values()).index(solver)]:
        assert refused.name in reason
        assert refused.supports(traits(), SolveOptions()) in reason


def test_auto_prefers_a_gpu_where_there_is_one(monkeypatch):
    monkeypatch.setattr(_gpu, "gpu_missing", lambda: None)
    solver, _ = choose_solver("auto", traits(), SolveOptions())
    assert solver.device == "gpu"
    monkeypatch.setattr(_gpu, "gpu_missing", lambda: "no CUDA GPU: none")
    solver, reason = choose_solver("auto", traits(), SolveOptions())
    assert solver.name == "delta-stepping"
    assert reason.startswith("not near-far nor adds nor adds-slots: no CUDA GPU: none; ")


def test_negative_weights_are_refused_with_every_solvers_reason():
    with pytest.raises(InputError) as caught:
        choose_solver("auto", traits(dtype="int32", low=-3), SolveOptions())
    assert caught.value.message.startswith(
        "no solver can solve this: near-far, adds, adds-slots, delta-stepping, dijkstra: "
    )
    assert "-3" in caught.value.message
    with pytest.raises(InputError, match="solver `dijkstra` cannot solve this: "):
        choose_solver("dijkstra", traits(dtype="int32", low=-3), SolveOptions())


def test_a_trace_is_asked_only_of_a_solver_that_records_one(monkeypatch):
    monkeypatch.setattr(_gpu, "gpu_missing", lambda: None)
    traced = SolveOptions(trace_every_us=10)
    for name in ("near-far", "delta-stepping", "dijkstra"):
        with pytest.raises(InputError) as caught:
            choose_solver(name, traits(), traced)
        assert caught.value.message == f"solver `{name}` cannot solve this: it records no trace"
        assert caught.value.hint == "these can: adds"
    solver, reason = choose_solver("auto", traits(), traced)
    assert solver.name == "adds"
    assert reason.startswith("not near-far: it records no trace; ")


def test_an_unknown_solver_gets_a_suggestion():
    with pytest.raises(InputError) as caught:
        choose_solver("dikstra", traits(), SolveOptions())
    assert caught.value.message == "unknown solver `dikstra`"
    assert caught.value.hint == "did you mean `dijkstra`? Solvers: " + ", ".join(sorted(SOLVERS))
