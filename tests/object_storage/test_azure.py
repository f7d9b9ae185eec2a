"""Runs on Azure's interface: Azurite on loopback, through adlfs."""

import pytest
from runs import N_BATCHES, AtBatch, Stop, digests, made, stop

from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.storage import files
from sssp_pipeline.storage.lease import exclusive

pytestmark = pytest.mark.slow


@pytest.fixture
def place(container, edges) -> str:
    """Return the URL of a container that holds the edges."""
    files.write_atomic(files.join(container, "edges.txt"), edges)
    return container


def test_a_run_is_resumed_and_the_same_as_on_local_files(place, undisturbed):
    with pytest.raises(Stop):
        run(made(place), AtBatch(4, stop))
    folder = f"{place}/run/distances"
    before = {name: files.fingerprint(f"{folder}/{name}") for name in files.list_files(folder)}
    assert 4 <= len(before) < N_BATCHES
    _, record = run(made(place), Quiet())
    assert digests(f"{place}/run") == undisturbed
    assert before == {name: files.fingerprint(f"{folder}/{name}") for name in before}
    assert record["verify"]["refuted"] is None
    assert files.list_files(f"{place}/run")[-3:] == ["metrics.parquet", "report.html", "run.json"]


def test_a_glob_and_a_part_of_a_file(place, edges):
    assert files.expand([f"{place}/*.txt"]) == [f"{place}/edges.txt"]
    with files.open_read(f"{place}/edges.txt") as handle:
        handle.seek(1000)
        assert handle.read(500) == edges[1000:1500]


def test_a_second_driver_is_refused_and_an_expired_lease_is_taken_over(place, quick, undisturbed):
    with exclusive(f"{place}/run") as still_ours:
        with pytest.raises(InputError, match="is writing to"):
            run(made(place), Quiet())
        files.write_atomic(f"{place}/run/_lease/000002.json", b"of one who was killed")
        folder, _ = run(made(place), Quiet())
        with pytest.raises(SsspError, match="was taken over"):
            still_ours()
    assert digests(folder.url) == undisturbed
    assert files.list_files(f"{folder.url}/_lease") == []


def test_what_is_there_is_not_created_again(container):
    assert files.create(f"{container}/only", b"first")
    assert not files.create(f"{container}/only", b"second")
    assert files.create(f"{container}/only", b"first")


def test_a_wrong_key(place, connect):
    connect("d3JvbmcgLSB3cm9uZyAtIHdyb25n")
    with pytest.raises(InputError) as caught:
        run(made(place), Quiet())
    assert caught.value.message.startswith(f"`{place}/run/run.json` may not be read: ")
    assert "d3JvbmcgLSB3cm9uZyAtIHdyb25n" not in caught.value.message
    assert caught.value.hint == "check its permissions, or the credentials"


def test_a_container_that_is_not_there_is_not_made(connect):
    message = "^`abfs://nowhere/run` cannot be written: The specified container does not"
    with pytest.raises(InputError, match=message):
        run(made("abfs://nowhere"), Quiet())
    assert not files.exists("abfs://nowhere")
