"""Uploads to S3 in parts: the first parts of a large file are sent while the next ones are made.

A small file is sent whole when it is there. S3 shows an object only when its upload is completed, so a reader never
sees half a file, and an upload that is given up leaves none.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from typing import Any

from sssp_pipeline.storage.buffer_file import BufferFile
from sssp_pipeline.storage.filesystems import call

#: The largest file that is sent whole, in bytes. Files of batches (`plan.BATCH_BYTES`) are smaller. They are sent side
#: by side, so parts would not be faster.
_WHOLE_BYTES = 72 * 2**20
#: Bytes of each part but the last. S3 takes at most 10,000 parts, so a file has at most 160 GiB.
_PART_BYTES = 2**24
#: The most parts of a file that are being sent or wait for a connection. With more, `write` blocks.
_MOST_PARTS = 6
#: Connections of a process for parts. botocore opens at most 10 to a store.
_CONNECTIONS = 8


class PartsUpload(BufferFile):
    """A new object, opened for writing. It is there once `finish` returns, and never if `abort` is called.

    Parameters
    ----------
    url
        The object.
    fs, path
        The filesystem of `s3fs` and the path on it.
    copies
        Whether written buffers are copied. Otherwise they must not change before `finish` or `abort` returns.
    """

    keeps_buffers = True

    def __init__(self, url: str, fs: Any, path: str, *, copies: bool) -> None:
        self._url, self._fs, self._path, self._copies = url, fs, path, copies
        bucket, key, _ = fs.split_path(path)
        self._object = {"Bucket": bucket, "Key": key}
        #: Written bytes that are not in a part yet.
        self._pending: deque[memoryview] = deque()
        self._n_pending = 0
        self._room = threading.Semaphore(_MOST_PARTS)
        self._parts: list[Future[str]] = []
        self._upload: str | None = None

    def take(self, buffers: list[memoryview]) -> None:
        self._pending += (memoryview(bytes(view)) if self._copies else view for view in buffers)
        self._n_pending += sum(map(len, buffers))
        while self._n_pending > (_WHOLE_BYTES if self._upload is None else _PART_BYTES):
            self._send(_PART_BYTES)

    def finish(self) -> None:
        """Send the rest, and have the store show the object. Raises what sending a part raised."""
        if self._upload is None:
            call(self._url, self._fs.pipe_file, self._path, b"".join(self._pending))
            return
        self._send(self._n_pending)
        tags = [part.result() for part in self._parts]
        listed = [{"PartNumber": number, "ETag": tag} for number, tag in enumerate(tags, 1)]
        self._call("complete_multipart_upload", MultipartUpload={"Parts": listed})
        self._fs.invalidate_cache(self._path)

    def abort(self) -> None:
        """Give the upload up. If the store cannot be reached, it keeps parts that are in no object."""
        for part in self._parts:
            part.cancel()
        for part in self._parts:
            with suppress(BaseException):
                part.result()
        if self._upload is not None:
            with suppress(Exception):
                self._call("abort_multipart_upload")

    def _send(self, n_bytes: int) -> None:
        """Send the next `n_bytes` as a part, on another thread; raises what sending an earlier part raised."""
        if self._upload is None:
            self._upload = self._call("create_multipart_upload")["UploadId"]
        for part in self._parts:
            if part.done():
                part.result()
        views = []
        self._n_pending -= n_bytes
        while n_bytes > 0:
            view = self._pending.popleft()
            if len(view) > n_bytes:
                self._pending.appendleft(view[n_bytes:])
            views.append(view[:n_bytes])
            n_bytes -= len(views[-1])
        self._room.acquire()
        part = _threads().submit(self._send_part, len(self._parts) + 1, views)
        part.add_done_callback(lambda _: self._room.release())
        self._parts.append(part)

    def _send_part(self, number: int, views: list[memoryview]) -> str:
        """Send a part and return its tag."""
        tag: str = self._call("upload_part", PartNumber=number, Body=b"".join(views))["ETag"]
        return tag

    def _call(self, method: str, **arguments: Any) -> Any:
        if self._upload is not None:
            arguments["UploadId"] = self._upload
        return call(self._url, self._fs.call_s3, method, **self._object, **arguments)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_CONNECTIONS, "sssp-upload")
