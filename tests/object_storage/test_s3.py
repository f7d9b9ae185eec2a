"""Runs on a real S3: OpenStack Swift on loopback, which is stopped, started and shared by several drivers."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict

import pyarrow.parquet as pq
import pytest
import s3fs
import yaml
from runs import N_BATCHES, AtBatch, Stop, digests, made, stop, workflow_at
from stores import GUEST, OWNER, STRANGER

from sssp_pipeline.base.errors import InputError, SsspError, StoreUnavailableError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.ingest.into_store import ingest
from sssp_pipeline.pipeline.run.completed_run import verify_run
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.storage import files, lease, parts_upload, retries

pytestmark = pytest.mark.slow

#: A driver as the command line starts it, whose lease is short and whose batches are slow.
DRIVER = """
import time
from sssp_pipeline.storage import lease
from sssp_pipeline.pipeline.solving import dispatch as scatter
lease.BEAT_S, lease.LEASE_S, solve_task = 0.5, 4.0, scatter.solve_task
scatter.solve_task = lambda task: (time.sleep(0.3), solve_task(task))[1]
from sssp_pipeline.cli import main
main()
"""


def modified(run_url: str) -> dict[str, object]:
    """Return when each batch was written, by the store's clock."""
    found = s3fs.S3FileSystem(use_listings_cache=False).find(f"{run_url}/distances", detail=True)
    return {path.rpartition("/")[2]: info["LastModified"] for path, info in found.items()}


@pytest.fixture
def driver(tmp_path):
    """Give a function that starts a run in a process of its own and returns it when it has committed a batch."""
    started = []

    def start(place: str) -> subprocess.Popen:
        (tmp_path / "w.yaml").write_text(yaml.safe_dump(workflow_at(place)))
        command = [sys.executable, "-c", DRIVER, "run", str(tmp_path / "w.yaml")]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        started.append(process)
        while not files.list_files(files.join(place, "run", "distances")):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.1)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_run_from_s3_to_s3_is_the_same_as_on_local_files(place, undisturbed):
    folder, record = run(made(place), Quiet())
    assert digests(folder.url) == undisturbed
    assert len(undisturbed) == N_BATCHES
    assert files.list_files(folder.url)[-3:] == ["metrics.parquet", "report.html", "run.json"]
    assert [name for name in files.list_files(folder.url) if name.startswith("_")] == []
    assert record["verify"]["refuted"] is None
    assert verify_run(folder.url, None, "certificate", Quiet())["verify"]["checked_sources"] == 24
    table = pq.read_table(f"{place.removeprefix('s3://')}/run/distances", filesystem=s3fs.S3FileSystem())
    assert table.num_rows == 24 * 2000
    for name in files.list_files(place):
        content = files.read_bytes(files.join(place, name))
        assert OWNER[0].encode() not in content, f"{name} holds the user"
        assert OWNER[1].encode() not in content, f"{name} holds the secret"


def test_running_again_solves_only_what_is_missing(place, undisturbed):
    with pytest.raises(Stop):
        run(made(place), AtBatch(4, stop))
    url = files.join(place, "run")
    written = modified(url)
    assert 4 <= len(written) < N_BATCHES
    run(made(place), Quiet())
    assert digests(url) == undisturbed
    assert written.items() <= modified(url).items()


@pytest.mark.parametrize(
    ("daemon", "cluster"), [("proxy", {"workers": 1}), ("object", {})], ids=["proxy", "object"]
)
def test_a_store_that_is_away_for_a_while_costs_nothing_but_time(
    swift, place, undisturbed, quick, daemon, cluster, caplog
):
    """Without its proxy nothing answers, to a worker; without its object server the proxy answers 503, to threads."""
    back = threading.Timer(5.0, swift.start)  # longer than the lease

    def stop() -> None:
        swift.stop(daemon)
        back.start()

    try:
        folder, record = run(made(place, cluster=cluster), AtBatch(3, stop))
    finally:
        back.join()
    assert digests(folder.url) == undisturbed
    assert record["verify"]["refuted"] is None
    if not cluster:  # a worker has a log of its own
        waits = [line for line in caplog.messages if "does not answer, trying again for 30 s" in line]
        assert len(waits) == 1


