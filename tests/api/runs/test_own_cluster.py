"""Runs on the workers of a client that the caller brings: they leave it open, and refuse what it contradicts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from distributed import Client, LocalCluster, Security

import sssp_pipeline as sp
from sssp_pipeline.base.progress import Quiet


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def client():
    with LocalCluster(**options(n_workers=2)) as cluster, Client(cluster, set_as_default=False) as made:
        yield made


def options(**more) -> dict:
    # Without a limit on the memory of this process, which has had other tests before.
    return {"processes": False, "dashboard_address": "127.0.0.1:0", "memory_limit": 0} | more


def workflow(name: str = "run", **cluster) -> dict:
    return {
        "graph": {"input": "generated:grid?rows=20&cols=21&seed=3", "store": "graph"},
        "sources": {"random": {"count": 12, "seed": 1}},
        "solve": {"batch": 2, "solver": "dijkstra"},
        "cluster": cluster,
        "output": {"path": name},
    }


def contents(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder, "distances").iterdir()}


class Heard(Quiet):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line, event="note", *, level="info", **facts):
        self.lines.append(line)


class Ends(Quiet):
    def event(self, name, **facts):
        if name == "solved":
            raise KeyboardInterrupt


def check_run_on(client: Client, **cluster) -> None:
    """Run on `client` and in this process. The distances are equal, and the client still works."""
    heard = Heard()
    sp.run(workflow("theirs", **cluster), client=client, progress=heard)
    sp.run(workflow("ours"))
    assert contents("theirs") == contents("ours")
    assert any(line.startswith("cluster: ") for line in heard.lines)
    assert client.submit(sum, [1, 2]).result(timeout=30) == 3


def test_a_run_leaves_the_client_open(client):
    check_run_on(client, in_flight=3)
    recorded = json.loads(Path("theirs", "run.json").read_text())["workflow"]["cluster"]
    assert (recorded["kind"], recorded["address"], recorded["in_flight"]) == ("auto", None, 3)


@pytest.mark.medium
def test_several_weights_on_one_client(client):
    Path("edges.csv").write_text("from,to,minutes,metres\na,b,1,9\nb,c,2,5\n")
    graph = {
        "input": "edges.csv",
        "weights": {
            "several": [{"name": "time", "column": "minutes"}, {"name": "length", "column": "metres"}]
        },
    }
    wanted = {**workflow(), "graph": {**graph, "store": "graph"}, "sources": {"all": True}}
    runs = sp.run_each(wanted, client=client)
    assert [runs[name].distances("a", "c")["distance"].to_pylist() for name in runs] == [[3], [14]]
    assert client.status == "running"


@pytest.mark.medium
@pytest.mark.parametrize(
    "given",
    [{"processes": True}, {"security": Security.temporary, "protocol": "tls://"}],
    ids=["processes", "tls"],
)
def test_a_run_on_processes_or_under_tls(given):
    given = {key: value() if callable(value) else value for key, value in given.items()}
    with (
        LocalCluster(**options(n_workers=1, **given)) as cluster,
        Client(cluster, set_as_default=False) as own,
    ):
        check_run_on(own)


@pytest.mark.medium
def test_an_interrupted_run_leaves_no_task_and_goes_on_without_the_client(client, wait_until):
    with pytest.raises(KeyboardInterrupt):
        sp.run(workflow("theirs"), client=client, progress=Ends())
    wait_until(lambda: not any(client.processing().values()))
    assert client.status == "running"
    begun = len(contents("theirs"))
    sp.run(workflow("theirs"))
    sp.run(workflow("ours"))
    assert begun > 0
    assert contents("theirs") == contents("ours")


@pytest.mark.medium
def test_a_cell_of_a_notebook_runs_in_a_loop(client, error_of):
    async def notebook():
        sp.run(workflow("cell"), client=client)  # the client has a loop and a thread of its own
        async with (
            LocalCluster(**options(n_workers=1, asynchronous=True)) as cluster,
            Client(cluster, asynchronous=True, set_as_default=False) as own,
        ):
            refused = error_of(sp.run, workflow(), client=own)
            await asyncio.to_thread(sp.run, workflow(), client=own)
            return refused

    refused = asyncio.run(notebook())
    assert refused.message == "`client` is asynchronous in this thread, and a run waits for its workers"
    assert refused.hint == (
        "make it without `asynchronous=True`, or run in another thread: "
        "`await asyncio.to_thread(sp.run, workflow, client=client)`"
    )
    assert contents("run") == contents("cell")


@pytest.mark.medium
def test_a_cluster_without_workers(error_of):
    with LocalCluster(**options(n_workers=0)) as cluster, Client(cluster, set_as_default=False) as own:
        found = error_of(sp.run, workflow(wait_s=1), client=own)
        address = own.scheduler.address
        assert found.message == f"the scheduler at `{address}` has no workers after 1 s"
        assert found.hint == "start some: `client.cluster.scale(2)`, or raise `cluster.wait_s`"
        cluster.scale(1)
        sp.run(workflow(), client=own)
    found = error_of(sp.run, workflow(), client=own)
    assert found.message == "`client` is not connected to a scheduler: its status is `closed`"
    assert found.hint == "make another client of the cluster"


@pytest.mark.parametrize(
    ("cluster", "keys"),
    [
        ({"kind": "local-cpu"}, "`cluster.kind`"),
        ({"kind": "address", "address": "tcp://a:1"}, "`cluster.address`, `cluster.kind`"),
        ({"workers": 2, "memory_limit": "4GB", "in_flight": 3}, "`cluster.memory_limit`, `cluster.workers`"),
        ({"tls": False}, "`cluster.tls`"),
    ],
    ids=["kind", "address", "workers", "tls"],
)
def test_a_cluster_of_the_workflow_contradicts_the_client(client, error_of, cluster, keys):
    found = error_of(sp.run, workflow(**cluster), client=client)
    assert found.message == f"`client` has workers of its own, and the workflow sets {keys}"
    assert found.hint == "leave out `client`, or only set `in_flight` and `wait_s` in the section `cluster`"
    assert not Path("graph").exists()


def test_what_is_no_client(client, error_of):
    found = error_of(sp.run, workflow(), client=client.cluster)
    assert found.message == "`client` is of type LocalCluster, not a client of Dask"
    assert (
        found.hint
        == "make one with `distributed.Client(address)`, or with `cluster.get_client()` of a Dask cluster"
    )
