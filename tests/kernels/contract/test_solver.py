import math

import numpy as np
import pytest

from sssp_pipeline.base.csr import distance_limit
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels import SOLVERS, WITH_HIERARCHY, solver_named
from sssp_pipeline.kernels.contract.kept import Nothing, Targets
from sssp_pipeline.kernels.contract.solver import (
    MetricsColumns,
    SolveOptions,
    SourceMetrics,
    joined_metrics,
    metrics_column,
)
from sssp_pipeline.kernels.host.numba_tools import bit_length
from sssp_pipeline.kernels.registry import Solvers


@pytest.mark.parametrize(
    ("name", "values", "hint"),
    [
        ("delta", (0, -1.5, math.inf, math.nan), "delta is a positive number in the unit of the weights"),
        ("cutoff", (-1, -0.5, math.nan), "cutoff is a distance of zero or more"),
        ("trace_every_us", (0, -1, 1_000_001), "it is a time from 1 to 1,000,000 microseconds"),
        ("deadline_s", (0, -1.5, math.nan), "deadline_s is a number of seconds above 0"),
    ],
)
def test_an_impossible_option_is_an_error(name, values, hint):
    for value in values:
        with pytest.raises(InputError) as caught:
            SolveOptions(**{name: value})
        assert (caught.value.message, caught.value.hint) == (f"{name} is {value}", hint)


def test_predecessors_for_some_targets_are_an_error():
    for kept in (Targets(np.array([3])), Nothing()):
        with pytest.raises(InputError) as caught:
            SolveOptions(predecessors=True, kept=kept)
        assert caught.value.message == "predecessors cannot be given for some targets alone"


def test_solvers_are_found_by_name():
    for name, solver in SOLVERS.items():
        assert solver_named(name) is solver
        assert solver.name == name
    assert [name for name, solver in SOLVERS.items() if solver.uses_hierarchy] == list(WITH_HIERARCHY)


def test_an_entry_tells_the_device_before_its_solver_is_imported():
    entries = {name: f"{type(s).__module__}:{type(s).__name__}" for name, s in SOLVERS.items()}
    not_imported = Solvers(entries)
    assert {name: not_imported.device_of(name) for name in entries} == {
        n: s.device for n, s in SOLVERS.items()
    }
    assert not_imported["dijkstra"] is not_imported["dijkstra"]
    with pytest.raises(KeyError):
        not_imported["dijsktra"]


def test_an_unknown_solver_is_an_error_with_a_suggestion():
    with pytest.raises(InputError) as caught:
        solver_named("dijsktra")
    assert caught.value.message == "unknown solver `dijsktra`"
    assert caught.value.hint.startswith("did you mean `dijkstra`? Solvers: ")


@pytest.mark.parametrize(
    ("dtype", "cutoff", "limit"),
    [
        ("uint32", None, 2**32 - 1),
        ("uint32", 2**32 - 2, 2**32 - 1),
        ("uint32", 2**32 - 3, 2**32 - 2),
        ("int32", 1e300, 2**31 - 1),
        ("int32", math.inf, 2**31 - 1),
        ("int64", 7.9, 8),
        ("uint64", 2**60, 2**60 + 1),
        ("uint32", 0, 1),
        ("float64", None, math.inf),
        ("float64", 2.5, math.nextafter(2.5, math.inf)),
        ("float32", 1e39, math.inf),
        # A cutoff is rounded as weights are: 0.1 in float32 is above the float64 0.1, and within a cutoff of 0.1.
        ("float32", 0.1, np.nextafter(np.float32(0.1), np.float32(1))),
        ("float32", 0.7, np.nextafter(np.float32(0.7), np.float32(1))),
    ],
)
def test_the_limit_is_the_least_distance_beyond_the_cutoff(dtype, cutoff, limit):
    found = distance_limit(np.dtype(dtype), cutoff)
    assert found.dtype == dtype
    assert found == limit


def test_bit_length_is_that_of_python():
    @njit()
    def compiled(value):
        return bit_length(value)

    for value in (0, 1, 2, 3, 2**31, 2**32, 2**63, 2**64 - 1):
        assert compiled(np.uint64(value)) == value.bit_length()


def columns(count: int, first: int = 0) -> MetricsColumns:
    numbers = np.arange(first, first + count)
    shared = {
        "solver": "adds",
        "edges_relaxed": 5,
        "reached": 6,
        "max_distance": 7,
        "teps": 9.0,
        "trace": None,
    }
    return MetricsColumns(
        {"source": numbers, "solve_s": 0.5, "vertices_processed": 2 * numbers, "mean_distance": 8.0} | shared
    )


def test_metrics_by_column_are_a_sequence_of_entries():
    metrics = columns(4)
    assert len(metrics) == 4
    assert metrics[2] == SourceMetrics(2, "adds", 0.5, 4, 5, 6, 7, 8.0, 9.0)
    assert type(metrics[2].source) is int
    assert list(metrics[1:3]) == [metrics[1], metrics[2]]
    assert metrics[-1].source == 3
    with pytest.raises(IndexError):
        metrics[4]
    assert metrics.column("solve_s") == [0.5] * 4
    assert metrics_column(list(metrics), "vertices_processed") == [0, 2, 4, 6]


def test_metrics_of_several_device_batches_are_joined():
    other = MetricsColumns({**columns(2, first=4)._columns, "solve_s": 0.25})
    joined = MetricsColumns.joined([columns(4), other])
    assert list(joined) == [*columns(4), *other]
    assert metrics_column(joined, "solve_s").tolist() == [0.5] * 4 + [0.25] * 2
    assert joined.column("solver") == ["adds"] * 6


def test_metrics_are_joined_by_column_if_all_have_columns():
    parts = [columns(4), columns(2, first=4)]
    assert list(joined_metrics(parts)) == [*parts[0], *parts[1]]
    assert isinstance(joined_metrics(parts), MetricsColumns)
    assert joined_metrics([parts[0], list(parts[1])]) == [*parts[0], *parts[1]]
    assert joined_metrics([]) == []
