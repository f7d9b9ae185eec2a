"""Parts of plain local files hold the lines that blocks hold, whatever their size."""

from __future__ import annotations

import gzip
import io

import fsspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.scratch import Scratch
from sssp_pipeline.pipeline.formats.parsing import file_parts
from sssp_pipeline.pipeline.formats.parsing.file_parts import FilePart, read_parts
from sssp_pipeline.pipeline.formats.parsing.line_blocks import LineFile, TextBlock, read_blocks


def text_of(parts) -> tuple[bytes, str | None]:
    """Return the text of all parts or blocks up to an error, and the message of the error."""
    scratch, text = Scratch(), []
    try:
        for part in parts:
            block, error = part.read(scratch) if isinstance(part, FilePart) else (part, None)
            text.append(block.data.tobytes())
            if error is not None:
                raise error
    except InputError as error:
        return b"".join(text), error.message
    return b"".join(text), None


@pytest.mark.medium
@given(
    st.lists(st.sampled_from([b"", b"a", b"bc d", b"e" * 9, b"f" * 40]), max_size=8),
    st.sampled_from([b"", b"\n", b"x"]),
    st.sampled_from([1, 2, 3, 7, 16, 1000]),
    st.sampled_from([5, 10, 30, 1000]),
    st.sampled_from([1, 3, 4096]),
)
@settings(deadline=None, max_examples=120)
def test_the_lines_are_those_of_blocks(tmp_path_factory, lines, end, block_bytes, longest, tail):
    path = tmp_path_factory.mktemp("parts") / "lines"
    path.write_bytes(b"\n".join(lines) + end)
    file = LineFile(str(path), max_line_bytes=longest)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_parts, "_TAIL_BYTES", tail)
        text, message = text_of(read_parts([file], block_bytes))
    wanted, wanted_message = text_of(read_blocks([file], block_bytes))
    assert message == wanted_message
    assert text == wanted


def test_each_file_begins_with_its_first_rows(tmp_path):
    files = []
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"head\n1 2\n3 4\n5 6")
        files.append(LineFile(str(tmp_path / name), skip_bytes=5, n_lines=1))
    parts = list(read_parts(files, 5))
    blocks = [part.read(Scratch())[0] for part in parts if isinstance(part, FilePart)]
    assert [block.data.tobytes() for block in blocks] == 2 * [b"1 2\n3 4\n", b"5 6\n", b""]
    assert [block.is_first for block in blocks] == 2 * [True, False, False]


def test_a_byte_order_mark_is_passed_over(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes("\ufeff1 2\n\ufeff3 4\n".encode())
    assert text_of(read_parts([LineFile(str(path))], 100))[0] == "1 2\n\ufeff3 4\n".encode()


def test_other_files_are_read_as_streams(tmp_path):
    (tmp_path / "packed").write_bytes(gzip.compress(b"1 2\n"))
    (tmp_path / "utf-16").write_bytes("1 2\n".encode("utf-16"))
    with fsspec.open("memory://parts/lines", "wb") as file:
        file.write(b"1 2\n")
    for url in (str(tmp_path / "packed"), str(tmp_path / "utf-16"), "memory://parts/lines"):
        (block,) = read_parts([LineFile(url)], 100)
        assert isinstance(block, TextBlock)
        assert block.data.tobytes() == b"1 2\n"


def test_a_file_that_grows_or_shrinks_meanwhile(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"1 2\n3 4\n5 6")
    parts = list(read_parts([LineFile(str(path))], 4))
    with path.open("ab") as file:
        file.write(b"7\n8 9\n")
    assert text_of(parts) == (b"1 2\n3 4\n5 6\n", None)
    path.write_bytes(b"1 2\n3")
    assert text_of(parts) == (b"1 2\n3\n", None)


def test_the_memory_is_used_again(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"1 2\n3 4\n")
    first, second = read_parts([LineFile(str(path))], 4)
    scratch = Scratch()
    data = first.read(scratch)[0].data
    assert np.shares_memory(data, second.read(scratch)[0].data)


def test_descriptors_are_closed(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"1 2\n")
    (part,) = read_parts([LineFile(str(path))], 4)
    number = part.descriptor.number
    del part
    with pytest.raises(OSError, match="Bad file descriptor"):
        io.FileIO(number)
