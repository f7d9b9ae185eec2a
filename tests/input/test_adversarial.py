"""Inputs that are far too long, that are made to fill the memory, or that change while they are read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse
from stored import graph_spec, ingested

import sssp_pipeline as sp
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.formats.binary import scipy_npz
from sssp_pipeline.pipeline.ingest.into_store import ingest
from sssp_pipeline.storage import files

MIB = 2**20


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def refused(url: str, **graph: object) -> InputError:
    with pytest.raises(InputError) as caught:
        sp.ingest(url, "store", **graph)
    assert not Path("store/manifest.json").exists()
    return caught.value


# ---- numbers in all their forms ----


@pytest.mark.parametrize(
    ("written", "weight", "dtype"),
    [
        ("7", 7, "uint32"),
        ("+7", 7, "uint32"),
        ("007", 7, "uint32"),
        ("-7", -7, "int32"),
        ("7.", 7.0, "uint32"),
        (".5", 0.5, "uint32"),
        ("00.5", 0.5, "uint32"),
        ("1e3", 1000.0, "uint32"),
        ("+2.5E-1", 0.25, "uint32"),
    ],
)
@pytest.mark.parametrize("name", ["e.txt", "e.csv"])
def test_a_weight_may_be_written_in_many_ways(name, written, weight, dtype):
    delimiter = "," if name == "e.csv" else " "
    Path(name).write_text(delimiter.join(["1", "2", written]) + "\n" + delimiter.join(["2", "3", written]))
    found = ingested(name, {}, Path("store"))
    assert (found.edges, found.dtype) == ([(1, 2, weight), (2, 3, weight)], dtype)


def test_all_line_ends_of_unix_and_windows_are_read():
    Path("e.txt").write_bytes(b"1 2 3\r\n2 3 4\n\r\n3 4 5\r\n4 5 6")
    assert ingested("e.txt", {}, Path("store")).edges == [(1, 2, 3), (2, 3, 4), (3, 4, 5), (4, 5, 6)]


# ---- long lines and small files with a large content ----


def peak_mib(*words: str) -> tuple[int, str]:
    """Return the peak memory of an ingest in a process of its own beyond that of its start, and what it says."""
    program = (
        "import sys, sssp_pipeline as sp\n"
        "import sssp_pipeline.api.runs.workflows\n"
        "def peak(): return int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]) // 1024\n"
        "before = peak()\n"
        "try: said = sp.ingest(sys.argv[1], 'store')\n"
        "except sp.InputError as error: said = error.message\n"
        "print(peak() - before, said)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=300, check=True
    )
    used, _, said = done.stdout.strip().partition(" ")
    return int(used), said


def packed(name: str, begin: bytes, unit: bytes, n_times: int, codec: str = "zstd") -> str:
    with pa.OSFile(name, "wb") as raw, pa.CompressedOutputStream(raw, codec) as stream:
        stream.write(begin)
        for _ in range(n_times):
            stream.write(unit)
    return name


ENDLESS = "only comments and blank lines in its first 1,000,001"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc for the peak memory")
@pytest.mark.parametrize(
    ("codec", "begin", "unit", "n_times", "says"),
    [
        pytest.param(
            "gzip", b"1 2 3\n", b"7" * (16 * MIB), 64, "line 2 is longer than 16,777,216 bytes", id="digits"
        ),
        pytest.param(
            "zstd",
            b"".join(b"%d %d 3\n" % (i, i + 1) for i in range(2000)),
            b"x" * (16 * MIB),
            128,
            "the line that begins after 21,783 bytes is longer than 16,777,216 bytes",
            id="late",
        ),
        pytest.param(
            "zstd", b"", b"s" * (16 * MIB), 64, "line 1 is longer than 16,777,216 bytes", id="first line"
        ),
        pytest.param("zstd", b"", b"\n" * (16 * MIB), 64, ENDLESS, id="blank"),
        pytest.param("zstd", b"", b"#\n" * (8 * MIB), 64, ENDLESS, id="comments"),
        pytest.param(
            "zstd",
            b"",
            b"#" * MIB + b"\n",
            1024,
            "only comments and blank lines in its first 64 lines",
            id="long comments",
        ),
        pytest.param(
            "gzip",
            b"c\np sp 3 1\n",
            b"c\n" * (8 * MIB),
            16,
            "declares 1 edges but lists 0",
            id="DIMACS comments",
        ),
        pytest.param(
            "zstd", b"1 2 3\n2 3 4\n", b"\n" * (16 * MIB), 64, "3 vertices, 2 edges", id="blank at the end"
        ),
    ],
)
def test_a_small_file_with_a_gibibyte_needs_little_memory(codec, begin, unit, n_times, says):
    name = packed("e.txt." + codec, begin, unit, n_times, codec)
    assert Path(name).stat().st_size < 4 * MIB
    used, said = peak_mib(name)
    assert says in said
    assert used < 512


def test_comments_before_the_first_row_have_an_end(monkeypatch):
    from sssp_pipeline.pipeline.formats.columns import layout
    from sssp_pipeline.pipeline.formats.parsing import line_blocks

    monkeypatch.setattr(line_blocks, "MOST_LINES_BEFORE", 10)
    monkeypatch.setattr(layout, "MOST_LINES_BEFORE", 10)
    Path("e.txt").write_text("# \n" * 10 + "1 2 3\n" + "\n" * 20 + "2 3 4\n")
    assert ingested("e.txt", {}, Path("enough")).edges == [(1, 2, 3), (2, 3, 4)]
    Path("e.txt").write_text("# \n" * 11 + "1 2 3\n")
    error = refused("e.txt")
    assert error.message == "`e.txt` has only comments and blank lines in its first 11 lines"
    assert error.hint == "check that this is the file you mean; if it is, remove them"
    Path("e.gr").write_text("\n" * 11 + "p sp 2 1\na 1 2 3\n")
    assert refused("e.gr", format="dimacs").message.endswith("blank lines in its first 11 lines")


def test_a_matrix_that_does_not_fit_into_memory(monkeypatch):
    scipy.sparse.save_npz("e.npz", scipy.sparse.csr_array(np.ones((100, 100))))
    monkeypatch.setattr(scipy_npz, "free_memory_bytes", lambda: 100_000)
    error = refused("e.npz")
    assert error.message.startswith("the arrays of `e.npz` take 0.1 MB, and 0.1 MB of memory are free")
    monkeypatch.setattr(scipy_npz, "free_memory_bytes", lambda: 200_000)
    assert "the arrays of `e.npz` take 0.3 MB" in refused("e.npz").message


# ---- files that change ----


class AtStage(Quiet):
    """Calls `action` when the stage `name` begins."""

    def __init__(self, name: str, action: Callable[[], object]) -> None:
        self._name, self._action = name, action

    def stage(self, name: str) -> None:
        if name == self._name:
            self._action()


def grow() -> None:
    with Path("e.txt").open("a") as file:
        file.write("3 4 5\n")


def replace() -> None:
    Path("e.txt").write_text("1 2 9\n2 3 9\n")
    os.utime("e.txt", (1, 1))


@pytest.mark.parametrize("stage", ["read edges", "build rows"])
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (grow, "`{folder}/e.txt` has changed while it was read: it had 12 bytes and has 18 now"),
        (replace, "`{folder}/e.txt` has changed while it was read: it was written again"),
        (lambda: Path("f.txt").write_text("3 4 5\n"), "the input had 1 file and has 2 files now"),
    ],
    ids=["grows", "is replaced", "is joined by another"],
)
def test_a_file_that_changes_while_it_is_read(tmp_path, stage, change, says):
    Path("e.txt").write_text("1 2 3\n2 3 4\n")
    spec = graph_spec("*.txt", {})
    with pytest.raises(InputError) as caught:
        ingest(spec, "store", AtStage(stage, change))
    assert says.format(folder=tmp_path) in caught.value.message
    assert caught.value.hint == "ingest it again when no program writes to it"
    assert not Path("store/manifest.json").exists()
    assert not list(Path("store").rglob("*.parquet"))
    manifest, fresh = ingest(spec, "store", Quiet())
    assert fresh
    assert manifest.first.n_edges >= 2


def test_a_server_that_tells_no_time_of_change():
    unknown = [{"url": "http://x/e.txt", "size": 5, "mark": f"unknown-{digit}"} for digit in "12"]
    assert not files.has_changed(*unknown)
    assert files.has_changed(unknown[0], unknown[1] | {"size": 6})
    known = {"url": "e.txt", "size": 5, "mark": "1"}
    assert not files.has_changed(known, dict(known))
    assert files.has_changed(known, known | {"mark": "2"})
    assert not files.has_changed({"url": "generated:path"}, {"url": "generated:path"})


# ---- folders, patterns and many files ----


def test_what_names_no_file():
    Path("full").mkdir()
    Path("full/e.txt").write_text("1 2 3\n")
    Path("empty").mkdir()
    for url, message, hint in (
        ("full", "`full` is a folder, not a file", "name its files: `full/*`"),
        ("empty", "`empty` is a folder, not a file", "name its files: `empty/*`"),
        ("empty/*", "`empty/*` matches no file", "check the pattern and the folder"),
        ("nowhere/*.txt", "`nowhere/*.txt` matches no file", "check the pattern and the folder"),
        ("f*", "`f*` matches no file", "check the pattern and the folder"),
    ):
        error = refused(url)
        assert (error.message, error.hint) == (message, hint)


def test_a_link_to_nothing_is_not_left_out(tmp_path):
    Path("a.txt").write_text("1 2 3\n")
    Path("b.txt").symlink_to("gone.txt")
    Path("c.txt").mkdir()  # folders are no edges
    error = refused("*.txt")
    assert error.message == f"`{tmp_path}/b.txt` is a link to `gone.txt`, which is missing"
    Path("gone.txt").write_text("2 3 4\n")
    assert ingested("?.txt", {}, Path("store")).edges == [(1, 2, 3), (2, 3, 4)]


def opened_by(action: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how often `action` opens a file."""
    calls: list[str] = []
    open_read = files.open_read
    with monkeypatch.context() as patch:
        patch.setattr(files, "open_read", lambda url: calls.append(url) or open_read(url))
        action()
    return len(calls)


