"""What the tests of all readers use: files with a given content, and whole edge lists read from them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.detect import open_edge_list
from sssp_pipeline.pipeline.formats.edge_list import InputEdges, ReadOptions


@dataclass
class WholeEdges:
    edge_list: InputEdges
    src: object
    dst: object
    weights: np.ndarray | None
    n_chunks: int

    def rows(self) -> list[tuple]:
        columns = [self.src, self.dst, *([] if self.weights is None else [self.weights])]
        return list(zip(*(column.tolist() for column in columns), strict=True))


def read_whole(*urls, n_threads: int = 2, **options) -> WholeEdges:
    edge_list = open_edge_list([str(url) for url in urls], ReadOptions(**options))
    chunks = list(edge_list.chunks(n_threads))

    def joined(parts):
        if isinstance(parts[0], pa.Array):
            return pa.chunked_array(parts).combine_chunks()
        return np.concatenate(parts)

    weights = None
    if edge_list.has_weights:
        weights = np.concatenate([chunk.weights for chunk in chunks])
    else:
        assert all(chunk.weights is None for chunk in chunks)
    return WholeEdges(
        edge_list, joined([c.src for c in chunks]), joined([c.dst for c in chunks]), weights, len(chunks)
    )


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
    """Read what cannot be read, and return the message and the hint."""

    def read_refused(*urls, **options) -> tuple[str, str]:
        with pytest.raises(InputError) as caught:
            read_whole(*urls, **options)
        assert caught.value.message
        assert caught.value.hint, "every error says what to do"
        return caught.value.message, caught.value.hint

    return read_refused
