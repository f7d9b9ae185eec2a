"""Local copies: a file on this machine, for a library that takes only the name of one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from sssp_pipeline.pipeline.formats.streams.decompressed import is_compressed, open_decompressed
from sssp_pipeline.storage import files


@contextmanager
def local_file(url: str) -> Iterator[str]:
    """Give the path of a local file with the decompressed content of `url`: the file itself, or a temporary copy.

    Raises
    ------
    InputError
        The file cannot be read, or the temporary folder is full.
    """
    if files.is_local(url) and not is_compressed(url):
        yield files.filesystem(url)[1]
        return
    with tempfile.NamedTemporaryFile(prefix="sssp-input-") as copy:
        with open_decompressed(url) as stream:
            while content := stream.read(1 << 20):
                with files.writing(tempfile.gettempdir()):
                    copy.write(content)
        with files.writing(tempfile.gettempdir()):
            copy.flush()
        yield copy.name
