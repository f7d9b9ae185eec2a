from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct

import fsspec
import pyarrow as pa
import pytest

from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline import storage
from sssp_pipeline.pipeline.formats import ReadOptions, open_edge_list
from sssp_pipeline.pipeline.formats.byte_streams import LineFile, read_blocks, read_lines

ROWS = b"".join(b"%d %d\n" % (i, i * i) for i in range(5000))
COMPRESSORS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda content: pa.compress(content, "zstd", asbytes=True),
}


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_compression_is_known_by_content(write, read, kind):
    found = read(write("edges.txt", COMPRESSORS[kind](ROWS)), block_bytes=4096)
    assert found.rows() == [(i, i * i) for i in range(5000)]
    assert found.n_chunks > 5


def test_a_name_does_not_make_a_compressed_file(write, read):
    assert read(write("edges.gz", b"1 2\n")).rows() == [(1, 2)]


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_concatenated_streams_are_one_file(write, read, kind):
    content = COMPRESSORS[kind](b"1 2\n3 ") + COMPRESSORS[kind](b"4\n5 6\n")
    assert read(write("edges", content)).rows() == [(1, 2), (3, 4), (5, 6)]


@pytest.mark.parametrize("kind", COMPRESSORS)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.999])
def test_cut_short(write, refused, kind, share):
    content = COMPRESSORS[kind](ROWS)
    name = write("edges", content[: int(len(content) * share)])
    assert refused(name) == (
        "`edges` is cut short: its compressed data does not end",
        "fetch or compress it again",
    )


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
def test_altered(write, refused, kind):
    content = bytearray(COMPRESSORS[kind](ROWS))
    content[len(content) // 2] ^= 0x55
    message, hint = refused(write("edges", bytes(content)))
    assert message.startswith("`edges` is damaged: ")
    assert hint == "fetch or compress it again"


def test_something_after_the_compressed_data(write, refused):
    assert refused(write("edges", gzip.compress(ROWS) + b"more"))[0].startswith("`edges` is damaged: ")


@pytest.mark.parametrize("content", [b"", gzip.compress(b"")])
def test_empty(write, refused, content):
    assert refused(write("edges", content)) == ("`edges` is empty", "check that this is the file you mean")


def test_missing(write, refused):
    assert refused("nowhere.txt")[0] == "`nowhere.txt` does not exist"


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 5, 8, 1000])
@pytest.mark.parametrize("content", [b"ab\ncdefghijklmnop\n\n\nq\n", b"ab\ncd", b"\n", b"abcdefgh"])
def test_blocks_are_whole_lines_and_lose_nothing(write, block_bytes, content):
    name = write("lines", content)
    blocks = list(read_blocks([LineFile(name)], block_bytes))
    assert all(block.data[-1] == ord("\n") for block in blocks)
    whole = b"".join(block.data.tobytes() for block in blocks)
    assert whole == content + (b"" if content.endswith(b"\n") else b"\n")
    assert [block.is_first for block in blocks] == [True] + [False] * (len(blocks) - 1)


def test_blocks_begin_after_the_header(write):
    name = write("lines", b"head\nab\ncd\n")
    (block,) = read_blocks([LineFile(name, skip_bytes=5, n_lines=1)], 100)
    assert block.data.tobytes() == b"ab\ncd\n"


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_lines_come_with_their_ends(write, kind):
    assert list(read_lines(write("lines", COMPRESSORS[kind](b"a\r\n\nb")))) == [b"a\r\n", b"\n", b"b"]


class OneWay(io.RawIOBase):
    """What some web servers send: it claims to be seekable, and is not."""

    def __init__(self, content: bytes) -> None:
        self._rest = io.BytesIO(content)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._rest.tell()

    def readinto(self, buffer) -> int:
        return self._rest.readinto(buffer)

    def seek(self, position, whence=0):
        raise ValueError("cannot seek")


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (b"# text\n1 2 3\n", [(1, 2, 3)]),
        (b"p sp 2 1\na 1 2 3\n", [(1, 2, 3)]),
        (b"u,v,w\n1,2,3\n", [(1, 2, 3)]),
        (struct.pack("<4Q 1Q 2I I", 1, 4, 1, 1, 1, 0, 0, 3), [(0, 0, 3)]),
    ],
)
def test_files_that_can_be_read_one_way_only(monkeypatch, read, pack, content, wanted):
    monkeypatch.setattr(storage, "open_read", lambda url: OneWay(pack(content)))
    assert read("edges").rows() == wanted


def test_other_filesystems():
    with fsspec.open("memory://bucket/bad.txt", "wb") as file:
        file.write(b"1 2\nx 4\n")
    edge_list = open_edge_list(["memory://bucket/bad.txt"], ReadOptions())
    with pytest.raises(InputError) as caught:
        list(edge_list.chunks(1))
    assert caught.value.message == "`memory://bucket/bad.txt` line 2: `x` is not a vertex id"
