"""Text in blocks of whole lines: nothing is lost, and a line that is too long is named."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tracemalloc

import pyarrow as pa
import pytest

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.parsing.line_blocks import LineFile, read_blocks, read_lines


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


@pytest.mark.parametrize(
    "pack",
    [gzip.compress, bz2.compress, lzma.compress, lambda content: pa.compress(content, "zstd", asbytes=True)],
    ids=["gz", "bz2", "xz", "zst"],
)
def test_lines_come_with_their_ends(write, pack):
    assert list(read_lines(write("lines", pack(b"a\r\n\nb")))) == [b"a\r\n", b"\n", b"b"]


# ---- long lines ----

TEN = {
    "text": b"1 2 555555\n1 3 5\n",
    "csv": b"1,2,555555\n1,3,5\n",
    "networkx": b"1 2 {'w': 555555}\n1 3 {'w': 5}\n",
    "dimacs": b"p sp 3 2\na 1 2 55555555555\na 1 3 5\n",
    "matrix-market": b"%%MatrixMarket matrix coordinate real general\n3 3 2\n1 2 5"
    + b" " * 60
    + b"\n1 3 5\n",
    "metis": b"3 2\n2 3" + b" " * 20 + b"\n1\n1\n",
}


@pytest.mark.parametrize("format_name", TEN)
@pytest.mark.parametrize("block_bytes", [1, 7, 1000])
def test_the_longest_line_is_read_and_no_longer_one(write, read, refused, format_name, block_bytes):
    content = TEN[format_name]
    url = write("edges", content)
    longest = max(map(len, content.splitlines(keepends=True)))
    options = {"format": format_name, "block_bytes": block_bytes}
    assert len(read(url, max_line_bytes=longest, **options).rows()) >= 2
    message, hint = refused(url, max_line_bytes=longest - 1, **options)
    assert message.endswith(f"longer than {longest - 1} bytes")
    assert "raise `graph.max_line_bytes`" in hint


@pytest.mark.parametrize("content", [b"1\n22\n333333", b"1\n22\n333333\n", b"1\n22\n3333333333\n4\n"])
@pytest.mark.parametrize("block_bytes", [1, 2, 5, 6, 100])
def test_a_long_line_in_blocks_is_named_by_the_bytes_before_it(write, content, block_bytes):
    blocks = read_blocks([LineFile(write("lines", content), max_line_bytes=5)], block_bytes)
    with pytest.raises(InputError, match="the line that begins after 5 bytes is longer than 5 bytes"):
        list(blocks)


def test_a_line_without_an_end_is_not_read_to_its_end(write, opened):
    """A gigabyte of blanks in a megabyte of gzip takes no gigabyte of memory."""
    url = write("bomb.gz", gzip.compress(b" " * 2**20) * 1024)
    tracemalloc.start()
    with pytest.raises(InputError, match="line 1 is longer than 16,777,216 bytes"):
        opened(url)
    with pytest.raises(InputError, match="the line that begins after 0 bytes is longer"):
        list(read_blocks([LineFile(url)], 1 << 20))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 * 2**20