def write_tiny(numbers: Iterable[int]) -> None:
    Path("tiny").mkdir()
    for i in numbers:
        Path(f"tiny/{i:07d}.txt").write_text(f"{i} {i + 1} 5\n")


@pytest.mark.medium
def test_many_tiny_files_are_one_graph(monkeypatch):
    write_tiny(range(500))
    whole = "".join(path.read_text() for path in sorted(Path("tiny").iterdir()))
    Path("whole.txt").write_text(whole)
    sp.ingest("whole.txt", "whole")
    n_opened = opened_by(lambda: sp.ingest("tiny/*.txt", "store"), monkeypatch)
    assert sp.open_store("store").manifest.content_id == sp.open_store("whole").manifest.content_id
    # Each is opened to find its format and columns and to read it; the first hundred also before the store is made.
    assert n_opened <= 5 * (500 + 100) + 5


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc for the peak memory")
def test_many_tiny_files_need_little_memory():
    write_tiny(range(20_000))
    # The first fills the cache of compiled functions: to compile takes up to 90 MiB.
    for store in ("compiles", "few"):
        used_by_100, _ = peak_mib("tiny/00000*.txt")
        Path("store").rename(store)
    used, said = peak_mib("tiny/*.txt")
    assert "20001 vertices, 20000 edges" in said
    assert used - used_by_100 < 110  # 6 KB a file