def test_a_store_that_stays_away_ends_the_run_which_goes_on_later(
    swift, place, undisturbed, quick, monkeypatch
):
    monkeypatch.setattr(retries, "RETRY_S", 2.0)
    try:
        with pytest.raises(StoreUnavailableError) as caught:
            run(made(place, solve={"retries": 0}), AtBatch(3, lambda: swift.stop("proxy")))
    finally:
        swift.start()
    assert "does not answer, after" in caught.value.message
    run(made(place), Quiet())
    assert digests(files.join(place, "run")) == undisturbed


def test_the_graph_is_read_on_after_the_store_was_away_in_the_middle_of_it(swift, place, quick):
    url = files.join(place, "big")
    content = os.urandom(1 << 20) * 24
    files.write_atomic(url, content)
    with files.open_read(url) as handle:
        first = handle.read(1000)
        swift.stop("proxy")
        back = threading.Timer(2.0, swift.start)
        back.start()
        rest = handle.read()
        back.join()
    assert first + rest == content


def test_a_wrong_secret(place, login):
    login(OWNER[0], "not-the-secret")
    with pytest.raises(InputError) as caught:
        run(made(place), Quiet())
    assert caught.value.message == f"`{place}/run/run.json` may not be read: Forbidden"
    assert caught.value.hint == "check its permissions, or the credentials"


def test_no_permission_to_write(place, edges, login, tmp_path):
    s3fs.S3FileSystem().chmod(place, acl="public-read")
    (tmp_path / "edges.txt").write_bytes(edges)
    login(*GUEST)
    assert files.read_bytes(f"{place}/edges.txt") == edges
    store = {"graph": {"store": str(tmp_path / "graph")}}
    with pytest.raises(InputError) as caught:
        run(made(place, **store), Quiet())
    assert caught.value.message == f"`{place}/run` cannot be written: Access Denied."
    assert caught.value.hint == "choose a place that may be written"
    assert not (tmp_path / "graph").exists()


def test_a_bucket_that_is_not_there_is_not_made(login):
    login(*STRANGER)
    nowhere = "s3://there-is-no-such-bucket"
    with pytest.raises(InputError, match=f"`{nowhere}/run` cannot be written: The specified bucket does not"):
        run(made(nowhere), Quiet())
    with pytest.raises(InputError, match=f"`{nowhere}/edges.txt` does not exist"):
        files.expand([f"{nowhere}/edges.txt"])
    assert s3fs.S3FileSystem().ls("") == []


def test_what_is_there_is_not_created_again(bucket):
    url = files.join(bucket, "only")
    assert files.create(url, b"first")
    assert not files.create(url, b"second")
    assert files.create(url, b"first")  # as after an answer that was lost
    assert files.read_bytes(url) == b"first"


def test_a_store_that_keeps_no_condition_is_told(bucket, monkeypatch, caplog):
    call = s3fs.S3FileSystem._call_s3

    def regardless(self, method, *args, IfNoneMatch=None, **kwargs):
        return call(self, method, *args, **kwargs)

    with lease.exclusive(f"{bucket}/held"):
        assert caplog.messages == []
    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", regardless)
    with lease.exclusive(f"{bucket}/held") as still_ours:
        still_ours()
    assert caplog.messages == [
        f"the store of `{bucket}/held` ignores conditional writes: two processes that start at once are detected late"
    ]


def uploads(bucket: str) -> list[dict]:
    """Return the uploads in parts that are neither completed nor given up."""
    answer = s3fs.S3FileSystem().call_s3("list_multipart_uploads", Bucket=bucket.removeprefix("s3://"))
    return answer.get("Uploads", [])


def test_a_large_object_is_there_whole_or_not_at_all(swift, bucket, monkeypatch):
    """It goes up in parts, and the store fails before the first."""
    monkeypatch.setattr(retries, "RETRY_S", 0.0)
    monkeypatch.setattr(retries, "_outages", defaultdict(retries._Outage))
    part_bytes = 6 << 20
    monkeypatch.setattr(parts_upload, "_PART_BYTES", part_bytes)
    monkeypatch.setattr(parts_upload, "_WHOLE_BYTES", part_bytes)
    content = os.urandom(3 * part_bytes)
    url, call = files.join(bucket, "big"), s3fs.S3FileSystem.call_s3
    calls = []

    def stopping(self, method, *args, **kwargs):
        calls.append(method)
        answer = call(self, method, *args, **kwargs)
        if method == "create_multipart_upload" and calls.count(method) == 1:
            swift.stop("object")
        return answer

    monkeypatch.setattr(s3fs.S3FileSystem, "call_s3", stopping)
    try:
        with pytest.raises(SsspError):
            files.write_atomic(url, content)
    finally:
        swift.start()
    assert "upload_part" in calls
    assert "complete_multipart_upload" not in calls
    assert files.list_files(bucket) == []
    with pytest.raises(ZeroDivisionError), files.open_atomic(url) as handle:
        handle.write(content)
        raise ZeroDivisionError
    assert files.list_files(bucket) == []
    assert uploads(bucket)[1:] == [], "at most the one that the stopped store could not give up"
    files.write_atomic(url, content)
    assert files.list_files(bucket) == ["big"]
    assert files.read_bytes(url) == content


