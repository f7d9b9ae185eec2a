"""Compressed, packed and nested files are read by their content; what is cut short or damaged is named."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import threading
import zipfile
import zlib

import fsspec
import pyarrow as pa
import pytest

from sssp_pipeline.pipeline.formats.streams.decompressed import open_decompressed
from sssp_pipeline.storage import files

ROWS = b"".join(b"%d %d\n" % (i, i * i) for i in range(5000))
COMPRESSORS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda content: pa.compress(content, "zstd", asbytes=True),
}


def packed_zip(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def packed_tar(members: dict[str, bytes], mode: str = "w") -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name.rstrip("/"))
            info.size = len(content)
            info.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            archive.addfile(info, io.BytesIO(content))
    return file.getvalue()


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_compression_is_known_by_content(write, read, kind):
    found = read(write("edges.txt", COMPRESSORS[kind](ROWS)), block_bytes=4096)
    assert found.rows() == [(i, i * i) for i in range(5000)]
    assert found.n_chunks > 5


def test_a_name_does_not_make_a_compressed_file(write, read):
    assert read(write("edges.gz", b"1 2\n")).rows() == [(1, 2)]


@pytest.mark.parametrize("kind", COMPRESSORS)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.999])
def test_cut_short(write, refused, kind, share):
    content = COMPRESSORS[kind](ROWS)
    name = write("edges", content[: int(len(content) * share)])
    assert refused(name) == (
        "`edges` is cut short: its compressed data does not end",
        "fetch or compress it again",
    )


MAC = {"__MACOSX/._a.txt": b"x", "d/._a.txt": b"y", ".DS_Store": b"z"}
PACKED = {
    "zip": packed_zip({"a.txt": ROWS}),
    "zip of gz": packed_zip({"a.txt.gz": gzip.compress(ROWS)}),
    "zip of a folder": packed_zip({"d/": b"", "d/a.txt": ROWS}),
    "zip by a Mac": packed_zip({"d/": b"", "d/a.txt": ROWS, **MAC}),
    "tar": packed_tar({"a.txt": ROWS}),
    "tar of xz": packed_tar({"a.txt.xz": lzma.compress(ROWS)}),
    "tar by a Mac": packed_tar({"d/": b"", "d/a.txt": ROWS, **MAC}),
    "tar.gz": packed_tar({"a.txt": ROWS}, "w:gz"),
    "tar.bz2": packed_tar({"a.txt": ROWS}, "w:bz2"),
    "tar.zst": pa.compress(packed_tar({"a.txt": ROWS}), "zstd", asbytes=True),
    "zip of tar": packed_zip({"a.tar": packed_tar({"a.txt": ROWS})}),
}


@pytest.mark.parametrize("kind", PACKED)
def test_the_only_member_is_read(write, read, kind):
    found = read(write("edges", PACKED[kind]), block_bytes=4096)
    assert found.reading.format == "text"
    assert found.rows() == [(i, i * i) for i in range(5000)]
    assert found.n_chunks > 5


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (packed_zip({"a": ROWS, "d/b": ROWS}), "a zip file of 2 files: `a`, `d/b`"),
        (packed_tar({"a": ROWS, "d/b": ROWS}), "a tar file of 2 files: `a`, `d/b`"),
        (packed_tar({"a": ROWS, "d/b": b""}, "w:gz"), "a tar file of 2 files: `a`, `d/b`"),
        (
            packed_zip({f"m{i}": ROWS for i in range(12)}),
            f"a zip file of 12 files: {', '.join(f'`m{i}`' for i in range(10))}, …",
        ),
        (packed_zip({"d/": b""}), "a zip archive without a file"),
        (packed_zip(MAC), "a zip archive without a file"),
        (packed_tar({"d/": b""}), "a tar archive without a file"),
        (packed_zip({}), "a zip archive without a file"),
    ],
    ids=["zip", "tar", "tar.gz", "12 files", "folder in zip", "mac", "folder in tar", "empty zip"],
)
def test_several_members_or_none(write, refused, content, what):
    hint = "fetch or pack it again" if "without" in what else "unpack it, and name the files to read"
    assert refused(write("edges", content)) == (f"`edges` is {what}", hint)


def test_a_zip_file_in_a_stream(write, refused):
    assert refused(write("e", gzip.compress(PACKED["zip"]))) == (
        "`e` holds a zip file in a compressed file",
        "unpack it first",
    )


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz", "zip of gz"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_container_cut_short(write, refused, kind, share):
    packed = PACKED[kind]
    size = len(ROWS) if kind == "tar" else len(packed)
    message, hint = refused(write("e", packed[: int(size * share)]))
    assert message.startswith(("`e` is cut short: ", "`e` is damaged: "))
    assert hint == "fetch or compress it again"


def altered(content: bytes, at: int | None = None) -> bytes:
    """Return `content` with another byte, in the middle unless `at` says where."""
    at = len(content) // 2 if at is None else at % len(content)
    return content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (altered(gzip.compress(ROWS)), "damaged"),
        (altered(bz2.compress(ROWS)), "damaged"),
        (altered(lzma.compress(ROWS)), "damaged"),
        (altered(PACKED["zip"]), "damaged"),
        (altered(PACKED["tar.gz"], -5), "damaged"),
        (PACKED["tar.gz"][:-6], "cut short"),
        (PACKED["tar.bz2"][:-6], "cut short"),
        (lzma.compress(PACKED["tar of xz"])[:-6], "cut short"),
    ],
    ids=[
        "gz",
        "bz2",
        "xz",
        "member",
        "checksum",
        "end of gz",
        "end of bz2",
        "end of xz",
    ],
)
def test_damaged(write, refused, content, what):
    message, hint = refused(write("e", content))
    assert message.startswith(f"`e` is {what}: ")
    assert hint == "fetch or compress it again"


@pytest.mark.parametrize("is_bgzip", [False, True])
@pytest.mark.parametrize("after", [b"m", b"more\n", b"something else that is long"])
def test_bytes_after_gzip(write, refused, after, is_bgzip):
    content = bgzip(ROWS) if is_bgzip else gzip.compress(ROWS)
    assert refused(write("e", content + after)) == bytes_after("gzip", after[:20])


def bytes_after(program, after):
    shown = after.decode().replace("\n", "\\n").replace("\0", "\\x00")
    return (
        f"`e` has bytes after its compressed data that are not {program}, `{shown}`",
        f"fetch it again; if nothing is missing, `{program} -dc` unpacks it without these bytes",
    )


@pytest.mark.parametrize("n_streams", [1, 2])
@pytest.mark.parametrize("after", [b"m", b"more\n", b"something else that is long", b"\0\0\0\0more"])
@pytest.mark.parametrize("program", ["bzip2", "xz", "zstd"])
def test_bytes_after_other_compressed_data(write, refused, program, after, n_streams):
    kind = {"bzip2": "bz2", "xz": "xz", "zstd": "zst"}[program]
    content = COMPRESSORS[kind](ROWS) * n_streams
    shown = after if program == "zstd" else after.lstrip(b"\0")
    assert refused(write("e", content + after)) == bytes_after(program, shown[:20])


def test_bytes_after_a_large_frame(write, refused):
    message, _ = refused(write("e", COMPRESSORS["zst"](LONG_ROWS * 12) + b"more\n"))
    assert message == "`e` has bytes after its compressed data that are not zstd"


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz"])
def test_zeros_after_the_data_are_padding(write, read, kind):
    content = COMPRESSORS[kind](ROWS)
    assert len(read(write("e", content + bytes(4) + content + bytes(20_000))).rows()) == 10_000


@pytest.mark.parametrize("kind", ["gz", "bz2", "xz", "zst"])
@pytest.mark.parametrize("n_bytes", [3, 30])
def test_a_second_stream_that_is_cut_short(write, refused, kind, n_bytes):
    content = COMPRESSORS[kind](ROWS)
    message, _ = refused(write("e", content + content[:n_bytes]))
    assert message.startswith("`e` is cut short: ")


def bgzip(content: bytes, block_bytes: int = 1000, end: bool = True) -> bytes:
    """Return what `bgzip` writes, but for the size of its blocks; an empty block ends it."""
    blocks = [content[i : i + block_bytes] for i in range(0, len(content), block_bytes)]
    packed = b""
    for block in [*blocks, *([b""] if end else [])]:
        body = zlib.compress(block, wbits=-15)
        ends = struct.pack("<II", zlib.crc32(block), len(block))
        n_bytes = 18 + len(body) + len(ends)
        packed += b"\x1f\x8b\x08\x04" + bytes(5) + b"\xff\x06\x00BC\x02\x00" + struct.pack("<H", n_bytes - 1)
        packed += body + ends
    return packed


def zstd_frames(content: bytes, frame_bytes: int = 1000) -> bytes:
    frames = (content[i : i + frame_bytes] for i in range(0, len(content), frame_bytes))
    return b"".join(pa.compress(frame, "zstd", asbytes=True) for frame in frames)


LONG_ROWS = b"".join(b"%d %d\n" % (i, i * i % 999983) for i in range(300_000))
SKIPPABLE = b"\x50\x2a\x4d\x18\x05\x00\x00\x00hello"


#: Functions, since all of them take a second and each process of the tests imports this module.
BLOCKS = {
    "bgzip": lambda: bgzip(LONG_ROWS, 65280),
    "bgzip without its end": lambda: bgzip(LONG_ROWS, 65280, end=False),
    "bgzip, then gzip": lambda: bgzip(LONG_ROWS[:99999]) + gzip.compress(LONG_ROWS[99999:]),
    "gzip, then bgzip": lambda: gzip.compress(LONG_ROWS[:99999]) + bgzip(LONG_ROWS[99999:]),
    "small frames": lambda: zstd_frames(LONG_ROWS),
    "large frames": lambda: zstd_frames(LONG_ROWS, 10**6),
    "frames to skip": lambda: (
        SKIPPABLE + zstd_frames(LONG_ROWS[:9999]) + SKIPPABLE + zstd_frames(LONG_ROWS[9999:])
    ),
    "a frame of many blocks": lambda: pa.compress(LONG_ROWS * 12, "zstd", asbytes=True),
    "small frames and a large one": lambda: (
        zstd_frames(LONG_ROWS[:9999]) + pa.compress(LONG_ROWS[9999:] + LONG_ROWS * 11, "zstd", asbytes=True)
    ),
}


@pytest.mark.parametrize("kind", BLOCKS)
def test_blocks_that_are_compressed_on_their_own(write, kind):
    url = write("edges", BLOCKS[kind]())
    with open_decompressed(url) as stream:
        found = stream.read()
    assert found[: len(LONG_ROWS)] == LONG_ROWS
    assert len(found) % len(LONG_ROWS) == 0


@pytest.mark.parametrize(
    "pack",
    [bgzip, zstd_frames, lambda content: zstd_frames(content) + SKIPPABLE],
    ids=["bgzip", "zstd", "zstd with a frame to skip"],
)
@pytest.mark.parametrize("cut", [1, 5, 30, 500, 2000])
def test_blocks_that_are_cut_short(write, refused, pack, cut):
    assert refused(write("edges", pack(ROWS)[:-cut]))[0].startswith(
        # After the last block but its end, all is there.
        "`edges` is cut short: its compressed data does not end"
    )


@pytest.mark.parametrize("at", [16, 17, 20, 300, 3000, -30, -38])
def test_a_block_that_is_damaged(write, refused, at):
    message, _ = refused(write("edges", altered(bgzip(ROWS), at)))
    assert message.startswith(("`edges` is damaged: ", "`edges` is cut short: "))


def test_a_block_that_expands_to_much(write, refused):
    """A block of bgzip has at most 64 KiB. Then no batch of blocks takes much memory."""
    bomb = bgzip(b" " * 2**20 * 20, 2**20 * 20)
    assert refused(write("edges", bomb * 3))[0].startswith("`edges` is damaged: ")


@pytest.mark.medium
def test_the_threads_of_a_closed_stream_end(write, wait_until):
    url = write("edges", bgzip(LONG_ROWS))
    before = threading.active_count()
    with open_decompressed(url) as stream:
        assert stream.read(4) == LONG_ROWS[:4]
    wait_until(lambda: threading.active_count() <= before)  # those of other tests may end too


@pytest.mark.parametrize(
    "content",
    [b"", gzip.compress(b""), packed_zip({"a": b""}), packed_tar({"a": b""})],
    ids=["plain", "gzip", "zip", "tar"],
)
def test_empty(write, refused, content):
    assert refused(write("edges", content)) == ("`edges` is empty", "check that this is the file you mean")


def test_missing(write, refused):
    assert refused("nowhere.txt")[0] == "`nowhere.txt` does not exist"


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
    monkeypatch.setattr(files, "open_read", lambda url: OneWay(pack(content)))
    assert read("edges").rows() == wanted


def test_other_filesystems(refused):
    with fsspec.open("memory://bucket/bad.txt", "wb") as file:
        file.write(b"1 2\nx 4\n")
    message, _ = refused("memory://bucket/bad.txt")
    assert message == "`memory://bucket/bad.txt` line 2: `x` is not a vertex id"
