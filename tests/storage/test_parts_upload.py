"""Uploads in parts, against a store that keeps what it is sent; `tests/object_storage` has a real one."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sssp_pipeline.storage import atomic_files, files, parts_upload
from sssp_pipeline.storage.parts_upload import PartsUpload

URL = "memory://bucket/object"


class Store:
    """What S3 does with the requests of an upload."""

    protocol = ("s3",)

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.sizes: list[int] = []
        #: The number of a part that cannot be sent.
        self.fails_at: int | None = None

    def split_path(self, path: str) -> tuple[str, str, None]:
        bucket, _, key = path.partition("/")
        return bucket, key, None

    def invalidate_cache(self, path: str) -> None:
        pass

    def pipe_file(self, path: str, content: bytes) -> None:
        self.objects[path] = content

    def call_s3(self, method: str, **sent: object) -> dict[str, str]:
        assert (sent["Bucket"], sent["Key"]) == ("bucket", "object")
        if method == "create_multipart_upload":
            self.uploads["one"] = {}
            return {"UploadId": "one"}
        parts = self.uploads[sent["UploadId"]]
        if method == "upload_part":
            if sent["PartNumber"] == self.fails_at:
                raise PermissionError("no more")
            parts[sent["PartNumber"]] = sent["Body"]
            return {"ETag": f"tag {sent['PartNumber']}"}
        del self.uploads[sent["UploadId"]]
        if method == "complete_multipart_upload":
            listed = sent["MultipartUpload"]["Parts"]
            assert [part["ETag"] for part in listed] == [f"tag {part['PartNumber']}" for part in listed]
            self.sizes = [len(parts[part["PartNumber"]]) for part in listed]
            self.objects["bucket/object"] = b"".join(parts[part["PartNumber"]] for part in listed)
        return {}


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(parts_upload, "_WHOLE_BYTES", 100)
    monkeypatch.setattr(parts_upload, "_PART_BYTES", 32)


@pytest.fixture
def store(monkeypatch):
    """Give a store that gets what `files.open_atomic` writes."""
    made = Store()
    monkeypatch.setattr(atomic_files, "filesystem", lambda url: (made, "bucket/object"))
    return made


@given(st.lists(st.binary(max_size=150), max_size=20), st.booleans())
@example([], False)
@example([b"a" * 50] * 2, False)
@example([b"a" * 101], True)
@settings(deadline=None)
def test_an_object_has_what_was_written(pieces, copies):
    store, n_bytes = Store(), sum(map(len, pieces))
    upload = PartsUpload(URL, store, "bucket/object", copies=copies)
    upload.writelines(map(memoryview, pieces))
    assert upload.tell() == n_bytes
    assert store.objects == {}
    upload.finish()
    assert (store.objects, store.uploads) == ({"bucket/object": b"".join(pieces)}, {})
    assert (store.sizes == []) == (n_bytes <= 100)
    assert set(store.sizes[:-1]) <= {32}


def test_a_buffer_may_change_after_it_was_copied():
    store, buffer = Store(), bytearray(b"a" * 90)
    upload = PartsUpload(URL, store, "bucket/object", copies=True)
    for letter in b"abc":
        buffer[:] = bytes([letter]) * 90
        upload.write(buffer)
    upload.finish()
    assert store.objects == {"bucket/object": b"a" * 90 + b"b" * 90 + b"c" * 90}


@pytest.mark.parametrize("plain", [False, True])
def test_a_file_that_is_given_up_is_not_there(store, monkeypatch, plain):
    monkeypatch.setattr(atomic_files, "_BUFFER_BYTES", 16)
    with pytest.raises(ZeroDivisionError), files.open_atomic(URL, plain=plain) as handle:
        handle.write(b"x" * 500)
        assert store.uploads != {}, "parts are sent while the next ones are made"
        raise ZeroDivisionError
    assert (store.objects, store.uploads) == ({}, {})
    with files.open_atomic(URL, plain=plain) as handle:
        handle.write(b"x" * 500)
    assert store.objects == {"bucket/object": b"x" * 500}


@pytest.mark.parametrize("fails_at", [1, 5, 16])
def test_a_part_that_cannot_be_sent_ends_the_upload(store, fails_at):
    store.fails_at = fails_at
    with pytest.raises(Exception, match="no more"), files.open_atomic(URL, plain=True) as handle:
        for _ in range(50):
            handle.write(b"x" * 10)
    assert (store.objects, store.uploads) == ({}, {})


def test_few_parts_of_a_file_are_under_way(monkeypatch):
    monkeypatch.setattr(parts_upload, "_MOST_PARTS", 2)
    store, gate = Store(), threading.Event()
    send, waiting = store.call_s3, threading.Semaphore(0)

    def slow(method: str, **sent: object) -> dict[str, str]:
        if method == "upload_part":
            waiting.release()
            gate.wait(30)
        return send(method, **sent)

    store.call_s3 = slow
    upload = PartsUpload(URL, store, "bucket/object", copies=True)
    writer = threading.Thread(target=lambda: upload.write(b"x" * 1000))
    writer.start()
    assert all(waiting.acquire(timeout=30) for _ in range(2))
    assert not waiting.acquire(timeout=0.2), "a third part is sent while two are under way"
    gate.set()
    writer.join(30)
    upload.finish()
    assert store.objects == {"bucket/object": b"x" * 1000}


def test_arrow_writes_to_an_upload(store):
    table = pa.table({"a": range(1000)})
    with files.open_atomic(URL) as handle, pa.ipc.new_file(handle, table.schema) as writer:
        writer.write_table(table)
    assert pa.ipc.open_file(store.objects["bucket/object"]).read_all().equals(table)