def test_a_second_driver_is_refused_and_a_dead_one_replaced(place, driver, undisturbed, quick):
    first = driver(place)
    with pytest.raises(InputError) as caught:
        run(made(place), Quiet())
    assert caught.value.message.startswith(f"process {os.uname().nodename}:{first.pid}, since 20")
    assert caught.value.message.endswith(f" is writing to `{place}/run`")
    assert caught.value.hint == "wait until it ends, or choose another place"
    first.kill()
    began = time.monotonic()
    folder, _ = run(made(place), Quiet())
    assert time.monotonic() - began > 4.0
    assert digests(folder.url) == undisturbed
    assert not [name for name in files.list_files(folder.url) if name.startswith("_")]


def test_a_driver_that_was_frozen_too_long_stops(place, driver, undisturbed, quick):
    frozen = driver(place)
    frozen.send_signal(signal.SIGSTOP)
    folder, record = run(made(place), Quiet())
    frozen.send_signal(signal.SIGCONT)
    _, told = frozen.communicate(timeout=60)
    assert frozen.returncode == 1
    assert f"error: `{place}/run` was taken over by another process" in told
    assert digests(folder.url) == undisturbed
    assert folder.read_run() == record
    assert files.list_files(f"{folder.url}/_lease") == []


def test_an_ingest_waits_for_another(place, quick):
    class Heard(Quiet):
        def say(self, line, event="note", *, level="info", **facts):
            heard.append(line)
            ended.set()

    heard, ended, done = [], threading.Event(), []
    spec, store = made(place).graph, f"{place}/graph"
    waiting = threading.Thread(target=lambda: done.append(ingest(spec, store, Heard())))
    with lease.exclusive(store):
        waiting.start()
        assert ended.wait(30)
        assert done == []
    waiting.join(60)
    assert "waiting until it ends" in heard[0]
    ((manifest, fresh),) = done
    assert (fresh, manifest.first.n_vertices) == (True, 2000)
    assert files.list_files(f"{store}/_lease") == []


def test_a_lease_that_is_overwritten_or_removed_is_lost(bucket, quick):
    def overwritten(url: str) -> None:
        files.write_atomic(url, b'{"token": "of another"}')

    for strike in (overwritten, files.remove):
        with lease.exclusive(f"{bucket}/held") as still_ours:
            still_ours()
            strike(f"{bucket}/held/_lease/000001.json")
            time.sleep(1.5)
            with pytest.raises(SsspError, match="was taken over by another process"):
                still_ours()
        files.remove(f"{bucket}/held")
    # Also where what the other has done is found first.
    taken_over = pytest.raises(SsspError, match="was taken over by another process")
    with taken_over, lease.exclusive(f"{bucket}/held"):
        files.remove(f"{bucket}/held/_lease/000001.json")
        time.sleep(1.5)
        raise InputError("the folder no longer holds the run")


def test_a_lease_is_given_back_after_an_error(bucket):
    with pytest.raises(KeyboardInterrupt), lease.exclusive(f"{bucket}/held"):
        assert files.list_files(f"{bucket}/held") == ["_lease/000001.json"]
        raise KeyboardInterrupt
    assert files.list_files(bucket) == []


def test_no_secret_is_told_by_the_command_line(place, login, tmp_path):
    login(OWNER[0], "wrong-secret-5d0f8a")
    (tmp_path / "w.yaml").write_text(yaml.safe_dump(workflow_at(place)))
    command = [sys.executable, "-m", "sssp_pipeline.cli", "run", str(tmp_path / "w.yaml")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "may not be read" in done.stderr
    assert "wrong-secret-5d0f8a" not in done.stdout + done.stderr
