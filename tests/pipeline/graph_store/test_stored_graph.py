"""The graphs a process keeps for its tasks."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import pytest

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.graph_store import stored_graph
from sssp_pipeline.pipeline.graph_store.machine_cache import shared_graph
from sssp_pipeline.pipeline.graph_store.store import read_manifest
from sssp_pipeline.pipeline.graph_store.stored_graph import (
    StoredGraph,
    limit_resident_bytes,
    resident_graph,
    share_with_tasks,
)
from sssp_pipeline.pipeline.ingest.into_store import ingest
from sssp_pipeline.workflow.graph import Graph


@pytest.fixture(autouse=True)
def loads(monkeypatch) -> list[str]:
    """The stores loaded so far, by a process that keeps no graph yet."""
    found: list[str] = []

    def counted(store, manifest):
        found.append(store)
        return shared_graph(store, manifest)

    monkeypatch.setattr(stored_graph, "shared_graph", counted)
    monkeypatch.setattr(stored_graph._resident_graphs, "__dict__", vars(stored_graph._ResidentGraphs()))
    return found


@pytest.fixture
def stores(tmp_path) -> list[tuple[str, str]]:
    """Three stores of graphs of one size, each with its content id."""
    found = []
    for seed in (1, 2, 3):
        url = str(tmp_path / str(seed))
        stored, _ = ingest(Graph(input=f"generated:grid?rows=5&cols=6&seed={seed}", store=url), url, Quiet())
        found.append((url, stored.content_id))
    return found


def room_for(stores, n: int) -> int:
    return sum(read_manifest(url).graph_bytes for url, _ in stores[:n])


def test_tasks_on_two_graphs_in_turn_load_each_once(stores, loads):
    with ThreadPoolExecutor(4) as threads:
        graphs = list(threads.map(lambda i: resident_graph(*stores[i % 2]).graph(), range(40)))
    assert sorted(loads) == sorted(url for url, _ in stores[:2])
    assert len({id(graph) for graph in graphs}) == 2
    assert resident_graph(*stores[0]).ids is resident_graph(*stores[0]).ids


def test_the_longest_unused_graph_goes_first(stores, loads):
    limit_resident_bytes(room_for(stores, 2))
    first, second, third = stores
    for used in (first, second, first, third, first):
        resident_graph(*used).graph()
    assert loads == [first[0], second[0], third[0]]
    resident_graph(*second).graph()
    assert loads == [first[0], second[0], third[0], second[0]]


def test_a_graph_in_use_is_found_again_without_room_and_one_that_is_not_is_gone(stores, loads):
    limit_resident_bytes(1)
    first, second, _ = stores
    in_use = resident_graph(*first)
    graph = in_use.graph()
    resident_graph(*second).graph()
    assert resident_graph(*first).graph() is graph
    assert loads == [first[0], second[0]]
    resident_graph(*second).graph()
    assert loads == [first[0], second[0], second[0]]


@pytest.mark.medium
def test_a_lent_graph_is_used_during_the_block_alone(stores, loads):
    url, content_id = stores[0]
    own = StoredGraph(url, read_manifest(url))
    with share_with_tasks(own):
        assert resident_graph(url, content_id) is own
        assert resident_graph(*stores[1]) is not own
        assert resident_graph(url, content_id) is own
    del own
    gc.collect()
    assert not loads
    resident_graph(url, content_id).graph()
    assert loads == [url]


def test_a_store_that_holds_another_graph_by_now_is_refused(stores):
    with pytest.raises(InputError) as caught:
        resident_graph(stores[0][0], stores[1][1])
    assert caught.value.message == (
        f"`{stores[0][0]}` holds no version of the graph with content id `{stores[1][1]}`"
    )


def test_a_task_on_an_older_version_finds_it(tmp_path, ingested):
    store = str(tmp_path / "graph")
    ids = [ingested(text).content_id for text in ("0 1 5\n", "0 1 6\n")]
    assert [resident_graph(store, content_id).graph().weights.tolist() for content_id in ids] == [[5], [6]]
