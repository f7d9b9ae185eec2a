"""Standard input and pipes, which can be read once, stand for files, which are read several times."""

import fcntl
import io
import os
import socket
import sys
import termios
import threading
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from sssp_pipeline.base.errors import DiskFullError, InputError
from sssp_pipeline.storage import files, pipes


@pytest.fixture(autouse=True)
def no_copies(monkeypatch):
    monkeypatch.setattr(pipes, "_copies", {})


@pytest.fixture
def fifo(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


@pytest.fixture
def piped(monkeypatch):
    def give(content: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return give


def written(path, content: bytes) -> threading.Thread:
    """Open a named pipe for writing; return the thread that writes, and closes the pipe when all has been read."""
    pipe = os.open(path, os.O_RDWR)  # waits for no reader

    def write() -> None:
        os.write(pipe, content)
        while any(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4))):
            time.sleep(0.01)
        os.close(pipe)

    thread = threading.Thread(target=write)
    thread.start()
    return thread


def piped_through(path, content: bytes) -> str:
    """Write `content` to a named pipe, have it copied, and return its URL."""
    writer = written(path, content)
    files.expand([str(path)])
    writer.join()
    return str(path)


def pipe_with(content: bytes) -> int:
    """Return the reading end of a pipe that holds `content` and has no other end."""
    reader, writer = os.pipe()
    os.write(writer, content)
    os.close(writer)
    return reader


CONTENT = b"0 1 5\n" * 50_000  # more than a pipe holds


def test_a_pipe_is_copied_once_and_read_often(fifo):
    writer = threading.Timer(0.3, fifo.write_bytes, [CONTENT])  # a process that begins late
    writer.start()
    assert files.expand([str(fifo)]) == [str(fifo)]
    writer.join()
    assert files.read_bytes(str(fifo)) == CONTENT
    with files.open_read(str(fifo)) as first, files.open_read(str(fifo)) as second:
        assert first.read(3) == second.read(3) == CONTENT[:3]
        first.seek(0)
        assert first.read() == CONTENT
    assert files.expand([str(fifo)]) == [str(fifo)]  # no process writes to it again
    assert files.read_bytes(str(fifo)) == CONTENT


def test_a_pipe_that_is_written_again_is_read_again(fifo):
    seen = []
    for content in (b"one", b"one", b"two"):
        url = piped_through(fifo, content)
        assert files.read_bytes(url) == content
        seen.append(files.fingerprint(url))
    assert seen[0] == seen[1] != seen[2]
    assert seen[0]["size"] == 3


def test_the_number_of_a_descriptor_is_no_part_of_a_fingerprint():
    first, second = (f"/dev/fd/{pipe_with(content)}" for content in (b"0 1\n", b"0 1\n"))
    assert first != second
    assert files.fingerprint(first) == files.fingerprint(second)


def test_another_pipe_with_the_same_number_is_another_pipe():
    reader = os.open(os.devnull, os.O_RDONLY)
    for content in (b"one", b"two"):
        os.dup2(pipe_with(content), reader)
        assert files.read_bytes(f"/dev/fd/{reader}") == content
        assert files.expand([f"/dev/fd/{reader}"])
        assert files.read_bytes(f"/dev/fd/{reader}") == content


def test_a_copy_outlives_its_pipe(fifo):
    url = piped_through(fifo, b"content")
    fifo.unlink()
    assert files.read_bytes(url) == b"content"
    fifo.write_bytes(b"file")  # a file in the place of the pipe is read itself
    files.expand([url])
    assert files.read_bytes(url) == b"file"


def test_standard_input_may_be_a_socket(monkeypatch):
    ours, theirs = socket.socketpair()  # as a remote shell gives it
    with ours, theirs, os.fdopen(os.dup(theirs.fileno()), "r") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        ours.sendall(b"content")
        ours.shutdown(socket.SHUT_WR)
        assert files.read_bytes("-") == b"content"


def test_a_pipe_without_a_writer_does_not_hang(fifo, monkeypatch):
    monkeypatch.setattr(pipes, "WRITER_WAIT_S", 0.2)
    for read in (files.read_bytes, lambda url: files.expand([url]), files.open_read):
        with pytest.raises(InputError) as caught:
            read(str(fifo))
        assert caught.value.message == f"`{fifo}` is a pipe, and no process wrote to it in 0.2 s"
        assert caught.value.hint


def test_the_file_of_a_pipes_copy_has_no_name(fifo, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert files.read_bytes(piped_through(fifo, b"x")) == b"x"
    assert list(tmp_path.iterdir()) == [fifo]


def test_without_proc_a_copy_is_a_named_file(fifo, monkeypatch):
    monkeypatch.setattr(pipes, "_DESCRIPTORS", "/nowhere")
    assert files.read_bytes(piped_through(fifo, CONTENT)) == CONTENT
    copy = pipes.existing_copy(str(fifo)).path
    assert Path(copy).exists()
    pipes._copies.clear()
    assert not Path(copy).exists()


def test_standard_input(piped):
    piped(CONTENT)
    assert files.expand(["-"]) == ["-"]
    with files.open_read("-") as stream:
        assert files.read_bytes("-") == stream.read() == CONTENT
    mark = files.fingerprint("-")
    assert (mark["url"], mark["size"]) == ("standard input", len(CONTENT))
    piped(b"another")
    assert files.read_bytes("-") == b"another"


@pytest.mark.parametrize("kind", ["closed", "a terminal", "a device"])
def test_standard_input_that_is_none(kind, monkeypatch):
    with ExitStack() as opened:
        stdin = None
        if kind == "a terminal":
            stdin = opened.enter_context(os.fdopen(os.openpty()[1], "r"))
        elif kind == "a device":
            stdin = opened.enter_context(Path("/dev/zero").open())
        monkeypatch.setattr(sys, "stdin", stdin)
        with pytest.raises(InputError) as caught:
            files.expand(["-"])
    assert caught.value.message == f"standard input is {kind}"
    assert caught.value.hint


def test_a_device_without_an_end_is_refused():
    for read in (files.read_bytes, lambda url: files.expand([url])):
        with pytest.raises(InputError, match="`/dev/urandom` is a device, not a file"):
            read("/dev/urandom")


def test_the_null_device_is_an_empty_file():
    assert files.expand(["/dev/null"]) == ["/dev/null"]
    assert files.read_bytes("/dev/null") == b""


def test_a_full_temporary_folder_is_said(fifo, monkeypatch):
    full = partial(Path("/dev/full").open, "w+b", buffering=0)
    monkeypatch.setattr(pipes.tempfile, "TemporaryFile", lambda prefix: full())
    writer = written(fifo, b"content")
    with pytest.raises(DiskFullError, match="cannot be written: No space left on device"):
        files.expand([str(fifo)])
    writer.join()
