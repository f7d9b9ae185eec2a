"""What the tests of all readers use: files with a given content, whole edge lists read from them, and commands."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.cli import app
from sssp_pipeline.pipeline.formats.detect import open_edge_list
from sssp_pipeline.pipeline.formats.edge_list import InputEdges, ReadOptions, SkippedRows
from sssp_pipeline.pipeline.formats.reading import Reading


@dataclass
class WholeEdges:
    edge_list: InputEdges
    src: object
    dst: object
    weights: np.ndarray | None
    n_chunks: int

    @property
    def reading(self) -> Reading:
        return self.edge_list.reading

    @property
    def skipped(self) -> SkippedRows:
        return self.edge_list.skipped

    @property
    def declared(self) -> tuple[str, int | None, int, str]:
        """The format, the number of vertices, the first id, and what the format says of directions."""
        given = self.edge_list
        return self.reading.format, given.n_vertices, given.first_id, given.symmetric

    def rows(self) -> list[tuple]:
        columns = [self.src, self.dst, *([] if self.weights is None else [self.weights])]
        return list(zip(*(column.tolist() for column in columns), strict=True))


def open_files(*urls, **options) -> InputEdges:
    return open_edge_list([str(url) for url in urls], ReadOptions(**options))


def read_whole(*urls, n_threads: int = 2, **options) -> WholeEdges:
    edge_list = open_files(*urls, **options)
    chunks = list(edge_list.chunks(n_threads))

    def joined(parts):
        if parts and isinstance(parts[0], pa.Array):
            return pa.chunked_array(parts).combine_chunks()
        return np.concatenate(parts or [np.empty(0, np.int64)])

    weights = None
    if edge_list.has_weights:
        weights = joined([chunk.weights for chunk in chunks])
    else:
        assert all(chunk.weights is None for chunk in chunks)
    return WholeEdges(
        edge_list, joined([c.src for c in chunks]), joined([c.dst for c in chunks]), weights, len(chunks)
    )


@pytest.fixture(scope="session")
def opened():
    """Open an edge list, whose edges are not read."""
    return open_files


@pytest.fixture(scope="session")
def read():
    """Read a whole edge list."""
    return read_whole


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a file of the current folder, which is a fresh one, and return its name."""
    monkeypatch.chdir(tmp_path)

    def write_file(name: str, content: str | bytes) -> str:
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return name

    return write_file


@pytest.fixture(scope="session")
def refused():
    """Read what cannot be read, or call the function that is given, and return the message and the hint."""

    def read_refused(*urls, **options) -> tuple[str, str]:
        with pytest.raises(InputError) as caught:
            (urls[0] if callable(urls[0]) else read_whole)(*urls[callable(urls[0]) :], **options)
        assert caught.value.message
        assert caught.value.hint, "every error says what to do"
        return caught.value.message, caught.value.hint

    return read_refused


@pytest.fixture(scope="session")
def ran():
    """Run a command, and return what it prints: its errors, if another exit code than 0 is expected."""

    def run_command(*words, code: int = 0) -> str:
        result = CliRunner().invoke(app, [*words])
        assert result.exit_code == code, result.stderr
        return result.stdout if code == 0 else result.stderr

    return run_command


@pytest.fixture(scope="session")
def metres():
    """Return the length of a line of points (longitude, latitude), computed with Python's own floats."""

    def metres_of(points) -> float:
        total = 0.0
        for (x, y), (u, v) in pairwise([tuple(map(math.radians, point)) for point in points]):
            square = math.sin((v - y) / 2) ** 2 + math.cos(y) * math.cos(v) * math.sin((u - x) / 2) ** 2
            total += 2 * 6_371_008.8 * math.asin(math.sqrt(square))
        return total

    return metres_of
